"""Reads and writes job records as JSON, one object per line, which can hold all fields of a record. Pure.

The names are those of `jobfeatures.joblogs.loggedjob.JobRecord`. Unknown values are left out; a limit that is
known not to exist is ``"unlimited"``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Lost, Notes, Number, Passage, SourceText, lines_of
from jobfeatures.records.jsontext import parse_object
from jobfeatures.records.model import UNLIMITED, JobState

KIND: Final = "records"
LARGEST: Final = 2**63 - 1
_FIELDS: Final = tuple(each for each in fields(JobRecord) if each.compare)
_DEFAULTS: Final = {each.name: each.default for each in _FIELDS}
_KINDS: Final[Mapping[str, str]] = {each.name: str(each.type) for each in _FIELDS}
_WORDS: Final = {
    "bool": "true or false", "int": "a whole number", "str": "a text", "tuple[str, ...]": "a list of texts",
    "JobState": "a state of a job", "Limit": "a number or unlimited", "Number": "a number",
}  # fmt: skip
_VALUES: Final = attrgetter(*_DEFAULTS)
_ENCODER: Final = json.JSONEncoder()
_REQUIRED: Final = tuple(name for name, default in _DEFAULTS.items() if default is MISSING)
_HEAD = re.compile(r'\s*\{"batch_system": ?"')


def recognise(head: str) -> bool:
    """Return whether a text is in this format: its first line begins with the member "batch_system"."""
    return _HEAD.match(head) is not None


def read_records(
    lines: Iterable[str], *, source: str, notes: Notes, keep_text: bool = False
) -> Iterator[JobRecord | Rejected | Passage]:
    """Yield the record of each line; invalid lines are yielded as Rejected.

    With `keep_text`, each record also holds its source text, and empty lines are yielded as Passage. `notes`
    is not used: every value can be read.
    """
    del notes  # all is taken
    for number, line in enumerate(lines, 1):
        if line.isspace():
            if keep_text:
                yield Passage(KIND, line)
            continue
        try:
            record = parse_line(line.removeprefix("\ufeff"))
        except ParseError as error:
            yield Rejected.from_error(error.at(source, number))
            continue
        yield replace(record, source_text=SourceText(KIND, line)) if keep_text else record


def parse_line(line: str) -> JobRecord:
    """Return the record in one line of JSON.

    Raises ParseError for a missing or unknown field, and for a value of the wrong type.
    """
    found = parse_object(line)
    for name in _REQUIRED:
        if not found.get(name):
            raise ParseError("is missing", field=name)
    for name in found:
        if name not in _KINDS:
            raise ParseError("is not a field of job records", field=name[:40])
    return JobRecord(**{name: _value(name, value) for name, value in found.items()})


def _value(name: str, value: object) -> Any:
    """Return a field's value. Raises ParseError where it is of another kind."""
    kind = _KINDS[name]
    good: Any = None
    if kind == "JobState":
        good = JobState(value) if isinstance(value, str) and value in JobState.__members__ else None
    elif kind == "tuple[str, ...]":
        good = tuple(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else None
    elif name == "more":
        good = _pairs(value)
    elif kind.startswith("bool"):
        good = value if isinstance(value, bool) else None
    elif kind.startswith("str"):
        good = value if isinstance(value, str) else None
    elif kind == "Limit" and value == "unlimited":
        good = UNLIMITED
    elif isinstance(value, int) and not isinstance(value, bool):
        good = value if abs(value) <= LARGEST else None
    elif kind.startswith("Number") and isinstance(value, float) and math.isfinite(value):
        good = value
    if good is None:
        words = _WORDS.get(kind.removesuffix(" | None"), "a list of pairs of texts")
        raise ParseError(f"must be {words}", field=name, text=str(value)[:200])
    return good


def _pairs(value: object) -> tuple[tuple[str, str | Number], ...] | None:
    """Return an object of texts and numbers as pairs, None for what is none."""
    if not isinstance(value, dict):
        return None
    for each in value.values():
        is_number = isinstance(each, int | float) and not isinstance(each, bool)
        if not isinstance(each, str) and not (is_number and math.isfinite(each) and abs(each) <= LARGEST):
            return None
    return tuple(value.items())


def write_records(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    """Yield one line of JSON for each record. All its values are written, so `lost` is never called.

    A record that is unchanged since it was read with its source text is written as that text.
    """
    del lost
    for each in records:
        text = each if isinstance(each, Passage) else each.source_text
        if isinstance(each, Passage):
            yield from lines_of(each.text)
        elif text is not None and text.kind == KIND and parse_line(text.text.removeprefix("\ufeff")) == each:
            yield from lines_of(text.text)
        else:
            yield format_line(each)


def format_line(record: JobRecord) -> str:
    """Return a record as one line of JSON, without a newline."""
    document = {
        name: value.value if isinstance(value, Enum) else value
        for name, default, value in zip(_DEFAULTS, _DEFAULTS.values(), _VALUES(record), strict=True)
        if value is not default and value != default
    }
    if record.more:
        document["more"] = dict(record.more)
    return _ENCODER.encode(document)
