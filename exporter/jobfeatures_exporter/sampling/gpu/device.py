"""What a driver of GPUs has to offer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.snapshot import GpuSample


class DriverError(JobfeaturesError):
    """A driver cannot be used now; it is made anew at the next reading."""


class Paths(NamedTuple):
    """Where the kernel's files are."""

    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = "/dev"
    gpustat: str = "/run/gpustat"  # where a prolog may tell which job has which card


class Driver(Protocol):
    """One way to learn about cards. Made and used by one thread."""

    def read(self) -> Iterator[GpuSample]:
        """Yield the state of each card and each instance, as soon as it is known.

        `energy_joules` is the driver's own counter or None, `busy_secs` is None: integrating is not the
        driver's business. What cannot be read is None. Raises DriverError.
        """

    def close(self) -> None:
        """Let go of libraries and files."""
