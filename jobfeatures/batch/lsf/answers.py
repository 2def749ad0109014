"""Parses the JSON that LSF's commands print with ``-o … -json`` into records. Pure.

bjobs, bhosts, bqueues and lshosts print one object: the command's name, a count under ``JOBS``, ``HOSTS`` or
``QUEUES``, and ``RECORDS``, whose values are strings; ``-`` or an empty string means unknown. Field names are
in capitals except for some of lshosts; they are read case-insensitively. Source: bjobs -json,
https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_command_ref/bjobs.json.1.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jobfeatures.batch.lsf.basics import NOTHING
from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_count

Record = Mapping[str, str]

_NOTHING_FOUND = re.compile(r"No (?:[a-z]+ ){0,3}jobs? found(?: .*)?\Z")
_UNKNOWN_JOB = re.compile(r"Job <([0-9]{1,10}(?:\[[0-9]{1,9}\])?)> is not found\Z")
_WAITING = re.compile(r".*(?:Please wait ?\.\.\.|still trying)\Z")


def parse_records(text: str, *, source: str) -> list[Record]:
    """Return the records of an answer. Lines before its first brace are a banner, and ignored.

    Sample: ``{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7","STAT":"RUN"}]}``. `source` names the
    command in errors. Raises ParseError if the text is no such answer, is truncated, has not as many records
    as it says, or has a duplicate name, as a user's unescaped text would cause.
    """
    start = 0 if text.startswith("{") else text.find("\n{") + 1
    if not text.startswith("{", start):
        raise ParseError("no JSON in the answer", source=source, text=text.strip())
    try:
        document, end = json.JSONDecoder(strict=False, object_pairs_hook=_once).raw_decode(text, start)
    except (ParseError, ValueError, RecursionError) as error:
        reason = error.reason if isinstance(error, ParseError) else "broken JSON"
        raise ParseError(reason, source=source, text=text[start : start + 200]) from None
    if text[end:].strip():
        raise ParseError("there is text after the JSON answer", source=source, text=text[end:].strip())
    command = document.get("COMMAND")
    records = document.get("RECORDS")
    if command != source or not isinstance(records, list):
        raise ParseError(f"not a JSON answer of {source}", source=source, text=text[start : start + 200])
    counts = [value for name, value in document.items() if name not in {"COMMAND", "RECORDS"}]
    if len(counts) != 1 or str(counts[0]) != str(len(records)):
        raise ParseError("the number of records differs from the stated number", source=source)
    return [_record(each, source) for each in records]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ParseError("a field occurs twice in one record")
    return found


def _record(value: object, source: str) -> Record:
    """Return one record, names in capitals. Raises ParseError unless values are strings or numbers."""
    if not isinstance(value, dict):
        raise ParseError("a record must be an object", source=source)
    record: dict[str, str] = {}
    for name, each in value.items():
        if isinstance(each, bool) or not isinstance(each, str | int | float):
            raise ParseError("not a text", source=source, field=name)
        record[name.upper()] = str(each).strip()
    return record


def text_of(record: Record, field: str) -> str | None:
    """Return a field's text; None if absent, or one of LSF's words for unknown."""
    value = record.get(field, "")
    return None if value in NOTHING else value


def count_of(record: Record, field: str) -> int | None:
    """Return a field as an integer, None if unknown. Raises ParseError if malformed."""
    value = text_of(record, field)
    return None if value is None else parse_count(value, field=field)


def complaints(stderr: str) -> list[str]:
    """Return the lines of a command's standard error, without those that only say that it waits for LSF.

    An example is ``still trying``: as the command has ended, LSF has answered since.
    """
    lines = (line.strip() for line in stderr.splitlines())
    return [line for line in lines if line and not _WAITING.match(line)]


def is_nothing_found(stdout: str, lines: Sequence[str]) -> bool:
    """Return whether bjobs printed nothing but ``No unfinished job found on host/group <n1>``.

    `lines` are those of its standard error.
    """
    words = [*lines, *complaints(stdout)]
    return bool(words) and all(_NOTHING_FOUND.match(line) for line in words)


def unknown_jobs(lines: Sequence[str]) -> frozenset[str] | None:
    """Return the job ids in lines such as ``Job <7> is not found``; None if any line says something else."""
    matches = [_UNKNOWN_JOB.match(line) for line in lines]
    found = frozenset(match[1] for match in matches if match)
    return found if all(matches) else None
