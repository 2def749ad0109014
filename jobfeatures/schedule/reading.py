"""Reads logs of jobs, of any kind that `jobfeatures convert` reads, as arrays."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import tzinfo
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import numpy as np

from jobfeatures.convert import read_log as read_records
from jobfeatures.errors import JobfeaturesError
from jobfeatures.formats.swf.columns import SwfColumns, read_columns, read_header
from jobfeatures.formats.swf.columns import read_pieces as read_column_pieces
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.jobfold import fold_jobs
from jobfeatures.joblog import JobRecord, Notes
from jobfeatures.logfiles import LogFileError, open_log, reading
from jobfeatures.schedule.choosing import ScheduleError
from jobfeatures.schedule.jobs import ScheduleLog, from_records, from_swf, is_preempted
from jobfeatures.spill import DiskSorter

PIECE_JOBS: Final = 2**18
LARGE_BYTES: Final = 2**27  # in memory up to a GB
_NUMBER = re.compile(r"[0-9.]+")


class Read(NamedTuple):
    """A log, and what it was made of: row by row columns of SWF, or records of another kind."""

    log: ScheduleLog
    columns: SwfColumns | None = None
    records: Sequence[JobRecord] = ()


def read_log(
    name: str,
    kind: str | None = None,
    zone: tzinfo | None = None,
    meaning: Meaning | None = None,
    path: str | None = None,
) -> ScheduleLog:
    """Return the jobs of a file, `-` being standard input, which may be in a file at `path` already.

    `kind` is determined by content where it is None, `zone` is where clocks showed
    its times. Raises LogFileError, ParseError, KindError.
    """
    return read_whole(name, kind, zone, meaning, path).log


def read_whole(
    name: str,
    kind: str | None = None,
    zone: tzinfo | None = None,
    meaning: Meaning | None = None,
    path: str | None = None,
) -> Read:
    """Return the same, and what it was made of."""
    with as_file(name) if path is None else nullcontext(path) as file:
        with reading(file) as stream:
            kind, lines = open_log(stream, kind, name)
            if kind != "swf":
                notes = Notes()
                records = read_records(lines, kind, source=name, zone=zone, notes=notes)
                jobs = list(fold_jobs(notes.accepted(records), notes.fold))
                log = from_records(jobs, name, unreadable=notes.rejected, folded=notes.folded)
                return Read(log, records=jobs)
        columns = read_columns(file)
        return Read(from_swf(columns, name, meaning), columns)


class LinkedError(JobfeaturesError):
    """Jobs follow each other, perhaps from one piece of a log to another: it has to be read as a whole."""


def is_large(paths: Iterable[str]) -> bool:
    """Return whether files hold, uncompressed, more than is read into memory. Raises LogFileError."""
    left = LARGE_BYTES
    for path in paths:
        with reading(path) as stream:
            while left > 0 and (text := stream.read(2**16)):
                left -= len(text)
    return left <= 0


class Pieces(NamedTuple):
    """A log in some files, that is not read into memory as a whole. Times of records are epoch seconds."""

    files: Sequence[tuple[str, str]]  # name, and path
    kind: str | None = None
    zone: tzinfo | None = None
    meaning: Meaning | None = None
    most: int = PIECE_JOBS

    @property
    def name(self) -> str:
        """Return what the log is called."""
        more = len(self.files) - 1
        return f"{self.files[0][0]} and {more} more" if more else self.files[0][0]

    def read(self, name: str) -> ScheduleLog:
        """Return the jobs of one of the files. Raises what `read_log` raises."""
        return read_log(name, self.kind, self.zone, self.meaning, dict(self.files)[name])

    def reads(self) -> Iterator[Read]:
        """Yield about so many jobs at a time. Raises what `read_log` raises, and LinkedError.

        What is reported about a log and of all its pieces alike is in the first.
        """
        reported: set[str] = set()
        for read in _pieces(self):
            fresh = [each for each in read.log.warnings if _NUMBER.sub("", each) not in reported]
            reported.update(_NUMBER.sub("", each) for each in fresh)
            yield read._replace(log=replace(read.log, warnings=tuple(fresh)))

    def logs(self) -> Iterator[ScheduleLog]:
        """Yield the same without what it was made of."""
        return (read.log for read in self.reads())


def _pieces(whole: Pieces) -> Iterator[Read]:
    files, kind, zone, meaning, most = whole
    kinds = [kind or _kind_of(path, name) for name, path in files]
    others = [(path, each, name) for (name, path), each in zip(files, kinds, strict=True) if each != "swf"]
    with DiskSorter() as sort:
        if others:
            notes = Notes()
            read = chain.from_iterable(_records(*each, zone, notes) for each in others)
            jobs = fold_jobs(read, notes.fold, sort=sort)
            some = list(islice(jobs, most))  # by now all records have been read
            reported: dict[str, Any] = {"unreadable": notes.rejected, "folded": notes.folded}
            while some or reported:
                if any(job.preceding_job_id is not None for job in some):
                    raise LinkedError(f"{others[0][2]}: jobs follow each other")
                yield Read(from_records(some, others[0][2], zero=0, **reported), records=some)
                reported, some = {}, list(islice(jobs, most))
    first: int | None = None
    swf = [file for file, each in zip(files, kinds, strict=True) if each == "swf"]
    for place, (name, path) in enumerate(swf):
        zero = None
        for columns in _column_pieces(path, name, most):
            log = from_swf(columns, name, meaning)
            zero = log.zero_secs if zero is None else zero
            first = zero if place == 0 else first
            if (zero is None) != (first is None):
                raise ScheduleError(f"{name}: has no time zero, unlike other files of the log")
            yield Read(_moved(log, (zero or 0) - (first or 0)), columns)


def _kind_of(path: str, name: str) -> str:
    with reading(path) as stream:
        return open_log(stream, None, name)[0]


def _records(path: str, kind: str, name: str, zone: tzinfo | None, notes: Notes) -> Iterator[JobRecord]:
    with reading(path) as stream:
        _, lines = open_log(stream, kind, name)
        yield from notes.accepted(read_records(lines, kind, source=name, zone=zone, notes=notes))


def _column_pieces(path: str, name: str, most: int) -> Iterator[SwfColumns]:
    if is_preempted(read_header(path)):
        yield read_columns(path)
        return
    for columns in read_column_pieces(path, most):
        if (columns.columns["preceding"] > 0).any():
            raise LinkedError(f"{name}: jobs follow each other")
        yield columns


def _moved(log: ScheduleLog, shift_secs: int) -> ScheduleLog:
    if shift_secs < 0:
        raise LinkedError(f"{log.name}: begins before the first file of the log")
    times = {name: getattr(log, name) for name in ("submit", "start", "end")}
    return replace(
        log, **{name: np.where(each >= 0, each + shift_secs, each) for name, each in times.items()}
    )


@contextmanager
def as_file(name: str) -> Iterator[str]:
    """Give the name of a file that can be read twice: standard input is written to one."""
    if name != "-":
        yield name
        return
    with tempfile.NamedTemporaryFile("w+b", suffix=".log") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file)
            file.flush()
        except OSError as error:
            raise LogFileError(f"-: cannot read: {error.strerror or error}") from None
        yield file.name
