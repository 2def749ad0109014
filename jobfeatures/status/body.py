"""Parsing the request body by which a job sets its status over HTTP: untrusted bytes → values by name. Pure.

There are two forms, distinguished by their first character:

    {"used_CPU": 5, "last_job_start": 1417002000, "can_postpone_last_job": true}

    used_CPU 5
    last_job_start 1417002000
"""

from __future__ import annotations

import json
import re

from jobfeatures.errors import ParseError
from jobfeatures.status.jobstatus import STATUS_KEYS

MAX_BODY_BYTES = 4096
_NAMES = frozenset(key.name for key in STATUS_KEYS)
_SOURCE = "body"
_LINE = re.compile(rb"([^ \t]+)[ \t]+(.*)\Z", re.DOTALL)


def parse_status_body(content: bytes) -> dict[str, bytes | None]:
    """Return the values by name, as their files would hold them; None removes a key.

    Values are validated by `parse_job_status`, not here. Raises ParseError for
    any other form, an unknown name, a repeated name, or a body without values.
    """
    text = content.strip()
    if not text:
        raise ParseError("holds no values", source=_SOURCE)
    values = _parse_json(text) if text.startswith(b"{") else _parse_lines(text)
    if not values:
        raise ParseError("holds no values", source=_SOURCE)
    return values


def _parse_lines(text: bytes) -> dict[str, bytes | None]:
    values: dict[str, bytes | None] = {}
    for number, line in enumerate(text.replace(b"\r\n", b"\n").split(b"\n"), 1):
        if not line.strip():
            continue
        match = _LINE.match(line)
        if match is None:
            raise ParseError("not a key and a value", source=_SOURCE, line=number, text=_shown(line))
        _add(values, _shown(match[1]), match[2].strip(b" \t"), number)
    return values


def _parse_json(text: bytes) -> dict[str, bytes | None]:
    try:
        pairs = json.loads(text, object_pairs_hook=list)  # repeated names included
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {error}", source=_SOURCE) from error
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
    raise ParseError("neither a number nor a text", source=_SOURCE, field=name, text=str(value))


def _add(values: dict[str, bytes | None], name: str, value: bytes | None, line: int) -> None:
    if name not in _NAMES:
        raise ParseError("no such key", source=_SOURCE, line=line, text=name)
    if name in values:
        raise ParseError("given twice", source=_SOURCE, line=line, field=name)
    values[name] = value


def _shown(text: bytes) -> str:
    return text.decode("ascii", "backslashreplace")
