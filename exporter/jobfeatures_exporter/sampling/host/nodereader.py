"""The node as a whole, at each sample."""

from __future__ import annotations

from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.groups.turns import NodeSigns
from jobfeatures_exporter.sampling.host.disks import Disks
from jobfeatures_exporter.sampling.host.procfs import read_node
from jobfeatures_exporter.sampling.processes.attribution import compute_epoch
from jobfeatures_exporter.sampling.values import NodeLook


class NodeReader:
    """Reads the node's own files, and tells what has changed since the last sample."""

    def __init__(self, procfs: str, sysfs: str, unreadable: Unreadable) -> None:
        self._procfs = procfs
        self._unreadable = unreadable
        self._disks = Disks(procfs, sysfs, unreadable)
        self._signs = NodeSigns()
        self._epoch: int | None = None

    def read(self) -> NodeLook:
        """Return the node as it is now. What cannot be read is omitted and counted."""
        node = read_node(self._procfs, self._unreadable, self._disks.read())
        self._signs = self._signs.then(node)
        if self._epoch is None and node.boot_time_secs is not None:
            # Only once: the kernel derives the boot time from the clock, and groups must keep their names.
            self._epoch = compute_epoch(node.boot_time_secs)
        return NodeLook(node, self._signs, self._disks.others, self._epoch)
