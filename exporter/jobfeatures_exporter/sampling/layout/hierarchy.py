"""Finds control group hierarchies (v1, v2 or both) below a root directory, and jobs' directories in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import translate
from functools import lru_cache
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable
from jobfeatures_exporter.sampling.layout.jobdirectory import FREEZER, UNIFIED, JobDirectory

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.layout.hierarchies import Places

V1_CONTROLLERS = ("cpuacct", "memory", "cpuset", "blkio", "cpu", "hugetlb", FREEZER)
# Not listed if other controllers have jobs: the paths are the same, and a missing one is not a failure.
_FOLLOWING = frozenset({"cpuset", "blkio", "cpu", "hugetlb", FREEZER})
WILD = frozenset("*?[")
_NUMBERS = count(1)  # of directories found: file systems give inodes again

# Content of the directories listed, by path: inodes by name, or the errno.
Listings = MutableMapping[str, Mapping[str, int] | int | None]


def find_hierarchies(root: str, listings: Listings | None = None) -> dict[str, str]:
    """Return the top directory of each control group hierarchy below `root`, by controller.

    v2 is recognised by ``cgroup.controllers`` at the root, and has the key `UNIFIED`. v1 has a directory for
    each controller or for several (``cpu,cpuacct``); symbolic links are ignored. In a hybrid layout, v2 is in
    ``unified``. The directories listed are added to `listings`, if given, see `are_same`. Raises OSError if
    `root` cannot be read.
    """
    found: dict[str, str] = {}
    try:
        os.stat(f"{root}/cgroup.controllers")
    except OSError as error:
        if error.errno not in VANISHED:
            raise
    else:
        return {UNIFIED: root}
    for name in sorted(_list(root, {} if listings is None else listings)):
        for controller in name.split(","):
            if controller in V1_CONTROLLERS or controller == UNIFIED:
                found.setdefault(controller, f"{root}/{name}")
    return found


@lru_cache(1)  # a job's last figures are read in the milliseconds before its group is removed
def has_local_events(mounts: str = "/proc/self/mounts") -> bool:
    """Return whether v2 is mounted with memory_localevents; False if that cannot be read.

    With this option, which holds for all mounts of v2, a group's memory.events leave out those of the groups
    below (cgroup-v2.rst). `mounts` is the file with the list of mounts.
    """
    with suppress(OSError), open(mounts, encoding="utf-8", errors="replace") as file:
        fields = (line.split(" ") for line in file)
        return any(each[2:3] == ["cgroup2"] and "memory_localevents" in each[3].split(",") for each in fields)
    return False


def list_job_directories(
    hierarchies: Mapping[str, str],
    unreadable: Unreadable,
    *,
    known: Mapping[str, JobDirectory] = MappingProxyType({}),
    listings: Listings | None = None,
    places: Places | None = None,
) -> tuple[list[JobDirectory], bool]:
    """Return the control groups of jobs in all hierarchies, and whether the list is complete.

    A group counts as a job's if it is where a batch system makes groups by default, or at one of `places`.

    Directories that vanish meanwhile are left out. If a directory cannot be listed for another reason, the
    list is incomplete, but all jobs in `known` (by path) that still exist are in it. An unchanged group is
    the same object as in `known`. All directories that were listed are added to `listings`: as long as
    `are_same` is true for these, the control groups of jobs are the same.
    """
    from jobfeatures_exporter.sampling.layout.hierarchies import (  # BPF loads meanwhile
        ORDINARY,
        SHAPES,
        match_path,
    )

    places = places or ORDINARY
    memberships: dict[str, Membership] = {}
    inodes: dict[str, dict[str, int]] = {}  # by path, then by controller
    failures: list[OSError] = []
    following: list[str] = []
    seen = {} if listings is None else listings
    for kind in (*V1_CONTROLLERS, UNIFIED):
        if kind not in hierarchies:
            continue
        top = hierarchies[kind]
        if kind in _FOLLOWING and memberships:
            following.append(kind)
            continue
        try:
            there = _list(top, seen)
        except OSError as error:
            if error.errno not in VANISHED:
                failures.append(error)
            continue
        for system, shapes in SHAPES.items():
            for patterns in (*shapes, *places.shapes[system]):
                if patterns[0] not in there and not WILD.intersection(patterns[0]):
                    continue
                for path, inode in _expand(top, "", patterns, failures, seen, there):
                    membership = match_path(path, places)
                    if membership is None or membership.batch_system != system:
                        continue
                    memberships[path] = membership
                    inodes.setdefault(path, {})[kind] = inode
    for failure in failures:
        unreadable.add("job_directories", failure)
    for path, before in known.items():
        if match_path(path, places) is None:
            continue  # its place counts no longer
        for kind in before.inodes.keys() & hierarchies.keys() - inodes.get(path, {}).keys():
            still = find_inode(f"{hierarchies[kind]}{path}", before.inodes[kind])
            if still is not None:
                memberships[path] = before.membership
                inodes.setdefault(path, {})[kind] = still
    found = []
    for path, membership in memberships.items():
        last = known.get(path)
        if last is None or last.inodes != inodes[path] or last.membership != membership:
            kinds = [*inodes[path], *(following if inodes[path].keys() != {UNIFIED} else ())]
            groups = {kind: f"{hierarchies[kind]}{path}" for kind in kinds}
            last = _named(
                JobDirectory(path=path, membership=membership, groups=groups, inodes=inodes[path]), last
            )
        found.append(last)
    return found, not failures


def find_inode(path: str, last: int) -> int | None:
    """Return a directory's inode number; None if the directory is gone, `last` if it cannot be read."""
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except OSError as error:
        return None if error.errno in VANISHED else last


def _named(now: JobDirectory, last: JobDirectory | None) -> JobDirectory:
    """Return a directory with its names: those of the `last` one at its path for what is still the same.

    On v1 its groups are made, and removed, one hierarchy after the other; inodes of those that follow the
    others are not known. Names of removed ones are kept for what was read of them before.
    """
    name = f"{now.unique_name}#{next(_NUMBERS)}"
    if last is None or not (last.inodes.items() & now.inodes.items()):
        return replace(now, sources=dict.fromkeys(now.groups, name), unique_name=name)
    both = last.groups.keys() & now.groups.keys()
    same = {kind for kind in both if last.inodes.get(kind) in {None, now.inodes.get(kind)}}
    sources = {kind: last.sources.get(kind, name) if kind in same else name for kind in now.groups}
    return replace(now, sources={**last.sources, **sources}, unique_name=last.unique_name)


def are_same(listings: Listings) -> bool:
    """Return whether these directories still have the same entries as when they were listed."""
    again: Listings = {}
    for path in listings:
        with suppress(OSError):
            _list(path, again)
    return again == listings


def _expand(
    top: str,
    path: str,
    patterns: tuple[str, ...],
    failures: list[OSError],
    seen: Listings,
    there: Mapping[str, int] | None = None,
) -> Iterator[tuple[str, int]]:
    """Yield the directories of a shape below `path`, with inodes; `there` is the listing of `path`."""
    while len(patterns) > 1 and not WILD.intersection(patterns[0]):
        # A plain name needs no listing: if it does not exist, listing it fails below.
        path, patterns, there = f"{path}/{patterns[0]}", patterns[1:], None
    if there is None:
        try:
            there = _list(top + path, seen)
        except OSError as error:
            if error.errno not in VANISHED:
                failures.append(error)
            return
    matches = _pattern(patterns[0]).match
    for name in sorted(filter(matches, there)):
        if len(patterns) == 1:
            yield f"{path}/{name}", there[name]
        else:
            yield from _expand(top, f"{path}/{name}", patterns[1:], failures, seen)


def _list(path: str, seen: Listings) -> Mapping[str, int]:
    """Return the inodes of a directory's subdirectories by name, and record them. Raises OSError."""
    try:
        with os.scandir(path) as entries:
            found = {each.name: each.inode() for each in entries if each.is_dir(follow_symlinks=False)}
    except OSError as error:
        seen[path] = error.errno
        raise
    seen[path] = found
    return found


@lru_cache
def _pattern(shape: str) -> re.Pattern[str]:
    return re.compile(translate(shape))
