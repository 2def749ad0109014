"""Logs that ``sacct --json``, ``squeue --json`` or slurmrestd wrote, v0.0.37 to v0.0.43. Pure.

A log is one JSON object: it is read as a whole. What has a ``job_state`` is a
job of the queue, the others are of accounting and hold their steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from jobfeatures.accounting import AccountingRecord
from jobfeatures.batch.slurm.gpus import parse_tres_gpus
from jobfeatures.batch.slurm.jsonaccounting import parse_db_job, resources, version_of
from jobfeatures.batch.slurm.jsonjobs import parse_json_job
from jobfeatures.batch.slurm.jsonvalues import MEBIBYTE, JsonRecord, parse_document
from jobfeatures.batch.slurm.record import STATES
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblog import JobRecord, Number
from jobfeatures.model import JobState

BATCH_SYSTEM: Final = "slurm"
_WITHOUT_CPU_TIME: Final = frozenset({"v0.0.37", "v0.0.38"})  # of jobs: their steps have it
_META = re.compile(r'\s*\{\s*"meta"\s*:\s*\{.{0,2000}?"plugin"\s*:', re.DOTALL)
_JOBS = re.compile(
    r'\s*\{\s*"jobs"\s*:\s*\[\s*(?:\{.{0,3000}?"(?:job_id|accrue_time|allocation_nodes)"\s*:|\]\s*,)',
    re.DOTALL,
)


def recognise(head: str) -> bool:
    """Tell whether a text begins like Slurm's JSON: by its meta, or, in later versions, by a job."""
    return _META.match(head) is not None or _JOBS.match(head) is not None


def read_records(
    lines: Iterable[str], *, source: str, strict: bool = False
) -> Iterator[JobRecord | Rejected]:
    """Return the jobs, each with its steps behind it. Raises ParseError in strict reading."""
    try:
        document = parse_document("".join(lines), source=source)
    except ParseError as error:
        if strict:
            raise
        yield Rejected.from_error(error)
        return
    jobs = document.get("jobs")
    if not isinstance(jobs, list):
        missing = ParseError("no list of jobs", source=source, field="jobs")
        if strict:
            raise missing
        yield Rejected.from_error(missing)
        return
    version = version_of(document)
    requeued: dict[str, int] = {}
    for place, value in enumerate(jobs):
        record = JsonRecord(value if isinstance(value, Mapping) else {})
        found, bad = _read_job(record, version=version)
        for fault in bad:
            field = f"jobs[{place}].{fault.field}"
            told = ParseError(fault.reason, source=source, field=field, text=fault.text)
            if strict:
                raise told
            yield Rejected.from_error(told)
        for each in found:
            earlier = requeued.get(each.job_id)
            if each.step is None and each.state is JobState.PREEMPTED:
                requeued[each.job_id] = (earlier or 0) + 1
            yield replace(each, restarts=earlier) if earlier and each.restarts is None else each


def _read_job(record: JsonRecord, *, version: str) -> tuple[list[JobRecord], list[ParseError]]:
    try:
        if "job_state" in record.values:
            return [_of_queue(record)], []
        found, bad = parse_db_job(record, version=version)
        if not found:
            return [], bad
        steps = [
            _of_accounting(each, step, version=version)
            for each, step in zip(found[1:], _steps(record, found), strict=True)
        ]
        return [_folded(_of_accounting(found[0], record, version=version), steps), *steps], bad
    except ParseError as error:
        named = f"{error.reason} (job {str(record.get('job_id'))[:32]})"
        return [], [ParseError(named, field=error.field, text=error.text)]


def _steps(record: JsonRecord, found: list[AccountingRecord]) -> list[JsonRecord]:
    """Return the objects of the steps that could be read."""
    every = [JsonRecord(each) for each in record.get("steps") or () if isinstance(each, Mapping)]
    names = {each.step for each in found}
    kept = [each for each in every if str(each.get("step", "id")).rpartition(".")[2] in names]
    if len(kept) != len(found) - 1:
        raise ParseError("steps that cannot be told apart", field="steps")
    return kept


def _folded(job: JobRecord, steps: list[JobRecord]) -> JobRecord:
    """Return a job with what only its steps tell: the most memory of one, and CPU time in old versions."""
    memory = max((step.used_memory_bytes or 0 for step in steps), default=0)
    cpu: Number | None = job.used_cpu_secs
    if not cpu and job.state.is_finished and steps:
        cpu = round(sum(step.used_cpu_secs or 0 for step in steps), 6)
    return replace(job, used_memory_bytes=memory or None, used_cpu_secs=cpu)


def _of_accounting(entry: AccountingRecord, record: JsonRecord, *, version: str) -> JobRecord:
    state = JobState.PREEMPTED if entry.state == "REQUEUED" else STATES.get(entry.state, JobState.UNKNOWN)
    waits = state is JobState.PENDING
    given = resources(record, "tres", "allocated")
    wanted = resources(record, "tres", "requested") if not entry.step else {}
    status, signal = _exit(record.get("exit_code"), entry.exit_code)
    ran = bool(given.get("cpu")) or not state.is_finished
    cpus = given.get("cpu") or None
    used = _used_cpu_secs(record)
    return JobRecord(
        batch_system=BATCH_SYSTEM,
        job_id=entry.key.job_id,
        step=entry.step or None,
        state=state,
        name=entry.name,
        user=entry.user,
        group=record.text("group"),
        account=entry.account,
        partition=entry.partition,
        reservation=entry.reservation,
        priority=entry.priority,
        submit_secs=entry.submit_secs,
        eligible_secs=record.nonzero("time", "eligible"),
        start_secs=entry.start_secs if ran and not waits else None,
        end_secs=record.nonzero("time", "end") if state.is_finished else None,
        suspended_secs=entry.suspended_secs,
        restarts=record.count("restart_cnt"),
        exit_status=None if signal else status,
        exit_signal=signal,
        nodes=entry.nodes,
        total_nodes=given.get("node") or None,
        total_cpus=cpus,
        total_gpus=parse_tres_gpus(entry.allocated_resources or ""),
        requested_nodes=entry.requested_nodes,
        requested_cpus=entry.requested_cpus,
        requested_gpus=parse_tres_gpus(entry.requested_resources or ""),
        requested_memory_bytes=wanted["mem"] * MEBIBYTE if wanted.get("mem") else None,
        wall_limit_secs=entry.wall_limit_secs,
        used_cpu_secs=used
        if used or (state.is_finished and ran and version not in _WITHOUT_CPU_TIME)
        else None,
        used_memory_bytes=_used_memory(record) if entry.step else None,
        array_job_id=entry.array_job_id,
        array_task_id=None if entry.array_task_id is None else str(entry.array_task_id),
        het_job_id=entry.het_job_id,
        het_offset=entry.het_offset,
    )


def _used_cpu_secs(record: JsonRecord) -> Number | None:
    secs = record.count("time", "total", "seconds")
    micros = record.count("time", "total", "microseconds")
    return None if secs is None else round(secs + micros / 1e6, 6) if micros else secs


def _used_memory(record: JsonRecord) -> int | None:
    """Return the memory of all tasks of a step, else of the largest, None where nothing was measured."""
    for kind in ("total", "max"):
        found = resources(record, "tres", "requested", kind).get("mem")
        if found:
            return found
    return None


def _exit(code: Any, told: int | None) -> tuple[int | None, int | None]:
    """Return exit status and signal, of an object or, in the queue of old versions, of a wait status."""
    if not isinstance(code, Mapping):
        return told, None
    record = JsonRecord(code)
    signal = record.nonzero("signal", "id") or record.nonzero("signal", "signal_id")
    return told, signal


def _of_queue(record: JsonRecord) -> JobRecord:
    job = parse_json_job(record)
    waits = job.state is JobState.PENDING
    status = signal = None
    if job.state.is_finished:
        code = record.get("exit_code")
        if isinstance(code, Mapping):
            status, signal = _exit(code, record.count("exit_code", "return_code"))
        elif (raw := record.count("exit_code")) is not None:
            status, signal = raw >> 8 & 0xFF, raw & 0x7F or None
    per_cpu, per_node = record.mebibytes("memory_per_cpu"), record.mebibytes("memory_per_node")
    memory = None
    if per_cpu is not None:
        memory = per_cpu * job.total_cpus if job.total_cpus else None
    elif per_node is not None and job.total_nodes:
        memory = per_node * job.total_nodes
    wanted = parse_tres_gpus(record.text("tres_req_str") or "")
    return JobRecord(
        batch_system=BATCH_SYSTEM,
        job_id=job.key.job_id,
        state=job.state,
        name=job.name,
        user=job.user,
        uid=job.uid,
        group=record.text("group_name"),
        gid=record.count("group_id"),
        account=job.account,
        partition=job.partition,
        reservation=job.reservation,
        priority=job.priority,
        submit_secs=job.submit_secs,
        eligible_secs=job.eligible_secs,
        start_secs=job.start_secs,
        end_secs=job.end_secs,
        restarts=job.restarts,
        exit_status=None if signal else status,
        exit_signal=signal,
        nodes=job.nodes,
        total_nodes=None if waits else job.total_nodes,
        total_cpus=None if waits else job.total_cpus,
        total_gpus=job.total_gpus,
        requested_nodes=job.total_nodes if waits else None,
        requested_cpus=job.total_cpus if waits else None,
        requested_gpus=wanted,
        requested_memory_bytes=memory,
        wall_limit_secs=job.limits.wall_secs,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        het_job_id=job.het_job_id,
        het_offset=job.het_offset,
    )
