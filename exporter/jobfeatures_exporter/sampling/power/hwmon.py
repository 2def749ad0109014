"""Reads power from the board's own sensor, if the kernel has a driver for it (hwmon).

Source: Documentation/hwmon/sysfs-interface.rst: `powerN_average` and `powerN_input` are microwatts, and
`powerN_label` names what is measured; ACPI's meters (acpi_power_meter.rst) name it in `powerN_oem_info`. Most
power sensors are those of a card, a disk or a rail, so the name of the board's sensor has to be configured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobfeatures.errors import shown
from jobfeatures.records.quantities import parse_count
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text
from jobfeatures_exporter.sampling.host.sysfs import Sysfs
from jobfeatures_exporter.sampling.power import NO_READING, PowerError, checked_watts

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.power import PowerSettings

_CHIP = re.compile(r"hwmon[0-9]{1,5}\Z")
_FILE = re.compile(r"power([0-9]{1,4})_(average|input)\Z")
MOST_CHIPS = 1024


@dataclass(frozen=True, slots=True)
class Sensor:
    """One power sensor: `name` is that of its chip, `label` says what it measures ("" if not known).

    `path` is the file with its reading.
    """

    name: str
    label: str
    path: str

    def __str__(self) -> str:
        return f"{self.name}:{self.label}" if self.label else self.name


def find_sensors(sysfs: str) -> list[Sensor]:
    """Return all power sensors; if one has files ``_average`` and ``_input``, ``_average`` is used."""
    top, read = f"{sysfs}/class/hwmon", Sysfs(Unreadable())  # unreadable ones are ignored
    found: list[Sensor] = []
    for chip in list(filter(_CHIP.match, read.names(top)))[:MOST_CHIPS]:
        folder = os.path.realpath(f"{top}/{chip}")  # below its device: numbers are given again
        name = read.text(f"{folder}/name")
        files = [match for each in read.names(folder) if (match := _FILE.match(each))]
        paths = {match[1]: f"{folder}/{match[0]}" for match in reversed(files)}
        for number, path in sorted(paths.items(), key=lambda item: int(item[0])) if name is not None else ():
            stem = f"{folder}/power{number}"
            label = read.text(f"{stem}_label") or read.text(f"{stem}_oem_info") or ""
            found.append(Sensor(name or "", label, path))
    return found


def choose_sensors(wanted: str, sensors: list[Sensor]) -> list[Sensor]:
    """Return the sensors that `wanted` names, a comma-separated list of ``chip`` or ``chip:label``.

    Raises PowerError if a name matches no sensor, or more than one, whose readings might overlap.
    """
    chosen: list[Sensor] = []
    for word in filter(None, map(str.strip, wanted.split(","))):
        name, colon, label = word.partition(":")
        those = [each for each in sensors if each.name == name and (not colon or each.label == label)]
        if len(those) != 1:
            here = shown(", ".join(map(str, those or sensors)), 240) if sensors else "none"
            raise PowerError(
                f"power.hwmon: {word} must match one sensor, but matches {len(those)}; sensors here: {here}"
            )
        chosen += [each for each in those if each not in chosen]
    return chosen


def read_watts(sensors: list[Sensor]) -> float:
    """Return the sum of the sensors' present readings in watts.

    Raises OSError if one is unreadable, ParseError if it is malformed or impossible.
    """
    microwatts = [parse_count(read_text(each.path, max_bytes=64).strip(), field="power") for each in sensors]
    for watts in NO_READING.intersection(each / 1e6 for each in microwatts):
        checked_watts(watts, "hwmon")
    return checked_watts(sum(microwatts) / 1e6, "hwmon")


def make(config: PowerSettings, sysfs: str) -> Callable[[], float]:
    """Return a function that reads the watts of the configured sensors.

    Raises PowerError if a configured name fits no sensor, or several.
    """
    sensors = choose_sensors(config.hwmon, find_sensors(sysfs))
    return lambda: read_watts(sensors)
