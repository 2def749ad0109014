"""Writes and reads reports in the form that Jobstats keeps in Slurm's AdminComment. Pure.

The form is ``JS1:`` and the base64 text of gzipped JSON. Its keys, as Jobstats documents them
(docs/setup/summaries.md of PrincetonUniversity/jobstats): for each node ``cpus``, ``total_time`` (CPU
seconds), ``used_memory`` and ``total_memory`` (bytes); for each GPU ``gpu_utilization`` (percent),
``gpu_used_memory`` and ``gpu_total_memory``; for the job ``gpus`` and ``total_time`` (seconds that it ran).
Jobstats ignores other keys: we add ``cpu_joules`` and ``gpu_joules``.

Comments are untrusted input: sizes are bounded.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobfeatures.errors import ParseError
from jobfeatures_exporter.view.use import GpuUse, JobUse, NodeUse, Place

MARK = "JS1:"
SHORT, NONE = f"{MARK}Short", f"{MARK}None"  # too short for figures; no figures
SHORT_SECS = 60  # twice the interval at which Prometheus usually scrapes
MAX_CHARACTERS = 60_000  # of the 65,535 bytes that the column holds
MAX_JSON_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of a job's AdminComment: seconds that the job ran, and its use by node (empty: unknown)."""

    elapsed_secs: float | None = None
    nodes: tuple[NodeUse, ...] = ()


def encode_summary(report: JobUse | None, elapsed_secs: int) -> str:
    """Return the AdminComment for a job that ran for `elapsed_secs` (`report` None: its use is unknown)."""
    nodes = {} if report is None else {each.place.name: _node(each, elapsed_secs) for each in report.nodes}
    nodes = {name: values for name, values in nodes.items() if values}
    if not nodes:
        return SHORT if elapsed_secs < SHORT_SECS else NONE
    gpus = 0 if report is None or report.gpu_count is None else int(report.gpu_count)
    document = {"nodes": nodes, "total_time": elapsed_secs, "gpus": gpus}
    packed = gzip.compress(json.dumps(document, separators=(",", ":")).encode("ascii"), mtime=0)
    text = MARK + base64.b64encode(packed).decode("ascii")
    return text if len(text) <= MAX_CHARACTERS else NONE


def _node(node: NodeUse, elapsed_secs: int) -> dict[str, Any]:
    cards: dict[str, GpuUse] = {}
    for card in node.gpus:  # instances (MIG) share their card's number
        cards[card.minor if card.minor and card.minor not in cards else card.uuid] = card
    found: dict[str, Any] = {
        "total_memory": _whole(node.allocated_memory),
        "used_memory": _whole(node.memory_peak),
        "total_time": None if node.cpu_secs is None else round(node.cpu_secs, 1),
        "cpus": _whole(node.allocated_cpus),
        "gpu_total_memory": _known({name: _whole(card.memory) for name, card in cards.items()}),
        "gpu_used_memory": _known({name: _whole(card.memory_peak) for name, card in cards.items()}),
        "gpu_utilization": _known(
            {
                name: None
                if card.busy_secs is None or elapsed_secs <= 0
                else round(min(100.0, 100 * card.busy_secs / elapsed_secs), 1)
                for name, card in cards.items()
            }
        ),
        "cpu_joules": _whole(node.cpu_joules),
        "gpu_joules": _whole(node.gpu_joules),
    }
    return _known(found) or {}


def _whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else int(value)


def _known(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the known values, None if there are none."""
    return {name: each for name, each in values.items() if each is not None} or None


def decode_summary(text: str) -> Summary:
    """Return an AdminComment's content. Raises ParseError if it is no summary, or has impossible values."""
    if text in (SHORT, NONE):
        return Summary()
    if not text.startswith(MARK) or len(text) > 2 * MAX_CHARACTERS:
        raise ParseError("not a job summary of Jobstats", field="AdminComment", text=text[:80])
    try:
        packed = base64.b64decode(text.removeprefix(MARK), validate=True)
        unpacker = zlib.decompressobj(wbits=31)
        content = unpacker.decompress(packed, MAX_JSON_BYTES)
        if not unpacker.eof:
            raise ParseError("the job summary is cut off or too large", field="AdminComment", text=text[:80])
        document = json.loads(content)
    except (binascii.Error, zlib.error, ValueError, RecursionError) as error:
        raise ParseError("the job summary cannot be decoded", field="AdminComment", text=text[:80]) from error
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, dict) or not all(isinstance(each, dict) for each in nodes.values()):
        raise ParseError("the job summary has no nodes", field="AdminComment", text=text[:80])
    elapsed = _number(document.get("total_time"))
    return Summary(
        elapsed_secs=elapsed,
        nodes=tuple(_read_node(str(name), values, elapsed) for name, values in nodes.items()),
    )


def _read_node(name: str, values: Mapping[str, Any], elapsed_secs: float | None) -> NodeUse:
    kinds = ("gpu_utilization", "gpu_used_memory", "gpu_total_memory")
    used, peak, memory = (each if isinstance(each := values.get(kind), dict) else {} for kind in kinds)
    cards = tuple(
        GpuUse(
            uuid=minor,
            minor=minor,
            is_allocated=True,
            busy_secs=None
            if (percent := _number(used.get(minor))) is None or elapsed_secs is None
            else percent / 100 * elapsed_secs,
            memory_peak=_number(peak.get(minor)),
            memory=_number(memory.get(minor)),
        )
        for minor in sorted({*used, *peak, *memory})
    )
    return NodeUse(
        place=Place(name),
        elapsed_secs=elapsed_secs,
        allocated_cpus=_number(values.get("cpus")),
        cpu_secs=_number(values.get("total_time")),
        allocated_memory=_number(values.get("total_memory")),
        memory_peak=_number(values.get("used_memory")),
        gpus=cards,
        cpu_joules=_number(values.get("cpu_joules")),
        gpu_joules=_number(values.get("gpu_joules")),
    )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 2**63 else None
