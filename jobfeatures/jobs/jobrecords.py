"""Stores what a prolog or the daemon knows about a job, as a JSON document for the daemon. Pure."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, NamedTuple

from jobfeatures.errors import ParseError
from jobfeatures.records.jsontext import parse_own, text_of
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits

MAX_RECORD_BYTES = 64 * 1024
_UNLIMITED_TEXT = "unlimited"
_INTEGERS = frozenset(
    {
        *("uid", "submit_secs", "start_secs", "end_secs", "total_cpus", "allocated_cpus", "allocated_gpus"),
        *("het_offset", "restarts", "limit_end_secs", "ran_secs", "deadline_secs", "grace_secs"),
    }
)
_TEXTS = frozenset(
    {
        *("name", "user", "account", "partition", "array_job_id", "array_task_id", "het_job_id"),
        *("sluid", "cluster", "schedd", "slot", "cpu_factor"),
    }
)
_MAX_TIME_SECS = 2.0**40


class PrologRecord(NamedTuple):
    """The job in a stored record.

    `reported_at_secs` is when the batch system reported the job (epoch, node's clock), None in older records.
    `start_source` is the source that reported the start time, None if that is the writer of the record.
    """

    job: Job
    reported_at_secs: float | None = None  # None in records of older writers: the file's time is used
    start_source: str | None = None  # which source reported the start, where that is not the writer


def format_record(job: Job, *, reported_at_secs: float | None = None, start_source: str | None = None) -> str:
    """Return the JSON document for a job, one line; unknown fields are left out.

    `reported_at_secs` (epoch) is when the job was reported; `start_source` is the source of its start time,
    None if that is the writer of the record.
    """
    document: dict[str, Any] = {
        "batch_system": job.key.batch_system,
        "job_id": job.key.job_id,
        "state": job.state.value,
    }
    if reported_at_secs is not None:
        document["told_at_secs"] = round(reported_at_secs, 3)
    if start_source is not None:
        document["start_source"] = start_source
    for name in sorted(_INTEGERS | _TEXTS):
        value = getattr(job, name)
        if value is not None:
            document[name] = value
    document["nodes"] = list(job.nodes)
    for name in ("gpus", "gpu_devices"):
        if getattr(job, name):
            document[name] = list(getattr(job, name))
    document["limits"] = {
        each.name: _UNLIMITED_TEXT if value is UNLIMITED else value
        for each in fields(Limits)
        if (value := getattr(job.limits, each.name)) is not None
    }
    return json.dumps(document, ensure_ascii=True) + "\n"


def parse_record(text: str, *, source: str = "") -> PrologRecord:
    """Return the job in a JSON document. Raises ParseError naming the field.

    `source` names the file in errors. Sample: ``{"batch_system": "slurm", "job_id": "12", "state": "RUNNING",
    "told_at_secs": 1793950000.25, "uid": 1000, "restarts": 0, "nodes": ["n1"], "limits": {"wall_secs": 3600,
    "memory_bytes": "unlimited"}}``.
    """
    document = parse_own(text, source=source)
    key = JobKey(text_of(document, "batch_system", source), text_of(document, "job_id", source))
    try:
        state = JobState(document.get("state"))
    except ValueError:
        state = JobState.UNKNOWN
    values: dict[str, Any] = {name: _integer(document, name, source) for name in _INTEGERS}
    values.update(
        {name: text_of(document, name, source) for name in _TEXTS if document.get(name) is not None}
    )
    nodes = _names(document, "nodes", source)
    gpus, devices = (_names(document, name, source) for name in ("gpus", "gpu_devices"))
    limits = document.get("limits", {})
    if not isinstance(limits, dict):
        raise ParseError("not an object", source=source, field="limits", text=str(limits))
    known = {
        each.name: UNLIMITED if limits[each.name] == _UNLIMITED_TEXT else _integer(limits, each.name, source)
        for each in fields(Limits)
        if each.name in limits
    }
    job = Job(
        key=key, state=state, nodes=nodes, gpus=gpus, gpu_devices=devices, limits=Limits(**known), **values
    )
    start_source = None
    if document.get("start_source") is not None:
        start_source = text_of(document, "start_source", source)
    return PrologRecord(job, _time(document, "told_at_secs", source), start_source)


def _time(document: dict[str, Any], name: str, source: str) -> float | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _MAX_TIME_SECS:
        raise ParseError("not a time", source=source, field=name, text=str(value))
    return float(value)


def _names(document: dict[str, Any], name: str, source: str) -> tuple[str, ...]:
    value = document.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ParseError("must be a list of names", source=source, field=name, text=str(value))
    return tuple(value)


def _integer(document: dict[str, Any], name: str, source: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ParseError("must be a whole number, 0 or more", source=source, field=name, text=str(value))
    return value
