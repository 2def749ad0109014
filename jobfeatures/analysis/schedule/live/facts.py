"""Defines what must be known about a job to compute its expected end, and reads it from other records.

These facts come from accounting, from a log, or from the queue. Pure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobfeatures.analysis.schedule.eligibility import (
    IMPOSSIBLE,
    LATEST_SECS,
    NEGATIVE,
    NO_CPUS,
    NO_SUBMIT,
    NO_USER,
    UNKNOWN,
    compute_rules,
    compute_runtime,
)
from jobfeatures.joblogs.loggedjob import JobRecord, Number
from jobfeatures.records.model import Job, JobState


class JobFacts(NamedTuple):
    """The facts about a job, or about one run of a requeued job. None means unknown, or not yet known.

    Times are in epoch seconds, or for a log without dates in seconds since its time zero. `array_id` is empty
    for a job outside an array; `task` is the job's index in its array, −1 for none. `tasks` is the number of
    array tasks that this entry stands for.
    """

    job_id: str
    user: str | None
    partition: str
    submit_secs: Number | None
    start_secs: Number | None
    end_secs: Number | None  # None: it has not ended
    suspended_secs: Number = 0
    limit_secs: int | None = None  # of the runtime; None: unknown or none
    cpus: int | None = None  # allocated, else requested
    is_cancelled: bool = False
    is_suspended: bool = False  # now
    array_id: str = ""
    task: int = -1  # its place in the array
    tasks: int = 1  # of an array that waits: how many jobs this stands for

    @property
    def runtime_secs(self) -> Number:
        """Return for how many seconds an ended job ran.

        Returns `UNKNOWN` if its start or end is unknown, and `IMPOSSIBLE` if the result would be negative.
        """
        return compute_runtime(self.start_secs, self.end_secs, self.suspended_secs)


Order = tuple[Number, int, str, int]


def order_of(facts: JobFacts) -> Order:
    """Return the key by which a user's jobs are sorted: arrival, job number, index in its array."""
    name = facts.array_id or facts.job_id
    return facts.submit_secs or 0, len(name), name, facts.task


def why_not(facts: JobFacts) -> str | None:
    """Return the reason (a key of `REASONS`) why a job does not count in the figures, or None if it counts.

    An ended job is judged by all rules of `eligibility`, an unfinished job without those about its end.
    """
    if facts.end_secs is None:
        submit, start = facts.submit_secs, facts.start_secs
        if submit is None or submit < 0:
            return NO_SUBMIT
        if start is not None and start < submit:
            return NEGATIVE
        if facts.user is None:
            return NO_USER
        return NO_CPUS if facts.cpus is None or facts.cpus < 0 else None
    rules = compute_rules(
        arrival=_known(facts.submit_secs),
        start=_known(facts.start_secs),
        end=_known(facts.end_secs),
        runtime=_known(facts.runtime_secs),
        is_cancelled=facts.is_cancelled,
        has_user=facts.user is not None,
        cpus=_known(facts.cpus),
    )
    return next((reason for reason, holds in rules.items() if holds), None)


def _known(value: Number | None) -> Number:
    if value is None:
        return UNKNOWN
    return value if UNKNOWN <= value <= LATEST_SECS else IMPOSSIBLE


def supersedes(new: JobFacts, old: JobFacts) -> bool:
    """Return whether the report `new` about a job replaces the report `old` about the same job.

    A report replaces an older one if it is about a later run, or if it reports the end of the same run. A
    later report of the same end counts as a correction.
    """
    if (new.submit_secs or 0) != (old.submit_secs or 0):
        return (new.submit_secs or 0) > (old.submit_secs or 0)  # a requeue is a submission of its own
    if new.end_secs is None:
        if old.end_secs is None:
            return True
        return new.start_secs is not None and new.start_secs >= old.end_secs
    if old.start_secs is None:
        return True
    if old.end_secs is None:
        return new.end_secs > old.start_secs or new.end_secs == old.start_secs == new.start_secs
    return (new.start_secs or new.end_secs) >= old.start_secs


def from_queue(job: Job) -> JobFacts | None:
    """Return the facts that the queue reports about an unfinished job.

    Returns None for a job that has finished (accounting reports those), and for one whose state is unknown.
    """
    if job.state.is_finished or job.state is JobState.UNKNOWN:
        return None
    task = job.array_task_id or ""
    first = re.match(r"[0-9]{1,9}", task)  # of ``2-5,9%2`` the first: tasks start in this order
    return JobFacts(
        job_id=job.key.job_id,
        user=job.user,
        partition=job.partition or "",
        submit_secs=job.submit_secs,
        start_secs=job.start_secs if job.state.is_on_node else None,
        end_secs=None,
        limit_secs=job.limits.wall_secs if isinstance(job.limits.wall_secs, int) else None,
        cpus=job.total_cpus,
        is_suspended=job.state is JobState.SUSPENDED,
        array_id=job.array_job_id or "",
        task=int(first[0]) if first else UNKNOWN,
        tasks=max(1, job.tasks),
    )


def from_record(record: JobRecord) -> JobFacts | None:
    """Return the facts about a job from a record of a log or of accounting; None for that of a job step."""
    if record.step is not None:
        return None
    task = record.array_task_id or ""
    is_task = record.array_job_id is not None and task.isascii() and task.isdigit()
    return JobFacts(
        job_id=record.job_id,
        user=record.user if record.user is not None or record.uid is None else str(record.uid),
        partition=record.partition or record.queue or "",
        submit_secs=record.submit_secs,
        start_secs=record.start_secs,
        end_secs=record.end_secs,
        suspended_secs=record.suspended_secs or 0,
        limit_secs=record.wall_limit_secs if isinstance(record.wall_limit_secs, int) else None,
        cpus=record.requested_cpus if record.total_cpus is None else record.total_cpus,
        is_cancelled=record.state is JobState.CANCELLED,
        array_id=record.array_job_id or "",
        task=int(task[:9]) if is_task else UNKNOWN,
    )
