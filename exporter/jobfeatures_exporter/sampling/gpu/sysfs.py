"""Cards as the kernel shows them below /sys: one value a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_file

_CARD = re.compile(r"card([0-9]{1,6})\Z")
_HWMON = re.compile(r"hwmon[0-9]{1,6}\Z")
_NUMBER = re.compile(r"-?[0-9]{1,20}\Z")
MAX_BYTES = 65536


@dataclass(frozen=True, slots=True)
class DrmCard:
    """One ``/sys/class/drm/cardN``. `address` is that of its bus, such as ``0000:03:00.0``."""

    minor: int
    path: str
    driver: str
    vendor: str  # four hexadecimal digits
    device: str
    address: str


class Sysfs:
    """Reads values; one that is not there or not readable is None, and counted where it should be there."""

    def __init__(self, unreadable: Unreadable) -> None:
        self._unreadable = unreadable

    def text(self, path: str) -> str | None:
        """Return a file's text without blanks around it."""
        try:
            return read_file(path, max_bytes=MAX_BYTES).decode("utf-8", "replace").strip()
        except OSError as error:
            self._unreadable.add("gpu_sysfs", error)
            return None

    def number(self, path: str) -> int | None:
        """Return a file's number."""
        text = self.text(path)
        if text is None:
            return None
        if not _NUMBER.match(text):
            self._unreadable.add("gpu_sysfs", ParseError("not a number", source=path, text=text))
            return None
        return int(text)

    def scaled(self, path: str, scale: float) -> float | None:
        """Return a file's number, scaled."""
        value = self.number(path)
        return None if value is None else value * scale

    def first(self, *paths: str) -> int | None:
        """Return the number of the first file that has one."""
        return next((value for path in paths if (value := self.number(path)) is not None), None)

    def names(self, path: str) -> list[str]:
        """Return the entries of a directory, sorted; none where it cannot be listed."""
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            self._unreadable.add("gpu_sysfs", error)
            return []

    def hwmon(self, device: str) -> str | None:
        """Return the directory of a device's sensors."""
        names = [name for name in self.names(f"{device}/hwmon") if _HWMON.match(name)]
        return f"{device}/hwmon/{names[0]}" if names else None


def drm_cards(sysfs: str, reader: Sysfs) -> Iterator[DrmCard]:
    """Yield the cards that have a DRM driver, by their number."""
    top = f"{sysfs}/class/drm"
    numbers = sorted(int(match[1]) for name in reader.names(top) if (match := _CARD.match(name)))
    for minor in numbers:
        path = f"{top}/card{minor}"
        card = parse_uevent(reader.text(f"{path}/device/uevent") or "", minor=minor, path=path)
        if card is not None:
            yield card


def parse_uevent(text: str, *, minor: int, path: str) -> DrmCard | None:
    """Return the card of ``device/uevent``, None for one that is on no PCI bus.

    Sample, shortened::

        DRIVER=amdgpu
        PCI_ID=1002:740F
        PCI_SLOT_NAME=0000:03:00.0
    """
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    vendor, colon, device = values.get("PCI_ID", "").lower().partition(":")
    address = values.get("PCI_SLOT_NAME", "")
    if not (colon and address):
        return None
    return DrmCard(minor, path, values.get("DRIVER", ""), vendor, device, address)


def parse_current_clock(text: str) -> int | None:
    """Return MHz of the line with the star in ``pp_dpm_sclk``, see amdgpu's documentation.

    Sample::

        0: 500Mhz
        1: 1700Mhz *
    """
    return next((mhz for mhz, current in _clocks(text) if current), None)


def parse_highest_clock(text: str) -> int | None:
    """Return MHz of the highest clock in ``pp_dpm_sclk``."""
    return max((mhz for mhz, _ in _clocks(text)), default=None)


def _clocks(text: str) -> Iterator[tuple[int, bool]]:
    for match in re.finditer(r"^[0-9S]{1,3}: ([0-9]{1,6})Mhz( \*)?", text, re.MULTILINE):
        yield int(match[1]), match[2] is not None
