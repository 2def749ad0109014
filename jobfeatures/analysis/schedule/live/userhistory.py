"""One user's jobs as queue, accounting and logs report them, and which of them is asked about: pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from jobfeatures.analysis.schedule.live.facts import (
    JobFacts,
    from_queue,
    from_record,
    order_of,
    supersedes,
    why_not,
)
from jobfeatures.analysis.schedule.shares import CPU, ShareRules, parse_amounts, parse_shares_of
from jobfeatures.errors import ConfigurationError, JobfeaturesError, shown
from jobfeatures.joblogs.loggedjob import JobRecord, Number
from jobfeatures.records.model import Job, JobState

UNFINISHED: Final = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})
_TASK = re.compile(r"(.+?)[_.\[]([0-9]{1,9})\]?\Z", re.DOTALL)  # 12_3, 12.3, 12[3]
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?\Z")


class NoSuchJobError(JobfeaturesError):
    """No job, or more than one, is meant by an id."""


class ReportedJob(NamedTuple):
    """The facts about one job, and further values that the batch system reported."""

    facts: JobFacts
    names: frozenset[str] = frozenset()  # besides its id: by array and task, by job and component
    waiting_tasks: str | None = None  # of a waiting array: 2-5,9
    reason: str | None = None  # why it waits, in the batch system's words
    planned_secs: Number | None = None  # when the batch system plans to start it
    is_held: bool = False  # until somebody releases it, whatever the reason says


class JobsOfUser(NamedTuple):
    """One user's jobs in order of arrival, and the index of the job in question."""

    jobs: tuple[JobFacts, ...]
    place: int
    reported: ReportedJob
    is_whole_array: bool = False  # the array was asked for: its last task is shown
    components: int = 1  # of the heterogeneous job that it belongs to
    unplaced: int = 0  # the user's other unfinished jobs about which too little is reported


def make_rules(share: str | None, shares_of: str | None) -> ShareRules:
    """Return the shares that `schedule.share` and `schedule.share_of` give. Raises ConfigurationError."""
    default = parse_amounts("schedule.share", share, [CPU]) if share else {}
    if default.get(CPU) == 0:
        raise ConfigurationError("schedule.share", "must be above 0")
    users, groups = parse_shares_of("schedule.share_of", [shares_of] if shares_of else [], [CPU])
    if groups:
        raise ConfigurationError("schedule.share_of", "must name users: accounting does not report groups")
    return ShareRules(default=default, users=users)


def compute_begin(now_secs: float, history_secs: float) -> int:
    """Return from when on ended jobs count: a multiple of `history_secs` (epoch), one to two of these ago.

    A restart within the next `history_secs` thus mostly computes the same beginning.
    """
    return max(0, int((math.floor(now_secs / history_secs) - 1) * history_secs))


def reported_by_queue(job: Job) -> ReportedJob | None:
    """Return the queue's record of a job, even of one that just ended: accounting has it later."""
    facts = from_queue(replace(job, state=JobState.RUNNING) if job.has_ended else job)
    if facts is None or (job.has_ended and job.end_secs is None):
        return None
    if job.has_ended:
        facts = facts._replace(end_secs=job.end_secs, is_cancelled=job.state is JobState.CANCELLED)
    is_waiting = facts.start_secs is None and facts.end_secs is None
    return ReportedJob(
        facts,
        _names(job),
        waiting_tasks=job.array_task_id if is_waiting and job.tasks > 1 else None,
        reason=job.reason if is_waiting else None,
        planned_secs=job.planned_secs if is_waiting else None,
        is_held=job.is_held,
    )


def reported_by_accounting(record: JobRecord) -> ReportedJob | None:
    """Return accounting's record of an ended job, None of others: the queue knows more about these."""
    facts = from_record(record)
    if facts is None or facts.end_secs is None:
        return None
    return ReportedJob(facts, _names(record))


def reported_by_log(record: JobRecord, at_secs: Number) -> ReportedJob | None:
    """Return what was known at `at_secs` about a job in a log, None where nothing was.

    A job without an end time counts as unfinished only where its state says so.
    """
    facts = from_record(record)
    if facts is None or facts.submit_secs is None or facts.submit_secs > at_secs:
        return None
    if facts.end_secs is None and record.state not in UNFINISHED:
        return None
    if facts.end_secs is not None and facts.end_secs > at_secs:
        facts = facts._replace(end_secs=None, is_cancelled=False)
    if facts.start_secs is not None and facts.start_secs > at_secs:
        facts = facts._replace(start_secs=None)
    if facts.end_secs is None:
        facts = facts._replace(
            suspended_secs=0, is_suspended=bool(facts.suspended_secs) or record.state is JobState.SUSPENDED
        )
    facts = facts._replace(partition=record.partition or "")  # a log's queues may be numbers
    return ReportedJob(facts, _names(record))


def _names(job: Job | JobRecord) -> frozenset[str]:
    found = set()
    if job.array_job_id is not None and job.array_task_id is not None:
        found.add(f"{job.array_job_id}_{job.array_task_id}")
    if job.het_job_id is not None and job.het_offset is not None:
        found.add(f"{job.het_job_id}+{job.het_offset}")
    return frozenset(found)


def merge(reported: Iterable[ReportedJob]) -> dict[str, ReportedJob]:
    """Return one record for each job id: the latest one of its last run."""
    found: dict[str, ReportedJob] = {}
    for each in reported:
        known = found.get(each.facts.job_id)
        if known is None or supersedes(each.facts, known.facts):
            found[each.facts.job_id] = each
    return found


def find_job(reported: dict[str, ReportedJob], asked: str) -> ReportedJob:
    """Return the job with an id, ARRAY_TASK, JOB+COMPONENT; an array's last task. Raises NoSuchJobError."""
    members = [each for each in reported.values() if asked and each.facts.array_id == asked]
    if members:
        return max(members, key=lambda each: order_of(each.facts))
    if asked in reported:
        return reported[asked]
    named = [each for each in reported.values() if asked in each.names]
    if not named:
        named = list(_among_waiting(reported.values(), asked))
    if not named:
        named = [each for name, each in reported.items() if name.partition(".")[0] == asked]  # 12.server
    if not named:
        raise NoSuchJobError(f"no job {shown(asked)} is known")
    if len(named) > 1:
        ids = ", ".join(sorted(each.facts.job_id for each in named)[:5])
        raise NoSuchJobError(f"job {shown(asked)} may be one of several: {ids}")
    return named[0]


def _among_waiting(reported: Iterable[ReportedJob], asked: str) -> Iterator[ReportedJob]:
    """Yield a waiting array up to the task that was asked about, if the array has that task."""
    match = _TASK.match(asked)
    if match is None:
        return
    for each in reported:
        if each.facts.array_id != match[1] or each.waiting_tasks is None:
            continue
        count, is_there = count_until(each.waiting_tasks, int(match[2]))
        if is_there:
            yield each._replace(facts=each.facts._replace(tasks=count))


def count_until(tasks: str, task: int) -> tuple[int, bool]:
    """Return how many tasks of ``2-5,9:2%3`` are numbered up to `task`, and whether one is `task`."""
    count, is_there = 0, False
    for part in tasks.strip("[]").partition("%")[0].split(","):
        match = _RANGE.match(part)
        if match is None:
            continue
        first, step = int(match[1]), int(match[3] or 1)
        last = min(int(match[2] or first), task)
        if last >= first:
            count += (last - first) // step + 1
            is_there = is_there or ((task - first) % step == 0 and task <= int(match[2] or first))
    return count, is_there


def choose_jobs(reported: Iterable[ReportedJob], asked: str) -> JobsOfUser:
    """Return all jobs that count of the user whose job is `asked`, in order. Raises NoSuchJobError."""
    known = merge(reported)
    found = find_job(known, asked)
    job_id, user = found.facts.job_id, found.facts.user
    mine = [
        found.facts if each.facts.job_id == job_id else each.facts
        for each in known.values()
        if each.facts.job_id == job_id or (each.facts.user == user and why_not(each.facts) is None)
    ]
    jobs = tuple(sorted(mine, key=order_of))
    het = {name.partition("+")[0] for name in found.names if "+" in name}
    components = sum(any(name.partition("+")[0] in het for name in each.names) for each in known.values())
    return JobsOfUser(
        jobs,
        next(place for place, facts in enumerate(jobs) if facts.job_id == job_id),
        found,
        is_whole_array=found.facts.array_id == asked,
        components=max(1, components if het else 1),
        unplaced=sum(
            each.facts.user == user and each.facts.end_secs is None and why_not(each.facts) is not None
            for each in known.values()
            if each.facts.job_id != job_id
        ),
    )
