"""Hardware performance events, and the weight of each in a sum. Pure.

Source: perf_event_open(2) for generic events. None counts floating-point operations. Intel's event C7h,
FP_ARITH_INST_RETIRED, counts instructions, an FMA twice. Its weight is the number of vector elements that its
umask selects: 1 for 03h, 2 for 04h, 4 for 18h, 8 for 60h, 16 for 80h. AMD's event 03h,
fp_ret_sse_avx_ops.all, counts operations, an FMA as two. Its umask is FFh for Zen 1 to 3, 1Fh for Zen 4, 0Fh
for Zen 5. Source of both: Linux' tools/perf/pmu-events/arch/x86. Neither includes x87 and AMX.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FLOPS = "flops"
MAX_PER_NS = 100_000  # no CPU counts more while the counter runs
_HARDWARE, _SOFTWARE, _RAW = 0, 1, 4  # enum perf_type_id


class Event(NamedTuple):
    """One hardware event: `type` and `config` of perf_event_attr, and the weight of each count in a sum."""

    type: int
    config: int
    weight: int = 1


GENERIC = {
    "instructions": (Event(_HARDWARE, 1),),
    "cycles": (Event(_HARDWARE, 0),),
    "cache_misses": (Event(_HARDWARE, 3),),
}
NAMES = (*GENERIC, FLOPS)
# For tests only, which use the same calls: events that every kernel counts without hardware counters.
SOFTWARE = {"task_clock": (Event(_SOFTWARE, 1),), "page_faults": (Event(_SOFTWARE, 2),)}

_INTEL_WIDTHS = (
    Event(_RAW, 0x03C7, 1),  # scalar, both precisions
    Event(_RAW, 0x04C7, 2),  # 128 bits, double
    Event(_RAW, 0x18C7, 4),  # 128 bits single, 256 double
    Event(_RAW, 0x60C7, 8),  # 256 single, 512 double
)
_INTEL_512 = (*_INTEL_WIDTHS, Event(_RAW, 0x80C7, 16))  # 512 single
# By model of family 6, as in Linux' mapfile.csv. Omitted: Haswell, Atoms (other events or none), hybrids (two
# kinds of cores).
_INTEL_MODELS = {
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), _INTEL_WIDTHS),  # Broadwell
    **dict.fromkeys((0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6), _INTEL_WIDTHS),  # Skylake to Comet Lake
    **dict.fromkeys(
        (0x55, 0x6A, 0x6C, 0x8F, 0xCF, 0xAD, 0xAE), _INTEL_512
    ),  # Xeons, Skylake to Granite Rapids
    **dict.fromkeys((0x7D, 0x7E, 0x8C, 0x8D, 0xA7), _INTEL_512),  # Ice, Tiger and Rocket Lake
}
_FIELD = re.compile(r"^(vendor_id|cpu family|model)[ \t]*:[ \t]*(\S{1,64})$", re.MULTILINE)


def parse_cpu(cpuinfo: str) -> tuple[str, int, int] | None:
    """Return (vendor, family, model) of the first processor in /proc/cpuinfo; None if one is missing."""
    found: dict[str, str] = {}
    for match in _FIELD.finditer(cpuinfo.partition("\n\n")[0]):
        found.setdefault(match[1], match[2])
    try:
        return found["vendor_id"], int(found["cpu family"]), int(found["model"])
    except (KeyError, ValueError):
        return None


def find_flops(cpu: tuple[str, int, int] | None) -> tuple[Event, ...]:
    """Return the events whose weighted sum is the number of floating-point operations on this CPU.

    `cpu` is (vendor, family, model). The result is empty for unknown CPUs.
    """
    if cpu is None:
        return ()
    vendor, family, model = cpu
    if vendor == "GenuineIntel" and family == 6:
        return _INTEL_MODELS.get(model, ())
    if vendor == "AuthenticAMD":
        if family == 0x17 or (family == 0x19 and (model < 0x10 or 0x20 <= model < 0x60)):  # Zen 1 to 3
            return (Event(_RAW, 0xFF03),)
        if family == 0x19:  # Zen 4
            return (Event(_RAW, 0x1F03),)
        if family == 0x1A:  # Zen 5
            return (Event(_RAW, 0x0F03),)
    return ()


def find_events(name: str, cpu: tuple[str, int, int] | None) -> tuple[Event, ...]:
    """Return the events whose weighted sum is the figure `name`, such as ``flops``, on this CPU.

    `cpu` is (vendor, family, model). The result is empty if the CPU has no such events.
    """
    return find_flops(cpu) if name == FLOPS else {**GENERIC, **SOFTWARE}[name]


class Count:
    """Computes the increase of one hardware counter, scaled up for the time in which it was not running.

    If more counters are open than the processor has, the kernel runs them in turn. The increase between two
    readings is multiplied by time enabled ÷ time running. If the counter has not run, its increase is unknown
    and taken as 0. A reading below the last one or beyond what a CPU can count is refused: the next is
    compared with the last valid one.
    """

    __slots__ = ("_last", "refused")

    def __init__(self) -> None:
        self._last = (0, 0, 0)
        self.refused = 0  # readings that are none

    def grow(self, value: int, enabled_ns: int, running_ns: int) -> float:
        """Add a reading of a counter that started at 0; return the scaled increase since the previous one."""
        reading = value, enabled_ns, running_ns
        counted, enabled, running = (now - last for now, last in zip(reading, self._last, strict=True))
        if counted < 0 or running < 0 or counted > MAX_PER_NS * running > 0:
            self.refused += 1
            return 0.0
        self._last = reading
        if not (counted and running):
            return 0.0
        return counted * max(1.0, enabled / running)
