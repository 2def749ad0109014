"""Translates control group paths that the kernel shows to an exporter in a control group namespace.

podman and docker give each container such a namespace by default on control groups v2. Paths in
/proc/PID/cgroup are then relative to our own group: ``0::/../../system.slice/some.scope/job_7``; see
cgroup_namespaces(7). The mounted file system is that of the host, so our own group is found there, by our pid
in ``cgroup.procs``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.groups.groupfiles import read_processes
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, JobDirectory

MAX_GROUPS = 65_536  # looked at to find our own
FIND_AGAIN = 10_000  # lines later, if it was not found
_UP = "/.."
INITIAL_PID_NAMESPACE = 0xEFFF_FFFC  # its inode: include/linux/proc_ns.h of Linux


class GroupNamespace:
    """Turns the paths in a /proc/PID/cgroup into paths from the hierarchy's root."""

    def __init__(self, root: str, unreadable: Unreadable, *, pid: int | None = None) -> None:
        """Take the mount point of control groups, and the exporter's pid (None: this process's)."""
        self._root = root
        self._unreadable = unreadable
        self._pid = os.getpid() if pid is None else pid
        self._own: dict[str, list[str] | None] = {}  # names of our own group, from the root, by controllers
        self._asked: dict[str, int] = {}  # how many lines have asked

    def absolute(self, text: str) -> str:
        """Return the text of a /proc/PID/cgroup with paths from the hierarchy's root.

        Lines whose path cannot be determined are left out.
        """
        if f":{_UP}" not in text:
            return text
        return "\n".join(line for each in text.split("\n") if (line := self._line(each)) is not None)

    def _line(self, line: str) -> str | None:
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        names = path.split("/")[1:]
        ups = next((at for at, name in enumerate(names) if name != ".."), len(names))
        if not ups:
            return line
        asked = self._asked.get(controllers, 0)
        # Again after a while: something may have been unreadable.
        if self._own.get(controllers) is None and not asked % FIND_AGAIN:
            self._own[controllers] = self._find(controllers)
        self._asked[controllers] = asked + 1
        own = self._own[controllers]
        if own is None or ups > len(own):
            return None
        return f"{number}:{controllers}:/{'/'.join((*own[: len(own) - ups], *names[ups:]))}"

    def _find(self, controllers: str) -> list[str] | None:
        """Return the names of our own group, None if the hierarchy is not mounted, or we are not in it."""
        tops = self._unreadable.tried("cgroup_namespace", find_hierarchies, self._root) or {}
        kinds = controllers.split(",") if controllers else (UNIFIED,)
        top = next((tops[kind] for kind in kinds if kind in tops), None)
        for path in () if top is None else _groups(top):
            pids = self._unreadable.tried("cgroup_namespace", read_processes, path)
            if b"\n%d\n" % self._pid in b"\n" + (pids or b""):
                return path.removeprefix(top or "").split("/")[1:]
        if top is not None:
            error = ParseError("the exporter's own control group is not found", source=top)
            self._unreadable.add("cgroup_namespace", error)
        return None


def hides_processes(directory: JobDirectory, procfs: str, *, has_run: bool) -> bool:
    """Return whether a job's group in which we see no process has some in a PID namespace that is not ours.

    If the exporter's container has a PID namespace of its own, this holds for all processes of the host. v2
    lists them as 0, in the group or below it. v1 does not list them: there it is concluded if `has_run`,
    which says that the group's processes have used CPU time meanwhile, and our namespace is not the host's.
    """
    if directory.version != 2:
        try:
            return has_run and os.stat(f"{procfs}/self/ns/pid").st_ino != INITIAL_PID_NAMESPACE
        except OSError:
            return False
    for path in _groups(directory.groups[UNIFIED]):
        with suppress(OSError):  # it has been removed
            if b"0" in read_processes(path).split():
                return True
    return False


def _groups(top: str) -> Iterator[str]:
    """Yield control groups from the top down, MAX_GROUPS at most; those that vanish are passed over."""
    waiting, seen = [top], 0
    for path in waiting:
        try:
            with os.scandir(path) as entries:
                below = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        waiting += below
        seen += 1
        if seen > MAX_GROUPS:
            return
        yield path
