"""Proves that nobody but root and a batch system can have made the control groups below a parent.

A group counts as a job's only if root alone can have made it. So its parent and all groups above have to
belong to root, and none may be delegated to somebody else or be a container's. In addition, a daemon of the
batch system has to run on the host itself, as root, from a program file that root alone can write. A name
alone proves nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from jobfeatures.batch.groups import BatchHierarchy
from jobfeatures.batch.processes import parse_uids
from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import VANISHED, read_file
from jobfeatures_exporter.sampling.layout.hierarchies import is_in_container, is_no_place

ROOT_UID = 0
DELEGATED = ("user.delegate", "trusted.delegate")  # set by systemd; see "Control Group APIs and Delegation"
ALL_UIDS = [b"0", b"0", b"4294967295"]  # /proc/PID/uid_map of the host's user namespace, user_namespaces(7)
NAMESPACES = ("cgroup", "pid")
_NO_ATTRIBUTE = frozenset({errno.ENODATA, errno.ENOTSUP, errno.EPERM, errno.EACCES})


class DaemonProcess(NamedTuple):
    """A process with the name of a batch system's daemon, with the paths of its control groups.

    `problem` says why it does not prove that this daemon runs here; "" if it does.
    """

    pid: int
    groups: frozenset[str]  # its control groups, from the hierarchies' roots
    problem: str = ""


def find_daemons(
    hierarchy: BatchHierarchy,
    procfs: str,
    *,
    trusted: Collection[int],
    absolute: Callable[[str], str] = lambda text: text,
) -> list[DaemonProcess]:
    """Return the processes on the host that have the name of a daemon of this batch system.

    `trusted` are the uids that the daemon may run as. `absolute` turns the paths in a /proc/PID/cgroup into
    paths from the hierarchy's root. What cannot be read is reported as the process's `problem`. Raises
    OSError if /proc cannot be listed.
    """
    found = []
    for pid in filter(str.isdigit, os.listdir(procfs)):
        folder = f"{procfs}/{pid}"
        try:
            name = read_file(f"{folder}/comm").strip().decode("utf-8", "replace")
            if name not in hierarchy.daemons:
                continue
            groups = _parse_groups(absolute(read_file(f"{folder}/cgroup").decode("utf-8", "replace")))
            if not any(hierarchy.daemons[name] in each for each in groups):
                continue
            problem = _find_problem(procfs, folder, hierarchy.daemons, groups, trusted)
        except OSError as error:
            if error.errno in VANISHED:
                continue
            groups, problem = frozenset(), f"process {pid} ({name}) cannot be read: {error.strerror}"
        except ParseError:
            groups, problem = frozenset(), f"process {pid} ({name}) has no uids"
        found.append(DaemonProcess(int(pid), groups, problem))
    return found


def _find_problem(
    procfs: str, folder: str, names: Mapping[str, str], groups: Iterable[str], trusted: Collection[int]
) -> str:
    """Return why a process is no proof, "" if it is one. Raises OSError if unreadable."""
    pid = os.path.basename(folder)
    if not {*parse_uids(read_file(f"{folder}/status"))[:3]} <= {*trusted}:
        return f"process {pid} with a daemon's name is not root's"
    if read_file(f"{folder}/uid_map").split() != ALL_UIDS:
        return f"process {pid} is in a user namespace"
    for each in NAMESPACES:
        if os.readlink(f"{folder}/ns/{each}") != _read_namespace(procfs, each):
            return f"process {pid} is in a container: its {each} namespace is not the host's"
    program = os.readlink(f"{folder}/exe").removesuffix(" (deleted)")
    if not any(_is_called(os.path.basename(program), each) for each in names):
        return f"process {pid} with a daemon's name runs {os.path.basename(program)}"
    for what in (f"{folder}/exe", f"{folder}/root{os.path.dirname(program)}"):
        if not _is_roots(os.stat(what)):
            return f"others than root can write the program of process {pid}, or its folder"
    for group in groups:
        if is_in_container(group) or is_no_place(group):
            return f"process {pid} stands in {group}, a container's, a user's or a job's group"
    return ""


def _read_namespace(procfs: str, kind: str) -> str:
    """Return the host's namespace: that of process 1, or ours where that is kept from us. Raises OSError."""
    try:
        return os.readlink(f"{procfs}/1/ns/{kind}")
    except PermissionError:
        return os.readlink(f"{procfs}/self/ns/{kind}")


def _is_called(program: str, name: str) -> bool:
    """Return whether a program is a daemon's, as distributions may call it: Debian's slurmd is slurmd-wlm."""
    return program == name or program.startswith(f"{name}-")


def _parse_groups(text: str) -> frozenset[str]:
    paths = (line.split(":", 2)[2] for line in text.split("\n") if line.count(":") > 1)
    return frozenset(paths)


def _is_roots(found: os.stat_result) -> bool:
    return found.st_uid == ROOT_UID and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def find_flaw(top: str, path: str, daemons: Collection[DaemonProcess]) -> str:
    """Return why somebody other than root may have made control groups below `path`; "" if nobody may.

    `top` is the directory of the hierarchy's root, and `path` begins there. A group that systemd delegates
    to a unit's processes is no reason if one of the batch system's `daemons` runs in it: then systemd
    delegates the group to that daemon. Raises OSError if a group cannot be read.
    """
    if is_in_container(path):
        return "it is in a container"
    names = path.split("/")[1:]
    for depth in range(len(names) + 1):
        above = "".join(f"/{name}" for name in names[:depth])
        found = os.stat(top + above, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode) or not _is_roots(found):
            return f"{above or '/'} can be written by others than root"
        if above and not _stands_in(above, daemons) and is_delegated(top + above):
            return f"{above} is delegated by systemd to its own processes"
    return ""


def find_other_writer(made: str, daemons: Collection[DaemonProcess]) -> str:
    """Return why the control group at path `made` may be in a container; "" if it cannot be. No I/O.

    `made` is a group with groups below that look like jobs'. `daemons` are the processes of the batch
    system's daemon. A container is never a slice, as slices only contain other units of systemd. So the first
    group above `made` that is not a slice, from the root down, has to contain one of the daemons. If that
    group contains none, it may be a container's. If all groups above `made` are slices, "" is returned.
    """
    names = made.split("/")[1:]
    for depth, name in enumerate(names[:-1], start=1):
        if not name.endswith(".slice"):
            above = "".join(f"/{each}" for each in names[:depth])
            return "" if _stands_in(above, daemons) else f"{above} holds no daemon of the batch system"
    return ""


def _stands_in(path: str, daemons: Collection[DaemonProcess]) -> bool:
    return any(f"{group}/".startswith(f"{path}/") for each in daemons for group in each.groups)


def is_delegated(directory: str) -> bool:
    """Return whether systemd has marked a control group as delegated. Raises OSError if unreadable."""
    for name in DELEGATED:
        try:
            if os.getxattr(directory, name, follow_symlinks=False) == b"1":
                return True
        except OSError as error:
            if error.errno not in _NO_ATTRIBUTE:
                raise
    return False


def find_named_flaw(top: str, entry: str, path: str) -> str:
    """Return why somebody other than the owner of the group `entry` may have made groups below `path`.

    Returns "" if nobody else may. `entry` is the path of a group that settings name. `path` is the same
    group, or one below. `top` is the directory of the hierarchy's root, at which both paths begin. The owner
    may be the root user of a container. Raises OSError if a group cannot be read.
    """
    owner = os.stat(top + entry, follow_symlinks=False).st_uid
    names = path.removeprefix(entry).split("/")[1:]
    for depth in range(len(names) + 1):
        below = entry + "".join(f"/{name}" for name in names[:depth])
        found = os.stat(top + below, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & stat.S_IWOTH:
            return f"{below} is not of the owner of {entry}"
    return ""
