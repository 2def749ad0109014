"""Reads AMD's cards through ROCm SMI, by pyrsmi, where this is installed.

pyrsmi below version 1 uses librocm_smi64.so. Later versions are not used, and the kernel's files are read
instead. Those versions use libamd_smi.so with prototypes that differ from amdsmi.h, so that the library would
read arguments that were not passed. They also import the package amdsmi, which prints and raises at import on
a machine without such hardware.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from jobfeatures.records.combining import grouped

log = logging.getLogger(__name__)

LIBRARY = "librocm_smi64.so"


class RocmSmi:
    """Queries ROCm SMI about cards, by their PCI address."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._refused: set[tuple[str, int]] = set()
        # Each partition of a card is a device here, whose figures are not the card's: these are the kernel's.
        places = grouped(
            (format_address(place).rpartition(".")[0], (format_address(place), number))
            for number in range(max(0, library.smi_get_device_count()))
            if (place := library.smi_get_device_pci_id(number)) >= 0
        )
        self._numbers: Mapping[str, int] = dict(found[0] for found in places.values() if len(found) == 1)

    def number(self, function: str, address: str) -> float | None:
        """Return the result, a number, of a ROCm SMI function for the card at `address`; None if it fails."""
        value = self._ask(function, address)
        if isinstance(value, int | float) and value >= 0:
            return value
        self._refuse(function, address)
        return None

    def text(self, function: str, address: str) -> str:
        """Return the result, a text, of a ROCm SMI function for the card at `address`; "" if it fails."""
        value = self._ask(function, address)
        return value if isinstance(value, str) else ""

    def close(self) -> None:
        """Shut down ROCm SMI."""
        self._library.smi_shutdown()

    def _ask(self, function: str, address: str) -> Any | None:
        number = self._numbers.get(address)
        call: Callable[[int], Any] | None = getattr(self._library, function, None)
        if number is None or call is None or (function, number) in self._refused:
            return None
        try:
            return call(number)
        except (AttributeError, UnicodeDecodeError):  # an older library lacks it, or the text is garbled
            self._refuse(function, address)
            return None

    def _refuse(self, function: str, address: str) -> None:
        """Stop calling a function without a result: pyrsmi would write a log line each time."""
        number = self._numbers.get(address)
        if number is not None:
            self._refused.add((function, number))


def open_rocm() -> RocmSmi | None:
    """Load and start ROCm SMI; return None if pyrsmi or its library is missing, unsuitable or fails."""
    try:
        helpers: Any = importlib.import_module("pyrsmi.util")
        # pyrsmi.rocml runs rocminfo at import, and prints if it is missing. UUIDs come from the kernel.
        helpers.get_device_uuids = list
        library: Any = importlib.import_module("pyrsmi.rocml")
    except ImportError:
        return None
    if getattr(library, "LIBROCM_NAME", "") != LIBRARY:
        log.info(
            "the installed pyrsmi does not use ROCm SMI: AMD GPUs are read from the kernel's files instead"
        )
        return None
    library._driver_initialized = lambda: True  # noqa: SLF001  # it would start a shell; we know from files
    try:
        library.smi_initialize()
        return RocmSmi(library)
    except Exception as error:  # noqa: BLE001  # its errors have no common base
        log.info("cannot initialize ROCm SMI: %s", error or type(error).__name__)
        return None


def format_address(place: int) -> str:
    """Return a PCI address like ``0000:03:00.0``.

    `place` is ROCm SMI's number: domain << 32 | bus << 8 | device << 3 | function.
    """
    return f"{place >> 32:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
