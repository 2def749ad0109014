"""A limit on the number of series per page: the heaviest jobs keep theirs, all other jobs are summed.

No I/O; the only state is what it keeps between pages. Below the limit nothing changes. Above it

- series without a job stay; if they alone exceed the limit, the families with the
  most series are dropped entirely, but never the exporter's own;
- jobs keep their series in order of `compute_weight`, as far as they fit.
  A job that has series keeps them at a weight that would not be enough to gain
  them, so that jobs do not appear and disappear from scrape to scrape;
- metrics that can be summed are summed over each batch system's remaining jobs,
  as job_id="other". The rest (info, state, times, limits) is dropped.

A sum of counters would fall when a job leaves it. The "other" counters therefore add up increases: what each
job used while it was summed. They remain when no job is left in them. Increases are counted from one page to
the next, so the result does not depend on how often, or by whom, pages are requested.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from jobfeatures.records.combining import grouped
from jobfeatures.records.metrics import JOB, Metric, counter, gauge
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.families.exposition import Family, Number, Sample, Values
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.model.snapshot import JobSample, WorkKey

DROPPED = gauge("batch_exporter_series_over_budget", "Series that the latest page left out.")
DROPPED_TOTAL = counter("batch_exporter_series_dropped", "Series left out so far, once per sample.")
METRICS = (DROPPED, DROPPED_TOTAL)
OWN_SERIES = len(METRICS)

OTHER = "other"  # the job id of the sums
OPEN_LABELS = frozenset({"step", "command"})  # users choose their values, so nothing bounds their number
MAX_TOTALS = 1000  # most sums kept
GPU_CPUS = 16  # weight of a GPU, in CPUs
TIE_BREAK_BYTES = 2**50  # memory only breaks ties between jobs with equal CPUs
KEEP_FACTOR = 1.25  # a job must be this much heavier to displace another
ADMIT_SHARE = 0.95  # share of the room open to newly shown jobs; the rest lets shown ones grow
FORGET_SECS = 600.0  # a job unseen for this long counts as new when it reappears

_OWN = ("batch_exporter_", "process_")

_SumKey = tuple[str, str, Values]  # metric, batch system, values of further labels


class Weight(NamedTuple):
    """A job's rank for keeping series of its own: batch jobs before other work, then by `compute_weight`."""

    is_batch: bool = False
    cpus: float = 0.0


class Page(NamedTuple):
    """A page within the limit; `hidden` has the labels of jobs that have no series of their own.

    The labels are those of `job_labels`.
    """

    families: list[Family]
    hidden: frozenset[Values] = frozenset()


class _Job(NamedTuple):
    """What is kept about a job while the page is over the limit."""

    seen_secs: float
    shown: bool


def sums_up(metric: Metric) -> bool:
    """Return whether a metric can be summed over jobs: it is a counter, or a gauge declared with `sums`."""
    amounts = metric.sums or metric.kind == "counter"
    return amounts and metric.is_of_jobs and not OPEN_LABELS.intersection(metric.label_names)


def compute_weight(job: Job | None, sample: JobSample | None, *, rate_cpus: float, gpus: int) -> float:
    """Return a job's weight: the CPUs it uses plus those allocated to it; a GPU counts as 16 CPUs.

    `rate_cpus` is how many CPUs it uses. `gpus` is the number of GPUs it was seen on, which counts if the
    batch system reports none. Among jobs with equal CPUs, memory decides.
    """
    allocated = job.allocated_cpus if job is not None else None
    if allocated is None:
        allocated = (sample.cpus if sample is not None else None) or 0
    cards = (job.allocated_gpus if job is not None else None) or gpus
    memory = sample.memory.charged or sample.memory.anon or 0 if sample is not None else 0
    return rate_cpus + allocated + GPU_CPUS * cards + memory / TIE_BREAK_BYTES


def weigh_jobs(context: Context) -> dict[Values, Weight]:
    """Return the weight of each job and other work on the page, by its labels (see `job_labels`)."""
    jobs = context.shown_jobs
    samples = {sample.key: sample for sample in context.shown_samples}
    gpus = Counter(key for key, _uuid in {(each.key, each.uuid) for each in context.shown_job_gpus})
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
    """Applies a limit on series (0: unlimited) to successive pages. Not thread-safe."""

    def __init__(self, max_series: int) -> None:
        self._max = max_series or sys.maxsize
        self._jobs: dict[Values, _Job] = {}  # empty while all jobs fit
        self._reported: dict[str, dict[Values, Number]] = {}  # last values, by counter
        self._active = False
        self._totals: dict[_SumKey, Number] = {}
        self._dropped = 0
        self.left_out = 0  # series, of the latest page
        self._last_sampled_secs: float | None = None

    def limit(self, max_series: int) -> None:
        """Change the limit (0: unlimited) from the next page on; sums over hidden jobs continue."""
        self._max = max_series or sys.maxsize

    def apply(
        self,
        families: Sequence[Family],
        *,
        sampled_secs: float | None,
        now_secs: float,
        weigh: Callable[[], Mapping[Values, Weight]],
        extra: Mapping[Values | None, int] | None = None,
    ) -> Page:
        """Return the page within the limit, with two more families that report how many series were dropped.

        `sampled_secs` identifies the snapshot that the page shows: increases are counted once for each
        snapshot. `weigh` is called only if there are too many series. `extra` has the numbers of series that
        the caller will add, by job (None: of no job); the caller leaves out those of hidden jobs.
        """
        extra = extra or {}
        series = sum([len(each.samples) for each in families]) + sum(extra.values()) + OWN_SERIES
        if not self._active and series + len(self._totals) <= self._max:
            return Page([*self._with_totals(families), *self._families_of(0, sampled_secs)])
        return self._reduce(families, extra, weigh(), sampled_secs, now_secs)

    def _families_of(self, dropped: int, sampled_secs: float | None) -> list[Family]:
        self.left_out = dropped
        if dropped and sampled_secs != self._last_sampled_secs:
            self._dropped += dropped
            self._last_sampled_secs = sampled_secs
        return [Family.single(DROPPED, dropped), Family.single(DROPPED_TOTAL, self._dropped)]

    def _with_totals(self, families: Sequence[Family]) -> Sequence[Family]:
        if not self._totals:
            return families
        others = _samples_of(self._totals)
        return [Family(metric, [*samples, *others.get(metric.name, ())]) for metric, samples in families]

    def _reduce(
        self,
        families: Sequence[Family],
        extra: Mapping[Values | None, int],
        weights: Mapping[Values, Weight],
        sampled_secs: float | None,
        now_secs: float,
    ) -> Page:
        of_jobs = [family for family in families if family.metric.is_of_jobs]
        sizes = Counter({job: count for job, count in extra.items() if job is not None})
        for _, samples in of_jobs:
            sizes.update([values[:2] for values, _ in samples])
        loose = {each.metric.name: len(each.samples) for each in families if not each.metric.is_of_jobs}
        own = OWN_SERIES + extra.get(None, 0)
        left_out = _choose_left_out(loose, self._max - own)
        room = max(0, self._max - own - sum(loose[name] for name in loose.keys() - left_out))
        sums = self._sum_keys(of_jobs)
        shown = self._choose(sizes, weights, max(0, room - len(sums)))
        others = self._add_up(of_jobs, sizes, shown, now_secs)
        dropped = sum(loose[name] for name in left_out) + sum(sizes[job] for job in sizes.keys() - shown)
        made = []
        for metric, samples in families:
            if metric.is_of_jobs:
                # If any job is shown, all sums fit; otherwise the sums take what room there is.
                summed = others.get(metric.name, ())[:room]
                room -= len(summed)
                made.append(Family(metric, [*[each for each in samples if each[0][:2] in shown], *summed]))
            else:
                made.append(Family(metric, () if metric.name in left_out else samples))
        self._active = len(shown) < len(sizes)
        if not self._active:
            self._jobs.clear()
            self._reported.clear()
        return Page([*made, *self._families_of(dropped, sampled_secs)], frozenset(sizes.keys() - shown))

    def _sum_keys(self, families: Iterable[Family]) -> set[_SumKey]:
        found = set(self._totals)
        for metric, samples in families:
            if not sums_up(metric):
                continue
            if metric.label_names == JOB:  # no further labels: one sum per batch system
                found.update([(metric.name, system, ()) for system in {values[0] for values, _ in samples}])
            else:
                found.update({(metric.name, values[0], values[2:]) for values, _ in samples})
        return found

    def _choose(
        self, sizes: Mapping[Values, int], weights: Mapping[Values, Weight], room: int
    ) -> set[Values]:
        """Return the jobs that keep their series; the same input gives the same result again."""
        was_shown = {job: self._jobs[job].shown if job in self._jobs else not self._active for job in sizes}

        def rank(job: Values) -> tuple[bool, float, Values]:
            weight = weights.get(job, Weight())
            return not weight.is_batch, -weight.cpus * (KEEP_FACTOR if was_shown[job] else 1.0), job

        chosen: set[Values] = set()
        used = 0
        for job in sorted(sizes, key=rank):
            limit = room if was_shown[job] else room * ADMIT_SHARE
            if used + sizes[job] <= limit and job[1] != OTHER:  # a job of that name is one of the others
                chosen.add(job)
                used += sizes[job]
        return chosen

    def _add_up(
        self, families: Iterable[Family], jobs: Iterable[Values], shown: set[Values], now_secs: float
    ) -> dict[str, list[Sample]]:
        """Count what the summed jobs used since the last page; return the samples of the sums by metric."""
        # If all jobs fitted until now, none is new: only their last values were not kept.
        new = {job for job in jobs if job not in self._jobs} if self._active else set()
        for job in jobs:
            self._jobs[job] = _Job(now_secs, shown=job in shown)
        amounts: dict[_SumKey, Number] = {}
        for metric, samples in families:
            if sums_up(metric):
                known = _finite(samples)
                others = [sample for sample in known if sample[0][:2] not in shown]
                if metric.kind == "counter":
                    self._count(metric.name, others, new)
                    self._remember(metric.name, known, others)
                else:
                    for values, value in others:
                        key = (metric.name, values[0], values[2:])
                        amounts[key] = amounts.get(key, 0) + value
        self._forget(now_secs - FORGET_SECS)
        return _samples_of({**self._totals, **amounts})

    def _count(self, name: str, others: Iterable[Sample], new: set[Values]) -> None:
        """Add what the summed jobs used since a counter was last reported."""
        reported, totals = self._reported.get(name, {}), self._totals
        for values, value in others:
            before = 0 if values[:2] in new else reported.get(values, value)
            key = (name, values[0], values[2:])
            if key in totals or len(totals) < MAX_TOTALS:
                totals[key] = totals.get(key, 0) + max(0, value - before)

    def _remember(self, name: str, known: Iterable[Sample], others: Iterable[Sample]) -> None:
        """Keep a counter's values; those of summed jobs never decrease."""
        reported = self._reported.setdefault(name, {})
        fallen = {values: reported[values] for values, value in others if reported.get(values, value) > value}
        reported.update(known)
        reported.update(fallen)

    def _forget(self, since_secs: float) -> None:
        gone = {job for job, state in self._jobs.items() if state.seen_secs < since_secs}
        for job in gone:
            del self._jobs[job]
        for reported in self._reported.values() if gone else ():
            for values in [values for values in reported if values[:2] in gone]:
                del reported[values]


def _finite(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples that can be summed: all if their sum is finite, else the finite ones."""
    try:
        if math.isfinite(sum([value for _, value in samples])):
            return samples
    except OverflowError:  # an integer too large for a float
        pass
    return [sample for sample in samples if abs(sample[1]) <= sys.float_info.max]


def _samples_of(sums: Mapping[_SumKey, Number]) -> dict[str, list[Sample]]:
    return grouped((name, ((system, OTHER, *rest), value)) for (name, system, rest), value in sums.items())


def _choose_left_out(sizes: Mapping[str, int], room: int) -> set[str]:
    """Return the names of the families without jobs to drop, largest first, until the rest fits."""
    left_out: set[str] = set()
    kept = sum(sizes.values())
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if kept > room and not name.startswith(_OWN):
            left_out.add(name)
            kept -= sizes[name]
    return left_out
