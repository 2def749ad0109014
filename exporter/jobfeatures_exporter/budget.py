"""A bound on the series of a page: the heaviest jobs keep theirs, the others are summed.

Pure but for what it remembers. Below the bound nothing is done and nothing is
remembered. Above it

- series without a job stay; if they alone are too many, the families with the
  most series are left out whole, never those of the exporter itself;
- jobs keep their series in the order of `compute_weight`, as many as there is
  room for. Who has series needs less to keep them than others to get them, so
  that jobs do not come and go from scrape to scrape;
- what can be added up is added up over the other jobs of a batch system, as
  job_id="other". The rest (info, state, times, limits) is left out.

A sum of counters would fall when a job leaves it. So the "other" counters add
up increases: what each job used while it was one of the others. They stay
when no job is left in them. Increases are counted between two pages, so it
does not matter how often and by whom a page is asked for.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jobfeatures.model import Job, JobKey
from jobfeatures_exporter.context import JOB, Context, job_labels
from jobfeatures_exporter.exposition import Family, Metric, Number, Sample
from jobfeatures_exporter.snapshot import JobSample, WorkKey

DROPPED = Metric(
    "batch_exporter_dropped_series",
    "gauge",
    "Series that the latest page left out to stay within its budget.",
)
DROPPED_TOTAL = Metric(
    "batch_exporter_series_dropped",
    "counter",
    "Series left out so far, each counted once a look at the node.",
)
METRICS = (DROPPED, DROPPED_TOTAL)

OTHER = 'job_id="other"'
OPEN_LABELS = frozenset({"step", "command"})  # users choose their values, so nothing bounds their number
MAX_TOTALS = 1000  # sums that are remembered
GPU_CPUS = 16  # what a GPU weighs
TIE_BREAK_BYTES = 2**50  # memory decides only between equal CPUs
KEEP_FACTOR = 1.25  # by which a job must be heavier to take the place of another
ADMIT_SHARE = 0.95  # of the room may be filled anew; the rest is for those that grow
FORGET_SECS = 600.0  # after which a job that is not seen is taken for a new one when it is

_VALUE = r'"[^"\\]*(?:\\.[^"\\]*)*"'  # with its escapes
_JOB_TEXT = re.compile(f"(batch_system={_VALUE}),job_id={_VALUE}")
_OWN = ("batch_exporter_", "process_")

_SumKey = tuple[str, str, str]  # metric, text of the batch system, text of further labels


@dataclass(frozen=True, slots=True)
class Weight:
    """How much a job counts: batch jobs before all else, then by CPUs."""

    is_batch: bool = False
    cpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Page:
    """What is left of a page; `hidden` are the label texts of the jobs without series of their own."""

    families: list[Family]
    hidden: frozenset[str] = frozenset()


class _Row(NamedTuple):
    """One series of a job."""

    family: int
    system: str
    rest: str
    sample: Sample


@dataclass(slots=True)
class _Job:
    """What is remembered of a job while there is too much."""

    seen_secs: float
    shown: bool
    told: dict[tuple[str, str], Number] = field(default_factory=dict)  # counters by metric and further labels


def sums_up(metric: Metric) -> bool:
    """Tell whether values of several jobs are added up: counters, and gauges that say so."""
    amounts = metric.sums or metric.kind == "counter"
    return amounts and metric.label_names[:2] == JOB and not OPEN_LABELS.intersection(metric.label_names)


def compute_weight(job: Job | None, sample: JobSample | None, *, rate_cpus: float, gpus: int) -> float:
    """Return a job's weight: the CPUs that it uses and those that it has; a GPU is as good as 16 CPUs.

    `gpus` are those that are seen with it, for where the batch system tells
    none. Memory decides between jobs that are equal otherwise.
    """
    allocated = job.allocated_cpus if job is not None else None
    if allocated is None:
        allocated = (sample.cpus if sample is not None else None) or 0
    cards = (job.allocated_gpus if job is not None else None) or gpus
    memory = sample.memory.charged or sample.memory.anon or 0 if sample is not None else 0
    return rate_cpus + allocated + GPU_CPUS * cards + memory / TIE_BREAK_BYTES


def weigh_jobs(context: Context) -> dict[str, Weight]:
    """Return the weight of each job by its label text."""
    jobs = context.shown_jobs()
    samples = {sample.key: sample for sample in context.shown_samples()}
    gpus = Counter(key for key, _uuid in {(each.key, each.uuid) for each in context.shown_job_gpus()})
    weights = {}
    keys: list[WorkKey] = [*samples, *(key for key in jobs if key not in samples)]
    for key in keys:
        batch = isinstance(key, JobKey)
        weight = compute_weight(
            jobs.get(key) if isinstance(key, JobKey) else None,
            samples.get(key),
            rate_cpus=context.cpu_rates.get(key, 0.0) if isinstance(key, JobKey) else 0.0,
            gpus=gpus[key],
        )
        weights[job_labels(key)] = Weight(batch, weight)
    return weights


class SeriesBudget:
    """Applies the bound (0: none) to one page after the other. Not for several threads at once."""

    def __init__(self, max_series: int) -> None:
        self._max = max_series or sys.maxsize
        self._jobs: dict[str, _Job] = {}  # by label text; empty while there is room for all
        self._active = False
        self._totals: dict[_SumKey, Number] = {}
        self._dropped = 0
        self._last_look: float | None = None

    def limit(self, max_series: int) -> None:
        """Change the bound from the next page on; the sums go on."""
        self._max = max_series or sys.maxsize

    def apply(
        self,
        families: Sequence[Family],
        *,
        look: float | None,
        now_secs: float,
        weigh: Callable[[], Mapping[str, Weight]],
        extra: Mapping[str | None, int] | None = None,
    ) -> Page:
        """Return the families within the bound, and those that tell of it.

        `look` names the look at the node that the page is made of. `weigh` is
        asked only where there are too many series. `extra` counts series that
        the caller adds by job (None: without one), and leaves out for jobs
        that are hidden.
        """
        extra = extra or {}
        series = sum([len(family.samples) for family in families]) + sum(extra.values()) + len(METRICS)
        if not self._active and series + len(self._totals) <= self._max:
            return Page([*self._with_totals(families), *self._told(0, look)])
        return self._reduce(families, extra, weigh(), look, now_secs)

    def _told(self, dropped: int, look: float | None) -> list[Family]:
        if dropped and look != self._last_look:
            self._dropped += dropped
            self._last_look = look
        return [Family(DROPPED, (("", dropped),)), Family(DROPPED_TOTAL, (("", self._dropped),))]

    def _with_totals(self, families: Sequence[Family]) -> Sequence[Family]:
        """Return the families with what earlier sums have come to."""
        if not self._totals:
            return families
        others = _samples_of(self._totals)
        return [
            Family(family.metric, [*family.samples, *others.get(family.metric.name, ())])
            for family in families
        ]

    def _reduce(
        self,
        families: Sequence[Family],
        extra: Mapping[str | None, int],
        weights: Mapping[str, Weight],
        look: float | None,
        now_secs: float,
    ) -> Page:
        rows: dict[str, list[_Row]] = {text: [] for text in extra if text is not None}
        loose: list[list[Sample]] = [[] for _ in families]  # of each family, what belongs to no job
        for number, family in enumerate(families):
            loose[number] = _divide(number, family, rows)
        own = len(METRICS) + extra.get(None, 0)
        dropped = _fit_loose(families, loose, self._max - own)
        kept = own + sum(map(len, loose))
        sums = self._sum_keys(families, rows)
        room = max(0, self._max - kept)
        shown = self._choose(rows, extra, weights, max(0, room - len(sums)))
        others = self._add_up(families, rows, shown, now_secs)
        allowed = room - sum(len(rows[job]) + extra.get(job, 0) for job in shown)
        dropped += sum(len(rows[job]) + extra.get(job, 0) for job in rows if job not in shown)
        made: list[list[Sample]] = loose
        for job, series in rows.items():
            if job in shown:
                for row in series:
                    made[row.family].append(row.sample)
        for number, family in enumerate(families):
            for sample in others.get(family.metric.name, ())[: max(0, allowed)]:
                made[number].append(sample)
                allowed -= 1
        self._active = len(shown) < len(rows)
        if not self._active:
            self._jobs.clear()
        result = [Family(family.metric, made[number]) for number, family in enumerate(families)]
        return Page([*result, *self._told(dropped, look)], frozenset(rows.keys() - shown))

    def _sum_keys(self, families: Sequence[Family], rows: Mapping[str, list[_Row]]) -> set[_SumKey]:
        """Return all sums that there may be."""
        metrics = [family.metric for family in families]
        summed = [sums_up(metric) for metric in metrics]
        found = {
            (metrics[row.family].name, row.system, row.rest)
            for series in rows.values()
            for row in series
            if summed[row.family]
        }
        return found | self._totals.keys()

    def _choose(
        self,
        rows: Mapping[str, list[_Row]],
        extra: Mapping[str | None, int],
        weights: Mapping[str, Weight],
        room: int,
    ) -> set[str]:
        """Return the jobs that keep their series. Asked again with the same figures it says the same."""
        was_shown = {job: self._jobs[job].shown if job in self._jobs else not self._active for job in rows}

        def rank(job: str) -> tuple[bool, float, str]:
            weight = weights.get(job, Weight())
            return not weight.is_batch, -weight.cpus * (KEEP_FACTOR if was_shown[job] else 1.0), job

        chosen: set[str] = set()
        used = 0
        for job in sorted(rows, key=rank):
            size = len(rows[job]) + extra.get(job, 0)
            limit = room if was_shown[job] else room * ADMIT_SHARE
            if used + size <= limit and not job.endswith(OTHER):  # a job of that name is one of the others
                chosen.add(job)
                used += size
        return chosen

    def _add_up(
        self, families: Sequence[Family], rows: Mapping[str, list[_Row]], shown: set[str], now_secs: float
    ) -> dict[str, list[Sample]]:
        """Count what the others used since the last page; return the samples of the others by metric."""
        metrics = [family.metric for family in families]
        summed = [sums_up(metric) for metric in metrics]
        amounts: dict[_SumKey, Number] = {}
        for job, series in rows.items():
            known = self._jobs.get(job)
            # Where there was room until now a job is not new, only what it told is not remembered.
            is_new = known is None and self._active
            state = known or _Job(now_secs, shown=True)
            self._jobs[job] = state
            state.seen_secs, state.shown = now_secs, job in shown
            for row in series:
                metric, value = metrics[row.family], row.sample[1]
                if not summed[row.family] or not _is_amount(value):
                    continue
                key = (metric.name, row.system, row.rest)
                if metric.kind != "counter":
                    if not state.shown:
                        amounts[key] = amounts.get(key, 0) + value
                    continue
                before = state.told.get((metric.name, row.rest), 0 if is_new else value)
                state.told[metric.name, row.rest] = max(before, value)
                if not state.shown and (key in self._totals or len(self._totals) < MAX_TOTALS):
                    self._totals[key] = self._totals.get(key, 0) + max(0, value - before)
        for job in [job for job, state in self._jobs.items() if state.seen_secs < now_secs - FORGET_SECS]:
            del self._jobs[job]
        return _samples_of({**self._totals, **amounts})


def _is_amount(value: Number) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond what a float can be
        return False


def _samples_of(sums: Mapping[_SumKey, Number]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for (name, system, rest), value in sums.items():
        found.setdefault(name, []).append((f"{system},{OTHER}{rest}", value))
    return found


def _divide(number: int, family: Family, rows: dict[str, list[_Row]]) -> list[Sample]:
    """Give each job its series of a family; return those without a job."""
    if family.metric.label_names[:2] != JOB:
        return list(family.samples)
    loose = []
    for sample in family.samples:
        match = _JOB_TEXT.match(sample[0])
        if match is None:
            loose.append(sample)
        else:
            row = _Row(number, match[1], sample[0][match.end() :], sample)
            rows.setdefault(match[0], []).append(row)
    return loose


def _fit_loose(families: Sequence[Family], loose: list[list[Sample]], room: int) -> int:
    """Leave out the largest families without jobs until the rest fits; return how many series went."""
    dropped = 0
    kept = sum(map(len, loose))
    order = sorted(range(len(loose)), key=lambda number: -len(loose[number]))
    for number in order:
        if kept <= room:
            break
        if not families[number].metric.name.startswith(_OWN):
            kept -= len(loose[number])
            dropped += len(loose[number])
            loose[number] = []
    return dropped
