"""Combines what queue, accounting and logs report about one user's jobs, and finds the job asked about.

Pure.
"""

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
_WITH_SERVER = re.compile(r"([0-9]{1,12}(?:\[[0-9]{1,9}\])?)\.[A-Za-z]")  # 12[3].server
_TASK = re.compile(r"(.+?)[_.\[]([0-9]{1,9})\]?\Z", re.DOTALL)  # 12_3, 12.3, 12[3]
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?\Z")


class NoSuchJobError(JobfeaturesError):
    """Raised when the job id that was asked about belongs to no job, or to more than one."""


class ReportedJob(NamedTuple):
    """The facts about one job, and further values that the batch system reported about it.

    `names` are other names of the job, such as ARRAY_TASK. The remaining fields are of a waiting job: the
    task numbers of a waiting array such as ``2-5,9``, the reason why the job waits, the planned start, and
    whether it is held until somebody releases it.
    """

    facts: JobFacts
    names: frozenset[str] = frozenset()  # besides its id: by array and task, by job and component
    waiting_tasks: str | None = None  # of a waiting array: 2-5,9
    reason: str | None = None  # why it waits, in the batch system's words
    planned_secs: Number | None = None  # when the batch system plans to start it
    is_held: bool = False  # until somebody releases it, whatever the reason says


class JobsOfUser(NamedTuple):
    """One user's jobs in order of arrival.

    `jobs[place]` is the job that was asked about, `reported` its report. If `is_whole_array`, the user asked
    about an array, and the job is its last task. `components` is the number of components of the
    heterogeneous job that the job belongs to. `unplaced` is the number of the user's other unfinished jobs
    that are left out because too little is known about them.
    """

    jobs: tuple[JobFacts, ...]
    place: int
    reported: ReportedJob
    is_whole_array: bool = False  # the array was asked for: its last task is shown
    components: int = 1  # of the heterogeneous job that it belongs to
    unplaced: int = 0  # the user's other unfinished jobs about which too little is reported


def make_rules(share: str | None, shares_of: str | None) -> ShareRules:
    """Parse the settings `schedule.share` and `schedule.share_of` into share rules.

    Raises ConfigurationError for a malformed value, a share of 0 for all users, or a share of a group.
    """
    default = parse_amounts("schedule.share", share, [CPU]) if share else {}
    if default.get(CPU) == 0:
        raise ConfigurationError("schedule.share", "must be above 0")
    users, groups = parse_shares_of("schedule.share_of", [shares_of] if shares_of else [], [CPU])
    if groups:
        raise ConfigurationError("schedule.share_of", "must name users: accounting does not report groups")
    return ShareRules(default=default, users=users)


def compute_begin(now_secs: float, history_secs: float) -> int:
    """Return the epoch time from which ended jobs count.

    It is a multiple of `history_secs`, one to two `history_secs` ago. So a daemon that restarts within
    `history_secs` mostly computes the same time again.
    """
    return max(0, int((math.floor(now_secs / history_secs) - 1) * history_secs))


def reported_by_queue(job: Job) -> ReportedJob | None:
    """Convert the queue's entry of a job, which may be waiting, running, or just ended.

    The queue may report an end before accounting does. Returns None if the entry does not say enough.
    """
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
    """Convert accounting's record of an ended job; return None for a job step or a job without an end.

    Unfinished jobs are taken from the queue, which knows more about them.
    """
    facts = from_record(record)
    if facts is None or facts.end_secs is None:
        return None
    return ReportedJob(facts, _names(record))


def reported_by_log(record: JobRecord, at_secs: Number) -> ReportedJob | None:
    """Return what was known about a logged job at the time `at_secs`, or None if nothing was known.

    A job without an end time counts as unfinished only if its state says so.
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
    """Return, by job id, the latest report on each job; of a requeued job, the latest one on its last run."""
    found: dict[str, ReportedJob] = {}
    for each in reported:
        known = found.get(each.facts.job_id)
        if known is None or supersedes(each.facts, known.facts):
            found[each.facts.job_id] = each
    return found


def find_job(reported: dict[str, ReportedJob], asked: str) -> ReportedJob:
    """Return the job named by `asked`: a job id, ARRAY_TASK, JOB+COMPONENT, or an array's id.

    The name of a server or schedd may stand behind an id, as qsub prints it, or be left out. For an array's
    id, its last task is returned. Raises NoSuchJobError if no job or several have this name.
    """
    members = [each for each in reported.values() if asked and each.facts.array_id == asked]
    if members:
        return max(members, key=lambda each: order_of(each.facts))
    if asked in reported:
        return reported[asked]
    named = [each for each in reported.values() if asked in each.names]
    if not named:
        named = list(_among_waiting(reported.values(), asked))
    if not named and (match := _WITH_SERVER.match(asked)):
        named = [reported[match[1]]] if match[1] in reported else []
    if not named:  # 12.0@schedd
        named = [each for name, each in reported.items() if asked in {name.split(mark)[0] for mark in ".@"}]
    if not named:
        raise NoSuchJobError(f"no job {shown(asked)} is known")
    if len(named) > 1:
        ids = ", ".join(sorted(each.facts.job_id for each in named)[:5])
        raise NoSuchJobError(f"several jobs match {shown(asked)}: {ids}")
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
    """Count the tasks up to number `task` in a list such as ``2-5,9:2%3``.

    Also return whether `task` is listed.
    """
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
    """Return the jobs of the user who owns the job `asked`, in order of arrival.

    Besides this job, only jobs that count in the figures are included. Raises as `find_job` does.
    """
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
