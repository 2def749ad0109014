"""The hardware of the node, as a frozen record; it hardly ever changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jobfeatures_exporter.model.snapshot import GpuCard


class Software(NamedTuple):
    """A software package that is installed for all users; `key` is its identifier, `name` the one to show."""

    key: str
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SysinfoSample:
    """The hardware of the node, and software for GPUs; a number that is unknown is None.

    All sockets and cores are taken to be alike: where they differ, the largest number is shown.
    """

    taken_at_secs: float
    os_name: str
    os_release: str
    architecture: str
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    physical_cores: int | None = None  # those online, of all sockets
    cpu_model: str = ""
    memory_bytes: int | None = None
    numa_distances: tuple[tuple[int, ...], ...] = ()  # from each NUMA node to each, 10 to itself
    topology_svg: str = ""  # hwloc's drawing, and its text
    topology_text: str = ""
    cards: tuple[GpuCard, ...] = ()
    software: tuple[Software, ...] = ()  # software for cards, if its folder is configured
