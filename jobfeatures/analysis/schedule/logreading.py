"""Reads logs of jobs, of all formats that `jobfeatures convert` reads, as arrays."""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import tzinfo
from itertools import chain, islice
from typing import Final, NamedTuple, TypeVar

import numpy as np

from jobfeatures.analysis.schedule.choosing import ScheduleError
from jobfeatures.analysis.schedule.followers import LinkIndex, link_keys
from jobfeatures.analysis.schedule.jobarrays import (
    LINKING,
    ScheduleLog,
    from_records,
    from_swf,
    is_preempted,
    whole_jobs,
    with_links,
)
from jobfeatures.analysis.schedule.runs import Array, Store
from jobfeatures.formats.swf.columns import SwfColumns, read_header, read_jobs, read_pieces
from jobfeatures.formats.swf.fields import FIELDS, Meaning
from jobfeatures.formats.swf.header import Header
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.logfiles import LogFileError, bounded_lines, reading
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, StepUse
from jobfeatures.logkinds import read_log as read_records
from jobfeatures.openlog import open_log

PIECE_JOBS: Final = 2**18
TIMES: Final = ("submit", "eligible", "start", "end", "could_start")
PRECEDING: Final = FIELDS.index("preceding")

Item = TypeVar("Item")
Reader = Callable[[str, int], Iterator[SwfColumns]]


class Read(NamedTuple):
    """A log as arrays, with its source: SWF columns or job records, in the same order as the arrays."""

    log: ScheduleLog
    columns: SwfColumns | None = None
    records: Sequence[JobRecord] = ()


def read_log(
    name: str, kind: str | None = None, zone: tzinfo | None = None, meaning: Meaning | None = None
) -> ScheduleLog:
    """Return the jobs of a log file (`-`: standard input) as arrays.

    `kind` is the name of the log's format; if it is None, the format is determined from the content. `zone`
    is the time zone of local times in the log; `meaning` is for SWF, see `Meaning`. Raises LogFileError if
    the file cannot be read, KindError if its format is unclear, ParseError if the content is unusable.
    """
    with as_file(name) as path:
        [log] = Pieces([(name, path)], kind, zone, meaning, most=sys.maxsize).logs()
    return log


class Pieces:
    """A log in one or more files that is read in pieces, so that it may be larger than memory.

    It can be read repeatedly. A log that is a single piece stays in memory.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, str]],
        kind: str | None = None,
        zone: tzinfo | None = None,
        meaning: Meaning | None = None,
        *,
        store: Store | None = None,
        most: int | None = None,
    ) -> None:
        """Take (name, path) of each file; `most` is about the number of jobs in a piece. Reads nothing yet.

        Links between jobs, also of different pieces, are kept in the `store`.
        """
        more = len(files) - 1
        self.name = f"{files[0][0]} and {more} more" if more else files[0][0]
        self.files, self.kind, self.zone, self.meaning = files, kind, zone, meaning
        self.most = PIECE_JOBS if most is None else most
        self.is_linked = False  # jobs follow others, perhaps in other pieces; known with the first piece
        self._store = store or Store(sys.maxsize)
        self._only: list[Read] = []

    def reads(self) -> Iterator[Read]:
        """Yield the pieces in order, each with the SWF columns or the records from which it was made.

        Raises what `read_log` raises, and TemporaryFileError if temporary data cannot be stored on disk.
        """
        if self._only:
            yield from self._only
            return
        reads = self._read()
        held = list(islice(reads, 2))
        if len(held) == 1:
            self._only = held[:]
        yield from drained(held, reads)

    @property
    def is_one(self) -> bool:
        """Return whether the log is a single piece; this is known only once the first piece has been read."""
        return bool(self._only)

    def logs(self) -> Iterator[ScheduleLog]:
        """Yield the pieces in order, without their source. Raises as `reads` does."""
        return (read.log for read in self.reads())

    def _read(self) -> Iterator[Read]:
        kinds = [self.kind or _kind_of(path, name) for name, path in self.files]
        swf = [file for file, kind in zip(self.files, kinds, strict=True) if kind == "swf"]
        others = [(kind, *file) for file, kind in zip(self.files, kinds, strict=True) if kind != "swf"]
        records = self._read_records(others) if others else iter(())
        first = list(islice(records, 1))  # by now all records were read
        headers = [read_header(path) for _, path in swf]
        names, zeros = [name for name, _ in swf], [each.readable(Header.start_secs) for each in headers]
        for read in first if swf else ():
            if len(read.log):
                names.append(others[0][1])
                zeros.append(read.log.zero_secs)
        shifts = compute_shifts(names, zeros)
        shift_of_records = shifts[len(swf)] if len(shifts) > len(swf) else 0
        for read in drained(first, records):
            yield read._replace(log=moved(read.log, shift_of_records))
        for file, header, shift in zip(swf, headers, shifts, strict=False):
            for read in self._read_columns(*file, read_jobs if is_preempted(header) else read_pieces):
                yield read._replace(log=moved(read.log, shift))

    def _read_columns(self, name: str, path: str, read: Reader) -> Iterator[Read]:
        def reads(pieces: Iterable[SwfColumns]) -> Iterator[Read]:
            for each in pieces:
                yield Read(from_swf(each, name, self.meaning), each)

        pieces = read(path, self.most)
        held = list(islice(pieces, 2))
        if len(held) == 1:
            whole = [*reads(held)]
            is_linked = (held[0].columns["preceding"] > 0).any()
            yield from self._linked(lambda: whole) if is_linked else whole
        elif _is_linked(path):
            yield from self._linked(lambda: reads(read(path, self.most)))
        else:
            yield from reads(drained(held, pieces))

    def _read_records(self, files: Sequence[tuple[str, str, str]]) -> Iterator[Read]:
        notes, name, is_linked, zero = Notes(), files[0][1], False, math.inf

        def records() -> Iterator[JobRecord | StepUse]:
            nonlocal is_linked, zero
            for kind, name, path in files:
                with reading(path) as stream:
                    _, lines = open_log(stream, kind, name)
                    found = read_records(lines, kind, source=name, zone=self.zone, notes=notes)
                    for record in notes.accepted(found):
                        is_linked = is_linked or getattr(record, "preceding_job_id", None) is not None
                        if isinstance(record, JobRecord) and record.submit_secs is not None:
                            zero = min(zero, record.submit_secs)
                        yield record

        def start() -> int:  # once all have been read: of records that are folded into others, too
            return 0 if zero == math.inf else math.floor(zero)

        def reads(jobs: Iterator[JobRecord]) -> Iterator[Read]:
            once: Notes | None = notes
            while some := list(islice(jobs, self.most)):
                yield Read(from_records(some, name, zero=start(), notes=once), records=some)
                once = None

        with DiskSorter() as sort:
            jobs = fold_jobs(records(), notes.count_folded, sort=sort)
            some = list(islice(jobs, self.most))  # by now all records were read
            if not (more := list(islice(jobs, 1))):
                log = from_records(some, name, zero=start(), notes=notes)
                whole = [Read(log, records=some)]
                yield from self._linked(lambda: whole) if is_linked else whole
                return
            jobs = drained(some, chain(more, jobs))
            if is_linked:
                again = sort(enumerate(jobs))
                yield from self._linked(lambda: reads(job for _, job in again))
            else:
                yield from reads(jobs)

    def _linked(self, reads: Callable[[], Iterable[Read]]) -> Iterator[Read]:
        """Yield the pieces of a file with links between jobs, which takes two passes."""
        self.is_linked = True
        index, sizes = LinkIndex(self._store), []
        for read in reads():
            numbers, preceding, _ = _linking(read)
            index.add(numbers, preceding, read.log.end)
            sizes.append(len(numbers))
        missing = index.find_links()
        for read, found in zip(reads(), index.links_by_piece(sizes), strict=True):
            log = read.log
            if missing:
                what = "preceding job that is not there, or follows the job itself: it is taken as none"
                log, missing = replace(log, warnings=(*log.warnings, f"{missing} × {what}")), 0
            yield read._replace(log=with_links(log, _linking(read)[2], *found))


def drained(held: list[Item], rest: Iterator[Item]) -> Iterator[Item]:
    """Yield the items of the list `held`, removing each to free its memory, then the items of `rest`."""
    held.reverse()
    while held:
        yield held.pop()
    yield from rest


def _linking(read: Read) -> tuple[Array, Array, Array]:
    if read.columns is None:
        return link_keys(read.records)
    table = whole_jobs(read.columns)[0]
    numbers, preceding, thinks = (table[each] for each in LINKING)
    return numbers, preceding, thinks


def _is_linked(path: str) -> bool:
    """Return whether a line of SWF may name a preceding job."""
    with reading(path) as stream:
        for line in bounded_lines(stream):
            words = line.split(None, len(FIELDS) - 1)
            if len(words) > PRECEDING and words[PRECEDING] != "-1" and not words[0].startswith(";"):
                return True
    return False


def _kind_of(path: str, name: str) -> str:
    with reading(path) as stream:
        return open_log(stream, None, name)[0]


def compute_shifts(names: Sequence[str], zeros: Sequence[int | None]) -> list[int]:
    """Return for each file the seconds to add to its times, so that all files have the same time zero.

    `zeros` holds the time zero of each file in epoch seconds (None: unknown); the earliest one becomes that
    of all files. Raises ScheduleError if it is known for some files only.
    """
    known = [zero for zero in zeros if zero is not None]
    if not known:
        return [0] * len(zeros)
    for name, zero in zip(names, zeros, strict=True):
        if zero is None:
            raise ScheduleError(f"{name}: has no UnixStartTime, unlike other files of the log")
    return [zero - min(known) for zero in zeros if zero is not None]


def moved(log: ScheduleLog, shift_secs: int) -> ScheduleLog:
    """Return a copy of a log with `shift_secs` added to all known times."""
    if not shift_secs:
        return log
    known = {name: each for name in TIMES if (each := getattr(log, name)) is not None}
    return replace(
        log, **{name: np.where(each >= 0, each + shift_secs, each) for name, each in known.items()}
    )


@contextmanager
def as_file(name: str) -> Iterator[str]:
    """Yield the name of a file that can be read repeatedly: `name`, or for `-` a temporary copy of stdin."""
    if name != "-":
        yield name
        return
    with tempfile.NamedTemporaryFile("w+b", suffix=".log") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file)
            file.flush()
        except OSError as error:
            raise LogFileError(f"standard input: cannot read: {error.strerror or error}") from None
        yield file.name
