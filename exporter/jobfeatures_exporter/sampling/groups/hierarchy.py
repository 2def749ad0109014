"""Finds control group hierarchies (v1, v2 or both) and the directories of jobs in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from types import MappingProxyType

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable

UNIFIED = "unified"  # key of the v2 hierarchy next to the controllers of v1
V1_CONTROLLERS = ("cpuacct", "memory", "cpuset", "blkio", "cpu")
# Not listed if other controllers have jobs: the paths are the same, and a missing one is not a failure.
_FOLLOWING = frozenset({"cpuset", "blkio", "cpu"})
WILD = frozenset("*?[")

# Content of the directories listed, by path: inodes by name, or the errno.
Listings = MutableMapping[str, Mapping[str, int] | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDirectory:
    """One job's control group, by its path from the root: the same in every hierarchy of v1.

    `groups` has its directories by controller, `UNIFIED` for v2. `inodes`
    distinguishes them from earlier directories with the same path: a requeued
    job, or the next job in a slot, gets new directories.
    """

    path: str
    membership: Membership
    groups: Mapping[str, str]
    inodes: Mapping[str, int] = field(default_factory=dict)
    cpu_source: str = field(init=False, compare=False)  # unique id of the group that counts CPU time

    def __post_init__(self) -> None:
        own = next(iter(self.inodes.values()), None)
        number = self.inodes.get("cpuacct") or self.inodes.get(UNIFIED) or own
        object.__setattr__(self, "cpu_source", f"{self.path}@{number}")

    @property
    def version(self) -> int:
        """Return the version of control groups that counts for this job: 2 if no v1 hierarchy has it."""
        return 2 if self.groups.keys() == {UNIFIED} else 1


def find_hierarchies(root: str, listings: Listings | None = None) -> dict[str, str]:
    """Return the directory of each hierarchy below `root` by controller.

    v2 is recognised by ``cgroup.controllers`` at the root; v1 has a directory per
    controller or for several (``cpu,cpuacct``), ignoring symbolic links; in a hybrid
    layout v2 is in ``unified``. Raises OSError if `root` cannot be listed.
    """
    if os.path.exists(f"{root}/cgroup.controllers"):
        return {UNIFIED: root}
    found: dict[str, str] = {}
    for name in sorted(_list(root, {} if listings is None else listings)):
        for controller in name.split(","):
            if controller in V1_CONTROLLERS or controller == UNIFIED:
                found.setdefault(controller, f"{root}/{name}")
    return found


def list_job_directories(
    hierarchies: Mapping[str, str],
    unreadable: Unreadable,
    *,
    known: Mapping[str, JobDirectory] = MappingProxyType({}),
    listings: Listings | None = None,
) -> tuple[list[JobDirectory], bool]:
    """Return the control groups of jobs in all hierarchies, and whether the list is complete.

    Directories that vanish meanwhile are omitted; if one cannot be listed for another reason, missing jobs
    may still exist. Unchanged directories are the objects in `known`, by path. `listings` is filled with all
    directories listed: while `are_same` holds for it, the result does not change.
    """
    from jobfeatures_exporter.sampling.hierarchies import BATCH_HIERARCHIES, match_path  # BPF loads meanwhile

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
        for batch in BATCH_HIERARCHIES:
            for patterns in batch.job_directories:
                if patterns[0] not in there and not WILD.intersection(patterns[0]):
                    continue
                for path, inode in _expand(top, "", patterns, failures, seen, there):
                    membership = match_path(path)
                    if membership is None or membership.batch_system != batch.name:
                        continue
                    memberships[path] = membership
                    inodes.setdefault(path, {})[kind] = inode
    for failure in failures:
        unreadable.add("job_directories", failure)
    found = []
    for path, membership in memberships.items():
        last = known.get(path)
        if last is None or last.inodes != inodes[path]:
            kinds = [*inodes[path], *(following if inodes[path].keys() != {UNIFIED} else ())]
            groups = {kind: f"{hierarchies[kind]}{path}" for kind in kinds}
            last = JobDirectory(path=path, membership=membership, groups=groups, inodes=inodes[path])
        found.append(last)
    return found, not failures


def are_same(listings: Listings) -> bool:
    """Return whether the content of these directories is unchanged."""
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
