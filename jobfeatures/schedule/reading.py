"""Reads logs of jobs, of any kind that `jobfeatures convert` reads, as arrays."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import tzinfo
from typing import Final, NamedTuple

from jobfeatures.convert import read_log as read_records
from jobfeatures.errors import JobfeaturesError
from jobfeatures.formats.swf.columns import SwfColumns, read_columns, read_header
from jobfeatures.formats.swf.columns import read_pieces as read_column_pieces
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.jobfold import fold_jobs
from jobfeatures.joblog import JobRecord, Notes
from jobfeatures.logfiles import LogFileError, open_log, reading
from jobfeatures.schedule.jobs import ScheduleLog, from_records, from_swf, is_preempted

PIECE_JOBS: Final = 2**18
_NUMBER = re.compile(r"[0-9.]+")


class Read(NamedTuple):
    """A log, and what it was made of: row by row columns of SWF, or records of another kind."""

    log: ScheduleLog
    columns: SwfColumns | None = None
    records: Sequence[JobRecord] = ()


def read_log(
    name: str, kind: str | None = None, zone: tzinfo | None = None, meaning: Meaning | None = None
) -> ScheduleLog:
    """Return the jobs of a file, `-` being standard input.

    `kind` is determined by content where it is None, `zone` is where clocks showed
    its times. Raises LogFileError, ParseError, KindError.
    """
    return read_whole(name, kind, zone, meaning).log


def read_whole(
    name: str, kind: str | None = None, zone: tzinfo | None = None, meaning: Meaning | None = None
) -> Read:
    """Return the same, and what it was made of."""
    with _as_file(name) as path:
        with reading(path) as stream:
            kind, lines = open_log(stream, kind, name)
            if kind != "swf":
                notes = Notes()
                records = read_records(lines, kind, source=name, zone=zone, notes=notes)
                jobs = list(fold_jobs(notes.accepted(records), notes.fold))
                log = from_records(jobs, name, unreadable=notes.rejected, folded=notes.folded)
                return Read(log, records=jobs)
        columns = read_columns(path)
        return Read(from_swf(columns, name, meaning), columns)


class LinkedError(JobfeaturesError):
    """Jobs follow each other, perhaps from one piece of a log to another: it has to be read as a whole."""


def read_pieces(
    name: str,
    kind: str | None = None,
    zone: tzinfo | None = None,
    meaning: Meaning | None = None,
    *,
    most: int = PIECE_JOBS,
) -> Iterator[ScheduleLog]:
    """Return about so many jobs of a file at a time. Raises what `read_log` raises, and LinkedError.

    What is reported about a log and of all its pieces alike is determined by the first.
    """
    told: set[str] = set()
    zero: int | None = None
    for log in _pieces(name, kind, zone, meaning, most):
        zero = zero if log.zero_secs is None else log.zero_secs
        fresh = [each for each in log.warnings if _NUMBER.sub("", each) not in told]
        told.update(_NUMBER.sub("", each) for each in fresh)
        yield replace(log, warnings=tuple(fresh), zero_secs=zero)


def _pieces(
    name: str, kind: str | None, zone: tzinfo | None, meaning: Meaning | None, most: int
) -> Iterator[ScheduleLog]:
    with _as_file(name) as path:
        with reading(path) as stream:
            kind, lines = open_log(stream, kind, name)
            if kind != "swf":
                notes = Notes()
                records = notes.accepted(read_records(lines, kind, source=name, zone=zone, notes=notes))
                unreadable = 0
                for some in _cut(records, most):
                    folded = Notes()
                    jobs = list(fold_jobs(some, folded.fold))
                    if any(job.preceding_job_id is not None for job in jobs):
                        raise LinkedError(f"{name}: jobs follow each other")
                    bad, unreadable = notes.rejected - unreadable, notes.rejected
                    yield from_records(jobs, name, unreadable=bad, folded=folded.folded)
                return
        if is_preempted(read_header(path)):
            yield from_swf(read_columns(path), name, meaning)
            return
        for columns in read_column_pieces(path, most):
            if (columns.columns["preceding"] > 0).any():
                raise LinkedError(f"{name}: jobs follow each other")
            yield from_swf(columns, name, meaning)


def _cut(records: Iterator[JobRecord], most: int) -> Iterator[list[JobRecord]]:
    """Return so many records at a time, steps with their job."""
    some: list[JobRecord] = []
    for record in records:
        if len(some) >= most and record.step is None:
            yield some
            some = []
        some.append(record)
    yield some


@contextmanager
def _as_file(name: str) -> Iterator[str]:
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
