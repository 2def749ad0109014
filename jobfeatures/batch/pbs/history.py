"""The accounting files of some days, for the controller role."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from jobfeatures.batch.pbs.accounting import read_records
from jobfeatures.errors import JobfeaturesError, Rejected, SourceError
from jobfeatures.joblog import Accounting, JobRecord
from jobfeatures.logfiles import bounded_lines, reading

MAX_DAYS = 400
MAX_LINE_CHARACTERS = 2**20


def local_day(secs: float) -> date:
    """Return the day of an epoch time in this machine's zone."""
    return datetime.fromtimestamp(max(0.0, secs), UTC).astimezone().date()


def file_names(since_secs: float, now_secs: float) -> list[str]:
    """Return the names of the files of these days, in this machine's zone, as the server has it."""
    day, last = local_day(since_secs), local_day(now_secs)
    day = max(day, last - timedelta(days=MAX_DAYS))
    names = []
    while day <= last:
        names.append(day.strftime("%Y%m%d"))
        day += timedelta(days=1)
    return names


def read_accounting(folder: str, batch_system: str, *, since_secs: float, now_secs: float) -> Accounting:
    """Return the jobs that these days' files tell of. Raises SourceError where the folder cannot be read."""
    try:
        there = set(os.listdir(folder))
    except OSError as error:
        raise SourceError(f"{folder}: {error.strerror}") from error
    wanted = [f"{folder}/{name}" for name in file_names(since_secs, now_secs) if name in there]
    records: list[JobRecord] = []
    rejected: list[Rejected] = []
    try:
        for each in read_records(_lines(wanted), source=folder):
            if isinstance(each, Rejected):
                rejected.append(each)
            elif each.end_secs is None or each.end_secs >= since_secs:
                records.append(replace(each, batch_system=batch_system))
    except JobfeaturesError as error:
        raise SourceError(str(error)) from error
    return Accounting(
        source=batch_system, records=tuple(records), taken_at_secs=now_secs, rejected=tuple(rejected)
    )


def _lines(names: list[str]) -> Iterator[str]:
    for name in names:
        with ExitStack() as stack:
            yield from bounded_lines(stack.enter_context(reading(name)), most=MAX_LINE_CHARACTERS)
