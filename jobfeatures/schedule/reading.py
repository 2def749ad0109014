"""Reads logs of jobs, of any kind that `jobfeatures convert` reads, as arrays."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from typing import NamedTuple

from jobfeatures.convert import read_log as read_records
from jobfeatures.formats.swf.columns import SwfColumns, read_columns
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.jobfold import fold_jobs
from jobfeatures.joblog import JobRecord, Notes
from jobfeatures.logfiles import LogFileError, open_log, reading
from jobfeatures.schedule.jobs import ScheduleLog, from_records, from_swf


class Read(NamedTuple):
    """A log, and what it was made of: row by row columns of SWF, or records of another kind."""

    log: ScheduleLog
    columns: SwfColumns | None = None
    records: Sequence[JobRecord] = ()


def read_log(
    name: str, kind: str | None = None, zone: tzinfo | None = None, meaning: Meaning | None = None
) -> ScheduleLog:
    """Return the jobs of a file, `-` being standard input.

    `kind` is told by content where it is None, `zone` is where clocks showed
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
