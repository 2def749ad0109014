"""A log of jobs played again: which job is shown when, at another speed. Pure.

The log's time runs `speed` times as fast, its durations and limits as well: what is written is in the time of
the clock on the wall, so that the time a job has left can be believed.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobfeatures.errors import ParseError
from jobfeatures.joblog import JobRecord
from jobfeatures.model import Job, JobKey, JobState, Limit, Limits

BATCH_SYSTEM: Final = "spool"
NEVER_RAN: Final = "never ran"
NO_TIME: Final = "no time between start and end"
ELSEWHERE: Final = "no room on the node"
IS_STEP: Final = "step of a job"
MAX_JOBS: Final = 1_000_000  # of a plan, which is held in memory: 1.5 GB


class Event(NamedTuple):
    """A job is to be shown, or to go. `at_secs` is after the replay's beginning, by the clock on the wall."""

    at_secs: float
    starts: bool  # ends come before what starts at the same time
    number: int  # of the job, from 1
    record: JobRecord
    cpus: int | None  # that it has on the node
    job_id: str  # its own; with a dash and a number where another job of the log has the same


@dataclass(slots=True)
class Plan:
    """What happens when, in its order."""

    events: list[Event] = field(default_factory=list)
    jobs: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)  # jobs, by the reason why they are not shown
    log_began_secs: float = 0  # the log's time at which the replay begins
    log_secs: float = 0  # how much of the log's time it covers


def plan_replay(records: Iterable[JobRecord], *, speed: float, node_cpus: int | None = None) -> Plan:
    """Return the plan. With `node_cpus` only what finds room on a node of so many CPUs is shown.

    A job larger than the node has all of it. What does not find room when it starts ran elsewhere. Jobs
    without an end last until the log's. Raises ParseError for more than `MAX_JOBS`.
    """
    plan = Plan()
    jobs = _runs(records, plan)
    if not jobs:
        return plan
    plan.log_began_secs = jobs[0][0]
    end_of_log = max(max(start, end or 0) for start, end, _ in jobs)
    plan.log_secs = end_of_log - plan.log_began_secs
    free = node_cpus
    running: list[tuple[float, int]] = []  # ends and CPUs of jobs on the node
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
    """Return start, end and record of what ran, in the order of the starts."""
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
    """Yield the runs of jobs that have run times and no waits: at once, or after those that they follow."""
    still = {record.job_id for record in records}
    while records:
        rest = [each for each in records if each.preceding_job_id in still]
        if len(rest) == len(records):  # each waits for another
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
    """Return a job as it is shown on a node, from its start on; the replay began at `began_secs` (epoch)."""
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
    """Return a duration as it is on the wall; one second at least."""
    return max(1, math.ceil(limit / speed)) if isinstance(limit, int) else limit


def _share(amount: Limit, event: Event) -> Limit:
    """Return what of a job's amount falls to its CPUs on the node."""
    total = event.record.total_cpus
    if not isinstance(amount, int) or not total or event.cpus is None or event.cpus >= total:
        return amount
    return amount * event.cpus // total


def format_event(event: Event) -> str:
    """Return an event as a line for people."""
    cpus = "" if event.cpus is None else f" {event.cpus} CPUs"
    return f"{event.at_secs:+.3f}s {'start' if event.starts else 'end'} {event.job_id}{cpus}"
