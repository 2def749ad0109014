"""The accounting files of some days, for the controller role."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta

from jobfeatures.accounting import Accounting, AccountingRecord
from jobfeatures.batch.pbsfamily.accounting import read_records
from jobfeatures.errors import JobfeaturesError, Rejected, SourceError
from jobfeatures.joblog import JobRecord
from jobfeatures.logfiles import bounded_lines, reading
from jobfeatures.model import JobKey

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
    records: list[AccountingRecord] = []
    rejected: list[Rejected] = []
    try:
        for each in read_records(_lines(wanted), source=folder):
            if isinstance(each, Rejected):
                rejected.append(each)
            elif each.end_secs is None or each.end_secs >= since_secs:
                records.append(make_accounting_record(each, batch_system))
    except JobfeaturesError as error:
        raise SourceError(str(error)) from error
    return Accounting(
        source=batch_system, records=tuple(records), taken_at_secs=now_secs, rejected=tuple(rejected)
    )


def _lines(names: list[str]) -> Iterator[str]:
    for name in names:
        with ExitStack() as stack:
            yield from bounded_lines(stack.enter_context(reading(name)), most=MAX_LINE_CHARACTERS)


def make_accounting_record(record: JobRecord, batch_system: str) -> AccountingRecord:
    """Return what the controller role knows a job of accounting as."""
    start, end = _whole(record.start_secs), _whole(record.end_secs)
    memory = record.requested_memory_bytes
    nodes = record.total_nodes or record.requested_nodes
    return AccountingRecord(
        key=JobKey(batch_system, record.job_id),
        name=record.name or "",
        state=record.state.value,
        array_job_id=record.array_job_id,
        array_task_id=None if record.array_task_id is None else int(record.array_task_id),
        user=record.user,
        account=record.account,
        partition=record.queue,
        reservation=record.reservation,
        nodes=record.nodes,
        submit_secs=_whole(record.submit_secs),
        start_secs=start,
        end_secs=end,
        wall_limit_secs=record.wall_limit_secs,
        requested_cpus=record.requested_cpus,
        requested_nodes=record.requested_nodes,
        requested_memory_per_node_bytes=memory // nodes if isinstance(memory, int) and nodes else None,
        suspended_secs=_whole(record.suspended_secs),
        exit_code=record.exit_status,
        elapsed_secs=None if start is None or end is None else max(0, end - start),
    )


def _whole(secs: float | None) -> int | None:
    return None if secs is None else int(secs)
