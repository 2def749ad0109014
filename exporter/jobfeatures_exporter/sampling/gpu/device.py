"""What a driver of GPUs has to offer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.snapshot import GpuProcess, GpuSample


class DriverError(JobfeaturesError):
    """A driver cannot be used now; it is made anew at the next reading."""


class Paths(NamedTuple):
    """Where the kernel's files are."""

    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = "/dev"
    gpustat: str = "/run/gpustat"  # where a prolog may tell which job has which card


def compute_percent(part: float | None, whole: float | None) -> float | None:
    """Return a part of a whole in percent, None where either is unknown or the whole is nothing."""
    return None if part is None or not whole else 100.0 * part / whole


def use_of(
    pid: int, memory_bytes: int | None, util_percent: float | None, whole_bytes: int | None
) -> GpuProcess:
    """Return what a process does on a card with so much memory."""
    return GpuProcess(
        pid=pid,
        memory_bytes=memory_bytes,
        ce_util_percent=util_percent,
        memory_util_percent=compute_percent(memory_bytes, whole_bytes),
    )


class Driver(Protocol):
    """One way to learn about cards. Made and used by one thread."""

    def read(self) -> Iterator[GpuSample]:
        """Yield the state of each card and each instance, as soon as it is known.

        `energy_joules` is the driver's own counter or None, `busy_secs` is None: integrating is not the
        driver's business. What cannot be read is None. Raises DriverError.
        """

    def close(self) -> None:
        """Let go of libraries and files."""
