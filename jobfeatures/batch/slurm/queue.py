"""Parses jobs from the output of ``squeue``. Pure.

The field names are those of squeue(1) ``--Format``. They are passed in ``SQUEUE_FORMAT2``, not on the command
line, where every user of the machine could read the separator.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.batch.keyedrecord import KeyedRecord, RecordKey, key, required_key
from jobfeatures.batch.slurm.basics import NAME, checked_id
from jobfeatures.batch.slurm.fields import (
    UNKNOWN,
    count_tasks,
    expand_kept,
    parse_time_limit,
    parse_uid,
    reason_word,
    split_closed,
)
from jobfeatures.batch.slurm.gpus import parse_tres_gpus
from jobfeatures.batch.slurm.record import parse_state
from jobfeatures.errors import Rejected, parse_each
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limit, Limits, multiplied
from jobfeatures.records.quantities import parse_binary_size, parse_count

QUEUE_SOURCE = "squeue"


class QueuedJob(KeyedRecord):
    """One job as squeue prints it.

    Its attributes are the fields to query, in this order, and how each is parsed.
    """

    source = QUEUE_SOURCE
    nothing = UNKNOWN

    job_id = required_key(checked_id, "JobID")
    array = key(str, "ArrayJobID")
    array_task_id = key(str, "ArrayTaskID")
    het_job_id = key(str, "HetJobID")
    het_offset = key(parse_count, "HetJobOffset")
    user = key(str, "UserName")
    uid = key(parse_uid, "UserID")
    account = key(str, "Account")
    partition = key(str, "Partition")
    state = required_key(parse_state, "State")
    reason = key(reason_word, "Reason")
    time_limit: RecordKey[Limit] = RecordKey(parse_time_limit, "TimeLimit")
    total_cpus = key(parse_binary_size, "NumCPUs")  # 2K is 2048
    total_nodes = key(parse_binary_size, "NumNodes")
    node_list = key(expand_kept, "NodeList")
    start_time = key(parse_count, "StartTime")
    end_secs = key(parse_count, "EndTime", when=lambda job: job.state.is_finished)
    submit_secs = key(parse_count, "SubmitTime")
    eligible_secs = key(parse_count, "EligibleTime")
    priority = key(parse_count, "PriorityLong")
    total_gpus = key(parse_tres_gpus, "tres-alloc")
    restarts = key(parse_count, "RestartCnt")
    reservation = key(str, "Reservation")
    name = required_key(str, "Name")


QUEUE_FIELDS = QueuedJob.names


def queue_format(separator: str) -> str:
    """Return the value of ``SQUEUE_FORMAT2`` with which squeue prints `separator` after every field."""
    return ",".join(f"{field}:{separator}" for field in QUEUE_FIELDS)


def parse_queue(text: str, separator: str, *, taken_at_secs: float) -> JobTable:
    """Parse the output of ``squeue -a -h -t all`` with `queue_format`, in which times are epoch seconds.

    A pending array is one job with several `tasks`. The table is complete unless a record was malformed: a
    job that is missing from a complete table has ended, or was submitted later. Raises ParseError if the
    output is truncated.
    """
    rejected: list[Rejected] = []
    answer = split_closed(text, separator, QUEUE_FIELDS, source=QUEUE_SOURCE)
    made = parse_each(
        parse_queued_job, answer, rejected, QUEUE_SOURCE, lambda values: f"job {values['JobID'][:32]}"
    )
    jobs = {job.key: job for job in made}
    return JobTable.listed(NAME, jobs, taken_at_secs, rejected)


def parse_queued_job(values: Mapping[str, str]) -> Job:
    """Return one job of the queue from its fields by name. Raises ParseError if one is malformed.

    A pending job has the CPUs, nodes and GPUs that it requests, any other job those allocated to it. The
    estimated start of a pending job becomes `planned_secs`; its estimated end is left out.
    """
    record = QueuedJob(values)
    state, task, wall = record.state, record.array_task_id, record.time_limit
    started = state.is_on_node or state.is_finished
    return Job(
        key=JobKey(NAME, record.job_id),
        **record.fields(Job),
        start_secs=record.start_time if started else None,
        planned_secs=record.start_time if state is JobState.PENDING else None,
        nodes=record.node_list or (),
        limits=Limits(wall_secs=wall, cpu_secs=multiplied(wall, record.total_cpus)),
        array_job_id=record.array if task is not None else None,
        tasks=count_tasks(task) if task is not None and state is JobState.PENDING else 1,
        is_held=state is JobState.PENDING and record.priority == 0,
    )
