"""Lists the GPU cards that the kernel's DRM shows below /sys, and parses their files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from jobfeatures_exporter.sampling.host.sysfs import Sysfs

_CARD = re.compile(r"card([0-9]{1,6})\Z")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_RENDER = re.compile(r"renderD([0-9]{1,6})\Z")


@dataclass(frozen=True, slots=True)
class DrmCard:
    """One card, ``/sys/class/drm/cardN`` with N as `minor`. `address` is on the PCI bus, as ``0000:03:00.0``.

    `vendor` and `device` are PCI ids of four hexadecimal digits.
    """

    minor: int
    path: str
    driver: str
    vendor: str  # four hexadecimal digits
    device: str
    address: str
    render_minors: tuple[int, ...] = ()  # of /dev/dri/renderDN


def drm_cards(sysfs: str, reader: Sysfs) -> Iterator[DrmCard]:
    """Yield the PCI cards with a DRM driver, in the order of their numbers (``card0``, ``card1`` …)."""
    top = f"{sysfs}/class/drm"
    numbers = sorted(int(match[1]) for name in reader.names(top) if (match := _CARD.match(name)))
    for minor in numbers:
        path = f"{top}/card{minor}"
        card = parse_uevent(reader.text(f"{path}/device/uevent") or "", minor=minor, path=path)
        if card is not None:
            renders = (_RENDER.match(name) for name in reader.names(f"{path}/device/drm"))
            yield replace(card, render_minors=tuple(sorted(int(match[1]) for match in renders if match)))


def find_silent(sysfs: str, reader: Sysfs, driver: str, known: Collection[str]) -> list[str]:
    """Return the PCI addresses of cards that `driver` is bound to but could not start.

    These are the cards whose address is not in `known`.
    """
    names = reader.names(f"{sysfs}/bus/pci/drivers/{driver}")
    return [name for name in names if _ADDRESS.match(name) and name not in known]


def place_of(address: str, places: Iterable[str]) -> int:
    """Return the position of a PCI address among those of all cards (`places`), in ascending order."""
    return sorted(places).index(address)


def parse_uevent(text: str, *, minor: int, path: str) -> DrmCard | None:
    """Return the card that the text of a ``device/uevent`` describes; None if it is not a PCI device.

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
    """Return the current clock in MHz: the line of ``pp_dpm_sclk`` with a star; None if there is none.

    Source: amdgpu's documentation. Sample::

        0: 500Mhz
        1: 1700Mhz *
    """
    return next((mhz for mhz, current in _clocks(text) if current), None)


def parse_highest_clock(text: str) -> int | None:
    """Return the highest clock in ``pp_dpm_sclk``, in MHz; None if it has none."""
    return max((mhz for mhz, _ in _clocks(text)), default=None)


def _clocks(text: str) -> Iterator[tuple[int, bool]]:
    for match in re.finditer(r"^[0-9S]{1,3}: ([0-9]{1,6})Mhz( \*)?", text, re.MULTILINE):
        yield int(match[1]), match[2] is not None
