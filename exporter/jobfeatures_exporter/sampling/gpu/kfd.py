"""Finds and parses the files of AMD's compute driver (KFD) below /sys/class/kfd/kfd.

KFD calls each device a node: a CPU, a card, or each partition of a divided card (MI300: DPX, TPX, QPX, CPX).

See the kernel's Documentation/ABI/testing/sysfs-class-kfd and the driver's own kfd_topology.c, kfd_process.c.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from jobfeatures.records.combining import grouped, sum_known
from jobfeatures_exporter.model.snapshot import GpuProcess
from jobfeatures_exporter.sampling.host.sysfs import Sysfs


@dataclass(frozen=True, slots=True)
class KfdNode:
    """One card, or one partition of a card, as KFD describes it.

    `address` is the card's PCI address, `architecture` like ``gfx90a``, `render_minor` the N of
    /dev/dri/renderDN.
    """

    gpu_id: int
    address: str
    architecture: str  # gfx90a
    compute_units: int | None
    render_minor: int | None = None  # of /dev/dri/renderDN


def parse_properties(text: str) -> dict[str, int]:
    """Return the numbers in ``topology/nodes/N/properties`` by name: each line has a name and a number."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if value.isascii() and value.isdigit() and len(value) <= 20:
            found.setdefault(name, int(value))
    return found


def node_of(gpu_id: int, properties: dict[str, int]) -> KfdNode | None:
    """Return the card or partition with these properties; None if the KFD node is a CPU.

    ``location_id`` is the PCI bus, device and function in PCI's encoding, ``domain`` the PCI domain;
    ``gfx_target_version`` 90010 means gfx90a. The number of a partition is in the function, or in bits 28 to
    31 with older kernels.
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
    return KfdNode(gpu_id, address, architecture, units or None, properties.get("drm_render_minor") or None)


def nodes_of(addresses: Collection[str], nodes: Iterable[KfdNode]) -> dict[str, list[KfdNode]]:
    """Return the KFD nodes of each card, by the card's PCI address; `addresses` are those of all cards.

    A partition has a PCI function of its own: it belongs to the card with the same PCI device.
    """
    by_board = {address.rpartition(".")[0]: address for address in sorted(addresses, reverse=True)}
    return grouped(
        (node.address if node.address in addresses else by_board[board], node)
        for node in nodes
        if (board := node.address.rpartition(".")[0]) in by_board
    )


class Kfd:
    """Reads cards and processes from KFD."""

    def __init__(self, sysfs: str, reader: Sysfs) -> None:
        self._top = f"{sysfs}/class/kfd/kfd"
        self._reader = reader

    def nodes(self) -> list[KfdNode]:
        """Return all cards and partitions, without the KFD nodes that are CPUs."""
        found = []
        for name in self._reader.names(f"{self._top}/topology/nodes"):
            place = f"{self._top}/topology/nodes/{name}"
            gpu_id = self._reader.number(f"{place}/gpu_id")
            if gpu_id:
                node = node_of(gpu_id, parse_properties(self._reader.text(f"{place}/properties") or ""))
                if node is not None:
                    found.append(node)
        return found

    def processes(self, nodes: Mapping[str, Collection[KfdNode]]) -> dict[str, list[GpuProcess]]:
        """Return the processes on each card by its PCI address, with their memory and share of compute units.

        `nodes` has the KFD nodes of each card: the figures of a process are summed over them.
        """
        cards = {str(node.gpu_id): address for address, mine in nodes.items() for node in mine}
        units_of = {address: [node.compute_units for node in mine] for address, mine in nodes.items()}
        memory: dict[tuple[str, int], int | None] = {}
        occupied: dict[tuple[str, int], int | None] = {}
        for name in self._reader.names(f"{self._top}/proc"):
            if not (name.isascii() and name.isdigit()):
                continue
            place = f"{self._top}/proc/{name}"
            for entry in self._reader.names(place):
                number = entry.removeprefix("vram_")
                if number == entry or number not in cards:
                    continue
                use = cards[number], int(name)
                used = self._reader.number(f"{place}/{entry}")
                memory[use] = sum_known((memory.get(use), used))
                units = self._reader.number(f"{place}/stats_{number}/cu_occupancy")
                occupied[use] = sum_known((occupied.get(use), units))
        return grouped(
            (address, GpuProcess(pid, used, _share(occupied[address, pid], units_of[address])))
            for (address, pid), used in memory.items()
        )


def _share(occupied: int | None, units: Collection[int | None]) -> float | None:
    """Return the percentage of a card's compute units, None if these are not all known."""
    total = sum(each or 0 for each in units)
    return None if occupied is None or not total or None in units else 100.0 * occupied / total
