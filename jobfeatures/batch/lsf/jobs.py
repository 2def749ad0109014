"""Converts records of ``bjobs -o … -json`` to jobs. Pure.

Fields: https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_command_ref/bjobs.o.1.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, tzinfo

from jobfeatures.batch.basics import share_of
from jobfeatures.batch.lsf.answers import Record, count_of, text_of
from jobfeatures.batch.lsf.basics import NAME, make_id, parse_hosts, split_id
from jobfeatures.batch.lsf.limits import Rules
from jobfeatures.batch.lsf.values import parse_limit, parse_size, parse_state, parse_time
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobKey, JobState, Limits

BJOBS = "bjobs"
# Written only by LSF and its administrator; available in every version of 10.1.
PLAIN_FIELDS = (
    *("jobid", "jobindex", "stat", "user", "queue", "exec_host", "alloc_slot", "nreq_slot", "submit_time"),
    *("start_time", "finish_time", "runtimelimit", "memlimit", "exit_reason"),
)
# Written by users, or missing from some versions of 10.1: requested until a query with them fails.
FURTHER_FIELDS = ("job_name", "proj_name", "gpu_alloc")

_GPU_HOST = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,254}):([0-9:/,]{1,4096})\Z")
_GPU = re.compile(r"[0-9]{1,6}(?::[0-9]{1,6}/[0-9]{1,6})?\Z")  # or card:GPU instance/compute instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The context for parsing a record: when and where it was queried, and the site's rules."""

    now_secs: float
    node_name: str | None = None  # None: queried for the whole cluster
    asked_by_host: bool = False  # every job is on this node, whatever name LSF has for it
    rules: Rules
    tz: tzinfo | None = UTC  # bjobs is asked for it


def parse_jobs(records: Iterable[Record], around: Circumstances) -> tuple[dict[JobKey, Job], list[Rejected]]:
    """Return jobs and bad records; a bad record with a readable id is also a job in state UNKNOWN."""
    jobs: dict[JobKey, Job] = {}
    rejected: list[Rejected] = []
    for record in records:
        try:
            key = key_of(record)
        except ParseError as error:
            rejected.append(Rejected.from_error(error.at(BJOBS, field="JOBID")))
            continue
        try:
            jobs[key] = parse_job(record, around)
        except ParseError as error:
            rejected.append(Rejected.from_error(error.at(BJOBS, about=f"job {key.job_id}")))
            jobs[key] = Job(key=key)
    return jobs, rejected


def key_of(record: Record) -> JobKey:
    """Return the key of a record's job. Raises ParseError."""
    return JobKey(NAME, make_id(record.get("JOBID", ""), record.get("JOBINDEX", "")))


def parse_job(record: Record, around: Circumstances) -> Job:
    """Return one job; raises ParseError.

    Sample: ``{"JOBID":"7", "JOBINDEX":"0", "STAT":"RUN", "USER":"alice", "QUEUE":"normal",
    "EXEC_HOST":"4*n1:2*n2", "ALLOC_SLOT":"4*n1:2*n2", "NREQ_SLOT":"6", "SUBMIT_TIME":"Nov 21 12:30",
    "START_TIME":"Nov 21 12:31", "FINISH_TIME":"Nov 22 12:31 L", "RUNTIMELIMIT":"1440.0/n1",
    "MEMLIMIT":"8 Gbytes", "EXIT_REASON":"-", "JOB_NAME":"ok", "PROJ_NAME":"physics"}``

    Slots count as CPUs. FINISH_TIME is an estimate until the job has ended. If a limit is missing, the
    queue's may apply. SWAPLIMIT is not requested, as it limits virtual memory.
    """
    key = key_of(record)
    array, index = split_id(key.job_id)
    state = parse_state(record.get("STAT", ""), record.get("EXIT_REASON", ""))
    slots = parse_hosts(record.get("ALLOC_SLOT", ""), field="ALLOC_SLOT")
    slots = slots or parse_hosts(record.get("EXEC_HOST", ""), field="EXEC_HOST")
    total = sum(slots.values()) or None
    share = share_of(slots, around.node_name)
    if share is None and around.asked_by_host and len(slots) == 1:
        share = total
    finished = state.is_finished
    gpus = parse_gpus(record.get("GPU_ALLOC", ""), around.node_name)
    rules = around.rules
    queue = text_of(record, "QUEUE")
    return Job(
        key=key,
        state=state,
        name=text_of(record, "JOB_NAME"),
        user=text_of(record, "USER"),
        account=text_of(record, "PROJ_NAME"),
        partition=queue,
        submit_secs=_time(record, "SUBMIT_TIME", around),
        start_secs=None if state is JobState.PENDING else _time(record, "START_TIME", around),
        end_secs=_time(record, "FINISH_TIME", around) if finished else None,
        nodes=tuple(slots),
        total_cpus=total if total is not None else count_of(record, "NREQ_SLOT"),
        total_nodes=len(slots) or None,
        allocated_cpus=share,
        limits=Limits(
            wall_secs=rules.wall_limit(
                parse_limit(record.get("RUNTIMELIMIT", ""), field="RUNTIMELIMIT"), queue
            ),
            cpu_secs=rules.cpu_limit(queue),
            memory_bytes=parse_size(record.get("MEMLIMIT", ""), field="MEMLIMIT", bare_unit=rules.unit),
        ),
        array_job_id=array if index is not None else None,
        array_task_id=index,
        cpu_factor=rules.cpu_factor,
        gpus=gpus,
        allocated_gpus=len(gpus) or None,
        reason=record["STAT"] if state is JobState.PENDING else None,
    )


def _time(record: Record, field: str, around: Circumstances) -> int | None:
    return parse_time(record.get(field, ""), now_secs=around.now_secs, tz=around.tz, field=field)


def parse_gpus(text: str, node_name: str | None) -> tuple[str, ...]:
    """Return this node's GPUs in ``n1:0,1,0,1;n2:0,1``, a number per task; none for any other text.

    Tasks may share GPUs, so that a number may repeat. MIG instances are ``n1:1:1/0,3:1/0``.
    """
    found: dict[str, None] = {}
    for part in text.split(";"):
        match = _GPU_HOST.match(part.strip())
        if match and share_of({match[1]: 1}, node_name):
            names = [name for name in match[2].split(",") if name]
            found.update(dict.fromkeys(names if all(map(_GPU.match, names)) else ()))
    return tuple(found)
