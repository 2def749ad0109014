"""Reads logs that ``sacct --json``, ``squeue --json`` or slurmrestd wrote, v0.0.37 to v0.0.43. Pure.

A log is one JSON object, or several, read as a whole. A job with a ``job_state`` comes from the queue; the
others come from accounting and contain their steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from jobfeatures.batch.slurm.gpus import parse_tres_gpus
from jobfeatures.batch.slurm.json.accounting import parse_db_job, version_of
from jobfeatures.batch.slurm.json.jobs import parse_json_job
from jobfeatures.batch.slurm.json.values import JsonRecord, exit_code_of
from jobfeatures.batch.slurm.sacct.requeued import REVOKED, SIBLING
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, queue_pairs, record_of
from jobfeatures.joblogs.nottaken import TrackingDict, count_not_taken, without_unreadable
from jobfeatures.records.jsontext import parse_objects
from jobfeatures.records.model import JobState

# A job of the queue without these is rejected; any other value may be unknown.
NEEDED = frozenset(
    {
        *("job_id", "job_state", "submit_time", "eligible_time", "start_time", "end_time"),
        *("nodes", "cpus", "node_count"),
    }
)
_META = re.compile(r'\s*\{\s*"meta"\s*:\s*\{.{0,2000}?"plugin"\s*:', re.DOTALL)
_JOBS = re.compile(
    r'\s*\{\s*"jobs"\s*:\s*\[\s*(?:\{.{0,3000}?"(?:job_id|accrue_time|allocation_nodes)"\s*:|\]\s*,)',
    re.DOTALL,
)


def recognise(head: str) -> bool:
    """Return whether `head`, the beginning of a log, is that of Slurm's JSON: ``meta`` or ``jobs``."""
    return _META.match(head) is not None or _JOBS.match(head) is not None


def read_records(lines: Iterable[str], *, source: str, notes: Notes) -> Iterator[JobRecord | Rejected]:
    """Yield the jobs of all JSON objects, each followed by its steps, and a Rejected for a malformed one.

    `source` names the log in errors; `notes` counts values that could not be read.
    """
    for found in parse_objects("".join(lines), source=source):
        try:
            if isinstance(found, ParseError):
                raise found
            document = JsonRecord(found)
            jobs = document.listed("jobs", source)
        except ParseError as error:
            yield Rejected.from_error(error)
            continue
        yield from _of_document(jobs, version_of(document), source, notes)


def _of_document(
    jobs: list[JsonRecord], version: str, source: str, notes: Notes
) -> Iterator[JobRecord | Rejected]:
    for place, job in enumerate(jobs):
        told = job.values.get("state")
        if isinstance(told, dict) and REVOKED in (told.get("current") or ()):
            notes.read += 1
            notes.folded[SIBLING] += 1
            continue
        values = TrackingDict[Any](job.values)
        found, bad = _read_job(values, notes, version=version)
        count_not_taken(notes, values)
        for fault in bad:
            yield Rejected.from_error(fault.at(source, field=f"jobs[{place}].{fault.field}"))
        yield from found


def _read_job(
    values: dict[str, Any], notes: Notes, *, version: str
) -> tuple[list[JobRecord], list[ParseError]]:
    record = JsonRecord(values)
    if "job_state" not in values:
        found, bad = parse_db_job(record, version=version, notes=notes)
        if found:  # only steps report memory: that of the largest is the job's
            most = max((step.used_memory_bytes or 0 for step in found[1:]), default=0)
            found[0] = replace(found[0], used_memory_bytes=most or None)
        return found, bad
    try:
        return [without_unreadable(lambda: _queued_record(record), values, NEEDED, notes)], []
    except ParseError as error:
        return [], [error.at(about=f"job {str(record.get('job_id'))[:32]}")]


def _queued_record(record: JsonRecord) -> JobRecord:
    job = parse_json_job(record)
    is_pending = job.state is JobState.PENDING
    status, signal = exit_code_of(record) if job.state.is_finished else (None, None)
    per_cpu, per_node = record.mebibytes("memory_per_cpu"), record.mebibytes("memory_per_node")
    memory = None
    if per_cpu is not None:
        memory = per_cpu * job.total_cpus if job.total_cpus else None
    elif per_node is not None and job.total_nodes:
        memory = per_node * job.total_nodes
    requested_gpus = parse_tres_gpus(record.text("tres_req_str") or "")
    return record_of(
        job,
        cluster=record.text("cluster"),
        uid=job.uid,
        group=record.text("group_name"),
        gid=record.count("group_id"),
        qos=record.text("qos"),
        eligible_secs=job.eligible_secs,
        restarts=job.restarts,
        exit_status=status,
        exit_signal=signal,
        total_nodes=None if is_pending else job.total_nodes,
        total_cpus=None if is_pending else job.total_cpus,
        total_gpus=job.total_gpus,
        requested_nodes=job.total_nodes if is_pending else None,
        requested_cpus=job.total_cpus if is_pending else None,
        requested_gpus=requested_gpus,
        requested_memory_bytes=memory,
        more=queue_pairs(job),
    )
