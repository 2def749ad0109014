"""Finds which job of a log follows which other job, and how long after that job's end; needs numpy.

Source: The Standard Workload Format: "the current job can only start after the termination of this preceding
job", and think time is what "should elapse between the termination of the preceding job and the submittal of
this one".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.eligibility import UNKNOWN
from jobfeatures.analysis.schedule.runs import Array, Run, Store, merge
from jobfeatures.joblogs.loggedjob import JobRecord

ASKED: Final = np.dtype([("key", np.int64), ("place", np.int64), ("end", np.float64)])
FOUND: Final = np.dtype([("key", np.int64), ("preceding", np.int64), ("end", np.float64)])


class Links(NamedTuple):
    """For each job, the index of the job that it follows (−1: none) and its think time.

    The think time is the number of seconds from the end of the preceding job to the submission of this job;
    −1 means unknown, or that there is no preceding job.
    """

    preceding: Array
    thinks: Array

    def could_start(self, submit: Array, start: Array, before: Array) -> Array:
        """Return for each job the earliest time at which it could have started after the job that it follows.

        `submit` and `start` are the jobs' own times, `before` the ends of the jobs that they follow. All
        times are in seconds since the log's time zero. The result is −1 where it is unknown, and never later
        than the job's real start.
        """
        since = np.maximum(before + np.maximum(self.thinks, 0), submit)
        since = np.where(start >= 0, np.minimum(since, start), since)
        return np.where((self.preceding >= 0) & (before >= 0) & (submit >= 0), since, UNKNOWN)

    def select(self, which: Array) -> Links:
        """Return the links of the jobs at the indices `which`, as indices into this selection.

        A link to a job that is not in `which` is dropped.
        """
        return Links(self.preceding[which], self.thinks[which]).among(which)

    def among(self, places: Array) -> Links:
        """Renumber the links of selected jobs, which lead to indices in the log, as indices in the selection.

        `places` holds the indices of the selected jobs in the log. A link to a job outside the selection is
        dropped.
        """
        order = np.argsort(places, kind="stable")
        behind = np.append(places[order], UNKNOWN)  # the last: for jobs after all others
        at = np.searchsorted(behind[:-1], self.preceding)
        found = np.where(
            (self.preceding >= 0) & (behind[at] == self.preceding), np.append(order, UNKNOWN)[at], UNKNOWN
        )
        return Links(found, np.where(found >= 0, self.thinks, UNKNOWN))


class LinkIndex:
    """Finds, by job number, the job that each job follows, for a log that is read in pieces.

    A link to a number that no job or several jobs have is ignored.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: list[Run] = []
        self._found: list[Run] = []
        self._jobs = self._wanted = 0
        self._circle = np.zeros(0, np.int64)

    def add(self, numbers: Array, preceding: Array, ends: Array) -> None:
        """Add the jobs of one piece of the log.

        `numbers` are the jobs' numbers, from 1. `preceding` are the numbers of the jobs that they follow;
        below 1 means none. `ends` are the jobs' ends, in seconds since the log's time zero.
        """
        rows = np.flatnonzero(preceding > 0)
        keys = np.concatenate([2 * numbers, 2 * preceding[rows] + 1])  # first a job, then its followers
        order = np.argsort(keys, kind="stable")
        asked = np.empty(len(keys), ASKED)
        asked["key"] = keys[order]
        asked["place"] = self._jobs + np.concatenate([np.arange(len(numbers)), rows])[order]
        asked["end"] = np.concatenate([ends, np.zeros(len(rows))])[order]
        self._asked.append(self._store.write(asked))
        self._jobs += len(numbers)
        self._wanted += len(rows)

    def find_links(self) -> int:
        """Find all links; call this once, after all jobs have been added.

        Returns the number of links that are ignored: they lead to no job, to several jobs, or in a cycle.
        """
        tells = np.zeros(0, ASKED)
        found, is_forward = 0, False
        for block in merge(self._asked):
            is_asked = block["key"] % 2 == 1
            tells, asks = np.concatenate([tells, block[~is_asked]]), block[is_asked]
            first, behind = (
                np.searchsorted(tells["key"], asks["key"] - 1, side) for side in ("left", "right")
            )
            is_one = behind - first == 1
            one, asks = tells[first[is_one]], asks[is_one]
            order = np.argsort(asks["place"])
            rows = np.empty(len(asks), FOUND)
            rows["key"], rows["preceding"], rows["end"] = asks["place"], one["place"], one["end"]
            self._found.append(self._store.write(rows[order]))
            found += len(rows)
            is_forward = is_forward or bool((rows["preceding"] >= rows["key"]).any())
            tells = tells[tells["key"] == tells["key"][-1:]][:2]
        if is_forward:
            self._circle = self._circles()
        return self._wanted - found + len(self._circle)

    def _circles(self) -> Array:
        """Return the jobs in circles of links: those still reached after as many steps as there are jobs."""
        after = np.full(self._jobs + 1, UNKNOWN)  # no link: to the last, which is its own
        for block in merge(self._found):
            after[block["key"]] = block["preceding"]
        for _ in range(self._jobs.bit_length()):
            after = after[after]
        return np.unique(after[after >= 0])

    def links_by_piece(self, sizes: Iterable[int]) -> Iterator[tuple[Array, Array]]:
        """Yield, for each piece of the log, the index and the end of the job that each of its jobs follows.

        `sizes` are the numbers of jobs in the pieces. An index counts from the log's first job; an end is in
        seconds since the log's time zero. Both are −1 where a job follows no other.
        """
        rows, blocks, first = np.zeros(0, FOUND), merge(self._found), 0
        for size in sizes:
            while not len(rows) or rows["key"][-1] < first + size:
                block = next(blocks, None)
                if block is None:
                    break
                rows = np.concatenate([rows, block[~np.isin(block["key"], self._circle)]])
            count = int(np.searchsorted(rows["key"], first + size))
            preceding, ends = np.full(size, UNKNOWN), np.full(size, float(UNKNOWN))
            preceding[rows["key"][:count] - first] = rows["preceding"][:count]
            ends[rows["key"][:count] - first] = rows["end"][:count]
            yield preceding, ends
            rows, first = rows[count:], first + size


def link_keys(jobs: Sequence[JobRecord]) -> tuple[Array, Array, Array]:
    """Return three arrays over job records: job number, preceding job's number, think time in seconds.

    The numbers are hashes of the job's id, batch system and cluster. −1 means that there is no preceding job,
    or that the think time is unknown.
    """
    columns = [
        (
            _key(job, job.job_id),
            UNKNOWN if job.preceding_job_id is None else _key(job, job.preceding_job_id),
            UNKNOWN if job.think_secs is None else job.think_secs,
        )
        for job in jobs
    ]
    numbers, preceding, thinks = zip(*columns, strict=True) if columns else ((), (), ())
    return np.array(numbers, np.int64), np.array(preceding, np.int64), np.array(thinks, dtype=None)


def _key(job: JobRecord, job_id: str) -> int:
    """Return a positive number for a job id on a cluster."""
    return 1 + (digest(repr((job.batch_system, job.cluster, job_id))) >> 3)


def digest(text: str) -> int:
    """Return a 64-bit hash of a text, the same in all processes and on all machines."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
