"""Parsing text that must be a JSON object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from jobfeatures.errors import ParseError

_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_NEXT = re.compile(r"\n(?=\{)")


def parse_object(text: str | bytes, *, source: str = "", line: int = 0) -> dict[str, Any]:
    """Return the object that a JSON text holds. Raises ParseError, also for NaN and infinities: not JSON."""
    import json  # not at the top: hooks start often and seldom need it

    try:
        found = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        shown = text if isinstance(text, str) else text[:200].decode("utf-8", "replace")
        raise ParseError(f"not JSON ({error})"[:200], source=source, line=line, text=shown) from None
    if not isinstance(found, dict):
        raise ParseError("not a JSON object", source=source, line=line, text=str(found)[:200])
    return found


def parse_objects(text: str, *, source: str = "") -> Iterator[dict[str, Any] | ParseError]:
    """Yield consecutive JSON objects, and a ParseError for other text, up to the next line with an object."""
    import json

    decoder = json.JSONDecoder(parse_constant=refuse)
    place = _after_blanks(text, 0)
    while place < len(text) or not text.strip():
        fault = "not a JSON object"
        try:
            found, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            found, fault = None, f"not JSON ({error})"[:200]
        if isinstance(found, dict):
            yield found
        else:
            following = _NEXT.search(text, place + 1)
            end = len(text) if following is None else following.end()
            line = text.count("\n", 0, place) + 1
            yield ParseError(fault, source=source, line=line, text=text[place : place + 200])
        if (place := _after_blanks(text, end)) >= len(text):
            return


def _after_blanks(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return place if match is None else match.end()


def parse_own(text: str | bytes, *, source: str = "") -> dict[str, Any]:
    """Return a JSON document that this project has stored. Raises ParseError, also for a later version's.

    This version writes no `format`; later ones add it to documents that older ones must not read or replace.
    """
    found = parse_object(text, source=source)
    if (form := found.get("format")) is not None:
        raise ParseError("written by a later version", source=source, field="format", text=str(form))
    return found


def text_of(document: dict[str, Any], name: str, source: str) -> str:
    """Return a member of a JSON object that must be a non-empty string. Raises ParseError."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ParseError("not a text", source=source, field=name, text=str(value))
    return value


def clean(text: str) -> str:
    """Return a string from JSON with U+FFFD for lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def is_of_later_version(text: bytes) -> bool:
    """Return whether a stored document has a `format`, so that `parse_own` rejects it: a later version's."""
    try:
        return b'"format"' in text and not parse_own(text)
    except ParseError as error:
        return error.field == "format"


def refuse(name: str) -> NoReturn:
    """Raise ValueError for NaN and infinities, which are not JSON."""
    raise ValueError(f"{name} is no number")
