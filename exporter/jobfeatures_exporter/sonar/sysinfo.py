"""Makes Sonar's `sysinfo` document: the node's hardware and software. Pure."""

from __future__ import annotations

import base64

from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.envelopes import (
    SYSINFO,
    Document,
    Origin,
    data_envelope,
    error_envelope,
    timestamp,
    unicode_text,
    without_defaults,
)
from jobfeatures_exporter.model.hardware import SysinfoSample
from jobfeatures_exporter.model.snapshot import GpuCard
from jobfeatures_exporter.sonar.process import rounded

# Members of the format named like our own fields.
_OF_NODE = ("os_name", "os_release", "architecture", "sockets", "cores_per_socket", "threads_per_core")
_OF_CARD = ("uuid", "address", "manufacturer", "model", "architecture", "driver", "firmware")
_NEEDED = {
    "sockets": "the number of CPU sockets",
    "cores_per_socket": "the number of cores",
    "threads_per_core": "the number of threads",
    "memory_bytes": "the size of the memory",
}


def sysinfo_envelope(origin: Origin, sample: SysinfoSample) -> Document:
    """Return the `sysinfo` document, or one that reports an error if a mandatory number is unknown."""
    missing = [meaning for name, meaning in _NEEDED.items() if not getattr(sample, name)]
    if missing:
        return error_envelope(origin, f"{', '.join(missing)} cannot be found out", sample.taken_at_secs)
    attributes = {
        "time": timestamp(sample.taken_at_secs, origin.zone),
        "cluster": origin.cluster,
        "node": origin.node,
        **{name: getattr(sample, name) for name in _OF_NODE},
        "memory": (sample.memory_bytes or 0) // 1024,
        **without_defaults(_optional(origin, sample)),
    }
    return data_envelope(origin, SYSINFO, attributes)


def _optional(origin: Origin, sample: SysinfoSample) -> Document:
    fields: Document = {
        "cpu_model": unicode_text(sample.cpu_model),
        "topo_svg": _base64(sample.topology_svg),
        "cards": [_card(card) for card in sample.cards],
    }
    if origin.profile == SEED:
        fields["software"] = [
            without_defaults({name: unicode_text(value) for name, value in each._asdict().items()})
            for each in sample.software
        ]
    if origin.profile == CURRENT:
        fields["topo_text"] = _base64(sample.topology_text)
        fields["numa_nodes"] = len(sample.numa_distances)
        fields["distances"] = [list(row) for row in sample.numa_distances]
    return fields


def _card(card: GpuCard) -> Document:
    fields = without_defaults(
        {
            **{name: unicode_text(getattr(card, name)) for name in _OF_CARD},
            "memory": (card.memory_bytes or 0) // 1024,
            "power_limit": rounded(card.power_limit_watts),
            "max_power_limit": rounded(card.max_power_limit_watts),
            "min_power_limit": rounded(card.min_power_limit_watts),
            "max_ce_clock": card.max_ce_clock_mhz,
            "max_memory_clock": card.max_memory_clock_mhz,
        }
    )
    return fields if card.index is None else {"index": card.index, **fields}  # the first card has index 0


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
