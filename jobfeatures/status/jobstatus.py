"""Parses the nine values that a job writes into $JOBSTATUS: untrusted bytes become one consistent record.

Source: Machine/Job Features, draft 0.99 of 2014-05-15, sections "Pilot status information" and "Pilot status
specific information" (3.1 to 3.9). The names are defined here only (and in client.py, which is
self-contained; a test compares them).
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jobfeatures.errors import ParseError

MAX_INTEGER = 2**63 - 1
MAX_BODY_BYTES = 4096
QUIET_SECS = 600.0  # the draft's "significant amount of time" after can_postpone_last_job went back to True
MAX_EPOCH_SECS = 2**40  # year 36812: later than any job's end, earlier than milliseconds taken for seconds

_INTEGER = re.compile(rb"([+-]?)0*([0-9]{1,19})\Z")
_LONG_INTEGER = re.compile(rb"[+-]?[0-9]+\Z")
_BODY_LINE = re.compile(rb"([^ \t]+)[ \t]+(.*)\Z", re.DOTALL)
_BODY = "body"  # what errors call a request's body
_BOOLEANS = {b"True": True, b"False": False}


class StatusReason(enum.StrEnum):
    """The reasons why values in a $JOBSTATUS are rejected; they are also values of a metric's label."""

    MISSING_USED_CPU = "missing_used_cpu"
    NOT_AN_INTEGER = "not_an_integer"
    NOT_A_BOOLEAN = "not_a_boolean"
    OUT_OF_RANGE = "out_of_range"
    USED_EXCEEDS_ALLOCATED = "used_exceeds_allocated"
    ENDS_OUT_OF_ORDER = "ends_out_of_order"


class StatusViolation(ParseError):  # noqa: N818  # the usual term: the job violates the draft's rules
    """Raised when values in a job's $JOBSTATUS are malformed or contradict each other.

    None of the values may then be used.
    """

    def __init__(self, reason_code: StatusReason, reason: str, *, field: str = "", text: str = "") -> None:
        super().__init__(reason, source="JOBSTATUS", field=field, text=text)
        self.reason_code = reason_code


class StatusKey(NamedTuple):
    """One key of $JOBSTATUS: the name of its file, its field in `JobStatus`, its type, unit and bounds.

    `value_type` is "integer" or "boolean". An integer is between `lowest` and `highest`. `section` is where
    draft 0.99 of Machine/Job Features (2014-05-15) defines the key.
    """

    name: str
    field: str  # of JobStatus
    value_type: str
    unit: str
    section: str  # of the draft
    lowest: int = 0
    highest: int = MAX_INTEGER


USED_CPU = StatusKey("used_CPU", "used_cpu", "integer", "processors", "3.1")

STATUS_KEYS = (
    USED_CPU,
    StatusKey("last_job_start", "last_job_start", "integer", "epoch seconds", "3.2", 0, MAX_EPOCH_SECS),
    StatusKey("first_exp_job_end", "first_exp_job_end", "integer", "epoch seconds", "3.3", 0, MAX_EPOCH_SECS),
    StatusKey("last_exp_job_end", "last_exp_job_end", "integer", "epoch seconds", "3.4", 0, MAX_EPOCH_SECS),
    StatusKey("last_max_job_end", "last_max_job_end", "integer", "epoch seconds", "3.5", 0, MAX_EPOCH_SECS),
    StatusKey("add_uncom_time", "add_uncom_time", "integer", "CPU seconds", "3.6"),
    StatusKey("add_final_exp_waste", "add_final_exp_waste", "integer", "CPU seconds", "3.7"),
    StatusKey("can_postpone_last_job", "can_postpone_last_job", "boolean", "", "3.8"),
    StatusKey("priority_factor", "priority_factor", "integer", "", "3.9", -MAX_INTEGER),
)
STATUS_NAMES = frozenset(key.name for key in STATUS_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The values that a job has written into its $JOBSTATUS; an absent value is None.

    The job is a pilot, which runs tasks (payloads) in the batch job. In the fields' names, ``job`` means a
    payload: `last_job_start` is when the last payload started. `first_exp_job_end` and `last_exp_job_end` are
    when the first and the last of the running payloads are expected to end. `last_max_job_end` is when a
    limit ends the last of them. All four are in epoch seconds.

    Two values are in CPU seconds. `add_uncom_time` is the work that would have been lost if the job had been
    killed at `last_job_start`. `add_final_exp_waste` is the CPU time that stays idle between the first and
    the last expected end if no payload is started any more. `used_cpu` is the number of CPUs in use.
    `can_postpone_last_job` says whether the last payload can be postponed. Of one user's jobs, those with a
    lower `priority_factor` are to be given up first.
    """

    used_cpu: int
    last_job_start: int | None = None
    first_exp_job_end: int | None = None
    last_exp_job_end: int | None = None
    last_max_job_end: int | None = None  # an enforced limit; the other ends are good-faith estimates
    add_uncom_time: int | None = None  # useful CPU time that a kill at last_job_start would have wasted
    add_final_exp_waste: int | None = None  # idle CPU time between the first and the last expected end
    can_postpone_last_job: bool | None = None
    priority_factor: int | None = None  # higher is better, comparable within one user only


def is_unwritten(values: Mapping[str, bytes]) -> bool:
    """Return whether the job has not written anything yet.

    A writer has to create the file used_CPU before it can lock it. So an empty used_CPU alone means that a
    writer is between these two steps.
    """
    return not values or dict(values) == {USED_CPU.name: b""}


def parse_job_status(values: Mapping[str, bytes], *, allocated_cpus: int | None) -> JobStatus:
    """Parse the files of one $JOBSTATUS, which must all be valid. Raises StatusViolation.

    `values` are file contents by name, such as ``used_CPU``; other names are ignored. A value is one word on
    one line: ASCII digits (a sign only for priority_factor), or ``True``/``False``. Its newline may be
    missing, and spaces or tabs may surround it, because that leaves no ambiguity. The draft guarantees
    used_CPU <= allocated_CPU (not checked if `allocated_cpus` is unknown), and the first expected end is by
    definition not after the last. The draft does not guarantee that an estimate respects last_max_job_end, so
    an estimate beyond it is accepted.
    """
    if USED_CPU.name not in values:
        raise StatusViolation(StatusReason.MISSING_USED_CPU, "is missing", field=USED_CPU.name)
    found: dict[str, int | bool] = {}
    for key in STATUS_KEYS:
        if key.name in values:
            found[key.field] = _parse_value(key, values[key.name])
    status = JobStatus(**found)  # type: ignore[arg-type]  # STATUS_KEYS says which field is the boolean
    if allocated_cpus is not None and status.used_cpu > allocated_cpus:
        raise StatusViolation(
            StatusReason.USED_EXCEEDS_ALLOCATED,
            f"more than the {allocated_cpus} allocated",
            field=USED_CPU.name,
            text=str(status.used_cpu),
        )
    first, last = status.first_exp_job_end, status.last_exp_job_end
    if first is not None and last is not None and first > last:
        raise StatusViolation(
            StatusReason.ENDS_OUT_OF_ORDER,
            f"after last_exp_job_end {last}",
            field="first_exp_job_end",
            text=str(first),
        )
    return status


def _parse_value(key: StatusKey, content: bytes) -> int | bool:
    word = content.removesuffix(b"\n").strip(b" \t")
    text = content.decode("ascii", "backslashreplace")
    if key.value_type == "boolean":
        if word not in _BOOLEANS:
            raise StatusViolation(
                StatusReason.NOT_A_BOOLEAN, "must be True or False", field=key.name, text=text
            )
        return _BOOLEANS[word]
    match = _INTEGER.match(word)
    if match is None and not _LONG_INTEGER.match(word):
        raise StatusViolation(StatusReason.NOT_AN_INTEGER, "not an integer", field=key.name, text=text)
    sign, digits = match.groups() if match is not None else (b"", b"9" * 20)
    if sign == b"+" and key.lowest >= 0:
        raise StatusViolation(
            StatusReason.NOT_AN_INTEGER, "not an integer without sign", field=key.name, text=text
        )
    value = -int(digits) if sign == b"-" else int(digits)
    if not key.lowest <= value <= key.highest:
        allowed = f"not within {key.lowest} and {key.highest}"
        raise StatusViolation(StatusReason.OUT_OF_RANGE, allowed, field=key.name, text=text)
    return value


def parse_status_body(content: bytes) -> dict[str, bytes | None]:
    """Parse the body of an HTTP request that sets a status; return the values by key. None removes a key.

    There are two forms, distinguished by their first character:

        {"used_CPU": 5, "last_job_start": 1417002000, "can_postpone_last_job": true}

        used_CPU 5
        last_job_start 1417002000

    In both cases the values are returned as the bytes of the keys' files. They are validated by
    `parse_job_status`, not here. Raises ParseError for any other form, an unknown name, a repeated name, or a
    body without values.
    """
    text = content.strip()
    if not text:
        raise ParseError("contains no values", source=_BODY)
    values = _parse_json(text) if text.startswith(b"{") else _parse_lines(text)
    if not values:
        raise ParseError("contains no values", source=_BODY)
    return values


def _parse_lines(text: bytes) -> dict[str, bytes | None]:
    values: dict[str, bytes | None] = {}
    for number, line in enumerate(text.replace(b"\r\n", b"\n").split(b"\n"), 1):
        if not line.strip():
            continue
        match = _BODY_LINE.match(line)
        if match is None:
            raise ParseError("line must be KEY VALUE", source=_BODY, line=number, text=_shown(line))
        _add(values, _shown(match[1]), match[2].strip(b" \t"), number)
    return values


def _parse_json(text: bytes) -> dict[str, bytes | None]:
    try:
        pairs = json.loads(text, object_pairs_hook=list)  # repeated names included
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {error}", source=_BODY) from error
    values: dict[str, bytes | None] = {}
    for name, value in pairs:
        _add(values, name, _value(name, value), 0)
    return values


def _value(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bool | int):
        return str(value).encode("ascii")
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace")
    raise ParseError("must be a number or a text", source=_BODY, field=name, text=str(value))


def _add(values: dict[str, bytes | None], name: str, value: bytes | None, line: int) -> None:
    if name not in STATUS_NAMES:
        raise ParseError("unknown key", source=_BODY, line=line, text=name)
    if name in values:
        raise ParseError("this key occurs twice", source=_BODY, line=line, field=name)
    values[name] = value


def _shown(text: bytes) -> str:
    return text.decode("ascii", "backslashreplace")
