"""Reads the node's block devices from /proc/diskstats, and from sysfs which of them are whole disks.

Sources: Documentation/admin-guide/iostats.rst; Documentation/ABI/testing/sysfs-block. A transfer to a stacked
device (LVM, RAID, encrypted or loop device) is also counted on the devices below it, so only a sum over whole
disks counts each transfer once.

An NVMe disk that could have several controllers is listed twice: as the disk, nvme0n1, and as a path to it,
nvme0c0n1. Before Linux 6.4 only the path counts transfers; since then both do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.snapshot import DiskSample
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text

# Devices in memory or stacked on others, recognised by name even where sysfs does not list them so.
_NO_DISK = re.compile(r"(?:loop|ram|zram|dm-|md_?d?|bcache|drbd|zd)[0-9]+(?:p[0-9]+)?\Z")
_NO_STORAGE = re.compile(r"(?:loop|ram|zram)[0-9]+\Z")  # in files or memory
_PATH = re.compile(r"(nvme[0-9]+)c[0-9]+(n[0-9]+)\Z")
_LINE = re.compile(r" *([0-9]{1,8}) +([0-9]{1,8}) ([^\s]{1,64})((?: [0-9]{1,20}){4,40}) *\Z")


def parse_diskstats(text: str) -> dict[str, DiskSample]:
    """Return the block devices in /proc/diskstats by name; the caller has to set their field `whole`.

    Sample: `` 254       0 vda 45023 11337 3165466 9175 27223 43076 2878264 8078 0 9248 21528``. Raises
    ParseError if a line is malformed.
    """
    disks = {}
    for number, line in enumerate(text.split("\n"), 1):
        if found := _parse_line(line):
            disks[found[0]] = found[1]
        elif line.strip():
            raise ParseError("not a line of /proc/diskstats", source="diskstats", line=number, text=line)
    return disks


@lru_cache(256)  # most devices do nothing between two samples
def _parse_line(line: str) -> tuple[str, DiskSample] | None:
    match = _LINE.match(line)
    if match is None:
        return None
    stats = tuple(map(int, match[4].split()))
    return match[3], DiskSample(major=int(match[1]), minor=int(match[2]), stats=stats)


def find_counted_twice(disks: Mapping[str, DiskSample]) -> frozenset[str]:
    """Return the names of NVMe paths in `disks` (by name) whose transfers are counted on their disk too."""
    paths = {name: f"{match[1]}{match[2]}" for name in disks if (match := _PATH.match(name))}
    return frozenset(name for name, disk in paths.items() if disk in disks and any(disks[disk].stats))


class Disks:
    """Reads the block devices at each sample, and which are whole disks whenever the devices change.

    `others` has the device number of each device that is no whole disk, and whether it is stacked on disks.
    """

    def __init__(self, procfs: str, sysfs: str, unreadable: Unreadable) -> None:
        self._procfs = procfs
        self._sysfs = sysfs
        self._unreadable = unreadable
        self._whole: dict[str, bool | None] = {}
        self._twice: frozenset[str] = frozenset()
        self._last: dict[str, tuple[DiskSample, DiskSample]] = {}  # as read, and with `whole` set
        self.others: Mapping[str, bool] = {}

    def read(self) -> dict[str, DiskSample]:
        """Return all block devices by name; empty if /proc/diskstats cannot be read."""
        path = f"{self._procfs}/diskstats"
        disks = self._unreadable.tried("node_diskstats", lambda: parse_diskstats(read_text(path)))
        if disks is None:
            return {}
        twice = find_counted_twice(disks)
        if disks.keys() != self._whole.keys() or twice != self._twice:
            self._twice = twice
            self._whole = {name: False if name in twice else self._is_whole(name) for name in disks}
            self._last = {}
            self.others = {
                f"{disk.major}:{disk.minor}": name not in twice and not _NO_STORAGE.match(name)
                for name, disk in disks.items()
                if self._whole[name] is False
            }
        last = self._last
        self._last = {
            name: (disk, last[name][1])
            if name in last and last[name][0] is disk
            else (disk, disk._replace(whole=self._whole[name]))
            for name, disk in disks.items()
        }
        return {name: known for name, (_, known) in self._last.items()}

    def _is_whole(self, name: str) -> bool | None:
        """Return whether a device is a whole disk; None if sysfs does not list it: a partition."""
        if _NO_DISK.match(name):
            return False
        folder = f"{self._sysfs}/block/{name.replace('/', '!')}/slaves"
        slaves = self._unreadable.tried("node_block", os.listdir, folder)
        return None if slaves is None else not slaves
