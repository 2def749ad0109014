"""Groups job records into batches, and finds job ids that occur in several batches. Pure."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from jobfeatures.joblogs.loggedjob import AT_ONCE, JobBatch, JobRecord

AT_A_TIME: Final = 2**20  # ids that are compared in memory


def in_batches(records: Iterable[Any]) -> Iterator[JobBatch]:
    """Yield all records in batches, in the order of the log.

    Batches among `records` are yielded unchanged; single records are gathered into batches.
    """
    some: list[JobRecord] = []
    for each in records:
        is_batch = isinstance(each, JobBatch)
        if some and (is_batch or len(some) == AT_ONCE):
            yield JobBatch.of(some)
            some = []
        if is_batch:
            yield each
        else:
            some.append(each)
    if some:
        yield JobBatch.of(some)


class HashedIds:
    """Finds job ids that occur repeatedly in batches, by 8-byte hashes.

    Ids with equal hashes count as equal.
    """

    def __init__(self) -> None:
        self.of_batches: list[array[int]] = []

    def add(self, batch: JobBatch) -> None:
        """Add the ids of the next batch."""
        self.of_batches.append(array("q", map(hash, batch.column("job_id"))))

    def again(self, others: Collection[int]) -> set[int]:
        """Return the hashes of those added ids that were added repeatedly, or whose hash is in `others`."""
        found: set[int] = set()
        parts = 1 + sum(map(len, self.of_batches)) // AT_A_TIME
        for part in range(parts):
            seen = set(others)
            for hashes in self.of_batches:
                some = hashes if parts == 1 else [each for each in hashes if each % parts == part]
                new = set(some)
                found |= seen & new
                if len(new) < len(some):
                    found.update(each for each, count in Counter(some).items() if count > 1)
                seen |= new
        return found
