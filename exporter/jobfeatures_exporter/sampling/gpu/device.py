"""The interface of GPU drivers, and the names that their readings use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.snapshot import GpuCount, GpuSample

# Of a card's optional counts (`GpuCount`).
PROFILED: GpuCount = ("profiled",)  # seconds over which the next two were counted
BUSY = "busy"  # + unit of the GPU: seconds
LINK = "link"  # + kind of link, direction: bytes
ECC, LIFETIME_ECC = "ecc", "lifetime_ecc"  # + kind: errors since the driver was loaded, and ever
REMAPPED = "remapped"  # + kind: rows
XID = "xid"  # + code: events; a code that has not occurred is missing
XIDS: GpuCount = ("xids",)  # events of all codes
CLOCK_REASON = "clock_reason"  # + reason: seconds
# Of its flags.
REMAP_PENDING, REMAP_FAILED, XIDS_WATCHED = "remap_pending", "remap_failed", "xids_watched"


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
