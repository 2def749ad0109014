"""Frozen records that are parts of a snapshot: memory, and measurements that settings enable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

DYING = frozenset("ZX")  # states of a process that has ended, waited for by its parent or not


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSample:
    """Power in watts and energy in joules of the whole machine, by sensor.

    `up` says whether each sensor has answered; one that has not has no entry in `watts`.
    """

    watts: Mapping[str, float]
    joules: Mapping[str, float]  # since our start
    up: Mapping[str, bool]


class OpenFiles(NamedTuple):
    """How many file descriptors a process has open, and its soft limit of them (RLIMIT_NOFILE)."""

    opened: int
    limit: int | None  # None: unlimited


class MemoryBytes(NamedTuple):
    """Memory of a job or step in bytes, by component; a field is None if unknown, for limits also unlimited.

    A component means the same on cgroup v1, on v2 and as a sum over processes. `file` is page cache, `sock`
    buffers of sockets, `charged` what counts against the limit, and `reclaimable` the page cache in
    `charged`. `limit` is the limit of the job's control group, `limit_above` a lower one of a group above.
    Beyond `high`, the kernel slows the job down.
    """

    anon: int | None = None
    file: int | None = None  # page cache, without shmem
    shmem: int | None = None
    kernel: int | None = None
    sock: int | None = None  # buffers of sockets
    hugetlb: int | None = None  # huge pages of the pool, charged or not
    swap: int | None = None
    charged: int | None = None  # what the kernel counts against the limit
    reclaimable: int | None = None  # of it: page cache that the kernel can drop
    limit: int | None = None  # None also where unlimited
    limit_above: int | None = None  # the lowest of the groups above, which others may share, if below `limit`
    swap_limit: int | None = None  # the lowest of its group's and of those above
    high: int | None = None  # likewise: beyond it the job is slowed down, not killed
    peak: int | None = None

    @property
    def used(self) -> int | None:
        """Return the bytes that the kernel has charged and cannot reclaim: charged memory less page cache.

        Page cache is charged too, but dropped before the kernel kills a process for lack of memory. Without
        control groups nothing is charged: the result is then the sum of the other components but swap.
        """
        if self.anon is None:
            return None
        if self.charged is not None and self.reclaimable is not None:
            return max(0, self.charged - self.reclaimable)
        return self.anon + sum([each or 0 for each in (self.shmem, self.kernel, self.sock, self.hugetlb)])
