"""Removes figures that no card can have, as drivers may return garbage as success (4294967295 %). No I/O.

A figure beyond its bound becomes unknown (None) and is counted by name. The bound of a card's power follows
from the card's own power limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess, GpuSample

MAX_WATTS = 5000.0  # of a card whose limit is unknown
OVER_LIMIT = 2.0  # power is held to its limit over seconds, and exceeds it in between
COUNTER_SECS = 1.0  # a driver updates its counter of energy only now and then
MAX_PERCENT = 100.0
_MAX_MHZ, _MAX_BYTES = 20_000, 2**50
_MOST = {
    "ce_util_percent": MAX_PERCENT,
    "memory_busy_percent": MAX_PERCENT,
    "fan_percent": 2 * MAX_PERCENT,  # of a nominal speed, which fans may exceed
    "temperature_celsius": 200.0,
    "power_limit_watts": MAX_WATTS,
    "ce_clock_mhz": _MAX_MHZ,
    "memory_clock_mhz": _MAX_MHZ,
    "memory_used_bytes": _MAX_BYTES,
    "energy_joules": math.inf,  # what it grows by is bounded by `CardMeter`
}
_MOST_OF_CARD = {
    **dict.fromkeys(("power_limit_watts", "max_power_limit_watts", "min_power_limit_watts"), MAX_WATTS),
    **dict.fromkeys(("max_ce_clock_mhz", "max_memory_clock_mhz"), _MAX_MHZ),
    "memory_bytes": _MAX_BYTES,
}
_LEAST = {"temperature_celsius": -100.0}  # else 0
_NEVER_ZERO = ("power_limit_watts", "max_power_limit_watts", "memory_bytes")

Count = Callable[[str], None]


def bounded(sample: GpuSample, count: Count) -> GpuSample:
    """Return a reading in which impossible figures are None.

    For each of them, `count` is called with ``gpu_refused_NAME``.
    """
    wrong = _beyond(sample.card, _MOST_OF_CARD, count)
    card = replace(sample.card, **wrong) if wrong else sample.card
    wrong = _beyond(sample, _MOST, count)
    if wrong or card is not sample.card:
        sample = replace(sample, card=card, **wrong)
    wrong = {}
    # 0 W, too: the second die of an MI200 has no sensor, and says so.
    if sample.power_watts is not None and not 0 < sample.power_watts <= most_watts(sample):
        wrong["power_watts"] = _refused("power_watts", count)
    if card.memory_bytes and (sample.memory_used_bytes or 0) > card.memory_bytes:
        wrong["memory_used_bytes"] = _refused("memory_used_bytes", count)
    processes = tuple(bounded_process(each, count) for each in sample.processes)
    if processes != sample.processes:
        wrong["processes"] = processes
    return replace(sample, **wrong) if wrong else sample


def most_watts(sample: GpuSample) -> float:
    """Return the watts beyond which a reading of the card's power is impossible: twice its power limit.

    Without a known limit, this is `MAX_WATTS`.
    """
    limits = (sample.power_limit_watts, sample.card.power_limit_watts, sample.card.max_power_limit_watts)
    limit = max((each for each in limits if each is not None), default=0.0)
    return min(OVER_LIMIT * limit or MAX_WATTS, MAX_WATTS)


def _beyond(figures: GpuCard | GpuSample, most: dict[str, float], count: Count) -> dict[str, Any]:
    """Return None for each figure that is impossible; a limit or memory of 0 is unknown, and no fault."""
    found: dict[str, Any] = {}
    for name, limit in most.items():
        value = getattr(figures, name)
        if value is None:
            continue
        if not _LEAST.get(name, 0) <= value <= limit:
            found[name] = _refused(name, count)
        elif not value and name in _NEVER_ZERO:
            found[name] = None
    return found


def bounded_process(process: GpuProcess, count: Count) -> GpuProcess:
    """Return a process's use of a card in which impossible figures are None and counted, as in `bounded`.

    Its memory may exceed that of the card.
    """
    if not 0 <= (process.ce_util_percent or 0) <= MAX_PERCENT:
        process = process._replace(ce_util_percent=_refused("process_percent", count))
    if not 0 <= (process.memory_bytes or 0) <= _MAX_BYTES:
        process = process._replace(memory_bytes=_refused("process_memory", count))
    return process


def _refused(name: str, count: Count) -> Any:
    count(f"gpu_refused_{name}")
    return None
