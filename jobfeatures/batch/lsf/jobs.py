"""Converts records of ``bjobs -o … -json`` to jobs. Pure.

Fields: https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_command_ref/bjobs.o.1.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, tzinfo

from jobfeatures.batch.basics import limit_end_of_resumed, share_of
from jobfeatures.batch.keyedrecord import KeyedRecord, RecordKey, key, key_within
from jobfeatures.batch.lsf.answers import Record
from jobfeatures.batch.lsf.basics import NAME, NOTHING, make_id, parse_hosts, split_id
from jobfeatures.batch.lsf.limits import LimitRules
from jobfeatures.batch.lsf.values import parse_limit, parse_size, parse_state, parse_time
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures.records.quantities import parse_count

BJOBS = "bjobs"
_GPU_HOST = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,254}):([0-9:/,]{1,4096})\Z")
_RUN_TIME = re.compile(r"([0-9]{1,12}) second")
_GPU = re.compile(r"[0-9]{1,6}(?::[0-9]{1,6}/[0-9]{1,6})?\Z")  # or card:GPU instance/compute instance


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryContext:
    """What is needed, besides a record of bjobs, to convert it to a job.

    `now_secs` is the epoch time of the query; `node_name` is this node, None if the whole cluster was
    queried. `asked_by_host`: the query was for this host's jobs, so each job is here, whatever name LSF has
    for the host. `rules` say how to read limits; times are local to `tz`.
    """

    now_secs: float
    node_name: str | None = None  # None: queried for the whole cluster
    asked_by_host: bool = False  # every job is on this node, whatever name LSF has for it
    rules: LimitRules
    tz: tzinfo | None = UTC  # bjobs is asked for it


def _parse_time(job: PlainJob, text: str) -> int | None:
    return parse_time(text, now_secs=job.context.now_secs, tz=job.context.tz)


def _parse_start(job: PlainJob, text: str) -> int | None:
    return None if job.state is JobState.PENDING else _parse_time(job, text)


def _parse_run_time(text: str) -> int | None:
    match = _RUN_TIME.match(text)
    return None if match is None else int(match[1])


def _parse_end(job: PlainJob, text: str) -> int | None:
    return _parse_time(job, text) if job.state.is_finished else None  # else an estimate


class PlainJob(KeyedRecord):
    """The fields of a job that every LSF 10.1 prints, and that only LSF and its administrator write."""

    source = BJOBS
    nothing = NOTHING

    exit_reason = key(str, "EXIT_REASON")
    state: RecordKey[JobState] = RecordKey(
        lambda job, text: parse_state(text, job.exit_reason or ""), "STAT", is_within=True, is_required=True
    )
    reason = key(str, "STAT", when=lambda job: job.state is JobState.PENDING)
    user = key(str, "USER")
    partition = key(str, "QUEUE")
    slots = key(parse_hosts, "ALLOC_SLOT", "EXEC_HOST")
    requested_slots = key(parse_count, "NREQ_SLOT", when=lambda job: not job.slots)
    submit_secs = key_within(_parse_time, "SUBMIT_TIME")
    start_secs = key_within(_parse_start, "START_TIME")
    end_secs = key_within(_parse_end, "FINISH_TIME")
    run_limit = key(parse_limit, "RUNTIMELIMIT")
    memory_bytes = key_within(
        lambda job, text: parse_size(text, bare_unit=job.context.rules.unit), "MEMLIMIT"
    )

    def __init__(self, values: Record, context: QueryContext) -> None:
        self.context = context
        super().__init__(values)


class DetailedJob(PlainJob):
    """All fields of a job that bjobs is asked for, with those that users write or that some versions lack.

    If bjobs fails, it is asked only for the fields of `PlainJob` for a while.
    """

    name = key(str, "JOB_NAME")
    account = key(str, "PROJ_NAME")
    used_secs = key(_parse_run_time, "RUN_TIME")  # in state RUN alone, as the run limit counts
    local_gpus = key_within(lambda job, text: parse_gpus(text, job.context.node_name), "GPU_ALLOC")


PLAIN_FIELDS = ("jobid", "jobindex", *map(str.lower, PlainJob.names))
FURTHER_FIELDS = tuple(map(str.lower, DetailedJob.names[len(PlainJob.names) :]))


def parse_jobs(records: Iterable[Record], context: QueryContext) -> tuple[dict[JobKey, Job], list[Rejected]]:
    """Return the jobs in records of bjobs, and the malformed records.

    `context` has the time of the query, this node's name and the site's rules for limits. A malformed record
    with a valid id is also returned as a job, in state UNKNOWN.
    """
    jobs: dict[JobKey, Job] = {}
    rejected: list[Rejected] = []
    for record in records:
        try:
            job_key = key_of(record)
        except ParseError as error:
            rejected.append(Rejected.from_error(error.at(BJOBS, field="JOBID")))
            continue
        try:
            jobs[job_key] = parse_job(record, context, job_key)
        except ParseError as error:
            rejected.append(Rejected.from_error(error.at(BJOBS, about=f"job {job_key.job_id}")))
            jobs[job_key] = Job(key=job_key)
    return jobs, rejected


def key_of(record: Record) -> JobKey:
    """Return the key of a record's job. Raises ParseError if its id is malformed."""
    return JobKey(NAME, make_id(record.get("JOBID", ""), record.get("JOBINDEX", "")))


def parse_job(record: Record, context: QueryContext, job_key: JobKey | None = None) -> Job:
    """Return the job in a record of bjobs. Raises ParseError if malformed.

    Sample: ``{"JOBID":"7", "JOBINDEX":"0", "STAT":"RUN", "USER":"alice", "QUEUE":"normal",
    "EXEC_HOST":"4*n1:2*n2", "ALLOC_SLOT":"4*n1:2*n2", "NREQ_SLOT":"6", "SUBMIT_TIME":"Nov 21 12:30",
    "START_TIME":"Nov 21 12:31", "FINISH_TIME":"Nov 22 12:31 L", "RUNTIMELIMIT":"1440.0/n1", "MEMLIMIT":"8
    Gbytes", "EXIT_REASON":"-", "JOB_NAME":"ok", "PROJ_NAME":"physics", "RUN_TIME":"90
    second(s)"}``

    Slots count as CPUs. `job_key` is the job's key if known. FINISH_TIME is an estimate until the end. If a
    limit is missing, the queue's may apply.
    """
    job_key = job_key or key_of(record)
    array, index = split_id(job_key.job_id)
    found = DetailedJob(record, context)
    slots = found.slots or {}
    total = sum(slots.values()) or None
    share = share_of(slots, context.node_name)
    if share is None and context.asked_by_host and len(slots) == 1:
        share = total
    rules, gpus = context.rules, found.local_gpus or ()
    wall = rules.wall_limit(found.run_limit, found.partition)
    resumed = limit_end_of_resumed(found.start_secs, wall, found.used_secs, now_secs=context.now_secs)
    return Job(
        key=job_key,
        **found.fields(Job),
        nodes=tuple(slots),
        total_cpus=total if total is not None else found.requested_slots,
        total_nodes=len(slots) or None,
        allocated_cpus=share,
        limit_end_secs=resumed if found.state is JobState.RUNNING else None,
        ran_secs=found.used_secs if found.state is JobState.SUSPENDED else None,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=rules.cpu_limit(found.partition),
            memory_bytes=found.memory_bytes,
        ),
        array_job_id=array if index is not None else None,
        array_task_id=index,
        cpu_factor=rules.cpu_factor,
        gpus=gpus,
        allocated_gpus=len(gpus) or None,
    )


def parse_gpus(text: str, node_name: str | None) -> tuple[str, ...]:
    """Return the indices of this node's GPUs in ``n1:0,1,0,1;n2:0,1``; () for any other text.

    Each task has one index in the list. Tasks may share GPUs, so an index may be repeated. MIG instances are
    written ``n1:1:1/0,3:1/0``.
    """
    found: dict[str, None] = {}
    for part in text.split(";"):
        match = _GPU_HOST.match(part.strip())
        if match and share_of({match[1]: 1}, node_name):
            names = [name for name in match[2].split(",") if name]
            found.update(dict.fromkeys(names if all(map(_GPU.match, names)) else ()))
    return tuple(found)
