"""Collects what must be known about all jobs of a log before its first line is written: pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from operator import attrgetter
from typing import Final

from jobfeatures.formats.swf.lines import LARGEST
from jobfeatures.formats.swf.numbering import Numbering
from jobfeatures.joblogs.loggedjob import JobRecord, Number
from jobfeatures.records.model import JobState

SMALL: Final = 2**28  # numbers below take a bit each

_KINDS: Final = ("user", "group", "executable", "partition")
_VALUES: Final = attrgetter(
    *("job_id", "submit_secs", "start_secs", "end_secs", "state", "wall_limit_secs", "cpu_limit_secs"),
    *("queue", "is_interactive", *_KINDS),
)


class Different:
    """A set of numbers, compact for small ones."""

    def __init__(self) -> None:
        self._small = bytearray()
        self._large: set[int] = set()

    def add(self, number: int) -> bool:
        """Add a number; return whether it is new."""
        if number >= SMALL:
            is_new = number not in self._large
            self._large.add(number)
            return is_new
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._small):
            self._small.extend(bytes(max(place + 1, len(self._small) * 2) - len(self._small)))
        is_new = not self._small[place] & bit
        self._small[place] |= bit
        return is_new


class Survey:
    """Takes the jobs one by one, in the order in which they are written."""

    def __init__(self, numbering: Numbering, wanted: Container[str], latest_secs: Number) -> None:
        """`wanted` are the ids of jobs that others follow; later ends than `latest_secs` are none."""
        self.jobs = 0
        self.first_secs: Number | None = None  # the first submission
        self.end_secs: Number | None = None  # the last end
        self.is_measured = False  # a start, an end or a state is known
        self.keeps_ids = True  # they can be the jobs' numbers
        self.places: dict[str, int] = {}  # of the jobs that others follow, from 1; 0: several have that id
        self._numbering = numbering
        self._wanted = wanted
        self._latest_secs = latest_secs
        self._ids = Different()
        self._has_wall = self._has_cpu = False
        self._interactive: dict[str, None] = {}  # queues, in the order in which they come
        self._others: dict[str, None] = {}

    @property
    def is_cpu(self) -> bool:
        """Tell whether jobs asked for CPU time alone."""
        return self._has_cpu and not self._has_wall

    def add(self, records: Sequence[JobRecord]) -> None:
        """Take the next jobs."""
        ids, submits, starts, ends, states, walls, cpu_limits, queues, *names = zip(
            *map(_VALUES, records), strict=True
        )
        latest = self._latest_secs
        self.first_secs = min(
            (each for each in (self.first_secs, *submits) if each is not None), default=None
        )
        known = (each for each in (self.end_secs, *ends) if each is not None and each <= latest)
        self.end_secs = max(known, default=None)
        if not self.is_measured:
            self.is_measured = {(None, None, JobState.UNKNOWN)} != set(zip(starts, ends, states, strict=True))
        for place, job_id in enumerate(ids, self.jobs + 1):
            if self.keeps_ids:
                number = int(job_id) if job_id.isdecimal() and job_id.isascii() and len(job_id) < 20 else 0
                self.keeps_ids = 0 < number <= LARGEST and self._ids.add(number)
            if job_id in self._wanted:
                self.places[job_id] = 0 if job_id in self.places else place
        self.jobs += len(ids)
        self._has_wall = self._has_wall or walls.count(None) < len(ids)
        self._has_cpu = self._has_cpu or any(isinstance(limit, int) for limit in cpu_limits)
        for kind, column in zip(_KINDS, names[1:], strict=True):
            for name in dict.fromkeys(column):
                self._numbering[kind].of(name)
        for queue, is_interactive in dict.fromkeys(zip(queues, names[0], strict=True)):
            if queue is not None:
                (self._interactive if is_interactive else self._others).setdefault(queue)

    def number_queues(self) -> None:
        """Give the queues their numbers, now that all are known: 0 is that of interactive jobs."""
        queues = self._numbering["queue"]
        queues.name_interactive(name for name in self._interactive if name not in self._others)
        for name in self._others:
            queues.of(name)
