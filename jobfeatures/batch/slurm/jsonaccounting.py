"""Accounting of ``sacct --json`` and slurmrestd's ``/slurmdb/VERSION/jobs``, v0.0.37 to v0.0.43. Pure.

Jobs hold their steps. CPU time of a step's tasks is in milliseconds, memory
and files in bytes; what a job requests and is given is a list of trackable
resources, memory in MiB. Source: https://slurm.schedmd.com/rest_api.html

v0.0.37 and v0.0.38 (of Slurm 21.08 to 22.05) tell an exit code of 0 for jobs
that failed, no CPU time of a job but of its steps alone, and slurmrestd an end
for jobs that run; in v0.0.37 a job's start is the time since when it was eligible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobfeatures.accounting import Accounting, AccountingRecord
from jobfeatures.batch.slurm.basics import NAME, is_plain_id
from jobfeatures.batch.slurm.jsonvalues import MEBIBYTE, JsonRecord, parse_number
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.model import JobKey, Limit

_STEP = re.compile(r"(?:[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,10})?\.)?([A-Za-z0-9_+-]{1,64})\Z")
_ALIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING"})
_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+")
_OLD = frozenset({"v0.0.37", "v0.0.38"})
_WITHOUT_START = "v0.0.37"


def parse_json_accounting(document: JsonRecord, *, source: str, taken_at_secs: float) -> Accounting:
    """Return the records of an answer; a bad job or step costs itself only.

    Raises ParseError where there is no list of jobs.
    """
    records: list[AccountingRecord] = []
    rejected: list[Rejected] = []
    values = document.get("jobs")
    if not isinstance(values, list):
        raise ParseError("no list of jobs", source=source, field="jobs")
    version = version_of(document)
    for value in values:
        found, bad = parse_db_job(JsonRecord(value if isinstance(value, Mapping) else {}), version=version)
        records += found
        rejected += [Rejected(source, error.reason, 0, error.field, error.text) for error in bad]
    return Accounting(
        source=NAME, records=tuple(records), taken_at_secs=taken_at_secs, rejected=tuple(rejected)
    )


def version_of(document: JsonRecord) -> str:
    """Return the version that an answer is of, such as ``v0.0.40``; empty where it does not tell."""
    for name in ("data_parser", "type"):
        match = _VERSION.search(document.raw_text("meta", "plugin", name) or "")
        if match is not None:
            return match[0]
    return ""


def parse_db_job(record: JsonRecord, *, version: str = "") -> tuple[list[AccountingRecord], list[ParseError]]:
    """Return a job and its steps, the job first, and what was wrong with those left out; never raises."""
    try:
        job = _parse_job(record, version=version)
    except ParseError as error:
        named = f"{error.reason} (job {str(record.get('job_id'))[:32]})"
        return [], [ParseError(named, field=error.field, text=error.text)]
    found: list[AccountingRecord] = [job]
    bad: list[ParseError] = []
    steps = record.get("steps")
    for value in steps if isinstance(steps, list) else ():
        try:
            found.append(
                _parse_step(JsonRecord(value if isinstance(value, Mapping) else {}), job, version=version)
            )
        except ParseError as error:
            bad.append(
                ParseError(
                    f"{error.reason} (a step of job {job.key.job_id})", field=error.field, text=error.text
                )
            )
    if version == _WITHOUT_START:
        job = replace(job, start_secs=_real_start(job, found[1:]))
    found[0] = _with_cpu_time(job, found[1:])
    return found, bad


def _real_start(job: AccountingRecord, steps: list[AccountingRecord]) -> int | None:
    """Return when a job started, where ``start`` says since when it was eligible."""
    starts = [step.start_secs for step in steps if step.start_secs is not None]
    if starts:
        return min(starts)
    if job.end_secs is None or not job.elapsed_secs:
        return None
    return job.end_secs - job.elapsed_secs - (job.suspended_secs or 0)


def _with_cpu_time(job: AccountingRecord, steps: list[AccountingRecord]) -> AccountingRecord:
    """Return a job with the CPU time of its steps where its own is told as 0."""
    if job.user_cpu_secs or job.system_cpu_secs or not steps:
        return job
    return replace(
        job,
        user_cpu_secs=sum(step.user_cpu_secs or 0 for step in steps),
        system_cpu_secs=sum(step.system_cpu_secs or 0 for step in steps),
    )


def _parse_job(record: JsonRecord, *, version: str) -> AccountingRecord:
    job_id = str(record.count("job_id"))
    if not is_plain_id(job_id):
        raise ParseError("not a job id", field="job_id", text=job_id)
    state = db_state(record, "state", "current")
    array = record.nonzero("array", "job_id")
    het = record.nonzero("het", "job_id")
    requested = resources(record, "tres", "requested")
    memory, nodes = requested.get("mem"), requested.get("node")
    return AccountingRecord(
        key=JobKey(NAME, job_id),
        name=record.raw_text("name") or "",
        state=state,
        array_job_id=None if array is None else str(array),
        array_task_id=None if array is None else record.count("array", "task_id"),
        het_job_id=None if het is None else str(het),
        het_offset=None if het is None else record.count("het", "job_offset"),
        user=record.text("association", "user") or record.text("user"),
        account=record.text("account"),
        partition=record.text("partition"),
        reservation=_reservation(record),
        nodes=record.nodes("nodes"),
        submit_secs=record.nonzero("time", "submission"),
        start_secs=record.nonzero("time", "start"),
        end_secs=None if state in _ALIVE else record.nonzero("time", "end"),
        wall_limit_secs=_limit(record),
        priority=record.count("priority"),
        requested_cpus=record.nonzero("required", "CPUs") or requested.get("cpu"),
        requested_nodes=nodes,
        requested_memory_per_node_bytes=memory * MEBIBYTE // nodes if memory and nodes else None,
        requested_resources=format_resources(record, "tres", "requested"),
        allocated_resources=format_resources(record, "tres", "allocated"),
        suspended_secs=record.count("time", "suspended"),
        exit_code=_exit_code(record, state, version=version),
        elapsed_secs=record.count("time", "elapsed"),
        user_cpu_secs=record.count("time", "user", "seconds"),
        system_cpu_secs=record.count("time", "system", "seconds"),
    )


def _parse_step(record: JsonRecord, job: AccountingRecord, *, version: str) -> AccountingRecord:
    step = record.get("step", "id")
    match = _STEP.match(step if isinstance(step, str) else str(record.count("step", "id")))
    if match is None:
        raise ParseError("not a step", field="step.id", text=str(step)[:80])
    state = db_state(record, "state")
    most, least, mean = (resources(record, "tres", "requested", each) for each in ("max", "min", "average"))
    written = resources(record, "tres", "consumed", "average")
    given = resources(record, "tres", "allocated")
    return AccountingRecord(
        key=job.key,
        step=match[1],
        name=record.raw_text("step", "name") or "",
        state=state,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        het_job_id=job.het_job_id,
        het_offset=job.het_offset,
        account=job.account,
        nodes=record.nodes("nodes", "range"),
        submit_secs=record.nonzero("time", "start"),
        start_secs=record.nonzero("time", "start"),
        end_secs=None if state in _ALIVE else record.nonzero("time", "end"),
        distribution=record.text("task", "distribution"),
        requested_cpus=given.get("cpu"),
        requested_nodes=given.get("node"),
        allocated_resources=format_resources(record, "tres", "allocated"),
        suspended_secs=record.count("time", "suspended"),
        exit_code=_exit_code(record, state, version=version),
        elapsed_secs=record.count("time", "elapsed"),
        user_cpu_secs=record.count("time", "user", "seconds"),
        system_cpu_secs=record.count("time", "system", "seconds"),
        min_cpu_secs=_whole_secs(least.get("cpu")),
        average_cpu_secs=_whole_secs(mean.get("cpu")),
        average_read_bytes=mean.get("fs/disk"),
        average_written_bytes=written.get("fs/disk"),
        average_resident_bytes=mean.get("mem"),
        average_virtual_bytes=mean.get("vmem"),
        max_resident_bytes=most.get("mem"),
        max_virtual_bytes=most.get("vmem"),
    )


def db_state(record: JsonRecord, *path: str) -> str:
    """Return the base state: a text, or the first word of a list. Raises ParseError."""
    words = record.words(*path)
    word = words[0].partition(" ")[0] if words else ""
    if not re.fullmatch(r"[A-Z_]{1,40}", word):
        raise ParseError("not a state", field=".".join(path), text=" ".join(words))
    return word


def resources(record: JsonRecord, *path: str) -> dict[str, int]:
    """Return a list of trackable resources by name: ``cpu``, ``mem``, ``fs/disk``, ``gres/gpu``."""
    return {
        name: number
        for each in record.records(*path)
        if isinstance(number := parse_number(each.get("count"), f"{path[-1]}.count"), int)
        and (name := _resource(each)) is not None
    }


def _resource(record: JsonRecord) -> str | None:
    kind, name = record.text("type"), record.text("name")
    return f"{kind}/{name}" if kind and name else kind


def format_resources(record: JsonRecord, *path: str) -> str | None:
    """Return a list of resources as sacct writes it: ``cpu=2,mem=200M,node=1``."""
    parts = [
        f"{name}={number}{'M' if name == 'mem' else ''}" for name, number in resources(record, *path).items()
    ]
    return ",".join(parts) or None


def _whole_secs(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds // 1000


def _reservation(record: JsonRecord) -> str | None:
    name: Any = record.get("reservation", "name")
    return record.text("reservation", "name") if isinstance(name, str) else None  # 0: none


def _limit(record: JsonRecord) -> Limit:
    minutes = record.number("time", "limit")
    return (minutes * 60 or None) if isinstance(minutes, int) else minutes  # 0: it was not recorded


def _exit_code(record: JsonRecord, state: str, *, version: str) -> int | None:
    if state in _ALIVE:
        return None
    if version in _OLD:
        return 0 if state == "COMPLETED" else None
    return record.count("exit_code", "return_code")
