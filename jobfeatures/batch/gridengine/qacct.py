"""Reads what ``qacct -j`` prints, as a log of jobs, for users who cannot read the accounting file. Pure.

Source: qacct(1), accounting(5). A line of ``=`` begins each record, and a row has a name and a value as a
person reads it: local times, units behind numbers, words behind codes::

    jobnumber    2
    taskid       undefined
    qsub_time    Sun Nov 29 20:48:50 2026
    failed       100 : assumedly after job
    ru_utime     0.002s

Univa Grid Engine prints ``11/29/2026 20:48:50.123``, Open Cluster Scheduler ``2026-11-29 20:48:50.123456``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from functools import partial
from typing import Final

from jobfeatures.batch.gridengine.accounting import NEEDED, make_records
from jobfeatures.batch.gridengine.colonlines import MAX_LINE_CHARACTERS
from jobfeatures.errors import ParseError, Rejected, matched
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.localtimes import choose_moments, parse_local

MAX_ROWS: Final = 1000
SUMS: Final = "Total System Usage"  # behind the last record
_NAMES: Final = {
    "jobname": "job_name",
    "jobnumber": "job_number",
    "taskid": "task_number",
    "qsub_time": "submission_time",
    "submit_time": "submission_time",
}
_TIMES: Final = ("submission_time", "start_time", "end_time")
_ROWS: Final = frozenset({*NEEDED, "exit_status"} - {"pe_taskid"})  # that every record has
_CODES: Final = frozenset({"failed", "exit_status"})
_SECS: Final = frozenset({"ru_wallclock", "ru_utime", "ru_stime", "cpu"})
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_HEAD = re.compile(r"\s*={10,}[ \t]*\r?\nqname(?:[ \t]|\r?\n)")
_ROW = re.compile(r"([a-z][a-z_]{0,60})(?:[ \t]+(.*))?\Z", re.ASCII | re.DOTALL)
_CODE = re.compile(r"([0-9]{1,9})(?: .*)?\Z", re.ASCII)
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)s?\Z", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)([KMGTP]?)B?\Z", re.ASCII)
_CTIME = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +([0-9]{1,2}) ([0-9:]{8}) ([0-9]{4})\Z", re.ASCII)
_UNIVA = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4}) ([0-9:]{8})(\.[0-9]{1,6})?\Z", re.ASCII)
_OPEN = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9:]{8})(\.[0-9]{1,6})?\Z", re.ASCII)
_UNKNOWN: Final = frozenset({"-/-", "", "undefined"})


def recognise(head: str) -> bool:
    """Return whether `head`, the beginning of a log, is output of ``qacct -j``."""
    return _HEAD.match(head) is not None


def read_records(
    lines: Iterable[str], *, source: str, notes: Notes, zone: tzinfo | None = None
) -> Iterator[JobRecord | Rejected]:
    """Yield a record for each block between lines of ``=``, or a Rejected for a malformed one.

    Times are local to `zone` (None: this host's). A record's `restarts` is the number of the job's
    rescheduled runs before it. Memory is unknown where ``ru_maxrss`` is no whole number: 8.1.9 prints KiB as
    if they were bytes (4612 KiB: ``4.504KB``). `source` names the log in errors; `notes` counts values that
    could not be read.
    """
    parse = partial(_parse_block, zone=zone, notes=notes)
    return make_records(_blocks(lines), parse, source=source, notes=notes)


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line's number and the rows of each record, without the sums at the begin and end."""
    first, rows, is_ruled = 0, list[str](), False
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n ")
        was_ruled, is_ruled = is_ruled, text.startswith("==========") and not text.strip("=")
        if is_ruled or text == SUMS:
            if rows:
                yield first, rows
            first, rows = 0, []
        elif was_ruled and _ROW.match(text):
            first, rows = number - 1, [text]
        elif rows and text and len(rows) <= MAX_ROWS:
            rows.append(text)
    if rows:
        yield first, rows


def _parse_block(rows: list[str], zone: tzinfo | None, notes: Notes) -> dict[str, str]:
    """Return the values of one record, named and written as in the accounting file. Raises ParseError."""
    if len(rows) > MAX_ROWS:
        raise ParseError("record is too long")
    values: dict[str, str] = {}
    for row in rows:
        match = _ROW.match(row)
        if match is None or len(row) > MAX_LINE_CHARACTERS:
            notes.not_taken["line that is no field"] += 1
            continue
        name = _NAMES.get(match[1], match[1])
        if name in values:
            raise ParseError("field occurs twice", field=match[1])
        values[name] = match[2] or ""
    for name in sorted(_ROWS - values.keys()):
        raise ParseError("field is missing", field=name)
    for name in _CODES:
        values[name] = matched(_CODE, values[name], "not a code", field=name)[1]
    for name in _SECS & values.keys():
        if (secs := _DURATION.match(values[name])) is not None:
            values[name] = secs[1]
    if "maxrss" in values and (size := _SIZE.match(values["maxrss"])) is not None:
        values["maxrss"] = str(round(float(size[1]) * 1024 ** ("KMGTP".find(size[2]) + 1 if size[2] else 0)))
    if not (peak := values.get("ru_maxrss", "0")).isdecimal():
        notes.not_taken["ru_maxrss"] += bool(peak)
        del values["ru_maxrss"]
    return values | _parse_times(values, zone, notes)


def _parse_times(values: dict[str, str], zone: tzinfo | None, notes: Notes) -> dict[str, str]:
    """Return the times as the accounting file has them: epoch seconds or microseconds, 0 for none."""
    found = {name: _parse_time(values[name], zone, name) for name in _TIMES}
    ran = values.get("ru_wallclock", "")
    ran_secs = float(ran) if _DURATION.match(ran) else None
    secs = choose_moments(
        [each[0] if each else None for each in found.values()], ran_secs, None, notes.doubtful
    )
    return {
        name: "0" if whole is None or each is None else f"{whole}{each[1]:06d}" if each[1] else str(whole)
        for (name, each), whole in zip(found.items(), secs, strict=True)
    }


def _parse_time(text: str, zone: tzinfo | None, field: str) -> tuple[int, int] | None:
    """Return the epoch seconds and microseconds of a time, None if it is not known. Raises ParseError."""
    if text in _UNKNOWN:
        return None
    if (match := _CTIME.match(text)) and match[1] in _MONTHS:
        iso, rest = f"{match[4]}-{_MONTHS.index(match[1]) + 1:02d}-{int(match[2]):02d}T{match[3]}", None
    elif match := _UNIVA.match(text):
        iso, rest = f"{match[3]}-{match[1]}-{match[2]}T{match[4]}", match[5]
    elif match := _OPEN.match(text):
        iso, rest = f"{match[1]}T{match[2]}", match[3]
    else:
        raise ParseError("not a time", field=field, text=text)
    return parse_local(iso, zone, field=field), int((rest or ".")[1:].ljust(6, "0"))
