"""Judges whether a job is on this node, from all that is reported about its id. Pure. See docs/evidence.md.

The sources are the batch system's answers, the prolog's record, what was known when the job was last
published, the epilog, and the job's control group. Each observation carries the time at which it was
reported, by the node's clock, and observations are applied in the order of these times: a later one may end
or replace the run that earlier ones report, never the other way round.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from jobfeatures.records.model import Alias, Job, JobState, fill_unknown

HOOKS: Final = "hooks"  # the source whose records prologs create and epilogs remove
REMEMBERED: Final = "published"  # what was known when the job was last published
HOLD_SECS: Final = 3600.0
START_SECS: Final = 60.0  # for which a job may have no process yet after its prolog ran
LATE_SECS: Final = 10.0  # for which a controller may still call a job pending whose prolog runs
CLOCK_DOUBT_SECS: Final = 600.0  # clocks differ by less than this: twice 300 s


class RunRelation(enum.Enum):
    """How the run of a job that one observation reports relates to the run that another one reports.

    SAME: the same run, or nothing shows a difference. LATER and EARLIER: another run of the same job. OTHER:
    a run of another job with the same id.
    """

    SAME = "same"  # or nothing tells them apart
    LATER = "later"
    EARLIER = "earlier"
    OTHER = "other"  # another job, before or after


class EndEvidence(enum.Enum):
    """A proof that a job has ended, without details of how; EPILOG is the stronger one.

    ABSENT: the batch system was asked and does not know the job. EPILOG: its epilog has removed its record.
    """

    ABSENT = "absent"  # its batch system, asked for this job or for all jobs, does not know it
    EPILOG = "epilog"  # its prolog record existed and has been withdrawn


class Presence(enum.Enum):
    """Whether a job is on this node, which decides what happens to its directories.

    HERE: they are created and kept up to date. COMPLETING: they are kept up to date while they exist.
    UNCLEAR: nothing is proven, and they stay unchanged. REMAINS: the job has ended but processes remain, and
    they stay unchanged for a while. LEFT: the job has ended, and they are removed.
    """

    HERE = "here"  # its directories are created and kept up to date
    COMPLETING = "completing"  # its directories are kept up to date while they exist
    UNCLEAR = "unclear"  # nothing is proven: its directories stay unchanged
    REMAINS = "remains"  # it has ended but processes remain: its directories stay unchanged for a while
    LEFT = "left"  # it has ended: its directories are removed


@dataclass(frozen=True, slots=True)
class JobObservation:
    """What one source reports about a job, and when (`at_secs`: epoch seconds, node's clock).

    `start_source` is the source of the job's start time, None if that is `source` itself.
    """

    source: str
    at_secs: float
    job: Job
    start_source: str | None = None

    @property
    def start_clock(self) -> str:
        """Return the source whose clock the job's start time follows.

        Only start times by the same clock can be compared.
        """
        return self.start_source or self.source


class Group(NamedTuple):
    """A control group with processes.

    `uid` is its user, None if unknown or root. `alias` is its name if its path has no job id. `is_frozen`:
    all its processes are frozen.
    """

    uid: int | None = None
    alias: Alias | None = None
    is_frozen: bool = False  # all its processes are


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known about one job id, from which `judge` decides.

    `reported` are reports; `events` are proofs of an end, each with its epoch time; `group` is a control
    group with processes. `published_at_secs` is the time of the job's published directory, if nothing else is
    known about the job. `end_reported_secs` is `Finding.end_reported_secs` from the previous judgement.
    """

    reported: tuple[JobObservation, ...] = ()
    events: tuple[tuple[float, EndEvidence], ...] = ()
    group: Group | None = None
    published_at_secs: float | None = None
    end_reported_secs: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The judgement on a job id: whether the job is here, and what is known about it.

    `known` merges the observations of its present run. `end_reported_secs` (epoch) is when its end, or
    another job with its id, was first reported. `has_processes`: it has ended and processes remain.
    """

    presence: Presence
    known: JobObservation | None = None
    end_reported_secs: float | None = None  # when its end, or another job in its place, was first reported
    has_processes: bool = False  # True only for a job that has ended

    @property
    def job(self) -> Job | None:
        """Return the job with the values to publish; None if nothing is known about it."""
        return None if self.known is None else self.known.job


def compare_runs(one: JobObservation, other: JobObservation) -> RunRelation:
    """Return how the run of a job that `one` reports relates to the run that `other` reports.

    A different user or SLUID (Slurm's id of a run) means another job. Submission time and restart count order
    two runs; so do start times, but only if both come from the same clock. A start that moves while
    submission and count stay the same is due to a slow node.
    """
    mine, theirs = one.job, other.job
    if mine.uid is not None and theirs.uid is not None:
        if mine.uid != theirs.uid:
            return RunRelation.OTHER
    elif one.source == other.source and _differ(mine.user, theirs.user):
        return RunRelation.OTHER  # two sources may spell the same name differently
    if _differ(mine.sluid, theirs.sluid):
        return RunRelation.OTHER
    if one.start_clock == other.start_clock and _differ(mine.submit_secs, theirs.submit_secs):
        return _order(mine.submit_secs, theirs.submit_secs)
    if _differ(mine.restarts, theirs.restarts):
        return RunRelation.LATER if _has_begun_after(one, other) else _order(mine.restarts, theirs.restarts)
    if one.start_clock == other.start_clock and _differ(mine.start_secs, theirs.start_secs):
        reported = (mine.submit_secs, theirs.submit_secs, mine.restarts, theirs.restarts)
        return RunRelation.SAME if None not in reported else _order(mine.start_secs, theirs.start_secs)
    return RunRelation.SAME


def _has_begun_after(one: JobObservation, other: JobObservation) -> bool:
    """Return whether `one` began after `other` was reported: then a lower count is a later submission's."""
    start_secs = one.job.start_secs if one.job.state.is_on_node else None
    return start_secs is not None and start_secs - CLOCK_DOUBT_SECS > other.at_secs


def find_difference(one: Job, other: Job) -> str | None:
    """Return in words what shows that two records of one job id are of different runs; None if nothing does.

    Start times are not compared.
    """
    for name in ("uid", "restarts", "sluid"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if _differ(mine, theirs):
            return f"{name} is {mine}, not {theirs}"
    return None


def is_another_run(before: Job, now: Job, *, was_over: bool) -> bool:
    """Return whether `now`, a job that is here, is another run than `before`, the job known earlier.

    `was_over`: in between, the job had ended or was not known, so that any later start shows another run.
    Otherwise the start has to be much later, as two sources may have different clocks.
    """
    if find_difference(before, now) is not None:
        return True
    if before.restarts is not None and now.restarts is not None:
        return False
    if before.start_secs is None or now.start_secs is None:
        return was_over
    return now.start_secs - before.start_secs > (0 if was_over else CLOCK_DOUBT_SECS)


def before_prolog(job: Job, prolog_secs: float) -> Job:
    """Return a job that was reported before a prolog ran, without values that may be of an earlier run.

    It is used if the prolog's report has no restart count. The restart count is removed, and so is a start
    time long before the prolog (`prolog_secs`, epoch); a small difference may come from another clock.
    """
    is_old = job.start_secs is not None and job.start_secs + CLOCK_DOUBT_SECS < prolog_secs
    return replace(job, restarts=None, start_secs=None if is_old else job.start_secs)


def judge(evidence: Evidence, *, now_secs: float) -> Finding:
    """Return whether the job is here, and what is known about it. `now_secs` is epoch time.

    For at most `HOLD_SECS`, a job that is reported to have ended keeps its directories if its control group
    has processes. For as long, a job stays known although its id is reported to belong to another job.
    """
    state = _weigh(evidence)
    published_secs = float("-inf") if evidence.published_at_secs is None else evidence.published_at_secs
    if state.ended_secs is not None and state.alive_secs is None and state.ended_secs <= published_secs:
        return Finding(Presence.UNCLEAR, state.known)  # its directories were created again since
    reported_secs = state.ended_secs if state.ended_secs is not None else state.end_reported_secs
    if reported_secs is None:
        if state.known is None or state.known.job.state is JobState.UNKNOWN:
            return Finding(Presence.UNCLEAR, state.known)
        completing = state.known.job.state is JobState.COMPLETING
        return Finding(Presence.COMPLETING if completing else Presence.HERE, state.known)
    since = (
        reported_secs
        if evidence.end_reported_secs is None
        else min(reported_secs, evidence.end_reported_secs)
    )
    is_held = now_secs - since < HOLD_SECS
    if state.ended_secs is None and is_held:
        return Finding(Presence.HERE, state.known, since)
    has_processes = evidence.group is not None
    presence = Presence.REMAINS if has_processes and is_held else Presence.LEFT
    return Finding(presence, _ended(state), since, has_processes)


@dataclass(frozen=True, slots=True)
class _State:
    known: JobObservation | None = None
    recorded_secs: float | None = None  # when the prolog of the present run recorded it
    alive_secs: float | None = None  # when it was last reported to be here
    ended_secs: float | None = None
    proof: EndEvidence | None = None
    end_reported_secs: float | None = None


def _weigh(evidence: Evidence) -> _State:
    rank = {REMEMBERED: 0, HOOKS: 1}
    in_order: list[tuple[float, int, JobObservation | EndEvidence]] = [
        (each.at_secs, rank.get(each.source, 2), each) for each in _as_of_prolog(evidence.reported)
    ]
    in_order += [(at, 3 + (each is EndEvidence.EPILOG), each) for at, each in evidence.events]
    state = _State()
    for at_secs, _, piece in sorted(in_order, key=lambda each: each[:2]):
        if isinstance(piece, JobObservation):
            state = _apply_observation(state, piece, evidence.group)
        elif state.known is not None:
            has_just_started = piece is EndEvidence.ABSENT and _has_just_started(state, at_secs, START_SECS)
            if state.ended_secs is None and not has_just_started:
                state = replace(state, ended_secs=at_secs, proof=piece)
        elif evidence.published_at_secs is not None or evidence.group is not None:
            state = replace(state, ended_secs=at_secs, proof=piece)
    return state


def _as_of_prolog(reported: tuple[JobObservation, ...]) -> Iterator[JobObservation]:
    """Yield observations; those older than a prolog without a restart count may be of an earlier run.

    See `before_prolog`.
    """
    uncounted = [each.at_secs for each in reported if each.source == HOOKS and each.job.restarts is None]
    for each in reported:
        if uncounted and each.at_secs < uncounted[0]:
            yield replace(each, job=before_prolog(each.job, uncounted[0]))
        else:
            yield each


def _apply_observation(state: _State, piece: JobObservation, group: Group | None) -> _State:
    """Return the state after one more observation, newer than all before it."""
    job, known = piece.job, state.known
    is_record = piece.source == HOOKS
    run = RunRelation.SAME if known is None else compare_runs(piece, known)
    if job.state.is_finished or job.state is JobState.PENDING:
        return _apply_end(state, piece, run, group)
    is_stale = run is RunRelation.EARLIER or (
        run is RunRelation.OTHER and not _takes_over(state, piece, group)
    )
    if is_stale and not is_record:
        return _with_reported_end(state, piece)
    if state.ended_secs is not None and run is RunRelation.SAME and job.state is JobState.COMPLETING:
        # Another epilog may still run: what it says fills in, but takes no end back.
        return replace(state, known=piece if known is None else _merged(known, piece))
    has_ended = state.ended_secs is not None and state.proof is not EndEvidence.ABSENT
    if run is not RunRelation.SAME or (has_ended and job.state is not JobState.UNKNOWN):
        state = _State()  # a job that ended and is here again is another run
    if job.state is JobState.UNKNOWN:
        return replace(state, known=_merged(piece, state.known))
    recorded_secs = piece.at_secs if is_record else state.recorded_secs
    return _State(_merged(piece, state.known), recorded_secs, piece.at_secs)


def _apply_end(state: _State, piece: JobObservation, run: RunRelation, group: Group | None) -> _State:
    if _ended_before(piece.job, state):
        return state
    if run is RunRelation.EARLIER or (run is RunRelation.OTHER and not _takes_over(state, piece, group)):
        return _with_reported_end(state, piece)
    waits = piece.job.state is JobState.PENDING
    is_from_prolog_only = state.alive_secs == state.recorded_secs  # nobody but the prolog has reported it yet
    if (
        waits
        and is_from_prolog_only
        and run is RunRelation.SAME
        and _has_just_started(state, piece.at_secs, LATE_SECS)
    ):
        return state
    known = state.known or piece  # what waits, or was another run, is not the run that ends here
    if not waits and run is RunRelation.SAME:
        known = _merged(piece, state.known)
    ended_secs = piece.at_secs if state.ended_secs is None else state.ended_secs
    return replace(state, known=known, ended_secs=ended_secs, proof=None)


def _with_reported_end(state: _State, piece: JobObservation) -> _State:
    if state.ended_secs is not None:
        return state
    return replace(
        state, end_reported_secs=piece.at_secs if state.end_reported_secs is None else state.end_reported_secs
    )


def _takes_over(state: _State, piece: JobObservation, group: Group | None) -> bool:
    """Return whether to believe that another job has taken the place of the known one.

    The control group decides; without one, the source that also reported the known job may, but it cannot
    overrule a prolog that ran on this node. What was published after that prolog has been decided before.
    """
    if state.ended_secs is not None:
        return True
    if group is not None and state.known is not None:
        if _fits(group, piece.job):
            return True
        if _fits(group, state.known.job):
            return False
    return state.recorded_secs is None or piece.source == REMEMBERED


def _fits(group: Group, job: Job) -> bool:
    if group.alias is not None and not group.alias.is_reused and job.sluid is not None:
        return group.alias.is_of(job)
    return bool(group.uid) and group.uid == job.uid


def _has_just_started(state: _State, at_secs: float, within_secs: float) -> bool:
    return state.recorded_secs is not None and at_secs - state.recorded_secs < within_secs


def _ended_before(job: Job, state: _State) -> bool:
    """Return whether this job ended before the present run's prolog, allowing for clock differences."""
    if job.end_secs is None or state.recorded_secs is None:
        return False
    return job.end_secs + CLOCK_DOUBT_SECS < state.recorded_secs


def _merged(piece: JobObservation, known: JobObservation | None) -> JobObservation:
    if known is None:
        return piece
    start_clock = piece.start_clock if piece.job.start_secs is not None else known.start_clock
    return JobObservation(piece.source, piece.at_secs, fill_unknown(piece.job, known.job), start_clock)


def _ended(state: _State) -> JobObservation | None:
    """Return what is known of an ended job; its final state only where its batch system reports it."""
    if state.known is None or state.known.job.state.is_finished:
        return state.known
    if state.proof is None and not state.known.job.state.is_on_node:
        return state.known  # it is pending
    return replace(state.known, job=replace(state.known.job, state=JobState.UNKNOWN))


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def _order(one: int | None, other: int | None) -> RunRelation:
    return RunRelation.LATER if (one or 0) > (other or 0) else RunRelation.EARLIER
