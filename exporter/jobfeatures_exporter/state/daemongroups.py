"""Reads the control groups of a batch system's processes, to see whether and where its jobs have some.

Any user can run a program with a daemon's name: only root's processes count. The result is advice for people,
who judge it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Collection, Iterator

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.groups import count_named
from jobfeatures.batch.processes import is_in_container, read_real_uid
from jobfeatures.errors import ParseError
from jobfeatures.system.privatefile import read_bounded
from jobfeatures_exporter.model.missing import DaemonGroups
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.layout.hierarchies import find_parent, is_no_place, match_path, match_unit
from jobfeatures_exporter.sampling.processes.namespace import GroupNamespace

MAX_PROCESSES = 4096  # of a batch system, with all that descend from them
MAX_FILE_BYTES = 2**16
FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of include/linux/proc_ns.h
LOST = "run the exporter with --cgroupns=host, or mount the host's /sys/fs/cgroup there"
HIDDEN = "hidepid: run the exporter as root, or in the group that gid= of /proc names"
_CHANGING = re.compile(r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{12,}")
_UNQUOTABLE = re.compile(r'[^ -~]|[\\",]')  # in TOML, and in a list
_SPECIAL = re.compile(r"[*?[]")


def parent_of(path: str, job_id: str, above: str = "") -> str | None:
    """Return the parent of the job's control group in `path`; None if no part of the path looks like one.

    A job's group is recognised by the form of its name, or by a name that contains the job's number. Numbers
    only count below the groups that `path` and `above`, the group of the batch system's daemon, have in
    common. If several parts look like a job's group, the topmost one counts: a job may make groups inside its
    own.
    """
    number = re.compile(rf"(?<![0-9A-Za-z]){re.escape(job_id)}(?![0-9])")
    names, shared = path.split("/"), 0
    for name, other in zip(names, above.split("/"), strict=False):
        if name != other:
            break
        shared += 1
    named = (at for at, name in enumerate(names) if at >= shared and job_id and number.search(name))
    candidates = [parent for parent in (find_parent(path),) if parent is not None]
    candidates += ["/".join(names[:at]) for at in itertools.islice(named, 1)]
    return (min(candidates, key=len) or "/") if candidates else None


def pattern_of(parent: str) -> str:
    """Return a control group's path as a pattern for the setting batch.cgroup_parents.

    The ids of containers in it become ``*``.
    """
    quoted = _SPECIAL.sub(lambda match: f"[{match[0]}]", parent)
    return _CHANGING.sub("*", _UNQUOTABLE.sub("?", quoted))


def container_of(path: str) -> str | None:
    """Return the path of the control group of a container, if `path` is in or below it.

    Returns None if `path`, which is a control group's too, is in no container.
    """
    names = path.split("/")
    tops = ("/".join(names[:at]) for at in range(2, len(names) + 1))
    return next((top for top in tops if _is_container(top)), None)


def _is_container(path: str) -> bool:
    unit = match_unit(path)
    return unit is not None and unit.kind is Kind.CONTAINER


class GroupReader:
    """Reads the control groups of processes, as paths from the hierarchy's root.

    If several daemons of a batch system run here, the one with `node_name` in its control group or arguments
    counts. `named` are the groups in the setting batch.cgroup_parents. `of_system` concludes that a daemon
    makes no groups for jobs only if the daemon runs on the host itself, or in a container in `named`.
    """

    def __init__(self, procfs: str, cgroup: str, node_name: str = "", named: Collection[str] = ()) -> None:
        self._procfs = procfs
        self._node_name = node_name
        self._named = [each.split("/")[1:] for each in named]
        self._absolute = GroupNamespace(cgroup, Unreadable()).absolute

    def paths(self, pid: int) -> tuple[str, ...]:
        """Return the control groups of a process, each once; empty if they cannot be read."""
        paths = (line.split(":", 2)[-1] for line in self._absolute(self._read(pid)).split("\n"))
        return tuple(dict.fromkeys(path for path in paths if path.startswith("/")))

    def _read(self, pid: int) -> str:
        with contextlib.suppress(OSError):
            return read_bounded(f"{self._procfs}/{pid}/cgroup", MAX_FILE_BYTES)[0].decode("utf-8", "replace")
        return ""

    def of_system(self, name: str, job_ids: Collection[str]) -> DaemonGroups:
        """Return where the batch system `name` puts its daemon, and where it seems to put the groups of jobs.

        Control groups of the jobs `job_ids` are recognised as by `parent_of`.
        """
        system = SYSTEMS[name]
        commands = tuple(filter(None, (system.daemon, system.supervisor)))
        parents_of, named = self._processes(commands)
        believed = [pid for pid in named if self._is_believed(pid)]

        def rank(pid: int) -> tuple[bool, bool, bool, int]:
            return named[pid] != system.daemon, not self._is_of_node(pid), pid not in believed, pid

        daemon = min(named, key=rank, default=None)
        own = () if daemon is None else self.paths(daemon)
        group = None if daemon is None else max(own, key=len, default="")
        groups = [self.paths(pid) for pid in _descendants(named, parents_of) if pid != daemon]
        found: dict[str, None] = {}
        for path in dict.fromkeys(path for paths in groups for path in paths if path not in own):
            if match_path(path) is None:
                candidates = {parent_of(path, job_id, group or "") for job_id in job_ids or ("",)}
                found.update(dict.fromkeys(each for each in candidates if each and not is_no_place(each)))
        # On a further host of a job nothing may run yet; a supervisor does wherever there is one.
        theirs = [self.paths(pid) for pid in _descendants(believed, parents_of) if pid != daemon]
        is_seen = daemon in believed and bool(own) and bool(theirs or system.supervisor is None)
        makes_none = is_seen and all(paths == own for paths in theirs)
        return DaemonGroups(system.daemon or "its daemon", group, tuple(found), makes_none)

    def _is_believed(self, pid: int) -> bool:
        """Return whether a daemon is the host's, or in a container that settings name."""
        with contextlib.suppress(OSError):
            named = (count_named(path.split("/")[1:], self._named) for path in self.paths(pid))
            return not is_in_container(self._procfs, pid) or any(named)
        return False

    def _is_of_node(self, pid: int) -> bool:
        if any(f"/{self._node_name}_" in path for path in self.paths(pid)):
            return True
        with contextlib.suppress(OSError):
            arguments = read_bounded(f"{self._procfs}/{pid}/cmdline", MAX_FILE_BYTES)[0].split(b"\0")
            return os.fsencode(self._node_name) in arguments
        return False

    def _processes(self, commands: Collection[str]) -> tuple[dict[int, int], dict[int, str]]:
        """Return the parent of each process, and which run one of these programs as root."""
        parents: dict[int, int] = {}
        named: dict[int, str] = {}
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = os.listdir(self._procfs)
        for pid in map(int, filter(str.isdigit, names)):
            with contextlib.suppress(OSError, ParseError, ValueError, IndexError):
                stat = read_bounded(f"{self._procfs}/{pid}/stat", MAX_FILE_BYTES)[0].decode(
                    "utf-8", "replace"
                )
                parents[pid] = int(stat.rpartition(")")[2].split()[1])
                command = stat.partition("(")[2].rpartition(")")[0]
                if command in commands and read_real_uid(self._procfs, pid) == 0:
                    named[pid] = command
        return parents, named

    def has_unknown_root(self) -> bool:
        """Return whether the full paths of control groups cannot be found out.

        That is so if /proc shows paths relative to our cgroup namespace's root, and it is unknown where that
        root is.
        """
        text = self._read(1)
        return ":/.." in text and not self._absolute(text)

    def why_unseen(self) -> str:
        """Return, as advice, why a batch system's processes may be invisible, and what to do."""
        if not os.path.exists(f"{self._procfs}/1"):
            return HIDDEN
        with contextlib.suppress(OSError):
            if os.stat(f"{self._procfs}/self/ns/pid").st_ino != FIRST_PID_NAMESPACE:
                return "run the exporter in the host's process namespace (podman --pid=host, hostPID: true)"
        return "does it run here, as root?"


def _descendants(named: Collection[int], parents: dict[int, int]) -> Iterator[int]:
    """Yield these processes and all that descend from them."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    waiting, seen = sorted(named), set(named)
    for pid in waiting:
        if len(seen) >= MAX_PROCESSES:
            break
        new = [each for each in children.get(pid, ()) if each not in seen]
        seen.update(new)
        waiting += new
    yield from waiting
