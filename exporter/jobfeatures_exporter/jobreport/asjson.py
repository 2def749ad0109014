"""Formats a report as a JSON document. Pure. docs/report.md says what each figure means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jobfeatures_exporter.jobreport.gathering import INFO_SHOWN
from jobfeatures_exporter.view.judge import judge
from jobfeatures_exporter.view.use import JobUse, NodeUse

# Members of the document named like our own attributes.
_OF_RUN = ("is_running", "start_secs", "end_secs", "seen_until_secs", "elapsed_secs")
_OF_NODE = (
    *("throttled_secs", "suspended_secs", "claimed_cpus"),
    *("storage_read_bytes", "storage_written_bytes", "threads"),
)
VERSION = 1  # of the document's format: increased when a member is renamed or removed


def make_document(reports: Sequence[JobUse], *, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return reports and `notes` as an object for JSON. Unknown values are null; numbers are finite."""
    return {"version": VERSION, "notes": list(notes), "jobs": [_rounded(_job(report)) for report in reports]}


def _job(report: JobUse) -> dict[str, Any]:
    limit = report.wall_limit_secs
    is_unlimited = limit is not None and math.isinf(limit)
    return {
        "batch_system": report.batch_system,
        "job_id": report.job_id,
        "cluster": report.cluster or None,
        **{name: report.info.get(name) for name in INFO_SHOWN},
        "state": report.state or None,
        **{name: getattr(report, name) for name in _OF_RUN},
        "wall_limit_secs": None if is_unlimited else limit,
        "wall_limit_is_unlimited": is_unlimited,
        "time_ratio": report.time_share,
        "cpus": {
            "allocated": report.allocated_cpus,
            "used": report.cpus_used,
            "used_secs": report.cpu_secs,
            "idle_secs": report.idle_cpu_secs,
            "ratio": report.cpu_share,
        },
        "memory": {
            "allocated_bytes": report.allocated_memory,
            "peak_bytes": report.memory_peak,
            "unused_bytes": report.unused_memory,
            "ratio": report.memory_share,
            "oom_kills": report.oom_kills,
        },
        "gpus": {
            "allocated": report.gpu_count,
            "busy_secs": report.gpu_secs,
            "idle_secs": report.idle_gpu_secs,
            "ratio": report.gpu_share,
        },
        "energy": {"cpu_joules": report.cpu_joules, "gpu_joules": report.gpu_joules},
        "nodes": [_node(node) for node in report.nodes],
        "hints": [{"name": hint.name, "text": _plain(hint.text)} for hint in judge(report)],
        "notes": [_plain(note) for note in report.notes],
    }


def _node(node: NodeUse) -> dict[str, Any]:
    return {
        "node": node.place.name,
        "instance": node.place.instance,
        "allocated_cpus": node.allocated_cpus,
        "cpu_secs": node.cpu_secs,
        "cpu_ratio": node.cpu_share,
        "allocated_memory_bytes": node.allocated_memory,
        "memory_peak_bytes": node.memory_peak,
        "memory_charged_peak_bytes": node.charged_peak,
        "memory_ratio": node.memory_share,
        "oom_kills": node.oom_kills,
        "memory_limit_hits": node.limit_hits,
        "allocated_gpus": node.gpu_count,
        "gpus": [
            {
                "uuid": card.uuid,
                "model": card.model or None,
                "is_allocated": card.is_allocated,
                "busy_secs": card.busy_secs,
                "memory_peak_bytes": card.memory_peak,
                "memory_bytes": card.memory,
            }
            for card in node.gpus
        ],
        "cpu_joules": node.cpu_joules,
        "gpu_joules": node.gpu_joules,
        "stalled_secs": dict(sorted(node.stalled_secs.items())),
        "all_stalled_secs": dict(sorted(node.all_stalled_secs.items())),
        **{name: getattr(node, name) for name in _OF_NODE},
        "coverage_ratio": node.coverage,
    }


def _rounded(value: Any) -> Any:
    """Return the value with numbers rounded to six places; integers stay integers."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, float):
        if not math.isfinite(value):  # JSON has none
            return None
        return int(value) if value.is_integer() else round(value, 6)
    return value


def _plain(text: str) -> str:
    return text.replace("\u202f", " ")
