"""A log → the jobs of a simulation, and a simulated schedule → a log: numpy.

Times of a log that are whole seconds stay so; others are simulated in
microseconds, so that sums of them are exact.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import lcm
from typing import Final, NamedTuple

import numpy as np

from jobfeatures.schedule.choosing import ScheduleError
from jobfeatures.schedule.jobs import MOST, Labels, ScheduleLog
from jobfeatures.schedule.links import Links
from jobfeatures.schedule.metrics import compute_peak
from jobfeatures.schedule.reasons import (
    IMPOSSIBLE,
    NEGATIVE,
    NO_SUBMIT,
    UNKNOWN,
    UNREADABLE,
    compute_rules,
)
from jobfeatures.schedule.reasons import REASONS as NOT_COUNTED
from jobfeatures.schedule.result import groups_of
from jobfeatures.schedule.runs import Array, Columns, Run, Store, peak_of
from jobfeatures.schedule.shares import CPU, ShareRules, make_shares
from jobfeatures.simulate.engine import Tick, simulate
from jobfeatures.simulate.jobs import Jobs
from jobfeatures.simulate.placing import Machine, Nodes, Processors, Shape
from jobfeatures.simulate.policies import Fairshare, Policy
from jobfeatures.simulate.pools import Pool, one_pool
from jobfeatures.simulate.queues import WAITING
from jobfeatures.simulate.sizes import REASONS, Sizes

MICROSECONDS: Final = 1_000_000


class Workload(NamedTuple):
    """The simulated jobs by arrival (of the log, where jobs follow others), and the machine."""

    pool: Pool
    position: Array  # of each job in its piece of the log
    counts: list[int]  # how many jobs of each piece are simulated
    jobs: Jobs
    submits: Array  # as the log tells them, −1: it does not
    users: list[str]  # by number from 1
    groups: dict[str, set[str]]  # of each user
    sizes: memoryview[int]
    shapes: list[Shape]  # of a pool of nodes: what the sizes mean
    ticks: int  # a second
    skipped: dict[str, int]
    notes: tuple[str, ...]
    columns: Columns

    def machine(self) -> Machine:
        """Return the machine, empty."""
        if self.pool.nodes:
            return Nodes(self.pool.nodes, self.shapes, self.sizes)
        return Processors(self.pool.processors, self.sizes)


class Outcome(NamedTuple):
    """When each job of a workload was submitted, and when it started: whole ticks."""

    submits: Array
    starts: Array

    @property
    def waits(self) -> Array:
        """Return how long each waited."""
        return self.starts - self.submits


def choose_pool(log: ScheduleLog, pieces: Iterable[ScheduleLog] = (), store: Store | None = None) -> Pool:
    """Return a pool: the log's machine, else the most in use. Raises ScheduleError.

    The jobs are those of `pieces`, where a `store` is given for what is to be sorted.
    """
    if "cpu" in log.totals:
        return one_pool(log.totals["cpu"])
    most, jobs = 0, 0
    runs: list[Run] = []
    for piece in pieces if store else [log]:
        jobs += len(piece)
        ran = (piece.start >= 0) & (piece.end >= piece.start) & (piece.cpus > 0)
        columns = piece.start[ran], piece.end[ran], piece.cpus[ran]
        if store:
            runs.append(store.write_events(*columns))
        else:
            most = int(compute_peak(*columns))
    if not jobs:
        raise _nothing(log, {})
    most = int(peak_of(runs)) if runs else most
    if not most:
        raise ScheduleError(f"{log.name}: does not say how many processors there are: use --processors")
    return one_pool(most)


def make_workload(
    log: ScheduleLog,
    pool: Pool,
    *,
    by_eligible: bool = False,
    pieces: Callable[[], Iterable[ScheduleLog]] | None = None,
    folder: str | None = None,
    ticks: int = 1,
) -> Workload:
    """Return what is to be simulated. Raises ScheduleError where there is nothing.

    The jobs of a log that holds none are in its `pieces`, in order of arrival; the workload is in files
    of `folder` then. `ticks` is the least that are taken for a second.
    """
    made, sizes = Columns(folder), Sizes(pool)
    counted: Counter[int] = Counter()
    users, groups = dict[int | str, str](), defaultdict[str, set[str]](set)
    codes = dict[int | str, int]()
    notes: Counter[str] = Counter()
    counts = []
    is_linked = False
    for piece in [log] if pieces is None else pieces():
        arrival = piece.submit
        if by_eligible and piece.eligible is not None:
            arrival = np.where(piece.eligible >= 0, piece.eligible, piece.submit)
        if ticks < (finer := _ticks(piece, arrival)):
            return make_workload(
                log, pool, by_eligible=by_eligible, pieces=pieces, folder=folder, ticks=finer
            )
        size, reasons = sizes.of(piece)
        _find_reasons(piece, arrival, reasons)
        links, cut = _links_left(piece.links, reasons, arrival)
        counted.update(reasons.tolist())
        position = np.flatnonzero(reasons == 0)
        links = None if links is None else links.taken(position)
        if links is None or not (links.preceding >= 0).any():
            position, links = position[np.argsort(arrival[position], kind="stable")], None
        else:
            is_linked = True
            made.add("preceding", links.preceding)
            made.add("thinks", _in_ticks(log, links.thinks, ticks))
        keys = piece.user.names if piece.user.numbers is None else piece.user.numbers
        numbers = [codes.setdefault(key, len(codes) + 1) for key in keys]
        users.update(zip(keys, piece.user.names, strict=True))
        for user, theirs in groups_of(piece, position).items():
            groups[user] |= theirs
        runtimes = _in_ticks(log, piece.runtime[position], ticks)
        estimates = runtimes
        if piece.requested_secs is not None:
            asked = _in_ticks(log, np.minimum(piece.requested_secs[position], MOST // ticks), ticks)
            estimates = np.where(asked > 0, asked, runtimes)
        made.add("position", position)
        made.add("arrivals", _in_ticks(log, arrival[position], ticks))
        made.add("submits", _in_ticks(log, piece.submit[position], ticks))
        made.add("runtimes", runtimes)
        made.add("estimates", estimates)
        made.add("users", np.array([*numbers, 0])[piece.user.codes[position]])  # the unknown are of one
        made.add("cpus", piece.cpus[position])
        made.add("sizes", size[position])
        notes.update(_notes(piece, pool, position, links, cut))
        counts.append(len(position))
    skipped = {reason: count for place, reason in enumerate(REASONS, 1) if (count := counted[place])}
    if not sum(counts):
        raise _nothing(log, skipped)
    jobs = Jobs(
        submits=made.numbers("arrivals"),
        runtimes=made.numbers("runtimes"),
        estimates=made.numbers("estimates"),
        users=made.numbers("users"),
        cpus=made.numbers("cpus"),
        preceding=made.numbers("preceding").tolist() if is_linked else (),
        thinks=made.numbers("thinks") if is_linked else (),
    )
    return Workload(
        pool=pool,
        position=np.asarray(made.numbers("position")),
        counts=counts,
        jobs=jobs,
        submits=np.asarray(made.numbers("submits")),
        users=list(users.values()),
        groups=groups,
        sizes=made.numbers("sizes"),
        shapes=sizes.shapes,
        ticks=ticks,
        skipped=skipped,
        notes=tuple(f"{count} jobs {what}" for what, count in notes.items() if count),
        columns=made,
    )


def _find_reasons(log: ScheduleLog, arrival: Array, reasons: Array) -> None:
    """Put the first reason why a job is not simulated, by place in REASONS from 1, before those of sizes."""
    rules = compute_rules(
        arrival=arrival if log.links is None else np.where(log.links.preceding >= 0, 0, arrival),
        start=log.start,
        end=log.end,
        runtime=log.runtime,
        is_cancelled=log.is_cancelled,
        has_user=np.ones(len(log), dtype=bool),
        cpus=log.cpus,
    )
    rules[NEGATIVE] = log.runtime == IMPOSSIBLE
    for place, reason in reversed(list(enumerate(REASONS, 1))):
        if reason in rules:
            np.copyto(reasons, place, where=rules[reason])


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
    reported = [f"{count} × {REASONS[reason]}" for reason, count in skipped.items()]
    if log.unreadable:
        reported.append(f"{log.unreadable} × {NOT_COUNTED[UNREADABLE]}")
    return ScheduleError(f"{log.name}: no job can be simulated: {'; '.join(reported) or 'it holds no jobs'}")


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
    jobs, columns = workload.jobs, workload.columns
    weights = [1] * (len(workload.users) + 1)
    if policy.is_fair and rules is not None and (rules.shares.users or rules.shares.groups):
        weights = _weights(workload, rules.shares)

    def reported(count: int) -> None:
        columns.release()
        if progress is not None:
            progress(count)

    starts = columns.filled(WAITING, len(jobs.submits))
    simulate(
        jobs, workload.machine(), policy, rules,
        ticks=workload.ticks, weights=weights, starts=starts, progress=reported,
    )  # fmt: skip
    last = [
        max(each.max().item() for (each,) in columns.parts(np.asarray(times)))
        for times in (starts, jobs.runtimes)
    ]
    if sum(last) >= MOST:
        raise _too_late(log)
    submits = workload.submits
    if jobs.preceding:
        submits = submits.copy()
    for job, before in enumerate(jobs.preceding):
        if before >= 0 and (submits[job] < 0 or jobs.thinks[job] >= 0):
            submits[job] = starts[before] + jobs.runtimes[before] + max(0, jobs.thinks[job])
    return Outcome(submits, np.asarray(starts))


def _too_late(log: ScheduleLog) -> ScheduleError:
    return ScheduleError(f"{log.name}: jobs would end later than any clock shows")


def _weights(workload: Workload, rules: ShareRules) -> list[int]:
    """Return what a user's use is multiplied by, instead of divided by the share: whole numbers."""
    found = make_shares(CPU, rules, total=0, total_from="", all_users=1, groups_of=workload.groups)
    shares = [found.default, *map(found.of, workload.users)]  # the first of those whose user is unknown
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


def mean_wait_secs(workload: Workload, outcome: Outcome) -> float:
    """Return how long jobs waited on the average."""
    parts = workload.columns.parts(outcome.submits, outcome.starts)
    sums = ((starts - submits).sum(dtype=float).item() for submits, starts in parts)
    return float(sum(sums)) / len(outcome.starts) / workload.ticks


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


def _ticks(log: ScheduleLog, *others: Array) -> int:
    times = (log.runtime, log.submit, *others)
    estimates = () if log.requested_secs is None else (log.requested_secs,)
    thinks = () if log.links is None else (log.links.thinks,)
    whole = all(each.dtype.kind == "i" for each in (*times, *estimates, *thinks))
    return 1 if whole else MICROSECONDS


def _in_ticks(log: ScheduleLog, times: Array, ticks: int) -> Array:
    """Return whole ticks. Raises ScheduleError of microseconds of a log that is beyond belief."""
    if ticks == 1:
        return times
    if len(times) and times.max() >= MOST / ticks:
        raise _too_late(log)
    return np.round(times.astype(np.float64) * ticks).astype(np.int64)


def _notes(log: ScheduleLog, pool: Pool, position: Array, links: Links | None, cut: int) -> dict[str, int]:
    """Count values that are not known, and would have counted, and who follows whom."""
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
    return counts
