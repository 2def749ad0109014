"""Converts Sonar's documents of jobs to the records that all log formats share, and back. Pure.

The format is made for Slurm: job ids are numbers, states are Slurm's, memory is requested per node. If only
the total CPU time of a record is known, it is written as user CPU time, because the format has no field for
the total.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC
from functools import partial
from typing import Any, Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sonar.documents import SonarDocument as Found
from jobfeatures.formats.sonar.documents import iterate_documents
from jobfeatures.formats.sonar.envelopes import Document, Origin
from jobfeatures.formats.sonar.fields import TAGS
from jobfeatures.formats.sonar.parsejobs import SlurmJobRecord, count_of, parse_resources, parse_slurm_job
from jobfeatures.formats.sonar.reader import KIB, SONAR, Json, Reader, read_envelope, secs_of
from jobfeatures.formats.sonar.validate import Fault
from jobfeatures.formats.sonar.writejobs import (
    job_fields,
    jobs_document,
    resources_text,
)
from jobfeatures.joblogs.jobnumbers import JobNumbers, is_number
from jobfeatures.joblogs.loggedjob import JobRecord, Lost, Notes, Number, PartialReport, pairs, record_of
from jobfeatures.joblogs.nottaken import TrackingDict, count_not_taken
from jobfeatures.records.model import JobState

BATCH_SYSTEM: Final = "slurm"
CLUSTER: Final = "converted"  # a log does not name its cluster
RECORDS_PER_DOCUMENT: Final = 1000
MAX_DOCUMENT_CHARACTERS: Final = 2**28

_OPTIONAL: Final = re.compile(r"data\.attributes\.slurm_jobs\[([0-9]+)\]\.((?:sacct\.)?\w+)(?:\[[0-9]+\])?")
# A job without these is rejected; any other value may be unknown.
_NEEDED: Final = frozenset(
    {
        *("job_id", "job_step", "job_state", "submit_time", "start_time", "end_time", "nodes", "sacct"),
        *("allocated_resources", "sacct.AllocTRES"),
    }
)
_PARTS: Final = {"REQUEUED": JobState.PREEMPTED, "RESIZING": JobState.UNKNOWN}
_COUNTED: Final = frozenset({"cpu", "node", "gres/gpu"})  # trackable resources that records hold
_UNSET_AT_ZERO: Final = frozenset(
    {
        *("time_limit", "priority", "requested_cpus", "requested_memory_per_node", "requested_node_count"),
        *("array_job_id", "het_job_id"),
    }
)
_HEAD = re.compile(r"[\s\ufeff]*+\[?+\s*+\{")
_PRODUCER = re.compile(r'"producer"\s*:\s*"')
_TYPE = re.compile(r'"type"\s*:\s*"(\w+)"')
# The fields of a record that the format cannot hold.
_HOMELESS: Final = (
    "uid", "gid", "group", "executable", "eligible_secs", "restarts", "exit_signal", "cpu_limit_secs",
    "preceding_job_id", "think_secs", "qos", "is_interactive", "energy_joules",
    "workflow_id",
)  # fmt: skip
_TIMES: Final = ("submit_secs", "start_secs", "end_secs", "run_secs", "suspended_secs", "used_cpu_secs")
_COUNTS: Final = (
    *("het_offset", "priority", "requested_cpus", "requested_nodes", "exit_status", "used_memory_bytes"),
    *("total_cpus", "total_nodes", "total_gpus", "requested_gpus"),
)
_TEXTS: Final = ("distribution", "requested_resources", "allocated_resources")
_HALVES: Final = frozenset({"UserCPU", "SystemCPU"})  # of a job's CPU time
UNTOLD: Final = (
    "a step without UserCPU and SystemCPU, but with AveCPU: its job's are without it"  # Slurm 25.05
)
_SECS: Final = {"min_cpu_secs": "MinCPU", "average_cpu_secs": "AveCPU"}
_TRAFFIC: Final = {"average_read_bytes": "AveDiskRead", "average_written_bytes": "AveDiskWrite"}
_SIZES: Final = {
    **_TRAFFIC,
    "average_resident_bytes": "AveRSS",
    "average_virtual_bytes": "AveVMSize",
    "max_virtual_bytes": "MaxVMSize",
}


def recognise(head: str) -> bool:
    """Return whether a text consists of Sonar's job envelopes."""
    if not (_HEAD.match(head) and _PRODUCER.search(head)):
        return False
    return any(TAGS.get(tag) == "JobsAttributes" for tag in _TYPE.findall(head))


def read_records(
    lines: Iterable[str], *, source: str, notes: Notes, strict: bool = False
) -> Iterator[JobRecord | Rejected]:
    """Yield the jobs and job steps of all envelopes, in order; a job may be reported several times.

    A faulty array element is rejected alone; any other fault rejects its whole envelope. `notes` counts
    values that are ignored or unreadable. If `strict`, ParseError is raised at the first fault.
    """
    for first, text in _chunks(lines):
        for document in iterate_documents(text):
            line = first + document.line - 1
            try:
                yield from _of_document(document, source, line, strict=strict, notes=notes)
            except ParseError as error:
                if strict:
                    raise error.at(source, line) from None
                yield Rejected.from_error(error.at(source, line))


def _chunks(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the text of each document, with the number of its first line.

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
            raise ParseError(f"the document is longer than {MAX_DOCUMENT_CHARACTERS} characters", line=first)
        gathered.append(line)
    if gathered:
        yield first, "".join(gathered)


def _of_document(
    found: Found, source: str, line: int, *, strict: bool, notes: Notes
) -> Iterator[JobRecord | Rejected]:
    """Yield the records of one envelope. Raises ParseError if it is unreadable or not a jobs document."""
    if found.reason:
        raise ParseError(found.reason)

    def is_mended(fault: Fault) -> bool:
        match = _OPTIONAL.fullmatch(fault.path)
        if match is None or match[2] in _NEEDED:
            return False
        job = found.value["data"]["attributes"]["slurm_jobs"][int(match[1])]
        *outer, name = match[2].split(".")
        place = job[outer[0]] if outer else job
        value = place.pop(name, None)
        if value is not None:
            notes.count_unread(match[2], str(value))
        for other in _HALVES - {name} if name in _HALVES else ():  # alone it would be taken for the whole
            if place.pop(other, None) is not None:
                notes.not_taken[other] += 1
        return value is not None

    envelope, reader = read_envelope(
        found.value, source=source, line=line, strict=strict, is_mended=is_mended
    )
    data: Json = envelope.get("data") or {}
    if TAGS.get(data.get("type", "")) != "JobsAttributes":
        raise ParseError("not a document of jobs", field="data.type", text=str(data.get("type", "")))
    cluster = data["attributes"].get("cluster") or ""
    taken = secs_of(data["attributes"], "time") or 0
    for job, _ in reader.items(data["attributes"], "slurm_jobs", "data.attributes"):
        values = TrackingDict[Any](job)
        if isinstance(job.get("sacct"), dict):
            values["sacct"] = TrackingDict[Any](job["sacct"])
        name = None if cluster == CLUSTER else cluster or None
        record = make_record(values, reader, name)
        if record.step and not record.used_cpu_secs and dict(record.more).get("average_cpu_secs"):
            notes.doubtful[UNTOLD] += 1
        report = PartialReport(taken, _reported_values(job, reader), partial(_made_again, cluster=name))
        yield replace(record, report=report)
        count_not_taken(notes, values, *([values["sacct"]] if "sacct" in values else ()))
        _count_unreadable(values, notes)
    yield from reader.rejected


def _reported_values(raw: Json, reader: Reader) -> dict[str, Any]:
    """Return the values of an element, limits in seconds, traffic in bytes; defaults count as no value."""
    stated = {
        name: value
        for name, value in raw.items()
        if value not in (None, "", [], {}) and (value != 0 or name not in _UNSET_AT_ZERO)
    }
    limit, sacct = stated.get("time_limit", 0), stated.get("sacct", {})
    if limit > 1:
        stated["time_limit"] = (limit - 2) * reader.limit_unit_secs + 2
    stated["sacct"] = {
        name: value * reader.traffic_unit_bytes if name in _TRAFFIC.values() else value
        for name, value in sacct.items()
        if value is not None
    }
    return stated


def _made_again(values: Json, cluster: str | None) -> JobRecord:
    """Return the record of the values of several elements."""
    reader = Reader({}, SONAR, "")
    reader.limit_unit_secs, reader.traffic_unit_bytes = 1, 1
    return make_record(values, reader, cluster)


def _count_unreadable(raw: Json, notes: Notes) -> None:
    """Count the amounts of trackable resources that are not whole numbers."""
    for which in ("allocated_resources", "requested_resources"):
        found = parse_resources(raw.get(which) or "")
        for name in found.keys() & _COUNTED:
            if count_of(found, name) is None:
                notes.count_unread(f"{which} {name}", found[name])


def make_record(raw: Json, reader: Reader, cluster: str | None = None) -> JobRecord:
    """Return the record of `raw`, one element of an envelope's array of jobs; `reader` is the envelope's.

    Raises ParseError if the envelope names too many nodes.
    """
    found: SlurmJobRecord = parse_slurm_job(raw, reader)
    sacct: Json = raw.get("sacct") or {}
    job = found.job
    allocated = found.allocated or parse_resources(sacct.get("AllocTRES") or "")
    nodes = len(job.nodes) or count_of(allocated, "node")
    user, system = sacct.get("UserCPU"), sacct.get("SystemCPU")
    word = (raw.get("job_state") or "").upper().partition(" ")[0]  # CANCELLED by 1001
    # Part of a job that was requeued or resized: accounting reports it besides the later run.
    has_ended = raw.get("end_time") is not None and (word in _PARTS or job.state is JobState.UNKNOWN)
    state = _PARTS.get(word, job.state) if has_ended else job.state
    exit_status = raw.get("exit_code")
    if state is JobState.PREEMPTED and has_ended:  # of what was taken from its nodes 0 is said
        state, exit_status = (JobState.FAILED, exit_status) if exit_status else (state, None)
        word = word if exit_status is None else state.value
    record = record_of(
        job,
        cluster=cluster,
        step=found.step or None,
        state=state,
        state_word=None if word == state.value else word or None,
        start_secs=None if state is JobState.PENDING else job.start_secs,  # else planned
        end_secs=secs_of(raw, "end_time") if has_ended else job.end_secs,
        run_secs=sacct.get("ElapsedRaw"),
        suspended_secs=raw.get("suspend_time"),
        exit_status=exit_status,
        total_nodes=nodes or None,
        total_cpus=count_of(allocated, "cpu"),
        total_gpus=count_of(allocated, "gres/gpu"),
        requested_nodes=found.node_count,
        requested_cpus=raw.get("requested_cpus") or None,
        requested_gpus=count_of(found.requested, "gres/gpu"),
        requested_memory_bytes=found.requested_memory_bytes,
        used_cpu_secs=None if user is None and system is None else (user or 0) + (system or 0),
        user_cpu_secs=None if system is None else user,
        system_cpu_secs=system,
        used_memory_bytes=(sacct.get("MaxRSS") or 0) * KIB or None,
    )
    return replace(record, more=_more(record, raw, sacct, reader.traffic_unit_bytes))


def _more(
    record: JobRecord, raw: Json, sacct: Json, traffic_unit_bytes: int
) -> tuple[tuple[str, str | Number], ...]:
    texts = {}
    for which, text in (
        ("requested", raw.get("requested_resources")),
        ("allocated", raw.get("allocated_resources") or sacct.get("AllocTRES")),
    ):
        if text and text != resources_text(record, which):  # else redundant
            texts[f"{which}_resources"] = text
    return pairs(
        distribution=raw.get("distribution") or None,
        **texts,
        **{name: sacct.get(field) for name, field in _SECS.items()},
        **{
            name: size * (traffic_unit_bytes if name in _TRAFFIC else KIB)
            for name, field in _SIZES.items()
            if (size := sacct.get(field)) is not None
        },
    )


def write_records(records: Iterable[JobRecord], lost: Lost) -> Iterator[str]:
    """Yield one envelope per line, each with up to 1,000 jobs and steps of a cluster; times are in UTC.

    A job whose id is not a number gets a new one above Slurm's range, and its own id is lost. A job of
    unknown state is dropped. `lost` is called with the name of each value or job that cannot be written.
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
            element = job_fields(origin, fitting(record, ids, lost))
        except ParseError as error:
            is_other = error.field in {"job_state", "job_id"}
            lost(f"job with another {error.field}" if is_other else "job on nodes without a host's name")
            continue
        except (ValueError, OverflowError, OSError):  # datetime supports the years 1 to 9999
            lost("job at a time that has no date")
            continue
        cluster = record.cluster or CLUSTER
        if batch and (len(batch) == RECORDS_PER_DOCUMENT or cluster != origin.cluster):
            yield json.dumps(jobs_document(origin, batch, latest))
            batch = []
        origin = replace(origin, cluster=cluster)
        batch.append(element)
        latest = max(latest, record.end_secs or 0, record.start_secs or 0, record.submit_secs or 0)
    if batch:
        yield json.dumps(jobs_document(origin, batch, latest))


def fitting(record: JobRecord, ids: JobNumbers, lost: Lost) -> JobRecord:
    """Return a copy of a record with only what Sonar's format can hold.

    `lost` is called with the name of each value dropped. `ids` gives numbers to jobs whose id is no number.
    """
    for name in _HOMELESS:
        if getattr(record, name) is not None:
            lost(name)
    number, kept = ids.number(record.job_id)
    if not kept:
        lost("job_id")
    if record.queue is not None and record.partition is not None:
        lost("queue")
    requested = record.requested_memory_bytes
    if requested is not None and not isinstance(requested, int):
        lost("requested_memory_bytes")
    elif isinstance(requested, int) and requested % KIB:
        lost("requested_memory_bytes: rounded to KiB")
    both = (record.user_cpu_secs, record.system_cpu_secs)
    if None in both:
        for name in ("user_cpu_secs", "system_cpu_secs"):
            if getattr(record, name) is not None:
                lost(name)
    elif record.used_cpu_secs is not None and sum(map(int, filter(None, both))) != int(record.used_cpu_secs):
        lost("used_cpu_secs")
    fits: dict[str, Any] = {name: _secs(record, name, lost) for name in _TIMES}
    fits |= {name: _kept(record, name, lost, lambda count: count >= 0) for name in _COUNTS}
    if (fits["used_memory_bytes"] or 0) % KIB:
        lost("used_memory_bytes: rounded to KiB")
        fits["used_memory_bytes"] += -fits["used_memory_bytes"] % KIB  # up: 0 would mean unknown
    return replace(
        record,
        batch_system=BATCH_SYSTEM,
        job_id=str(number),
        array_job_id=_kept(record, "array_job_id", lost, is_number),
        array_task_id=_kept(record, "array_task_id", lost, _are_digits),
        het_job_id=_kept(record, "het_job_id", lost, is_number),
        **fits,
        user_cpu_secs=None if None in both else _secs(record, "user_cpu_secs", lost),
        system_cpu_secs=None if None in both else _secs(record, "system_cpu_secs", lost),
        exit_signal=None,
        more=_fitting_pairs(record, lost),
    )


def _fitting_pairs(record: JobRecord, lost: Lost) -> tuple[tuple[str, str | Number], ...]:
    """Return the additional fields that the format can hold; report the others, and rounding, to `lost`."""
    kept = []
    for name, value in record.more:
        has_place = name in {*_SECS, *_SIZES, *_TEXTS}
        unit = 1024 if name in _SIZES else 1
        if not has_place or (not isinstance(value, str) and value % unit):
            lost(name)
        if has_place:
            kept.append((name, value))
    return tuple(kept)


def _secs(record: JobRecord, name: str, lost: Lost) -> int | None:
    value: float | None = getattr(record, name)
    if value is None:
        return None
    if value < 0:
        lost(name)
        return None
    if value != int(value):
        lost(f"{name}: fractions")
    return int(value)


def _kept(record: JobRecord, name: str, lost: Lost, fits: Callable[[Any], bool]) -> Any:
    value = getattr(record, name)
    if value is None or fits(value):
        return value
    lost(name)
    return None


def _are_digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11
