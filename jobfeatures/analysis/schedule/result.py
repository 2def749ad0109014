"""Evaluates the jobs of a log: their expected ends, how late they ended, and further figures.

Needs numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.bags import Join, join_ends
from jobfeatures.analysis.schedule.choosing import (
    Arrival,
    Chosen,
    Filter,
    ScheduleError,
    choose,
    stable_order,
    summable,
    total,
)
from jobfeatures.analysis.schedule.eet import Lanes, Mode
from jobfeatures.analysis.schedule.expected import Demand, Tick, compute_all, make_part, scaled, split
from jobfeatures.analysis.schedule.jobarrays import MOST, Labels, ScheduleLog
from jobfeatures.analysis.schedule.measures import (
    Distribution,
    Measures,
    compute_measures,
    compute_steps,
    describe_groups,
)
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.analysis.schedule.shares import CPU, GPU, MEMORY, RESOURCES, ShareRules, Shares

PART_JOBS: Final = 100_000  # jobs per step of a progress bar
QUEUE: Final = "queue"
BLUR_SECS: Final = 1e-6  # largest rounding error of doubles in fluid mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of an evaluation.

    Expected ends are computed for each of `resources`, with shares by `rules`, and by the `mode` of `Lanes`.
    `arrival` is the moment at which a job arrives. `filters` select jobs. `join` names the kinds of jobs that
    get one common expected end.
    """

    resources: tuple[str, ...] = (CPU,)
    rules: ShareRules = field(default_factory=ShareRules)
    mode: Mode = Mode.LITERAL
    arrival: Arrival = Arrival.SUBMIT
    filters: tuple[Filter, ...] = ()
    join: tuple[Join, ...] = ()  # what joins jobs into bags with one expected end


class GroupResult(NamedTuple):
    """Figures of the jobs of one user, group, queue or partition; times are in seconds.

    `violated` is the number of jobs that ended after their expected end, `tardiness` their total delay,
    `weighted_tardiness` the sum of delay × processors. `waited_secs` is a total.
    """

    jobs: int
    violated: int
    tardiness: int | float
    weighted_tardiness: int | float
    cpu_secs: int | float
    waited_secs: int | float
    measures: dict[str, Distribution]

    @property
    def veet(self) -> float:
        """Return the percentage of the jobs that ended after their expected end."""
        return 100 * self.violated / self.jobs


class Bags(NamedTuple):
    """Counts of bags, of the jobs in them, and (`violated`) of bags with a late job.

    A bag is two or more jobs with one expected end.
    """

    bags: int
    jobs: int
    violated: int


class ScheduleSums(NamedTuple):
    """Sums over all jobs that were evaluated; times are in seconds.

    `waited_for_another` counts jobs submitted before the job that they follow had ended. `unknown_requests`
    counts, by resource, the jobs whose request is unknown. `bags` is None if jobs are not joined into bags.
    """

    jobs: int
    expected: int | float
    tardiness: int | float
    weighted_tardiness: int | float
    waited_for_another: int  # submitted before the job that they follow had ended
    unknown_requests: dict[str, int]  # jobs without a reported request, by resource
    bags: Bags | None  # None where jobs are not joined


@dataclass(eq=False)
class Schedule:
    """The evaluated jobs of some users; arrays have one value per job, in the order of `chosen`.

    `expected` holds expected ends, in seconds since the log's time zero. Jobs with the same value in `bags`
    have one common expected end.
    """

    log: ScheduleLog
    options: Options
    chosen: Chosen
    shares: Sequence[Shares]
    expected: Array
    bags: Array | None = None  # equal for jobs that share one expected end

    def __post_init__(self) -> None:
        late = np.maximum(self.chosen.end - self.expected, 0)
        self.tardiness = np.where(late > BLUR_SECS, late, 0.0) if self.options.mode is Mode.FLUID else late

    @cached_property
    def weighted_tardiness(self) -> Array:
        """Return tardiness (seconds) × processors of each job, the terms of Tóth and Klusáček's formula 3."""
        return product(self.chosen.cpus, self.tardiness)

    @cached_property
    def violated(self) -> list[int]:
        """Return for each user how many jobs ended after their expected end."""
        return [int(count) for count in self.chosen.sums((self.tardiness > 0).astype(np.int64))]

    @cached_property
    def sums(self) -> ScheduleSums:
        """Return the sums over all jobs."""
        position, could_start = self.chosen.position, self.log.could_start
        waited = could_start is not None and (could_start[position] > self.log.submit[position]).sum()
        unknown = {
            each.resource: int((asked(self.log, each.resource)[position] < 0).sum()) for each in self.shares
        }
        return ScheduleSums(
            len(self.chosen),
            total(self.expected),
            total(self.tardiness),
            total(self.weighted_tardiness),
            int(waited),
            unknown,
            self._bags(),
        )

    def _bags(self) -> Bags | None:
        if self.bags is None:
            return None
        _, bags, sizes = np.unique(self.bags, return_inverse=True, return_counts=True)
        is_late = np.zeros(len(sizes), dtype=bool)
        is_late[bags[self.tardiness > 0]] = True
        is_bag = sizes > 1
        return Bags(int(is_bag.sum()), int(sizes[is_bag].sum()), int((is_bag & is_late).sum()))

    @cached_property
    def weighted_by_user(self) -> list[int | float]:
        """Return each user's total weighted tardiness, in CPU seconds, by Tóth and Klusáček's formula 3."""
        return self.chosen.sums(self.weighted_tardiness)

    @cached_property
    def measures(self) -> Measures:
        """Return wait, response, slowdown and bounded slowdown of each job."""
        chosen = self.chosen
        return compute_measures(chosen.arrival, chosen.start, chosen.end, chosen.runtime)

    def steps(self, edges: Array) -> dict[str, Array]:
        """Return the mean use of each resource, and the mean queue length, in each interval between `edges`.

        The keys are "cpu", "memory", "gpu" and "queue"; a resource that the log does not report is absent.
        `edges` are in seconds since the log's time zero.
        """
        chosen = self.chosen
        found = {QUEUE: compute_steps(chosen.arrival, chosen.start, None, edges)}
        for resource in RESOURCES:
            requests = requests_of(self.log, resource)
            if requests is not None:
                lasted = chosen.end - chosen.start
                held = mean_held(requests[chosen.position], lasted, chosen.runtime)
                found[resource] = compute_steps(chosen.start, chosen.end, held, edges)
        return found

    def groups(self, field: str) -> dict[str, GroupResult]:
        """Return figures for each value of `field` (user, group, queue or partition).

        Jobs without a value of the field are left out.
        """
        codes, names, _ = self.codes_of(field)
        count = len(names)
        jobs = np.bincount(codes[codes >= 0], minlength=count).tolist()
        violated = _sums((self.tardiness > 0).astype(np.int64), codes, count)
        tardiness = _sums(self.tardiness, codes, count)
        weighted = _sums(self.weighted_tardiness, codes, count)
        cpu_secs = _sums(product(self.chosen.cpus, self.chosen.runtime), codes, count)
        waited = _sums(self.measures.wait_secs, codes, count)
        measures = {
            name: describe_groups(values, codes, count) for name, values in self.measures._asdict().items()
        }
        return {
            name: GroupResult(
                jobs[place],
                int(violated[place]),
                tardiness[place],
                weighted[place],
                cpu_secs[place],
                waited[place],
                {measure: found[place] for measure, found in measures.items()},
            )
            for place, name in enumerate(names)
            if jobs[place]
        }

    def codes_of(self, field: str) -> Labels:
        """Return for each job its value of `field` (user, group, queue or partition), as labels."""
        if field == "user":
            counts = np.diff(self.chosen.bounds)
            return Labels(np.repeat(np.arange(len(counts), dtype=np.int32), counts), self.chosen.users)
        labels: Labels = getattr(self.log, field)
        return Labels(labels.codes[self.chosen.position], labels.names)


def evaluate(
    log: ScheduleLog,
    options: Options,
    shares: Sequence[Shares],
    tick: Tick | None = None,
    lanes: dict[str, Lanes] | None = None,
) -> Schedule:
    """Compute the expected ends of a log's jobs by the users' shares, and return the evaluated jobs.

    `tick` is called with the number of jobs done since its last call. `lanes` is given for one user whose
    jobs are evaluated in several calls: the state of the share of each resource, which is updated. Raises
    ScheduleError if the log does not report a resource, or as `compute_part` does.
    """
    chosen = choose(log, by=options.arrival, filters=options.filters)
    laid = _all_of_users(log, options, chosen)
    part = make_part(
        laid.users,
        laid.bounds,
        laid.arrival,
        laid.runtime,
        [_demand(log, each, laid, options, lanes) for each in shares],
        mode=options.mode,
    )
    count = max(1, len(chosen) // PART_JOBS)
    try:
        expected = compute_all(split(part, count), tick=tick)
    except ScheduleError as error:
        raise ScheduleError(f"{log.name}: {error}") from None
    bags = None
    if options.join:
        expected, bags = join_ends(log, laid, part, expected, options.join)
    if len(laid) > len(chosen):
        is_chosen = np.isin(laid.position, chosen.position)
        expected, bags = expected[is_chosen], None if bags is None else bags[is_chosen]
    return Schedule(log, options, chosen, shares, expected, bags)


def _all_of_users(log: ScheduleLog, options: Options, chosen: Chosen) -> Chosen:
    """Return all jobs of the users with jobs that pass the filters: other users' jobs change nothing."""
    if all(each.field == "user" for each in options.filters):
        return chosen
    users = Filter("user", frozenset(chosen.users))
    return choose(log, by=options.arrival, filters=[users])


def requests_of(log: ScheduleLog, resource: str) -> Array | None:
    """Return each job's request of a resource (memory in KiB); None if the log reports none."""
    return {CPU: log.cpus, MEMORY: log.memory_kib, GPU: log.gpus}[resource]


def asked(log: ScheduleLog, resource: str) -> Array:
    """Return each job's request of a resource (memory in KiB); ScheduleError if the log reports none."""
    requests = requests_of(log, resource)
    if requests is None:
        raise ScheduleError(f"{log.name}: the log does not report the {resource} that jobs requested")
    return requests


def mean_held(requests: Array, lasted: Array, runtime: Array) -> Array:
    """Return how much of a resource each job held on average between its start and its end.

    `lasted` is the time from start to end, `runtime` the time without that for which the job was swapped out
    and held nothing; both are in seconds. An unknown request counts as 0.
    """
    known = np.maximum(requests, 0)
    if (lasted == runtime).all():
        return known
    part = np.ones(len(known))
    np.divide(runtime, lasted, out=part, where=lasted > 0)
    return known * np.minimum(part, 1.0)


def product(weights: Array, values: Array) -> Array:
    """Return `weights` × `values`, element by element; Python integers if one may not fit into 64 bits."""
    if not len(values):
        return values
    if values.dtype.kind == "i" and int(weights.max()) * int(values.max()) >= MOST:
        return weights.astype(object) * values
    return weights * values


def _sums(values: Array, codes: Array, count: int) -> list[int | float]:
    """Return the sum of values by group; exact for whole numbers."""
    is_in = codes >= 0
    if not is_in.all():
        values, codes = values[is_in], codes[is_in]
    found: list[int | float] = [0] * count
    if len(codes):
        order = stable_order(codes, count)
        ordered = codes[order]
        first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        sums = np.add.reduceat(summable(values)[order], first).tolist()
        for code, each in zip(ordered[first].tolist(), sums, strict=True):
            found[code] = each
    return found


def _demand(
    log: ScheduleLog, shares: Shares, chosen: Chosen, options: Options, lanes: dict[str, Lanes] | None
) -> Demand:
    requests, resource = asked(log, shares.resource), shares.resource
    scale = shares.scale
    each = [shares.scaled_share(user, scale) for user in chosen.users]
    left = None if lanes is None else lanes.setdefault(resource, Lanes(each[0], options.mode))
    return Demand(resource, scaled(requests[chosen.position], scale), each, left)


def groups_of(log: ScheduleLog, position: Array) -> dict[str, set[str]]:
    """Return the groups of each user, taken from the jobs at the indices `position`."""
    count = len(log.group.names) + 1
    pairs = log.user.codes[position].astype(np.int64) * count + log.group.codes[position] + 1
    found: dict[str, set[str]] = {}
    for pair in np.unique(pairs).tolist():
        user, group = divmod(pair, count)
        if user >= 0 and group > 0:
            found.setdefault(log.user.names[user], set()).add(log.group.names[group - 1])
    return found
