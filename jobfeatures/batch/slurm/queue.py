"""The queue as ``squeue`` prints it: text to jobs. Pure.

The field names are those of squeue(1) ``--Format``. They are passed in ``SQUEUE_FORMAT2``, not on the command
line, where every user of the machine could read the separator.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.batch.slurm.basics import NAME, checked_id
from jobfeatures.batch.slurm.fields import SlurmRecord, count_tasks, reason_word, split_closed
from jobfeatures.batch.slurm.gpus import parse_tres_gpus
from jobfeatures.batch.slurm.record import STATES
from jobfeatures.errors import Rejected, parse_each
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limits, multiplied

QUEUE_SOURCE = "squeue"
QUEUE_FIELDS = (
    *("JobID", "ArrayJobID", "ArrayTaskID", "HetJobID", "HetJobOffset", "UserName", "UserID", "Account"),
    *("Partition", "State", "Reason", "TimeLimit", "NumCPUs", "NumNodes", "NodeList", "StartTime", "EndTime"),
    *("SubmitTime", "EligibleTime", "PriorityLong", "tres-alloc", "RestartCnt", "Reservation", "Name"),
)


def queue_format(separator: str) -> str:
    """Return the value of ``SQUEUE_FORMAT2`` that puts the separator after every field."""
    return ",".join(f"{field}:{separator}" for field in QUEUE_FIELDS)


def parse_queue(text: str, separator: str, *, taken_at_secs: float) -> JobTable:
    """Parse the output of ``squeue -a -h -t all`` with `queue_format`, times as epoch seconds.

    A pending array is one job with several `tasks`. The table is complete unless a record was malformed: a
    job missing from it has ended, or was submitted later. Raises ParseError where the output is truncated.
    """
    rejected: list[Rejected] = []
    answer = split_closed(text, separator, QUEUE_FIELDS, source=QUEUE_SOURCE)
    made = parse_each(
        parse_queued_job, answer, rejected, QUEUE_SOURCE, lambda values: f"job {values['JobID'][:32]}"
    )
    jobs = {job.key: job for job in made}
    return JobTable.listed(NAME, jobs, taken_at_secs, rejected)


def parse_queued_job(values: Mapping[str, str]) -> Job:
    """Parse one job of the queue; raises ParseError.

    CPUs, nodes and GPUs are requested ones of a pending job, allocated ones of any other. The estimated start
    of a pending job becomes `planned_secs`; its end is left out.
    """
    record = SlurmRecord(values)
    job_id = checked_id(values["JobID"], field="JobID")
    state = STATES.get(values["State"], JobState.UNKNOWN)
    task = record.text("ArrayTaskID")
    cpus = record.scaled("NumCPUs")
    wall = record.time_limit("TimeLimit")
    priority = record.count("PriorityLong")
    started = state.is_on_node or state.is_finished
    return Job(
        key=JobKey(NAME, job_id),
        state=state,
        name=values["Name"],
        user=record.text("UserName"),
        uid=record.uid("UserID"),
        account=record.text("Account"),
        partition=record.text("Partition"),
        submit_secs=record.count("SubmitTime"),
        eligible_secs=record.count("EligibleTime"),
        start_secs=record.count("StartTime") if started else None,
        planned_secs=record.count("StartTime") if state is JobState.PENDING else None,
        end_secs=record.count("EndTime") if state.is_finished else None,
        nodes=record.nodes("NodeList"),
        total_cpus=cpus,
        total_nodes=record.scaled("NumNodes"),
        total_gpus=parse_tres_gpus(values["tres-alloc"]),
        limits=Limits(wall_secs=wall, cpu_secs=multiplied(wall, cpus)),
        array_job_id=record.text("ArrayJobID") if task is not None else None,
        array_task_id=task,
        het_job_id=record.text("HetJobID"),
        het_offset=record.count("HetJobOffset"),
        restarts=record.count("RestartCnt"),
        tasks=count_tasks(task) if task is not None and state is JobState.PENDING else 1,
        reason=reason_word(record.text("Reason")),
        is_held=state is JobState.PENDING and priority == 0,
        priority=priority,
        reservation=record.text("Reservation"),
    )
