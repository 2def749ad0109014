"""Counts OOM kills and limit hits of a job on cgroup v1, where they do not count in the groups above.

A kill counts in the group of the killed task, a failed charge in the group whose limit was hit. So the job's
count is the sum over its group and all groups below. It is a lower bound, without what a group counted
between the last sample and its removal. A count that may be wrong is not reported as 0, see `unseenkills`.

Kills are rare, and the node counts them too. While the node's count is unchanged, no group's count can have
grown: none is read, and new groups are searched less often.
"""

from __future__ import annotations

import os

from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable
from jobfeatures_exporter.sampling.groups.groupfiles import ABSENT, Absence, GroupFile, GroupFiles
from jobfeatures_exporter.sampling.groups.ledger import Rows
from jobfeatures_exporter.sampling.parsers.cgroupfiles import parse_number
from jobfeatures_exporter.sampling.parsers.counterfiles import parse_oom_control

MAX_GROUPS = 2048  # below one job
RELIST_SAMPLES = 16
WALK_SAMPLES = 4

_Count = int | Absence | None
_Counter = GroupFile[int | Absence]


class MemoryTree:
    """Reads the counters of one job's memory group on v1 and of all groups below it."""

    def __init__(self, top: str, files: GroupFiles, unreadable: Unreadable) -> None:
        self._top = top
        self._files = files
        self._unreadable = unreadable
        self._kills_read_at: int | None = None
        self._known: dict[str, tuple[int, list[str]]] = {}  # link count and subdirectories, by path
        self._counts: dict[str, tuple[_Counter, _Counter]] = {}  # kills and hits, by path
        self._last: tuple[list[str], list[_Count], list[_Count]] = ([], [], [])
        self._reported: dict[str, Rows] = {}  # computed from `_last`
        self._number = 0
        self.has_lost = False  # whether a group was removed between the latest two readings

    def read(self, node_kills: int | None) -> dict[str, Rows]:
        """Return the counters ``oom_kills`` and ``limit_hits``, each by group.

        A counter that the kernel does not have is left out; one that cannot be read is None. `node_kills` is
        the node's count of OOM kills from /proc/vmstat (None: not reported). It has to be read before this
        call.
        """
        quiet = node_kills is not None and node_kills == self._kills_read_at
        self.has_lost = False
        self._kills_read_at = node_kills
        try:
            groups = self._walk(quiet)
        except OSError as error:
            if error.errno in VANISHED:
                return {}
            self._unreadable.add("job_memory_groups", error)
            return {"oom_kills": None, "limit_hits": None}
        files = [self._counts.get(path) or self._open(path) for path in groups]
        # A new group is read in any case.
        every = 0 if quiet else 1
        kills: list[_Count] = [each.value_or_absent(every=every) for each, _ in files]
        last = (groups, kills, [each.value_or_absent() for _, each in files])
        if last != self._last:
            self._last = last
            found = {"oom_kills": self._rows(groups, kills), "limit_hits": self._rows(groups, last[2])}
            self._reported = {name: rows for name, rows in found.items() if rows != {}}
        return self._reported

    def _open(self, path: str) -> tuple[_Counter, _Counter]:
        files = self._files
        found: tuple[_Counter, _Counter] = (
            files.file(f"{path}/memory.oom_control", _parse_kills),
            files.file(f"{path}/memory.failcnt", _parse_failcnt),
        )
        self._counts[path] = found
        return found

    def _rows(self, groups: list[str], counts: list[_Count]) -> Rows:
        """Return the counts as rows by path below the job; None if one is unreadable."""
        if None in counts:
            return None
        skipped = len(self._top)
        reported = zip(groups, counts, strict=True)
        return {path[skipped:]: (count,) for path, count in reported if isinstance(count, int)}

    def _walk(self, quiet: bool) -> list[str]:
        """Return all groups; a directory is listed again if its link count has changed, or every 16 samples.

        While there are no kills on the node, the search for new groups may be delayed by a few samples.
        """
        self._number += 1
        if quiet and self._known and self._number % WALK_SAMPLES:
            return list(self._known)
        known: dict[str, tuple[int, list[str]]] = {}
        pending = [self._top]
        while pending and len(known) < MAX_GROUPS:
            path = pending.pop()
            try:
                links = os.stat(path).st_nlink
                last = self._known.get(path)
                # Not every file system counts subdirectories as links: a count of one means nothing.
                if last is None or last[0] != links or links < 2 or self._number % RELIST_SAMPLES == 0:
                    last = (links, list_directories(path))
            except OSError as error:
                if error.errno not in VANISHED or path == self._top:
                    raise
                continue
            known[path] = last
            pending.extend(last[1])
        for gone in self._known.keys() - known.keys():
            self.has_lost = True
            self._files.forget(gone)
            del self._counts[gone]
        self._known = known
        return list(known)


def list_directories(path: str) -> list[str]:
    """Return the paths of a directory's subdirectories. Raises OSError if unreadable."""
    with os.scandir(path) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _parse_kills(text: str) -> int | Absence:
    return parse_oom_control(text).get("oom_kill", ABSENT)


def _parse_failcnt(text: str) -> int:
    return parse_number(text, source="memory.failcnt")
