"""What a job holds and does not use now: CPUs that idle, memory that nobody else gets, idle GPUs. Pure.

It is the same from a job's first minute to its last, so that jobs can be
compared: what they have wasted so far stands elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobfeatures_exporter.view.units import format_bytes, format_cpus

NOTABLE = 0.01  # of the node: below, nothing is said
IDLE_FROM_CPUS = 0.05


@dataclass(frozen=True, slots=True)
class WasteNow:
    """What is allocated and unused at this moment; None is not known."""

    idle_cpus: float | None = None
    unused_bytes: float | None = None
    idle_gpus: float | None = None  # in cards: two that are half busy are one
    share: float | None = None  # of the node's CPUs, memory or GPUs, whichever it holds most of in vain

    @property
    def words(self) -> tuple[str, ...]:
        """Return it as people say it, GPUs first: "3.8 CPUs idle", "15.9 GiB unused"."""
        said = []
        for number, noun in ((self.idle_gpus, "GPU"), (self.idle_cpus, "CPU")):
            if number is not None and number >= IDLE_FROM_CPUS:
                text = format_cpus(number)
                said.append(f"{text} {noun}{'' if text == '1' else 's'} idle")
        if self.unused_bytes:
            said.append(f"{format_bytes(self.unused_bytes)} unused")
        return tuple(said)


UNKNOWN_WASTE = WasteNow()
NO_WASTE = WasteNow(0.0, 0.0, 0.0, 0.0)


class Held(NamedTuple):
    """What a job was given and uses of what the node has; None is not known."""

    given: float | None
    used: float | None
    whole: float | None

    @property
    def unused(self) -> float | None:
        """Return what nobody uses; a limit beyond what the node has reserves no more than that."""
        if self.given is None or self.used is None:
            return None
        given = self.given if self.whole is None else min(self.given, self.whole)
        return max(0.0, float(given) - float(self.used))


def compute_waste_now(
    cpus: Held, memory: Held, gpu_shares: Sequence[float] = (), gpus: float | None = None
) -> WasteNow:
    """Return what a job wastes now; of its GPUs by the part used of each; the node has `gpus`."""
    idle_cpus, unused_bytes = cpus.unused, memory.unused
    idle_gpus = float(sum(max(0.0, 1 - each) for each in gpu_shares)) if gpu_shares else None
    pairs = ((idle_cpus, cpus.whole), (unused_bytes, memory.whole), (idle_gpus, gpus))
    shares = [min(1.0, part / whole) for part, whole in pairs if part is not None and whole]
    return WasteNow(idle_cpus, unused_bytes, idle_gpus, max(shares, default=None))
