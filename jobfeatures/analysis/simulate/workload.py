"""Converts a log to the jobs to simulate, runs the simulation, and summarises the result. Needs numpy.

A log in whole seconds is simulated in seconds, any other in microseconds, so that sums of times are exact.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import lcm
from typing import Final, NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.choosing import Arrival, ScheduleError, arrival_of
from jobfeatures.analysis.schedule.eligibility import (
    IMPOSSIBLE,
    NEGATIVE,
    NO_SUBMIT,
    UNKNOWN,
    UNREADABLE,
    compute_rules,
)
from jobfeatures.analysis.schedule.eligibility import REASONS as NOT_COUNTED
from jobfeatures.analysis.schedule.jobarrays import MOST, ScheduleLog
from jobfeatures.analysis.schedule.result import groups_of
from jobfeatures.analysis.schedule.runs import AT_ONCE, Array, Columns, Run, Store, as_rows, merge, peak_of
from jobfeatures.analysis.schedule.shares import CPU, ShareRules, make_shares
from jobfeatures.analysis.simulate.arrivals import Jobs, Tick
from jobfeatures.analysis.simulate.engine import simulate
from jobfeatures.analysis.simulate.placing import Machine, Nodes, Processors, Shape
from jobfeatures.analysis.simulate.policies import WAITING, Fairshare, Policy
from jobfeatures.analysis.simulate.pools import Pool, one_pool
from jobfeatures.analysis.simulate.sizes import REASONS, Sizes

MICROSECONDS: Final = 1_000_000


class Workload(NamedTuple):
    """The jobs to simulate, and the machine, `pool`.

    Jobs are in order of arrival, or in the log's order if some follow others. The log may have been read in
    pieces: `position` is a job's index in its piece, and `counts` is the number of simulated jobs of each
    piece. `submits` is in ticks, −1 if unknown; there are `ticks` ticks per second. `sizes` and `shapes` hold
    requests, see `placing`. `skipped` counts jobs that are left out, by reason; `notes` say what was assumed.
    """

    pool: Pool
    position: Array  # of each job in its piece of the log
    counts: list[int]  # how many jobs of each piece are simulated
    jobs: Jobs
    submits: Array  # as in the log, −1 where unknown
    users: list[str]  # by number from 1
    groups: dict[str, set[str]]  # of each user
    sizes: memoryview[int]
    shapes: list[Shape]  # for a pool of nodes: what the sizes mean
    ticks: int  # per second
    skipped: dict[str, int]
    notes: tuple[str, ...]
    columns: Columns

    def machine(self) -> Machine:
        """Return the machine to simulate, with nothing running."""
        if self.pool.nodes:
            return Nodes(self.pool.nodes, self.shapes, self.sizes)
        return Processors(self.pool.processors, self.sizes)


class Outcome(NamedTuple):
    """The result of a simulation: when each job was submitted and when it started, in ticks."""

    submits: Array
    starts: Array


def choose_pool(log: ScheduleLog, pieces: Iterable[ScheduleLog], store: Store) -> Pool:
    """Return the machine that the log describes; `pieces` are all jobs of the log.

    If it describes none, the machine has as many processors as the jobs used at most at one time. Data are
    sorted in the `store`. Raises ScheduleError if that is unknown, or there are no jobs.
    """
    if "cpu" in log.totals:
        return one_pool(log.totals["cpu"])
    jobs, runs = 0, list[Run]()
    for piece in pieces:
        jobs += len(piece)
        ran = (piece.start >= 0) & (piece.end >= piece.start) & (piece.cpus > 0)
        runs.append(store.write_events(piece.start[ran], piece.end[ran], piece.cpus[ran]))
    if not jobs:
        raise _nothing(log, {})
    most = int(peak_of(runs))
    if not most:
        raise ScheduleError(
            f"{log.name}: the log does not say how many processors the machine has: use "
            "--processors of jobfeatures simulate"
        )
    return one_pool(most)


def make_workload(
    log: ScheduleLog,
    pool: Pool,
    *,
    by_eligible: bool = False,
    pieces: Callable[[], Iterable[ScheduleLog]] | None = None,
    store: Store | None = None,
    is_linked: bool = False,
    ticks: int = 1,
) -> Workload:
    """Return the jobs of a log as a workload to simulate on `pool`. Raises ScheduleError if there are none.

    The jobs are those of `log`, or, if `pieces` is given, those that it returns, in order of arrival, or in
    the log's order if jobs follow others (`is_linked`). With a `store`, the workload is stored in files.
    `by_eligible` says that a job arrives when it becomes eligible, not when it is submitted. `ticks` is the
    minimum number of ticks per second.
    """
    made, sizes = Columns(None if store is None else store.folder), Sizes(pool)
    again, is_linked = pieces or (lambda: [log]), is_linked or log.links is not None
    by = Arrival.ELIGIBLE if by_eligible else Arrival.SUBMIT
    settled = _settle_links(again(), sizes, made, by) if is_linked else None
    counted: Counter[int] = Counter()
    users, groups = dict[int | str, str](), defaultdict[str, set[str]](set)
    codes = dict[int | str, int]()
    notes: Counter[str] = Counter()
    counts = []
    jobs = followers = 0
    for piece in again():
        arrival = arrival_of(piece, by)
        if ticks < (finer := _ticks(piece, arrival)):
            return make_workload(
                log, pool, by_eligible=by_eligible, pieces=pieces, store=store, is_linked=is_linked,
                ticks=finer,
            )  # fmt: skip
        size, reasons = sizes.of(piece)
        if settled is None:
            _find_reasons(piece, arrival, reasons)
            position = np.flatnonzero(reasons == 0)
            position = position[np.argsort(arrival[position], kind="stable")]
        else:
            here = slice(jobs, jobs + len(piece))
            jobs += len(piece)
            reasons = settled.reasons[here]
            position = np.flatnonzero(reasons == 0)
            before = settled.before[here][position]
            follows = before >= 0
            before = np.where(follows, settled.places[before], UNKNOWN)
            thinks = np.full(len(piece), UNKNOWN) if piece.links is None else piece.links.thinks
            made.add("preceding", before)
            made.add("thinks", _in_ticks(log, np.where(follows, thinks[position], UNKNOWN), ticks))
            followers += int(follows.sum())
            made.release()
        counted.update(reasons.tolist())
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
        made.add("submits", _in_ticks(log, arrival[position], ticks))
        made.add("reported", _in_ticks(log, piece.submit[position], ticks))
        made.add("runtimes", runtimes)
        made.add("estimates", estimates)
        made.add("users", np.array([*numbers, 0])[piece.user.codes[position]])  # all unknown users are one
        made.add("cpus", piece.cpus[position])
        made.add("sizes", size[position])
        notes.update(_notes(piece, pool, position))
        counts.append(len(position))
    skipped = {reason: count for place, reason in enumerate(REASONS, 1) if (count := counted[place])}
    if not sum(counts):
        raise _nothing(log, skipped)
    if settled is not None:
        notes["arrive when the job that they follow has ended"] = followers
        what = "follow a job that is not simulated: they arrive when they were submitted, if that is known"
        notes[what] = settled.cut
    columns = {name: made.numbers(name) for name in ("submits", "runtimes", "estimates", "users", "cpus")}
    if is_linked:
        columns |= {name: made.numbers(name) for name in ("preceding", "thinks")}
        runs, first = list[Run](), 0
        for before, arrival in made.parts(np.asarray(columns["preceding"]), np.asarray(columns["submits"])):
            alone = np.flatnonzero(before < 0)
            alone = alone[np.argsort(arrival[alone], kind="stable")]
            rows = as_rows({"key": arrival[alone], "job": first + alone})
            runs.append((store or Store(sys.maxsize)).write(rows))
            first += len(before)
        for block in merge(runs):
            made.add("alone", block["job"])
        columns["alone"] = made.numbers("alone")
    return Workload(
        pool=pool,
        position=np.asarray(made.numbers("position")),
        counts=counts,
        jobs=Jobs(**columns),
        submits=np.asarray(made.numbers("reported")),
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
    """Set in `reasons` why jobs are not simulated (1-based index into REASONS); overrides reasons of size."""
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


class _Settled(NamedTuple):
    """By job: why it is not simulated, which job it follows, its index among the simulated jobs."""

    reasons: Array
    before: Array
    places: Array
    cut: int  # how many follow a job that is not simulated


def _settle_links(pieces: Iterable[ScheduleLog], sizes: Sizes, made: Columns, by: Arrival) -> _Settled:
    """Return which jobs are left out, including their followers without a submit time."""
    for piece in pieces:
        arrival, (_, reasons) = arrival_of(piece, by), sizes.of(piece)
        _find_reasons(piece, arrival, reasons)
        nobody = np.full(len(piece), UNKNOWN)
        made.add("reasons", reasons)
        made.add("before", nobody if piece.links is None else piece.links.preceding)
        made.add("known", arrival >= 0)
    why, before, known = (made.numbers(name) for name in ("reasons", "before", "known"))
    cut, no_submit = 0, list(REASONS).index(NO_SUBMIT) + 1
    settled = bytearray(len(why))
    for first in range(len(why)):
        chain, job = [], first
        while before[job] >= 0 and not settled[job]:
            settled[job] = 1
            chain.append(job)
            job = before[job]
        for job in reversed(chain):
            if why[before[job]]:
                before[job] = UNKNOWN
                if not why[job]:
                    cut += 1
                    why[job] = 0 if known[job] else no_submit
        if first % AT_ONCE == 0:
            made.release()
    reasons, places = np.asarray(why), 0
    for (some,) in made.parts(reasons):
        made.add("places", places + np.cumsum(some == 0) - 1)
        places += int((some == 0).sum())
    return _Settled(reasons, np.asarray(before), np.asarray(made.numbers("places")), cut)


def _nothing(log: ScheduleLog, skipped: Mapping[str, int]) -> ScheduleError:
    reported = [f"{count} × {REASONS[reason]}" for reason, count in skipped.items()]
    if log.unreadable:
        reported.append(f"{log.unreadable} × {NOT_COUNTED[UNREADABLE]}")
    return ScheduleError(f"{log.name}: no job can be simulated: {'; '.join(reported) or 'it holds no jobs'}")


def run_policy(
    log: ScheduleLog, workload: Workload, policy: Policy, rules: Fairshare, *, progress: Tick
) -> Outcome:
    """Simulate a policy; return when each job is submitted and when it starts.

    A job that follows another is submitted when its think time has passed since the other job's end. If its
    think time is unknown, it is submitted as in the log; if that is unknown too, at the other job's end.
    `rules` are the settings of fairshare; `progress` is called as by `simulate`. Raises ScheduleError if a
    time is too large for 64 bits.
    """
    jobs, columns = workload.jobs, workload.columns
    weights = [1] * (len(workload.users) + 1)
    if policy.is_fair and (rules.shares.users or rules.shares.groups):
        weights = _weights(workload, rules.shares)

    def reported(count: int) -> None:
        columns.release()
        progress(count)

    starts = np.asarray(
        simulate(
            jobs, workload.machine(), policy, rules, ticks=workload.ticks, weights=weights,
            blank=lambda count: columns.filled(WAITING, count), progress=reported,
        )
    )  # fmt: skip
    runtimes = np.asarray(jobs.runtimes)
    last = [max(each.max().item() for (each,) in columns.parts(times)) for times in (starts, runtimes)]
    if sum(last) >= MOST:
        raise _too_late(log)
    submits = workload.submits
    if jobs.preceding:
        submits = np.asarray(columns.filled(0, len(starts)))
        linked = np.asarray(jobs.preceding), np.asarray(jobs.thinks)
        for made, submit, before, thinks in columns.parts(submits, workload.submits, *linked):
            comes = starts[before] + runtimes[before] + np.maximum(thinks, 0)
            made[:] = np.where((before >= 0) & ((submit < 0) | (thinks >= 0)), comes, submit)
    return Outcome(submits, starts)


def _too_late(log: ScheduleLog) -> ScheduleError:
    return ScheduleError(f"{log.name}: simulated times are too large for 64 bits")


def _weights(workload: Workload, rules: ShareRules) -> list[int]:
    """Return the factors of users' usage, integers that replace a division by the share."""
    found = make_shares(CPU, rules, total=0, total_from="", all_users=1, groups_of=workload.groups)
    shares = [int(each) for each in (found.default, *map(found.of, workload.users))]  # first: unknown users
    common = lcm(*shares)
    return [common // share for share in shares]


def mean_wait_secs(workload: Workload, outcome: Outcome) -> float:
    """Return the mean time in seconds from submission to start."""
    parts = workload.columns.parts(outcome.submits, outcome.starts)
    sums = ((starts - submits).sum(dtype=float).item() for submits, starts in parts)
    return float(sum(sums)) / len(outcome.starts) / workload.ticks


def remarks(workload: Workload) -> list[str]:
    """Return texts that say how many jobs were left out and why, and what was assumed for unknown values."""
    return [
        *(f"not simulated: {count} × {REASONS[reason]}" for reason, count in workload.skipped.items()),
        *workload.notes,
    ]


def seconds(times: Array, ticks: int) -> Array:
    """Convert times in ticks to seconds; a second has `ticks` ticks. Equal times give equal floats."""
    return times if ticks == 1 else times / ticks


def _ticks(log: ScheduleLog, *others: Array) -> int:
    times = (log.runtime, log.submit, *others)
    estimates = () if log.requested_secs is None else (log.requested_secs,)
    thinks = () if log.links is None else (log.links.thinks,)
    whole = all(each.dtype.kind == "i" for each in (*times, *estimates, *thinks))
    return 1 if whole else MICROSECONDS


def _in_ticks(log: ScheduleLog, times: Array, ticks: int) -> Array:
    """Return times as whole ticks. Raises ScheduleError where they are too large to be true."""
    if ticks == 1:
        return times
    if len(times) and times.max() >= MOST / ticks:
        raise _too_late(log)
    return np.round(times.astype(np.float64) * ticks).astype(np.int64)


def _notes(log: ScheduleLog, pool: Pool, position: Array) -> dict[str, int]:
    """Count unknown values that would have affected the simulation."""
    counts = {"have no requested time: their runtime is taken instead": len(position)}
    if log.requested_secs is not None:
        counts = {what: int((log.requested_secs[position] <= 0).sum()) for what in counts}
    if any(node.memory_kib is not None for node in pool.nodes):
        what = "have no requested memory: taken as none"
        counts[what] = len(position) if log.memory_kib is None else int((log.memory_kib[position] < 0).sum())
    counts["have no user: all are taken as one user's"] = int((log.user.codes[position] < 0).sum())
    return counts
