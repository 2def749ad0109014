"""Computes what a job is allocated but does not use now, of CPUs, memory and GPUs. No I/O.

The result does not depend on a job's age, so that jobs can be compared. Waste since the start is a separate
figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures_exporter.view.units import format_bytes, format_cpus

NOTABLE = 0.01  # share of the node below which waste is not mentioned
IDLE_FROM_CPUS = 0.05


@dataclass(frozen=True, slots=True)
class WasteNow:
    """What a job is allocated but does not use now; a field is None if unknown.

    `idle_cpus` and `idle_gpus` may be fractions. `share` is the largest of these wastes as a part (0 to 1) of
    what the node has.
    """

    idle_cpus: float | None = None
    unused_bytes: float | None = None
    idle_gpus: float | None = None  # two GPUs that are half busy count as one idle
    share: float | None = None  # unused share of the node's CPUs, memory or GPUs, whichever is largest

    @property
    def words(self) -> tuple[str, ...]:
        """Return a text for each wasted resource, GPUs first, such as "3.8 CPUs idle", "15.9 GiB unused"."""
        parts = []
        for number, noun in ((self.idle_gpus, "GPU"), (self.idle_cpus, "CPU")):
            if number is not None and number >= IDLE_FROM_CPUS:
                text = format_cpus(number)
                parts.append(f"{text} {noun}{'' if text == '1' else 's'} idle")
        if self.unused_bytes:
            parts.append(f"{format_bytes(self.unused_bytes)} unused")
        return tuple(parts)


UNKNOWN_WASTE = WasteNow()
NO_WASTE = WasteNow(0.0, 0.0, 0.0, 0.0)


def compute_unused(given: float | None, used: float | None, whole: float | None) -> float | None:
    """Return what a job leaves unused of what it was given: `given` − `used`; None if unknown.

    If the node has less than `given`, that (`whole`) counts instead.
    """
    if given is None or used is None:
        return None
    return max(0.0, float(given if whole is None else min(given, whole)) - float(used))
