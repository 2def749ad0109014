"""GPUs: one file a driver, one line in `DRIVERS` each.

A file offers `is_here(paths) -> bool`, which `gpu.drivers = auto` goes by and
which looks at files only, and `make_driver(paths, clock, unreadable, detail=…) -> Driver`,
which may load libraries, and runs in the driver's own thread.
"""

from __future__ import annotations

from jobfeatures_exporter.sampling.gpu import amd, intel, nvidia
from jobfeatures_exporter.sampling.gpu.device import DriverModule

NO_GPUS = "none"
DRIVERS: dict[str, DriverModule] = {"nvidia": nvidia, "amd": amd, "intel": intel}
