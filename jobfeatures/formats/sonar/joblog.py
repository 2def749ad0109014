"""Sonar's jobs documents ↔ the records that all log formats share: pure.

The format is made for Slurm: a job is a number, a state is one of Slurm's
words, memory is asked for by node. CPU time of a record is written as that of
the user, since the format has no place for the sum of both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any, Final

from jobfeatures.accounting import AccountingRecord
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sonar.documents import Document as Found
from jobfeatures.formats.sonar.documents import iterate_documents
from jobfeatures.formats.sonar.envelopes import Document, Origin
from jobfeatures.formats.sonar.fields import TAGS
from jobfeatures.formats.sonar.parsejobs import parse_resources, parse_slurm_job
from jobfeatures.formats.sonar.reader import KIB, Json, Reader
from jobfeatures.formats.sonar.records import SlurmJobRecord
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.formats.sonar.writejobs import job_fields, jobs_document
from jobfeatures.joblog import JobRecord, Lost
from jobfeatures.jobnumbers import JobNumbers, is_number
from jobfeatures.model import JobKey, JobState, Limit

BATCH_SYSTEM: Final = "slurm"
CLUSTER: Final = "converted"  # a log does not say where it is from
RECORDS_PER_DOCUMENT: Final = 1000
MAX_DOCUMENT_CHARACTERS: Final = 2**28

_HEAD = re.compile(r"[\s\ufeff]*\[?\s*\{")
_PRODUCER = re.compile(r'"producer"\s*:\s*"')
_TYPE = re.compile(r'"type"\s*:\s*"(\w+)"')
# What a record may hold and the format has no place for.
_HOMELESS: Final = (
    "uid", "gid", "group", "executable", "eligible_secs", "restarts", "exit_signal", "cpu_limit_secs",
    "preceding_job_id", "think_secs",
)  # fmt: skip


def recognise(head: str) -> bool:
    """Tell whether a text is made of Sonar's envelopes of jobs."""
    if not (_HEAD.match(head) and _PRODUCER.search(head)):
        return False
    return any(TAGS.get(tag) == "JobsAttributes" for tag in _TYPE.findall(head))


def read_records(
    lines: Iterable[str], *, source: str, strict: bool = False
) -> Iterator[JobRecord | Rejected]:
    """Return the jobs and steps of all envelopes, in their order; a job may be told of several times.

    An element that is wrong costs itself, anything else its envelope. Raises
    ParseError in strict reading.
    """
    for first, text in _chunks(lines):
        for document in iterate_documents(text):
            line = first + document.line - 1
            try:
                yield from _of_document(document, source, line, strict=strict)
            except ParseError as error:
                placed = ParseError(
                    error.reason, source=source, line=line, field=error.field, text=error.text
                )
                if strict:
                    raise placed from None
                yield Rejected.from_error(placed)


def _chunks(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Return the text of one document after the other, with the number of its first line.

    A line that begins with a brace begins a document, unless all are in one array.
    """
    first, gathered, size = 1, list[str](), 0
    is_array = False
    for number, line in enumerate(lines, 1):
        if line.startswith("{") and gathered and not is_array:
            yield first, "".join(gathered)
            first, gathered, size = number, [], 0
        if not gathered:
            if line.isspace():
                continue
            first, is_array = number, line.lstrip("\ufeff \t").startswith("[")
        size += len(line)
        if size > MAX_DOCUMENT_CHARACTERS:
            raise ParseError(f"document of more than {MAX_DOCUMENT_CHARACTERS} characters", line=first)
        gathered.append(line)
    if gathered:
        yield first, "".join(gathered)


def _of_document(found: Found, source: str, line: int, *, strict: bool) -> Iterator[JobRecord | Rejected]:
    """Return what one envelope says. Raises ParseError where it says nothing of jobs, or nothing at all."""
    if found.reason:
        raise ParseError(found.reason)
    document = found.value
    rejected: dict[str, Rejected] = {}
    for fault in validate_envelope(document, strict=False):
        if strict or not fault.record:
            raise ParseError(fault.reason, field=fault.path or "envelope", text=fault.text)
        told = f"{fault.reason}: {fault.text}" if fault.text else fault.reason
        rejected.setdefault(fault.record, Rejected(source, told, line, fault.path))
    assert isinstance(document, dict)  # noqa: S101  # it is valid
    data: Json = document.get("data") or {}
    if TAGS.get(data.get("type", "")) != "JobsAttributes":
        raise ParseError("not a document of jobs", field="data.type", text=str(data.get("type", "")))
    meta: Json = document.get("meta") or {}
    reader = Reader(rejected, meta.get("producer") or "", meta.get("version") or "")
    for job, _ in reader.items(data["attributes"], "slurm_jobs", "data.attributes"):
        yield make_record(job, reader)
    yield from reader.rejected


def make_record(raw: Json, reader: Reader) -> JobRecord:
    """Return the record of one element. Raises ParseError where too many nodes are named."""
    found: SlurmJobRecord = parse_slurm_job(raw, reader)
    sacct: Json = raw.get("sacct") or {}
    job, limits = found.job, found.job.limits
    allocated = found.allocated or parse_resources(sacct.get("AllocTRES") or "")
    nodes = len(job.nodes) or _number(allocated, "node")
    per_node = limits.memory_bytes
    share = found.node_count or nodes
    used = [sacct[name] for name in ("UserCPU", "SystemCPU") if sacct.get(name) is not None]
    return JobRecord(
        batch_system=BATCH_SYSTEM,
        job_id=job.key.job_id,
        step=found.step or None,
        state=job.state,
        name=job.name,
        user=job.user,
        account=job.account,
        partition=job.partition,
        reservation=job.reservation,
        priority=job.priority,
        submit_secs=job.submit_secs,
        start_secs=job.start_secs,
        end_secs=job.end_secs,
        suspended_secs=raw.get("suspend_time") or None,
        exit_status=raw.get("exit_code"),
        nodes=job.nodes,
        total_nodes=nodes or None,
        total_cpus=_number(allocated, "cpu"),
        total_gpus=_number(allocated, "gres/gpu"),
        requested_nodes=found.node_count,
        requested_cpus=raw.get("requested_cpus") or None,
        requested_gpus=_number(found.requested, "gres/gpu"),
        requested_memory_bytes=per_node * share if isinstance(per_node, int) and share else None,
        wall_limit_secs=limits.wall_secs,
        used_cpu_secs=sum(used) if used else None,
        used_memory_bytes=(sacct.get("MaxRSS") or 0) * KIB or None,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        het_job_id=job.het_job_id,
        het_offset=job.het_offset,
    )


def _number(resources: Any, name: str) -> int | None:
    text = resources.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def write_records(records: Iterable[JobRecord], lost: Lost) -> Iterator[str]:
    """Return one envelope a line, each with up to 1,000 jobs and steps. Times are in UTC.

    A job whose id is no number gets one beyond Slurm's, and its id is lost. A
    job of unknown state has no place.
    """
    origin = Origin(cluster=CLUSTER, node="", zone=UTC)
    ids = JobNumbers()
    batch: list[Document] = []
    latest: float = 0
    for record in records:
        if record.state is JobState.UNKNOWN:
            lost("job of unknown state")
            continue
        try:
            batch.append(job_fields(origin, to_accounting(record, ids, lost)))
        except ParseError:
            lost("job on nodes without a host's name")
            continue
        latest = max(latest, record.end_secs or 0, record.start_secs or 0, record.submit_secs or 0)
        if len(batch) == RECORDS_PER_DOCUMENT:
            yield json.dumps(jobs_document(origin, batch, latest))
            batch = []
    if batch:
        yield json.dumps(jobs_document(origin, batch, latest))


def to_accounting(record: JobRecord, ids: JobNumbers, lost: Lost) -> AccountingRecord:
    """Return a record in the terms of Slurm's accounting; tell what it has no place for."""
    for name in _HOMELESS:
        if getattr(record, name) is not None:
            lost(name)
    number, kept = ids.number(record.job_id)
    if not kept:
        lost("job_id")
    if record.queue is not None and record.partition is not None:
        lost("queue")
    return AccountingRecord(
        key=JobKey(BATCH_SYSTEM, str(number)),
        step=record.step or "",
        name=record.name or "",
        state=record.state.value,
        array_job_id=_kept(record, "array_job_id", lost),
        array_task_id=_digits(record.array_task_id, "array_task_id", lost),
        het_job_id=_kept(record, "het_job_id", lost),
        het_offset=_count(record, "het_offset", lost),
        user=record.user,
        account=record.account,
        partition=record.partition or record.queue,
        reservation=record.reservation,
        nodes=record.nodes,
        submit_secs=_secs(record, "submit_secs", lost),
        start_secs=_secs(record, "start_secs", lost),
        end_secs=_secs(record, "end_secs", lost),
        wall_limit_secs=record.wall_limit_secs,
        priority=_count(record, "priority", lost),
        requested_cpus=_count(record, "requested_cpus", lost),
        requested_nodes=_count(record, "requested_nodes", lost),
        requested_memory_per_node_bytes=_per_node(record, lost),
        requested_resources=_resources(("gres/gpu", record.requested_gpus)),
        allocated_resources=_resources(
            ("cpu", record.total_cpus), ("node", record.total_nodes), ("gres/gpu", record.total_gpus)
        ),
        suspended_secs=_secs(record, "suspended_secs", lost),
        exit_code=_count(record, "exit_status", lost),
        user_cpu_secs=_secs(record, "used_cpu_secs", lost),
        max_resident_bytes=_count(record, "used_memory_bytes", lost),
    )


def _secs(record: JobRecord, name: str, lost: Lost) -> int | None:
    """Return whole seconds."""
    value: float | None = getattr(record, name)
    if value is None:
        return None
    if value < 0:
        lost(name)
        return None
    if value != int(value):
        lost(f"{name}: fractions")
    return int(value)


def _count(record: JobRecord, name: str, lost: Lost) -> int | None:
    """Return a number that is not negative."""
    value: int | None = getattr(record, name)
    if value is None or value >= 0:
        return value
    lost(name)
    return None


def _digits(text: str | None, name: str, lost: Lost) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 11:
        return int(text)
    lost(name)
    return None


def _kept(record: JobRecord, name: str, lost: Lost) -> str | None:
    text: str | None = getattr(record, name)
    if text is None or is_number(text):
        return text
    lost(name)
    return None


def _per_node(record: JobRecord, lost: Lost) -> int | None:
    """Return the memory that was asked for, by node; a limit that does not exist has no place."""
    size: Limit = record.requested_memory_bytes
    nodes = record.requested_nodes or record.total_nodes or len(record.nodes)
    if isinstance(size, int) and nodes:
        return -(-size // (nodes * KIB)) * KIB  # whole KiB: not told smaller than it was
    if size is not None:
        lost("requested_memory_bytes")
    return None


def _resources(*amounts: tuple[str, int | None]) -> str | None:
    """Return what Slurm writes for amounts of resources."""
    return ",".join(f"{name}={amount}" for name, amount in amounts if amount is not None) or None
