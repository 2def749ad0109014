"""The figures that a view is made of: those of /metrics, found by metric and labels. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from jobfeatures.model import JobKey
from jobfeatures.series import Series
from jobfeatures_exporter.context import job_labels
from jobfeatures_exporter.exposition import Family, Metric, Number, labels

NONE: Mapping[str, Number] = {}
# Labels of a job stand first in every series of it.
_JOB = re.compile(r'(batch_system="(?:[^"\\]|\\.)*",job_id="(?:[^"\\]|\\.)*")(?:,(.*))?\Z', re.DOTALL)


class Numbers:
    """Samples by metric and label text: of families, or of a page that was fetched."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._values: dict[str, Mapping[str, Number]] = {
            family.metric.sample_name: dict(family.samples) for family in families
        }
        self._by_job: dict[str, dict[str, dict[str, Number]]] = {}

    @classmethod
    def from_series(cls, series: Iterable[Series]) -> Numbers:
        """Return those of series that were read from a page of ours, whose labels stand in our order."""
        found: dict[str, dict[str, Number]] = {}
        for each in series:
            found.setdefault(each.name, {})[labels(**each.labels)] = each.value
        made = cls(())
        made._values.update(found)
        return made

    def all(self, metric: Metric) -> Mapping[str, Number]:
        """Return the samples of a metric; none where its collector is off or has failed."""
        return self._values.get(metric.sample_name, NONE)

    def one(self, metric: Metric, text: str = "") -> Number | None:
        """Return the sample with this label text, None where there is none."""
        return self.all(metric).get(text)

    def jobs(self, metric: Metric) -> Mapping[str, Mapping[str, Number]]:
        """Return the samples of a metric by the labels of their job, then by their other labels."""
        found = self._by_job.get(metric.sample_name)
        if found is None:
            found = self._by_job[metric.sample_name] = {}
            for text, value in self.all(metric).items():
                if (match := _JOB.match(text)) is not None:
                    found.setdefault(match[1], {})[match[2] or ""] = value
        return found

    def of_job(self, metric: Metric, key: JobKey) -> Mapping[str, Number]:
        """Return the samples of one job by their other labels."""
        return self.jobs(metric).get(job_labels(key), NONE)
