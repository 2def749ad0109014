"""A log → the jobs of a simulation, and a simulated schedule → a log: numpy.

Times of a log that are whole seconds stay so; others are simulated in
microseconds, so that sums of them are exact.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import replace
from itertools import repeat
from math import lcm
from typing import Final, NamedTuple

import numpy as np

from jobfeatures.schedule.choosing import ScheduleError
from jobfeatures.schedule.jobs import MOST, Array, Labels, ScheduleLog
from jobfeatures.schedule.links import Links
from jobfeatures.schedule.metrics import compute_peak
from jobfeatures.schedule.reasons import (
    IMPOSSIBLE,
    NEGATIVE,
    NEVER_STARTED,
    NO_CPUS,
    NO_RUNTIME,
    NO_SUBMIT,
    UNKNOWN,
    UNREADABLE,
    compute_rules,
)
from jobfeatures.schedule.reasons import REASONS as NOT_COUNTED
from jobfeatures.schedule.result import groups_of
from jobfeatures.schedule.shares import CPU, ShareRules, make_shares
from jobfeatures.simulate.engine import Tick, simulate
from jobfeatures.simulate.jobs import Jobs
from jobfeatures.simulate.placing import Machine, Nodes, Processors, Shape, make_shape, place_first_fit, whole
from jobfeatures.simulate.policies import Fairshare, Policy
from jobfeatures.simulate.pools import Pool, one_pool

MICROSECONDS: Final = 1_000_000
MANY_CPUS: Final = "too_many_cpus"
MUCH_MEMORY: Final = "too_much_memory"
MANY_GPUS: Final = "too_many_gpus"
NO_ROOM: Final = "no_room"
# Why a job is not simulated; the first that holds is told.
REASONS: Final = {
    **{each: NOT_COUNTED[each] for each in (NO_SUBMIT, NEVER_STARTED, NO_RUNTIME)},
    NEGATIVE: "it ran for less than no time, or for longer than any clock",
    NO_CPUS: NOT_COUNTED[NO_CPUS],
    MANY_CPUS: "it asks for more processors than there are",
    MUCH_MEMORY: "it asks for more memory than there is",
    MANY_GPUS: "it asks for more GPUs than there are",
    NO_ROOM: "a part of it fits on no node, or all of them do not fit at once",
}


class Workload(NamedTuple):
    """The simulated jobs by arrival (of the log, where jobs follow others), and the machine."""

    pool: Pool
    position: Array  # of each job in its log
    jobs: Jobs
    sizes: Sequence[int]
    shapes: list[Shape]  # of a pool of nodes: what the sizes mean
    ticks: int  # a second
    skipped: dict[str, int]
    notes: tuple[str, ...]

    def machine(self) -> Machine:
        """Return the machine, empty."""
        if self.pool.nodes:
            return Nodes(self.pool.nodes, self.shapes, self.sizes)
        return Processors(self.pool.processors, self.sizes)


class Outcome(NamedTuple):
    """When each job of a workload was submitted, and how long it waited: whole ticks."""

    submits: Array
    waits: Array


def choose_pool(log: ScheduleLog) -> Pool:
    """Return a pool: the log's machine, else the most in use. Raises ScheduleError."""
    if "cpu" in log.totals:
        return one_pool(log.totals["cpu"])
    if not len(log):
        raise _nothing(log, {})
    ran = (log.start >= 0) & (log.end >= log.start) & (log.cpus > 0)
    most = int(compute_peak(log.start[ran], log.end[ran], log.cpus[ran])) if ran.any() else 0
    if not most:
        raise ScheduleError(f"{log.name}: does not say how many processors there are: use --processors")
    return one_pool(most)


def make_workload(log: ScheduleLog, pool: Pool, *, by_eligible: bool = False) -> Workload:
    """Return what is to be simulated. Raises ScheduleError where there is nothing."""
    arrival = log.submit
    if by_eligible and log.eligible is not None:
        arrival = np.where(log.eligible >= 0, log.eligible, log.submit)
    sizes, shapes, size_reasons = _sizes(log, pool)
    is_told = np.ones(len(log), dtype=bool)
    rules = compute_rules(
        arrival=arrival if log.links is None else np.where(log.links.preceding >= 0, 0, arrival),
        start=log.start,
        end=log.end,
        runtime=log.runtime,
        is_cancelled=log.is_cancelled,
        has_user=is_told,
        cpus=log.cpus,
    )
    rules[NEGATIVE] = log.runtime == IMPOSSIBLE
    reasons = np.zeros(len(log), dtype=np.int64)
    for place, reason in enumerate(REASONS, 1):
        holds = rules.get(reason, size_reasons == place)
        np.copyto(reasons, place, where=(reasons == 0) & holds)
    links, cut = _links_left(log.links, reasons, arrival)
    counts = np.bincount(reasons, minlength=len(REASONS) + 1)[1:]
    skipped = {reason: count for reason, count in zip(REASONS, counts.tolist(), strict=True) if count}
    position = np.flatnonzero(reasons == 0)
    if not len(position):
        raise _nothing(log, skipped)
    links = None if links is None else links.taken(position)
    if links is None or not (links.preceding >= 0).any():
        position, links = position[np.argsort(arrival[position], kind="stable")], None
    return Workload(
        pool, position, *_columns(log, arrival, position, sizes, links), shapes=shapes,
        ticks=_ticks(log, arrival), skipped=skipped, notes=_notes(log, pool, position, links, cut),
    )  # fmt: skip


def _links_left(links: Links | None, reasons: Array, arrival: Array) -> tuple[Links | None, int]:
    """Return who follows a job that is simulated, and how many follow another.

    Of these, `reasons` leaves out who has no submit time.
    """
    if links is None:
        return None, 0
    cut = 0
    before, why = links.preceding.tolist(), reasons.tolist()
    settled: set[int] = set()
    for first in np.flatnonzero(links.preceding >= 0).tolist():
        chain, job = [], first
        while before[job] >= 0 and job not in settled:
            settled.add(job)
            chain.append(job)
            job = before[job]
        for job in reversed(chain):
            if why[before[job]]:
                before[job] = UNKNOWN
                if not why[job]:
                    cut += 1
                    why[job] = 0 if arrival[job] >= 0 else list(REASONS).index(NO_SUBMIT) + 1
    reasons[:] = why
    preceding = np.array(before)
    return Links(preceding, np.where(preceding >= 0, links.thinks, UNKNOWN)), cut


def _nothing(log: ScheduleLog, skipped: Mapping[str, int]) -> ScheduleError:
    told = [f"{count} × {REASONS[reason]}" for reason, count in skipped.items()]
    if log.unreadable:
        told.append(f"{log.unreadable} × {NOT_COUNTED[UNREADABLE]}")
    return ScheduleError(f"{log.name}: no job can be simulated: {'; '.join(told) or 'it holds no jobs'}")


def run_policy(
    log: ScheduleLog,
    workload: Workload,
    policy: Policy,
    rules: Fairshare | None = None,
    *,
    progress: Tick | None = None,
) -> Outcome:
    """Return the schedule of a policy. Raises ScheduleError.

    Who follows another is submitted its think time after the other's end;
    without one, when it was, if that is known.
    """
    jobs = workload.jobs
    if policy.is_fair and rules is not None and (rules.shares.users or rules.shares.groups):
        weights = _weights(log, workload, rules.shares)
        charged = zip(jobs.charges, jobs.users, strict=True)
        jobs = jobs._replace(charges=[charge * weights[user] for charge, user in charged])
    starts = simulate(jobs, workload.machine(), policy, rules, ticks=workload.ticks, progress=progress)
    if max(starts) + max(jobs.runtimes) >= MOST:
        raise ScheduleError(f"{log.name}: jobs would end later than any clock shows")
    submits = _in_ticks(log.submit[workload.position], workload.ticks)
    for job, before in enumerate(jobs.preceding):
        if before >= 0 and (submits[job] < 0 or jobs.thinks[job] >= 0):
            submits[job] = starts[before] + jobs.runtimes[before] + max(0, jobs.thinks[job])
    submitted = np.array(submits, dtype=np.int64)
    return Outcome(submitted, np.array(starts, dtype=np.int64) - submitted)


def _weights(log: ScheduleLog, workload: Workload, rules: ShareRules) -> list[int]:
    """Return what a user's use is multiplied by, instead of divided by the share: whole numbers."""
    groups = groups_of(log, workload.position)
    found = make_shares(CPU, rules, total=0, total_from="", all_users=1, groups_of=groups)
    shares = [found.default, *map(found.of, log.user.names)]  # the first of those whose user is unknown
    common = lcm(*shares)
    return [common // share for share in shares]


def make_log(log: ScheduleLog, workload: Workload, outcome: Outcome, name: str) -> ScheduleLog:
    """Return the simulated schedule as a log: of the jobs that were simulated, in order of submission."""
    ticks, order, links = workload.ticks, np.arange(len(workload.position)), None
    if workload.jobs.preceding:
        order = np.argsort(outcome.submits, kind="stable")
        preceding, thinks = (np.array(each) for each in (workload.jobs.preceding, workload.jobs.thinks))
        links = Links(preceding, np.where(thinks >= 0, seconds(thinks, ticks), UNKNOWN)).taken(order)
    which = workload.position[order]
    submit = outcome.submits[order]
    runtime = np.array(workload.jobs.runtimes, dtype=np.int64)[order]
    start = submit + outcome.waits[order]
    times = [seconds(each, ticks) for each in (submit, start, start + runtime)]
    return replace(
        log,
        name=name,
        submit=times[0],
        eligible=None if log.eligible is None else np.round(log.eligible[which], 6),  # microseconds
        start=times[1],
        end=times[2],
        links=links,
        arrays=None if log.arrays is None else log.arrays[which],
        workflows=None if log.workflows is None else log.workflows[which],
        could_start=None if links is None else links.could_start(*times),
        runtime=seconds(runtime, ticks),
        is_cancelled=log.is_cancelled[which],
        cpus=log.cpus[which],
        memory_kib=None if log.memory_kib is None else log.memory_kib[which],
        gpus=None if log.gpus is None else log.gpus[which],
        requested_secs=None if log.requested_secs is None else log.requested_secs[which],
        user=_taken(log.user, which),
        group=_taken(log.group, which),
        queue=_taken(log.queue, which),
        partition=_taken(log.partition, which),
        totals=_totals(workload.pool),
        ids=None,
        warnings=(*log.warnings, *remarks(workload)),
    )


def remarks(workload: Workload) -> list[str]:
    """Return what was left out of a workload and what was taken for unknown values, in words."""
    return [
        *(f"not simulated: {count} × {REASONS[reason]}" for reason, count in workload.skipped.items()),
        *workload.notes,
    ]


def seconds(times: Array, ticks: int) -> Array:
    """Return ticks as seconds: equal ones are equal."""
    return times if ticks == 1 else times / ticks


def _taken(labels: Labels, which: Array) -> Labels:
    return Labels(labels.codes[which], labels.names)


def _totals(pool: Pool) -> dict[str, int]:
    found = {"cpu": pool.processors}
    memory = [node.memory_kib for node in pool.nodes if node.memory_kib is not None]
    if memory and len(memory) == len(pool.nodes):
        found["memory"] = sum(memory)
    if gpus := sum(node.gpus for node in pool.nodes):
        found["gpu"] = gpus
    return found


def _sizes(log: ScheduleLog, pool: Pool) -> tuple[Array, list[Shape], Array]:
    """Return the size of each job, what sizes mean, and which are too large, by place in REASONS from 1."""
    places = {reason: place for place, reason in enumerate(REASONS, 1)}
    if not pool.nodes:
        return log.cpus, [], np.where(log.cpus > pool.processors, places[MANY_CPUS], 0)
    nothing = np.zeros(len(log), dtype=np.int64)
    tells_memory = any(node.memory_kib is not None for node in pool.nodes)
    asked = [log.cpus, log.memory_kib if tells_memory else None, log.gpus]
    table = np.stack([nothing if each is None else np.maximum(each, 0) for each in asked], axis=1)
    rows, sizes = np.unique(table, axis=0, return_inverse=True)
    shapes = [make_shape(*row) for row in rows.tolist()]
    reasons = map(_why_too_large, repeat(pool), shapes, rows.tolist())
    why = [places.get(reason, 0) for reason in reasons]
    sizes = sizes.reshape(-1)
    return sizes, shapes, np.array([*why, 0])[sizes]


def _why_too_large(pool: Pool, shape: Shape, row: list[int]) -> str:
    """Return a reason, empty where the empty machine has room."""
    if place_first_fit([whole(node) for node in pool.nodes], shape) is not None:
        return ""
    cpus, memory_kib, gpus = (sum(each) for each in zip(*map(whole, pool.nodes), strict=True))
    if row[0] > cpus:
        return MANY_CPUS
    if row[1] > memory_kib:
        return MUCH_MEMORY
    return MANY_GPUS if row[2] > gpus else NO_ROOM


def _ticks(log: ScheduleLog, *others: Array) -> int:
    times = (log.runtime, log.submit, *others)
    estimates = () if log.requested_secs is None else (log.requested_secs,)
    thinks = () if log.links is None else (log.links.thinks,)
    whole = all(each.dtype.kind == "i" for each in (*times, *estimates, *thinks))
    return 1 if whole else MICROSECONDS


def _columns(
    log: ScheduleLog, arrival: Array, position: Array, sizes: Array, links: Links | None
) -> tuple[Jobs, Sequence[int]]:
    ticks = _ticks(log, arrival)
    runtimes = _in_ticks(log.runtime[position], ticks)
    estimates = runtimes
    if log.requested_secs is not None:
        requested = _in_ticks(log.requested_secs[position], ticks)
        both = zip(requested, runtimes, strict=True)
        estimates = _compact([asked if asked > 0 else ran for asked, ran in both])
    cpus = log.cpus[position].tolist()
    users = _packed(log.user.codes[position] + 1)  # those whose user is unknown are of one
    jobs = Jobs(
        submits=_in_ticks(arrival[position], ticks),
        runtimes=runtimes,
        estimates=estimates,
        users=users,
        charges=[count * ran for count, ran in zip(cpus, runtimes, strict=True)],
        preceding=() if links is None else links.preceding.tolist(),
        thinks=() if links is None else _in_ticks(links.thinks, ticks),
    )
    return jobs, _packed(sizes[position])


def _in_ticks(times: Array, ticks: int) -> MutableSequence[int]:
    return _packed(times) if ticks == 1 else _compact([round(value * ticks) for value in times.tolist()])


def _compact(values: list[int]) -> MutableSequence[int]:
    try:
        return array("q", values)
    except OverflowError:  # microseconds of a log that is beyond belief
        return values


def _packed(values: Array) -> array[int]:
    """Return whole numbers in a quarter of the memory of a list, and as quick to ask for one."""
    return array("q", values.astype(np.int64, copy=False).tobytes())


def _notes(log: ScheduleLog, pool: Pool, position: Array, links: Links | None, cut: int) -> tuple[str, ...]:
    """Tell of values that are not known, and would have counted, and who follows whom."""
    counts = {"do not say for how long they ask: they are estimated to run for what they ran": len(position)}
    if log.requested_secs is not None:
        counts = {what: int((log.requested_secs[position] <= 0).sum()) for what in counts}
    if any(node.memory_kib is not None for node in pool.nodes):
        what = "do not say how much memory they want: taken as none"
        counts[what] = len(position) if log.memory_kib is None else int((log.memory_kib[position] < 0).sum())
    counts["do not say who their user is: taken as one"] = int((log.user.codes[position] < 0).sum())
    counts["come when the job that they follow has ended"] = (
        0 if links is None else int((links.preceding >= 0).sum())
    )
    counts["follow one that is not simulated: they come when they were submitted, if that is known"] = cut
    return tuple(f"{count} jobs {what}" for what, count in counts.items() if count)
