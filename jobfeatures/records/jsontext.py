"""Parses texts that must hold JSON objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from jobfeatures.errors import ParseError

_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_NEXT = re.compile(r"\n(?=\{)")


def parse_object(text: str | bytes, *, source: str = "", line: int = 0) -> dict[str, Any]:
    """Parse a text that must be one JSON object.

    Raises ParseError, also for NaN and infinities, which JSON does not have.
    """
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
    """Yield consecutive JSON objects in a text.

    For text that is not an object a ParseError is yielded, and reading resumes at the next line that begins
    with an object.
    """
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
    """Parse a JSON object that this program has stored.

    Raises ParseError for malformed JSON, and for a member `format`, which only later versions write.
    """
    found = parse_object(text, source=source)
    if (form := found.get("format")) is not None:
        raise ParseError(
            "written by a later version of this program: upgrade it",
            source=source,
            field="format",
            text=str(form),
        )
    return found


def text_of(document: dict[str, Any], name: str, source: str) -> str:
    """Return the member `name` of a JSON object. Raises ParseError unless it is a non-empty string."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ParseError("not a text", source=source, field=name, text=str(value))
    return value


def clean(text: str) -> str:
    """Return a string in which lone surrogates, which UTF-8 cannot encode, are replaced by U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def is_of_later_version(text: bytes) -> bool:
    """Return whether a stored document was written by a later version of this program.

    Such a document has a member `format`, and `parse_own` rejects it.
    """
    try:
        return b'"format"' in text and not parse_own(text)
    except ParseError as error:
        return error.field == "format"


def refuse(name: str) -> NoReturn:
    """Raise ValueError for `name`, which is NaN or an infinity: a hook for the JSON parser."""
    raise ValueError(f"{name} is no number")
