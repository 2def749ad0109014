"""Finds the processes that use cards through the kernel's DRM, and reads their use from fdinfo.

The descriptors of a process are all scanned when it is first seen, and then only every `RESCAN_SECS`, as that
is expensive. In between, only descriptors known to be of a card are read. Links are judged by their text and
never followed; a descriptor counts only if the kernel's fdinfo says that it is of a DRM client.
"""

from __future__ import annotations

import os
import re

from jobfeatures.records.combining import grouped
from jobfeatures_exporter.model.snapshot import GpuProcess
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text
from jobfeatures_exporter.sampling.gpu.fdinfo import DrmClient, compute_utilisation, parse_fdinfo

RESCAN_SECS = 60.0
MAX_DESCRIPTORS = 1024  # scanned per process
MAX_LOOKS = 100_000  # descriptors per scan
MAX_CLIENTS = 64  # descriptors read per process
_DEVICE = re.compile(r"/dev/dri/(?:card|renderD)[0-9]{1,6}\Z|/dev/kfd\Z")


class DrmClients:
    """Reads which processes use each card through DRM, see `DrmClient`. One thread calls `read`."""

    def __init__(self, procfs: str, unreadable: Unreadable) -> None:
        self._procfs = procfs
        self._unreadable = unreadable
        self._known: set[int] = set()
        self._holders: dict[int, tuple[int, ...]] = {}  # descriptors by process
        self._scanned_secs: float | None = None
        self._before: dict[tuple[int, str, int], tuple[float, DrmClient]] = {}
        self.is_whole = False  # whether all processes could be scanned: then their sum is the card's use

    def read(self, now_secs: float) -> dict[str, list[GpuProcess]]:
        """Return the processes that use each card, by the card's PCI address; `now_secs` is monotonic.

        The utilisation of a process is None at its first reading.
        """
        self._find(now_secs)
        clients: dict[tuple[int, str, int], DrmClient] = {}
        shared: set[tuple[str, int]] = set()
        for pid in sorted(self._holders):
            for descriptor in self._holders[pid]:
                path = f"{self._procfs}/{pid}/fdinfo/{descriptor}"
                text = self._unreadable.tried("gpu_fdinfo", read_text, path, max_bytes=65536)
                client = None if text is None else self._unreadable.tried("gpu_fdinfo", parse_fdinfo, text)
                if client is None:
                    continue
                number = -1 - descriptor if client.client_id is None else client.client_id
                if client.client_id is not None:
                    if (client.address, number) in shared:
                        continue  # the same client by another descriptor, of this process or of a child
                    shared.add((client.address, number))
                clients[pid, client.address, number] = client
        uses = self._uses(clients, now_secs)
        self._before = {place: (now_secs, client) for place, client in clients.items()}
        return uses

    def _find(self, now_secs: float) -> None:
        names = self._unreadable.tried("gpu_processes", os.listdir, self._procfs)
        if names is None:
            return
        pids = {int(name) for name in names if name.isascii() and name.isdigit()}
        due = self._scanned_secs is None or now_secs - self._scanned_secs >= RESCAN_SECS
        if due:
            self._scanned_secs = now_secs
            self.is_whole = True
        left = MAX_LOOKS
        for pid in sorted(pids if due else pids - self._known):
            if left <= 0:  # the remaining processes keep the descriptors found in earlier scans
                self._unreadable.count("gpu_descriptors_limit")
                break
            numbers = self._descriptors(pid)[: min(left, MAX_DESCRIPTORS)]
            left -= len(numbers)
            held = tuple(number for number in numbers if self._leads_to_card(pid, number))
            self.is_whole = self.is_whole and left > 0 and len(held) <= MAX_CLIENTS
            if held:
                self._holders[pid] = held[:MAX_CLIENTS]
            else:
                self._holders.pop(pid, None)
        self._known = pids
        for pid in self._holders.keys() - pids:
            del self._holders[pid]

    def _descriptors(self, pid: int) -> list[int]:
        try:
            names = os.listdir(f"{self._procfs}/{pid}/fd")
        except OSError as error:
            if isinstance(error, PermissionError):
                self.is_whole = False
            self._unreadable.add("gpu_descriptors", error)
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def _leads_to_card(self, pid: int, descriptor: int) -> bool:
        try:
            return _DEVICE.match(os.readlink(f"{self._procfs}/{pid}/fd/{descriptor}")) is not None
        except OSError:  # it was closed meanwhile, or we may not read it
            return False

    def _uses(
        self, clients: dict[tuple[int, str, int], DrmClient], now_secs: float
    ) -> dict[str, list[GpuProcess]]:
        memory: dict[tuple[int, str], int] = {}
        percents: dict[tuple[int, str], float] = {}
        for (pid, address, number), client in clients.items():
            place = pid, address
            if client.memory_bytes is not None:
                memory[place] = memory.get(place, 0) + client.memory_bytes
            earlier = self._before.get((pid, address, number))
            if earlier is not None:
                percent = compute_utilisation(earlier[1], client, now_secs - earlier[0])
                if percent is not None:
                    percents[place] = min(100.0, percents.get(place, 0.0) + percent)
        places = dict.fromkeys((pid, address) for pid, address, _ in clients)
        return grouped(
            (address, GpuProcess(pid, memory.get((pid, address)), percents.get((pid, address))))
            for pid, address in places
        )
