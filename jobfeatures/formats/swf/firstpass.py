"""Collects what must be known about all jobs before the first line of a log in SWF can be written.

The header needs counts and times, and numbers have to be assigned to jobs, users and so on. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from jobfeatures.formats.swf.fields import UNKNOWN
from jobfeatures.formats.swf.header import Comment, Header, format_date
from jobfeatures.formats.swf.lines import LARGEST
from jobfeatures.formats.swf.records import INTERACTIVE, KINDS, NAMED, Names
from jobfeatures.joblogs.loggedjob import JobBatch, Number
from jobfeatures.records.model import JobState

NUMBER: Final = re.compile(r"[0-9]{1,19}\Z", re.ASCII)
SMALL: Final = 2**28  # numbers below take a bit each
LATEST_SECS: Final = 253402300799  # the end of the year 9999, after which there are no dates
# Labels that a new header computes itself, and does not copy from the old one.
_MADE_ANEW: Final = frozenset(
    {
        *("Version", "MaxJobs", "MaxRecords", "Preemption", "UnixStartTime", "TimeZone", "TimeZoneString"),
        *("StartTime", "EndTime", "MaxQueues", "Queue", "MaxPartitions", "Partition"),
    }
)
_KINDS: Final = ("user", "group", "executable", "partition")


class SwfRow(NamedTuple):
    """The fields of a `JobRecord` that SWF can hold: of one job, or of several as one sequence per field."""

    job_id: Any
    submit_secs: Any
    start_secs: Any
    end_secs: Any
    run_secs: Any
    suspended_secs: Any
    state: Any
    total_cpus: Any
    requested_cpus: Any
    used_cpu_secs: Any
    used_memory_bytes: Any
    requested_memory_bytes: Any
    wall_limit_secs: Any
    cpu_limit_secs: Any
    queue: Any
    is_interactive: Any
    user: Any
    group: Any
    executable: Any
    partition: Any
    preceding_job_id: Any
    think_secs: Any


def columns_of(batch: JobBatch) -> SwfRow:
    """Return one column for each field of a batch of records that SWF can hold."""
    return SwfRow(*map(batch.column, SwfRow._fields))


class _Known(dict[str | None, int]):
    """A cache of the numbers of names."""

    def __init__(self, of: Callable[[str | None], int]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, name: str | None) -> int:
        number = self[name] = self._of(name)
        return number


class NameNumbers:
    """Assigns numbers to names of one kind, such as users, from 1 in order of first use.

    Names in `known` (number → name) keep their numbers.
    """

    def __init__(self, known: Mapping[int, str] | None = None, *, are_numbers: bool = False) -> None:
        """`are_numbers`: a name that is not in `known` and consists of digits is its own number."""
        self.names: dict[str, int] = {name: number for number, name in (known or {}).items()}
        self.added: dict[str, int] = {}
        self._are_numbers = are_numbers
        self._most = max([0, *self.names.values()])
        self._known = _Known(self.of)

    def of(self, name: str | None) -> int:
        """Return the number of a name, or −1 for None. A name without a number gets the next one."""
        if name is None:
            return UNKNOWN
        if (found := self.names.get(name)) is not None:
            return found
        if self._are_numbers and NUMBER.match(name):
            found = self.names[name] = int(name)
            self._most = max(self._most, found)
        else:
            found = self._most = self._most + 1
            self.names[name] = self.added[name] = found
        return found

    def column(self, names: Iterable[str | None]) -> list[int]:
        """Return the numbers of several names; numbers are assigned to names that have none yet."""
        return list(map(self._known.__getitem__, names))

    def name_interactive(self, names: Iterator[str]) -> None:
        """Assign number 0, SWF's number of an interactive queue, to the first of `names`.

        Nothing changes if a queue already has the number 0.
        """
        name = next(names, None)
        if name not in {None, str(INTERACTIVE)} and INTERACTIVE not in self.names.values():
            self.names.setdefault(name or "", INTERACTIVE)


Numbering = Mapping[str, NameNumbers]  # of one log, by kind


def numbering_of(names: Names | None) -> Numbering:
    """Return one `NameNumbers` for each kind of name (user, group, queue …).

    Numbers that a log's header gives to names, `names`, are kept; if it is None, no name has a number yet.
    """
    if names is None:
        return {kind: NameNumbers() for kind in KINDS}
    return {kind: NameNumbers(known, are_numbers=True) for kind, known in names.known.items()}


class NumberSet:
    """A compact set of numbers that detects repetitions; a small number takes one bit."""

    def __init__(self) -> None:
        self._small = bytearray()
        self._large: set[int] = set()

    def add(self, numbers: Iterable[int]) -> bool:
        """Add numbers; return whether all are new: none is in the set already, and none is repeated."""
        small, large = self._small, self._large
        are_new = True
        for number in numbers:
            if number >= SMALL:
                are_new = are_new and number not in large
                large.add(number)
                continue
            place, bit = number >> 3, 1 << (number & 7)
            if place >= len(small):
                small.extend(bytes(max(place + 1, len(small) * 2) - len(small)))
            are_new = are_new and not small[place] & bit
            small[place] |= bit
        return are_new


class FirstPass:
    """Statistics of all jobs of a log to be written: counts, first and last times, names and ids.

    Jobs are added in the order in which they are written.
    """

    def __init__(self, numbering: Numbering, wanted: Collection[str]) -> None:
        """`wanted`: ids of jobs that others follow. Ends after `LATEST_SECS` (epoch) are taken as unknown."""
        self.jobs = 0
        self.first_secs: Number | None = None  # the first submission
        self.end_secs: Number | None = None  # the last end
        self.is_measured = False  # a start, an end or a state is known
        self.keeps_ids = True  # they can be the jobs' numbers
        self.places: dict[str, int] = {}  # of the jobs that others follow, from 1; 0: several have that id
        self._numbering = numbering
        self._wanted = wanted
        self._ids = NumberSet()
        self._has_wall = self._has_cpu = False
        self._interactive: dict[str, None] = {}  # queues, in the order in which they come
        self._others: dict[str, None] = {}

    @property
    def is_cpu(self) -> bool:
        """Return whether jobs have limits of CPU time, and no job has a limit of wall time."""
        return self._has_cpu and not self._has_wall

    def add(self, jobs: SwfRow) -> None:
        """Include the next jobs; each field of `jobs` is a sequence with one value per job."""
        submits, ends = (
            [each for each in times if each is not None] for times in (jobs.submit_secs, jobs.end_secs)
        )
        self.first_secs = min(
            submits if self.first_secs is None else [self.first_secs, *submits], default=None
        )
        if ends and max(ends) > LATEST_SECS:
            ends = [each for each in ends if each <= LATEST_SECS]
        self.end_secs = max(ends if self.end_secs is None else [self.end_secs, *ends], default=None)
        if not self.is_measured:
            stated = set(zip(jobs.start_secs, jobs.end_secs, jobs.state, strict=True))
            self.is_measured = {(None, None, JobState.UNKNOWN)} != stated
        if self.keeps_ids:
            together = "".join(jobs.job_id)
            are_numbers = together.isdecimal() and together.isascii() and all(jobs.job_id)
            are_numbers = are_numbers and max(map(len, jobs.job_id)) < 20
            numbers = [*map(int, jobs.job_id)] if are_numbers else [0]
            self.keeps_ids = min(numbers) > 0 and max(numbers) <= LARGEST and self._ids.add(numbers)
        for place, job_id in enumerate(jobs.job_id, self.jobs + 1) if self._wanted else ():
            if job_id in self._wanted:
                self.places[job_id] = 0 if job_id in self.places else place
        count = len(jobs.job_id)
        self.jobs += count
        self._has_wall = self._has_wall or jobs.wall_limit_secs.count(None) < count
        self._has_cpu = self._has_cpu or any(isinstance(limit, int) for limit in jobs.cpu_limit_secs)
        for kind in _KINDS:
            self._numbering[kind].column(getattr(jobs, kind))
        for queue, is_interactive in dict.fromkeys(zip(jobs.queue, jobs.is_interactive, strict=True)):
            if queue is not None:
                (self._interactive if is_interactive else self._others).setdefault(queue)

    def number_queues(self) -> None:
        """Assign numbers to queues, once all jobs have been added.

        A queue that has only interactive jobs gets the number 0.
        """
        queues = self._numbering["queue"]
        queues.name_interactive(name for name in self._interactive if name not in self._others)
        for name in self._others:
            queues.of(name)


def make_header(
    first_pass: FirstPass,
    start_secs: int,
    numbering: Numbering,
    old: Header | None = None,
    zone: tzinfo | None = None,
) -> Header:
    """Return the header of a log whose times count from `start_secs` (epoch seconds).

    `first_pass` has seen all jobs; `numbering` holds the numbers of users, queues and so on, which are
    written as comments. `old` is the header of the log that was read, if any. The time zone is `zone`, else
    the TimeZoneString of `old`, else UTC.
    """
    is_model = start_secs == 0 and first_pass.jobs > 0 and not first_pass.is_measured  # times are of no clock
    tells_time = not is_model if old is None else old.readable(Header.start_secs) is not None
    stated = None if old is None else old.readable(Header.zone)
    zone = next((each for each in (zone, stated) if isinstance(each, ZoneInfo)), ZoneInfo("UTC"))
    end_secs = start_secs if first_pass.end_secs is None else first_pass.end_secs
    texts: list[tuple[str, str]] = [
        ("Version", "2.2"),
        ("MaxJobs", str(first_pass.jobs)),
        ("MaxRecords", str(first_pass.jobs)),
        ("Preemption", "No"),
    ]
    if tells_time:
        texts.append(("UnixStartTime", str(start_secs)))
        if 0 <= start_secs <= LATEST_SECS:
            texts += [
                ("TimeZoneString", zone.key),
                ("StartTime", format_date(datetime.fromtimestamp(start_secs, zone))),
                ("EndTime", format_date(datetime.fromtimestamp(max(0, end_secs), zone))),
            ]
    if old is not None:
        texts += [
            (each.label, each.value)
            for each in old.comments
            if each.label not in _MADE_ANEW and not NAMED.match(each.value)
        ]
    for kind, label in KINDS.items():
        if label and (names := numbering[kind].names):
            texts.append((f"Max{label}s", str(len(names))))
            texts += [(label, f"{number} {one_word(name)}") for name, number in names.items()]
    if old is None or old.requests_cpu_time() is not first_pass.is_cpu:
        kind_of_time = "average CPU times per processor" if first_pass.is_cpu else "wall clock times"
        texts.append(("Note", f"requested times are {kind_of_time}"))
    for kind, label in KINDS.items():
        if not label:
            names = numbering[kind].names
            texts += [("Note", f"{kind} {number} is {one_line(name)}") for name, number in names.items()]
    return Header("", [Comment(label, value) for label, value in texts])


def one_line(name: str) -> str:
    """Return a name in which characters that would end the line of a comment are replaced."""
    return " ".join(name.split())


def one_word(name: str) -> str:
    """Return a name in which blanks are replaced by underscores."""
    return "_".join(name.split())
