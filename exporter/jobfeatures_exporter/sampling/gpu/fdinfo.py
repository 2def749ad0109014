"""Parses a process's use of a GPU in /proc/PID/fdinfo, and computes utilisation from two readings. No I/O.

See Documentation/gpu/drm-usage-stats.rst of the kernel. All kernel drivers (amdgpu, i915, xe, …) use this
format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.errors import ParseError

PLAIN, NANOSECS = {"": 1}, {"": 1, "ns": 1}
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}
# The region's name is the driver's: vram (amdgpu), vram0 (xe), local0 (i915) are the card's own memory.
_OWN_MEMORY = re.compile(r"(?:vram|local)[0-9]*\Z")
_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_MEMORY_KEYS = ("drm-resident-", "drm-memory-", "drm-total-")  # the first that reports a region counts


@dataclass(frozen=True, slots=True, kw_only=True)
class DrmClient:
    """One DRM client, that is one open(2) of a GPU's device file; its counters start when it is opened.

    `address` is the device's bus address, `client_id` unique on this device. `engine_nsecs` has the busy
    nanoseconds by kind of engine, `cycles` the busy and total cycles, and `capacity` the number of engines of
    a kind if there are several. `memory_bytes` is in the card's own memory; None: not reported.
    """

    address: str = ""  # of the device on its bus (drm-pdev)
    client_id: int | None = None  # unique on its device: descriptors that share it are one client
    engine_nsecs: Mapping[str, int] = field(default_factory=dict)  # by kind of engine
    cycles: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # busy, and total
    capacity: Mapping[str, int] = field(default_factory=dict)  # number of engines of a kind, if more than 1
    memory_bytes: int | None = None  # of the card's own memory; None if it has none or it is not reported


def parse_fdinfo(text: str) -> DrmClient | None:
    """Return the client in ``/proc/PID/fdinfo/N``, None if the descriptor is not of a DRM device.

    Sample, shortened::

        pos:    0
        drm-driver:     amdgpu
        drm-client-id:  23
        drm-pdev:       0000:03:00.0
        drm-memory-vram:        16384 KiB
        drm-engine-gfx: 18446744 ns
        drm-engine-capacity-video: 2
        drm-cycles-rcs: 28257900
        drm-total-cycles-rcs:   7655183225

    Unknown keys and repeated keys are ignored. Raises ParseError if a value is
    not a number.
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.startswith("drm-"):
            values.setdefault(key, value.strip())
    if not values.get("drm-driver"):
        return None
    engines, capacity, busy, passed = {}, {}, {}, {}
    for key, value in values.items():
        if (kind := key.removeprefix("drm-engine-capacity-")) != key:
            capacity[kind] = max(1, _number(key, value))
        elif (kind := key.removeprefix("drm-engine-")) != key:
            engines[kind] = _number(key, value, NANOSECS)
        elif (kind := key.removeprefix("drm-total-cycles-")) != key:
            passed[kind] = _number(key, value)
        elif (kind := key.removeprefix("drm-cycles-")) != key:
            busy[kind] = _number(key, value)
    identity = values.get("drm-client-id")
    return DrmClient(
        address=values.get("drm-pdev", ""),
        client_id=None if identity is None else _number("drm-client-id", identity),
        engine_nsecs=engines,
        cycles={kind: (count, passed[kind]) for kind, count in busy.items() if kind in passed},
        capacity=capacity,
        memory_bytes=_own_memory(values),
    )


def compute_utilisation(before: DrmClient, now: DrmClient, elapsed_secs: float) -> float | None:
    """Return how busy, in percent, a client kept the kind of engine that it used most; None if unknown.

    `before` and `now` are two readings of the client, `elapsed_secs` apart.
    """
    shares: list[float] = []
    for kind, nsecs in now.engine_nsecs.items():
        if elapsed_secs > 0:
            grown = max(0, nsecs - before.engine_nsecs.get(kind, 0))
            shares.append(grown / 1e9 / elapsed_secs / now.capacity.get(kind, 1))
    for kind, (busy, passed) in now.cycles.items():
        busy_before, passed_before = before.cycles.get(kind, (0, 0))
        if passed > passed_before:
            grown = max(0, busy - busy_before)
            shares.append(grown / (passed - passed_before) / now.capacity.get(kind, 1))
    return min(100.0, 100.0 * max(shares)) if shares else None


def _number(key: str, value: str, units: Mapping[str, int] = PLAIN) -> int:
    number, _, unit = value.partition(" ")
    if not _NUMBER.match(number) or unit.strip() not in units:
        raise ParseError("not a number", source="fdinfo", field=key, text=value)
    return int(number) * units[unit.strip()]


def _own_memory(values: Mapping[str, str]) -> int | None:
    regions: dict[str, int] = {}
    for prefix in _MEMORY_KEYS:
        for key, value in values.items():
            region = key.removeprefix(prefix)
            if region != key and _OWN_MEMORY.match(region) and region not in regions:
                regions[region] = _number(key, value, UNITS)
    return sum(regions.values()) if regions else None
