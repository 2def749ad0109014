"""Makes the metrics page of a `Context`: runs collectors and profiles, limits the series, formats them."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace

from jobfeatures_exporter.families.exposition import Family, LabelTexts, Values, render
from jobfeatures_exporter.families.rows import KeptRows
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.scrape.budget import DROPPED, Page, SeriesBudget, weigh_jobs
from jobfeatures_exporter.scrape.collectors import collect
from jobfeatures_exporter.scrape.profiles import read_profiles, to_families


class PageMaker:
    """Makes metrics pages; several scrapers may call it at the same time."""

    def __init__(self, collectors: Collection[str], profiles: Collection[str], max_series: int) -> None:
        self._collectors = collectors
        self._profiles = profiles
        self._budget = SeriesBudget(max_series)
        self._budget_lock = threading.Lock()
        self._texts = LabelTexts()
        self._rows = KeptRows()

    def reconfigure(self, collectors: Collection[str], profiles: Collection[str], max_series: int) -> None:
        """Apply new settings. Sums over jobs that have no series of their own continue."""
        self._collectors, self._profiles = collectors, profiles
        with self._budget_lock:
            self._budget.limit(max_series)

    def collected(self, context: Context) -> list[Family]:
        """Return the metric families of all collectors, without a limit on series.

        One more family tells how many series the last page dropped.
        """
        families = collect(replace(context, rows=self._rows), self._collectors)
        return [*families, Family.single(DROPPED, self._budget.left_out)]

    def families(self, context: Context) -> list[Family]:
        """Return the metric families of collectors and profiles, within the limit on series."""
        context = replace(context, rows=self._rows)
        families = collect(context, self._collectors)
        if not self._profiles:
            return self._within_budget(context, families, {}).families
        readings, success = read_profiles(context, self._profiles)
        by_job = {None if key is None else job_labels(key): made for key, made in readings.items()}
        counts = {job: len(made) for job, made in by_job.items()}
        page = self._within_budget(context, [*families, success], counts)
        shown = [made for job, made in by_job.items() if job not in page.hidden]
        return page.families + to_families(reading for made in shown for reading in made)

    def render(self, context: Context, *, openmetrics: bool) -> bytes:
        """Return the metrics page in OpenMetrics or Prometheus' text format, encoded in UTF-8."""
        return render(self.families(context), openmetrics=openmetrics, texts=self._texts)

    def _within_budget(
        self, context: Context, families: list[Family], counts: dict[Values | None, int]
    ) -> Page:
        with self._budget_lock:
            return self._budget.apply(
                families,
                sampled_secs=context.snapshot.taken_at_secs if context.snapshot is not None else None,
                now_secs=context.now_secs,
                weigh=lambda: weigh_jobs(context),
                extra=counts,
            )
