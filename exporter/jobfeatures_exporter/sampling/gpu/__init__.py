"""GPUs: one module per driver, each with a line in `DRIVERS`.

A module has `make_driver(paths, clock, unreadable, detail=…) -> Driver`, which may load
libraries. It is imported in the driver's own thread, only on nodes that use the driver.
"""

from __future__ import annotations

NO_GPUS = "none"
# Files that exist where a driver is loaded, by which `gpu.drivers = auto` detects it.
DRIVERS = {
    "nvidia": ("{procfs}/driver/nvidia/version", "{devfs}/nvidiactl"),
    "amd": ("{devfs}/kfd", "{sysfs}/module/amdgpu"),
    "intel": ("{sysfs}/module/i915", "{sysfs}/module/xe"),
}
