"""The interface of GPU drivers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.snapshot import GpuSample


class DriverError(JobfeaturesError):
    """A driver cannot be used now; it is created again at the next reading."""


class Paths(NamedTuple):
    """Where the kernel's files are."""

    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = "/dev"
    gpustat: str = "/run/gpustat"  # where a prolog may write which job has which card


class Driver(Protocol):
    """One way to read cards. Created and used by one thread."""

    def read(self) -> Iterator[GpuSample]:
        """Yield the state of each card and each instance as soon as it is known.

        `energy_joules` is the driver's own counter or None, `busy_secs` is None: the caller integrates.
        Values that cannot be read are None. Raises DriverError.
        """

    def close(self) -> None:
        """Release libraries and files."""
