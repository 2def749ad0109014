"""GPUs: one file a driver, one line in `DRIVERS` each.

A file offers `make_driver(paths, clock, unreadable, detail=…) -> Driver`, which may load
libraries. It is imported in the driver's own thread, where there is one.
"""

from __future__ import annotations

NO_GPUS = "none"
# What is there where a driver is loaded, by which `gpu.drivers = auto` goes.
DRIVERS = {
    "nvidia": ("{procfs}/driver/nvidia/version", "{devfs}/nvidiactl"),
    "amd": ("{devfs}/kfd", "{sysfs}/module/amdgpu"),
    "intel": ("{sysfs}/module/i915", "{sysfs}/module/xe"),
}
