"""Where control groups are: the hierarchies of v1, v2 or both, and the directories of jobs in them."""

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

UNIFIED = "unified"  # stands for the hierarchy of v2 among the controllers of v1
V1_CONTROLLERS = ("cpuacct", "memory", "cpuset", "blkio", "cpu")
# Not listed where others have the jobs: the paths are the same, and what is not there is no failure.
_FOLLOWING = frozenset({"cpuset", "blkio", "cpu"})
WILD = frozenset("*?[")

# What directories that were looked into have, by path: inodes by name, or the error's number.
Listings = MutableMapping[str, Mapping[str, int] | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDirectory:
    """One job's control group, by its path from the root: the same in every hierarchy of v1.

    `groups` has its directories by controller, `UNIFIED` for that of v2, and
    `inodes` tells them from others that had the same path before: a job that
    runs again, or the next one in a slot, has directories of its own.
    """

    path: str
    membership: Membership
    groups: Mapping[str, str]
    inodes: Mapping[str, int] = field(default_factory=dict)
    cpu_source: str = field(init=False, compare=False)  # tells the one that counts CPU time from all others

    def __post_init__(self) -> None:
        own = next(iter(self.inodes.values()), None)
        number = self.inodes.get("cpuacct") or self.inodes.get(UNIFIED) or own
        object.__setattr__(self, "cpu_source", f"{self.path}@{number}")

    @property
    def version(self) -> int:
        """Return which version of control groups counts for it: 2 where 1 counts nothing."""
        return 2 if self.groups.keys() == {UNIFIED} else 1


def find_hierarchies(root: str, listings: Listings | None = None) -> dict[str, str]:
    """Find the hierarchies below `root` by controller, by the names of its directories.

    v2 shows itself by ``cgroup.controllers`` at the root; v1 has a directory
    per controller or several (``cpu,cpuacct``), links between them aside; in
    a hybrid layout v2 is in ``unified``. Raises OSError where `root` cannot be listed.
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
    prefix: str = "",
    known: Mapping[str, JobDirectory] = MappingProxyType({}),
    listings: Listings | None = None,
) -> tuple[list[JobDirectory], bool]:
    """Return the control groups of jobs below `prefix` in all hierarchies, and whether these are all.

    What vanishes meanwhile is left out; where a directory cannot be listed for another reason, a job that is
    missing need not be gone. Those that are as they are `known`, by path, are the same objects. All that
    was looked into is noted in `listings`: as long as `are_same` says so, the answer is the same.
    """
    from jobfeatures_exporter.sampling.hierarchies import BATCH_HIERARCHIES, match_path  # while programs load

    memberships: dict[str, Membership] = {}
    inodes: dict[str, dict[str, int]] = {}  # by path, then by controller
    failures: list[OSError] = []
    following: list[str] = []
    seen = {} if listings is None else listings
    for kind in (*V1_CONTROLLERS, UNIFIED):
        if kind not in hierarchies:
            continue
        top = hierarchies[kind] + prefix.rstrip("/")
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
            groups = {kind: f"{hierarchies[kind]}{prefix.rstrip('/')}{path}" for kind in kinds}
            last = JobDirectory(path=path, membership=membership, groups=groups, inodes=inodes[path])
        found.append(last)
    return found, not failures


def are_same(listings: Listings) -> bool:
    """Tell whether these directories have what they had."""
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
    """Yield the directories of a shape below `path`, each with its inode; `there` is what stands in it."""
    while len(patterns) > 1 and not WILD.intersection(patterns[0]):
        # A plain name needs no list: what stands below it is not there either if it is not.
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
    """Return the inodes of the directories in one by their names, and note them. Raises OSError."""
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
