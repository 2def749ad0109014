"""Parsing text that must be a JSON object."""

from __future__ import annotations

from typing import Any, NoReturn

from jobfeatures.errors import ParseError


def parse_object(text: str | bytes, *, source: str = "", line: int = 0) -> dict[str, Any]:
    """Return the object. Raises ParseError, also for NaN and infinities, which are not JSON."""
    import json  # not at the top: hooks start often and seldom need it

    try:
        found = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        shown = text if isinstance(text, str) else text[:200].decode("utf-8", "replace")
        raise ParseError(f"not JSON ({error})"[:200], source=source, line=line, text=shown) from None
    if not isinstance(found, dict):
        raise ParseError("not a JSON object", source=source, line=line, text=str(found)[:200])
    return found


def parse_own(text: str | bytes, *, source: str = "") -> dict[str, Any]:
    """Return a document of our own storage. Raises ParseError, also for one of a later version.

    This version writes no `format`; later ones add it to documents that older ones must not read or replace.
    """
    found = parse_object(text, source=source)
    if (form := found.get("format")) is not None:
        raise ParseError("written by a later version", source=source, field="format", text=str(form))
    return found


def text_of(document: dict[str, Any], name: str, source: str) -> str:
    """Return a member that must be a non-empty string. Raises ParseError."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ParseError("not a text", source=source, field=name, text=str(value))
    return value


def clean(text: str) -> str:
    """Return a string from JSON made encodable as UTF-8: lone surrogates become U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def is_of_later_version(text: bytes) -> bool:
    """Return whether `parse_own` refuses a document because of its `format`."""
    try:
        return b'"format"' in text and not parse_own(text)
    except ParseError as error:
        return error.field == "format"


def refuse(name: str) -> NoReturn:
    """Raise ValueError for NaN and infinities, which are not JSON."""
    raise ValueError(f"{name} is no number")
