"""Power by the board's own sensor, where the kernel has a driver for it (hwmon).

Source: Documentation/hwmon/sysfs-interface.rst: `powerN_average` and `powerN_input` are microwatts,
`powerN_label` says of what. ACPI's meters (acpi_power_meter.rst) say that in `powerN_oem_info`. Most chips
with power are of a card, a disk or a rail: which one is the board's is chosen by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobfeatures.errors import shown
from jobfeatures.quantities import parse_count
from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable, read_text
from jobfeatures_exporter.sampling.power.reading import PowerError, checked_watts
from jobfeatures_exporter.sampling.sysfs import Sysfs

if TYPE_CHECKING:
    from jobfeatures_exporter.config import DaemonConfig

_CHIP = re.compile(r"hwmon[0-9]{1,5}\Z")
_FILE = re.compile(r"power([0-9]{1,4})_(average|input)\Z")
MOST_CHIPS = 1024


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor: `name` is its chip's, `label` what it measures, where that is said."""

    name: str
    label: str
    path: str

    def __str__(self) -> str:
        return f"{self.name}:{self.label}" if self.label else self.name


def find_sensors(sysfs: str) -> list[Sensor]:
    """Return all sensors of power; of the two files of one the mean over its own interval."""
    top, read = f"{sysfs}/class/hwmon", Sysfs(Unreadable())  # what cannot be read is no sensor
    found: list[Sensor] = []
    for chip in list(filter(_CHIP.match, read.names(top)))[:MOST_CHIPS]:
        folder = f"{top}/{chip}"
        name = read.text(f"{folder}/name")
        files = [match for each in read.names(folder) if (match := _FILE.match(each))]
        paths = {match[1]: f"{folder}/{match[0]}" for match in reversed(files)}
        for number, path in sorted(paths.items(), key=lambda item: int(item[0])) if name is not None else ():
            stem = f"{folder}/power{number}"
            label = read.text(f"{stem}_label") or read.text(f"{stem}_oem_info") or ""
            found.append(Sensor(name or "", label, path))
    return found


def choose_sensors(wanted: str, sensors: list[Sensor]) -> list[Sensor]:
    """Return the sensors that names with commas between them mean: ``chip``, or ``chip:label``.

    Raises PowerError where one is not there, or a chip alone means several: what they measure may overlap.
    """
    chosen: list[Sensor] = []
    for word in filter(None, map(str.strip, wanted.split(","))):
        name, colon, label = word.partition(":")
        those = [each for each in sensors if each.name == name and (not colon or each.label == label)]
        if len(those) != 1:
            here = shown(", ".join(map(str, those or sensors)), 240) if sensors else "none"
            raise PowerError(f"power.hwmon: {word} is {len(those)} sensors, not one; here: {here}")
        chosen += [each for each in those if each not in chosen]
    return chosen


def read_watts(sensors: list[Sensor]) -> float:
    """Return the sum. Raises OSError, ParseError."""
    microwatts = [parse_count(read_text(each.path, max_bytes=64).strip(), field="power") for each in sensors]
    return checked_watts(sum(microwatts) / 1e6, "hwmon")


def make(config: DaemonConfig) -> Callable[[], float]:
    """Return what reads the sensors, which are looked for again where they have gone."""
    sensors: list[Sensor] = []

    def read() -> float:
        if not sensors:
            sensors.extend(choose_sensors(config.power_hwmon, find_sensors(config.path_sysfs)))
        try:
            return read_watts(sensors)
        except OSError as error:
            if error.errno in VANISHED:
                sensors.clear()
            raise

    return read
