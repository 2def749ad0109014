"""What has to be known of all jobs of a log before its first line is written: pure."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from jobfeatures.formats.swf.lines import LARGEST
from jobfeatures.formats.swf.numbering import NUMBER, Numbering
from jobfeatures.joblog import JobRecord, Number
from jobfeatures.model import JobState

SMALL: Final = 2**28  # numbers below take a bit each


class Different:
    """Numbers, as long as all are different."""

    def __init__(self) -> None:
        self._small = bytearray()
        self._large: set[int] = set()

    def add(self, number: int) -> bool:
        """Tell whether a number is another than all before it."""
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

    def add(self, record: JobRecord) -> None:
        """Take the next job."""
        self.jobs += 1
        submit, end = record.submit_secs, record.end_secs
        if submit is not None and (self.first_secs is None or submit < self.first_secs):
            self.first_secs = submit
        if end is not None and end <= self._latest_secs and (self.end_secs is None or end > self.end_secs):
            self.end_secs = end
        is_open = record.start_secs is None and end is None and record.state is JobState.UNKNOWN
        self.is_measured = self.is_measured or not is_open
        if self.keeps_ids:
            number = int(record.job_id) if NUMBER.match(record.job_id) else 0
            self.keeps_ids = 0 < number <= LARGEST and self._ids.add(number)
        if record.job_id in self._wanted:
            self.places[record.job_id] = 0 if record.job_id in self.places else self.jobs
        self._has_wall = self._has_wall or record.wall_limit_secs is not None
        self._has_cpu = self._has_cpu or isinstance(record.cpu_limit_secs, int)
        for kind in ("user", "group", "executable", "partition"):
            self._numbering[kind].of(getattr(record, kind))
        if record.queue is not None:
            queues = self._interactive if record.is_interactive else self._others
            queues.setdefault(record.queue)

    def number_queues(self) -> None:
        """Give the queues their numbers, now that all are known: 0 is that of interactive jobs."""
        queues = self._numbering["queue"]
        queues.name_interactive(name for name in self._interactive if name not in self._others)
        for name in self._others:
            queues.of(name)
