"""Replays a job log at another speed: which job to show on a node, and when. Pure.

The log's time runs `speed` times as fast. Durations and limits are divided by `speed` too, so that a job's
remaining time is correct by the real clock.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobfeatures.errors import ParseError
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import Job, JobKey, JobState, Limit, Limits

BATCH_SYSTEM: Final = "spool"
NEVER_RAN: Final = "never ran"
NO_TIME: Final = "no time between start and end"
ELSEWHERE: Final = "no room on the node"
IS_STEP: Final = "step of a job"
MAX_JOBS: Final = 1_000_000  # in a plan, which takes 1.5 GB of memory then


class Event(NamedTuple):
    """The start or end of a job. `at_secs` is real time since the replay began."""

    at_secs: float
    starts: bool  # ends sort before starts at the same time
    number: int  # of the job, from 1
    record: JobRecord
    cpus: int | None  # allocated on the node
    job_id: str  # the log's; later jobs with the same id get a dash and a number


@dataclass(slots=True)
class Plan:
    """The events of a replay, in order, and what it covers."""

    events: list[Event] = field(default_factory=list)
    jobs: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)  # jobs not shown, by reason
    log_began_secs: float = 0  # the time in the log at which the replay begins
    log_secs: float = 0  # duration covered, in the log's time


def plan_replay(records: Iterable[JobRecord], *, speed: float, node_cpus: int | None = None) -> Plan:
    """Return the plan. With `node_cpus`, show only jobs that fit on a node with that many CPUs.

    A job larger than the node gets all of it. Jobs for which too few CPUs are free at their start are assumed
    to run elsewhere. Jobs without an end last until the log ends. Raises ParseError for more than `MAX_JOBS`.
    """
    plan = Plan()
    jobs = _runs(records, plan)
    if not jobs:
        return plan
    plan.log_began_secs = jobs[0][0]
    end_of_log = max(max(start, end or 0) for start, end, _ in jobs)
    plan.log_secs = end_of_log - plan.log_began_secs
    free = node_cpus
    running: list[tuple[float, int]] = []  # end and CPUs of each job on the node
    ids: Counter[str] = Counter()
    for start, known_end, record in jobs:
        end = end_of_log if known_end is None else known_end
        if end <= start:
            plan.passed_over[NO_TIME] += 1
            continue
        cpus = record.total_cpus
        if free is not None and node_cpus is not None:
            cpus = min(cpus or 1, node_cpus)
            while running and running[0][0] <= start:
                free += heapq.heappop(running)[1]
            if cpus > free:
                plan.passed_over[ELSEWHERE] += 1
                continue
            free -= cpus
            heapq.heappush(running, (end, cpus))
        plan.jobs += 1
        ids[record.job_id] += 1
        same = ids[record.job_id]
        job_id = record.job_id if same == 1 else f"{record.job_id}-{same}"
        for secs, starts in ((start, True), (end, False)):
            at_secs = (secs - plan.log_began_secs) / speed
            plan.events.append(Event(at_secs, starts, plan.jobs, record, cpus, job_id))
    plan.events.sort(key=lambda event: event[:3])
    return plan


def _runs(records: Iterable[JobRecord], plan: Plan) -> list[tuple[float, float | None, JobRecord]]:
    """Return start, end and record of each job that ran, by start time."""
    found: list[tuple[float, float | None, JobRecord]] = []
    model: list[JobRecord] = []
    ends: dict[str, float] = {}  # by job
    for record in records:
        if len(found) + len(model) >= MAX_JOBS:
            raise ParseError(f"more than {MAX_JOBS} jobs: replay a part of the log")
        if record.step is not None:
            plan.passed_over[IS_STEP] += 1
        elif record.start_secs is None and (record.run_secs or 0) > 0:
            model.append(record)
        elif record.start_secs is None or record.start_secs < 0:
            plan.passed_over[NEVER_RAN] += 1
        else:
            found.append((record.start_secs, record.end_secs, record))
            if record.end_secs is not None:
                ends[record.job_id] = record.end_secs
    found += _runs_of_model(model, ends, plan)
    found.sort(key=lambda run: run[0])
    return found


def _runs_of_model(
    records: list[JobRecord], ends: dict[str, float], plan: Plan
) -> Iterator[tuple[float, float, JobRecord]]:
    """Yield runs of jobs with a run time but no wait time: from submission, or after the preceding job."""
    still = {record.job_id for record in records}
    while records:
        rest = [each for each in records if each.preceding_job_id in still]
        if len(rest) == len(records):  # circular dependencies
            still.clear()
            continue
        for record in records:
            if record.preceding_job_id in still:
                continue
            before = ends.get(record.preceding_job_id or "")
            start = record.submit_secs
            if before is not None:
                start = max(before, start or 0) if record.think_secs is None else before + record.think_secs
            if start is None:
                plan.passed_over[NEVER_RAN] += 1
                continue
            ends[record.job_id] = start + (record.run_secs or 0)
            yield start, ends[record.job_id], record
        still = {record.job_id for record in rest}
        records = rest


def make_job(event: Event, *, began_secs: float, log_began_secs: float, speed: float, node: str) -> Job:
    """Return a running job as the node shows it; the replay began at `began_secs` (epoch)."""
    record = event.record
    submit = record.submit_secs
    start_secs = int(began_secs + event.at_secs)
    if submit is not None:
        submit = max(0, min(start_secs, int(began_secs + (submit - log_began_secs) / speed)))
    return Job(
        key=JobKey(BATCH_SYSTEM, event.job_id),
        state=JobState.RUNNING,
        name=record.name or record.executable,
        user=record.user,
        account=record.account or record.group,
        partition=record.partition or record.queue,
        submit_secs=submit,
        start_secs=start_secs,
        nodes=(node,),
        total_cpus=event.cpus,
        allocated_cpus=event.cpus,
        limits=Limits(
            wall_secs=_faster(record.wall_limit_secs, speed),
            cpu_secs=_faster(_share(record.cpu_limit_secs, event), speed),
            memory_bytes=_share(record.requested_memory_bytes, event),
        ),
    )


def _faster(limit: Limit, speed: float) -> Limit:
    """Return a limit on a duration in real time, at least one second."""
    return max(1, math.ceil(limit / speed)) if isinstance(limit, int) else limit


def _share(amount: Limit, event: Event) -> Limit:
    """Return the share of a job's amount that its CPUs on this node have."""
    total = event.record.total_cpus
    if not isinstance(amount, int) or not total or event.cpus is None or event.cpus >= total:
        return amount
    return amount * event.cpus // total


def format_event(event: Event) -> str:
    """Return an event as a line of text."""
    cpus = "" if event.cpus is None else f" {event.cpus} CPUs"
    return f"{event.at_secs:+.3f}s {'start' if event.starts else 'end'} {event.job_id}{cpus}"
