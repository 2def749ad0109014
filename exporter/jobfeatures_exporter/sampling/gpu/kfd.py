"""AMD's compute driver (KFD) below /sys/class/kfd/kfd: finds its files and parses them.

See the kernel's Documentation/ABI/testing/sysfs-class-kfd and the driver's own kfd_topology.c, kfd_process.c.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobfeatures_exporter.sampling.host.sysfs import Sysfs
from jobfeatures_exporter.snapshot import GpuProcess


@dataclass(frozen=True, slots=True)
class KfdNode:
    """One card as KFD knows it."""

    gpu_id: int
    address: str
    architecture: str  # gfx90a
    compute_units: int | None


def parse_properties(text: str) -> dict[str, int]:
    """Return the numbers in ``topology/nodes/N/properties``: a name and a number per line."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if value.isascii() and value.isdigit() and len(value) <= 20:
            found.setdefault(name, int(value))
    return found


def node_of(gpu_id: int, properties: dict[str, int]) -> KfdNode | None:
    """Return a card from its properties, None for a node that is a CPU.

    ``location_id`` is PCI bus, device and function in PCI's encoding, ``domain``
    the PCI domain; ``gfx_target_version`` 90010 means gfx90a.
    """
    location = properties.get("location_id")
    if not gpu_id or location is None:
        return None
    domain = properties.get("domain", 0)
    address = f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
    version = properties.get("gfx_target_version", 0)
    architecture = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""
    per_unit = properties.get("simd_per_cu", 0)
    units = properties.get("simd_count", 0) // per_unit if per_unit else 0
    return KfdNode(gpu_id, address, architecture, units or None)


class Kfd:
    """Reads cards and processes from KFD."""

    def __init__(self, sysfs: str, reader: Sysfs) -> None:
        self._top = f"{sysfs}/class/kfd/kfd"
        self._reader = reader

    def nodes(self) -> list[KfdNode]:
        """Return the cards."""
        found = []
        for name in self._reader.names(f"{self._top}/topology/nodes"):
            place = f"{self._top}/topology/nodes/{name}"
            gpu_id = self._reader.number(f"{place}/gpu_id")
            if gpu_id:
                node = node_of(gpu_id, parse_properties(self._reader.text(f"{place}/properties") or ""))
                if node is not None:
                    found.append(node)
        return found

    def processes(self, nodes: Iterable[KfdNode]) -> dict[str, list[GpuProcess]]:
        """Return the processes by the card's address, with the share of compute units they occupy now."""
        cards = {str(node.gpu_id): node for node in nodes}
        found: dict[str, list[GpuProcess]] = {}
        for name in self._reader.names(f"{self._top}/proc"):
            if not (name.isascii() and name.isdigit()):
                continue
            place = f"{self._top}/proc/{name}"
            for entry in self._reader.names(place):
                number = entry.removeprefix("vram_")
                if number == entry or number not in cards:
                    continue
                node, memory = cards[number], self._reader.number(f"{place}/{entry}")
                units = self._reader.number(f"{place}/stats_{number}/cu_occupancy")
                share = (
                    100.0 * units / node.compute_units if units is not None and node.compute_units else None
                )
                found.setdefault(node.address, []).append(GpuProcess(int(name), memory, share))
        return found
