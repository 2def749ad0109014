"""What a prolog knew about a job, as one JSON document for the daemon: pure."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from jobfeatures.errors import ParseError
from jobfeatures.model import UNLIMITED, Job, JobKey, JobState, Limits

MAX_RECORD_BYTES = 64 * 1024
_UNLIMITED_TEXT = "unlimited"
_INTEGERS = frozenset(
    {
        *("uid", "submit_secs", "start_secs", "end_secs", "total_cpus", "allocated_cpus", "allocated_gpus"),
        *("het_offset", "restarts"),
    }
)
_TEXTS = frozenset({"name", "user", "account", "partition", "array_job_id", "array_task_id", "het_job_id"})


def format_record(job: Job) -> str:
    """Return the document of a job; unknown fields are left out."""
    document: dict[str, Any] = {
        "batch_system": job.key.batch_system,
        "job_id": job.key.job_id,
        "state": job.state.value,
    }
    for name in sorted(_INTEGERS | _TEXTS):
        value = getattr(job, name)
        if value is not None:
            document[name] = value
    document["nodes"] = list(job.nodes)
    if job.gpus:
        document["gpus"] = list(job.gpus)
    document["limits"] = {
        each.name: _UNLIMITED_TEXT if value is UNLIMITED else value
        for each in fields(Limits)
        if (value := getattr(job.limits, each.name)) is not None
    }
    return json.dumps(document, ensure_ascii=True) + "\n"


def parse_record(text: str, *, source: str = "") -> Job:
    """Return the job of a document. Raises ParseError naming the field."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError("not JSON", source=source, text=str(error)) from error
    if not isinstance(document, dict):
        raise ParseError("not a JSON object", source=source, text=text)
    key = JobKey(_string(document, "batch_system", source), _string(document, "job_id", source))
    try:
        state = JobState(document.get("state"))
    except ValueError:
        state = JobState.UNKNOWN
    values: dict[str, Any] = {name: _integer(document, name, source) for name in _INTEGERS}
    values.update(
        {name: _string(document, name, source) for name in _TEXTS if document.get(name) is not None}
    )
    nodes = _names(document, "nodes", source)
    gpus = _names(document, "gpus", source)
    limits = document.get("limits", {})
    if not isinstance(limits, dict):
        raise ParseError("not an object", source=source, field="limits", text=str(limits))
    known = {
        each.name: UNLIMITED if limits[each.name] == _UNLIMITED_TEXT else _integer(limits, each.name, source)
        for each in fields(Limits)
        if each.name in limits
    }
    return Job(key=key, state=state, nodes=nodes, gpus=gpus, limits=Limits(**known), **values)


def _names(document: dict[str, Any], name: str, source: str) -> tuple[str, ...]:
    value = document.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ParseError("not a list of names", source=source, field=name, text=str(value))
    return tuple(value)


def _string(document: dict[str, Any], name: str, source: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ParseError("not a text", source=source, field=name, text=str(value))
    return value


def _integer(document: dict[str, Any], name: str, source: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ParseError("not a non-negative integer", source=source, field=name, text=str(value))
    return value
