"""Reads GPUs. There is one module for each driver, with an entry in `DRIVERS`.

Each module has `make_driver(paths, clock, unreadable, detail=…) -> Driver`, which may load libraries. It is
imported only on nodes that use the driver, in the thread that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.model.snapshot import GpuCount, GpuSample

NO_GPUS = "none"
# Files that exist where a driver is loaded, by which `gpu.drivers = auto` detects it. NVIDIA's library makes
# /dev/nvidiactl itself where there is no driver.
DRIVERS = {
    "nvidia": ("{procfs}/driver/nvidia/version", "{sysfs}/module/nvidia"),
    "amd": ("{devfs}/kfd", "{sysfs}/module/amdgpu"),
    "intel": ("{sysfs}/module/i915", "{sysfs}/module/xe"),
}

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
    """Raised if a GPU driver cannot be used now; the next reading makes a new `Driver`."""


class Paths(NamedTuple):
    """Where the kernel's files that GPU drivers read are; `gpustat` has files that a prolog writes."""

    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = "/dev"
    gpustat: str = "/run/gpustat"  # where a prolog may write which job has which card


class Driver(Protocol):
    """A way to read the GPU cards of one driver. Only one thread creates and uses it."""

    def read(self) -> Iterator[GpuSample]:
        """Yield the state of each card and each MIG instance as soon as it is read.

        In a sample, `energy_joules` is the driver's own counter or None and `busy_secs` is None, since
        `CardMeter` computes both counters. Values that cannot be read are None; impossible values are removed
        later, by `bounds`. Raises DriverError if the driver cannot be used now.
        """

    def close(self) -> None:
        """Release the driver's libraries and files."""
