"""Splits a text into JSON documents: consecutive, one per line, or in an array, in any layout. Pure.

Text that is not JSON, or is JSON on whose meaning parsers disagree (duplicate names in an object, NaN), is
one bad document: it is yielded with its reason, and reading resumes at the next line that begins with an
object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

MAX_BAD_DOCUMENTS: Final = 100  # of one text
_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_NEXT = re.compile(r"\n(?=\{)")


@dataclass(frozen=True, slots=True)
class SonarDocument:
    """One document in a text: its `number` and first `line` (from 1), and the offset of its `end`.

    `reason` says why a bad document has no `value`; it is empty otherwise.
    """

    number: int
    line: int
    end: int
    value: Any = None
    reason: str = ""


def iterate_documents(text: str, *, growing: bool = False) -> Iterator[SonarDocument]:
    """Yield the documents of a text; reading stops after 100 bad ones.

    With `growing`, an incomplete document at the end is skipped: it may still be being written.
    """
    position = _BLANK.match(text).end()  # type: ignore[union-attr]  # it matches nothing as well
    if text.startswith("[", position):
        found = list(_of_array(text, position))
        if not (growing and any(each.reason for each in found)):
            yield from found
        return
    number, line, counted, bad = 0, 1, 0, 0
    while position < len(text) and bad < MAX_BAD_DOCUMENTS:
        number += 1
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = _decode(text, position)
        except _NotJsonError as error:
            following = _NEXT.search(text, position)
            if following is None and growing:
                return
            end, bad = len(text) if following is None else following.end(), bad + 1
            yield SonarDocument(number, line, end, reason=str(error))
        else:
            yield SonarDocument(number, line, end, value)
        position = _BLANK.match(text, end).end()  # type: ignore[union-attr]


def _of_array(text: str, position: int) -> Iterator[SonarDocument]:
    line = 1 + text.count("\n", 0, position)
    try:
        values, end = _decode(text, position)
    except _NotJsonError as error:
        yield SonarDocument(1, line, len(text), reason=str(error))
        return
    for number, value in enumerate(values, 1):
        yield SonarDocument(number, line, end, value)
    rest = _BLANK.match(text, end).end()  # type: ignore[union-attr]
    if rest < len(text):
        yield SonarDocument(len(values) + 1, line, len(text), reason="there is text after the array")


class _NotJsonError(Exception):
    pass


def _decode(text: str, position: int) -> tuple[Any, int]:
    if text[position] not in "{[":
        raise _NotJsonError("is not an object")
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise _NotJsonError(f"is not JSON: {error.msg} at character {error.pos - position + 1}") from None
    except RecursionError:
        raise _NotJsonError("is nested too deeply") from None
    except ValueError as error:  # ours below, and numbers of more than 4,300 digits
        reason = str(error)
        raise _NotJsonError(
            reason if reason.startswith("has ") else "has a number that is too long"
        ) from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("has the same name twice in one object")
    return made


def _constant(name: str) -> NoReturn:
    raise ValueError(f"has {name}, which JSON does not allow")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object_of, parse_constant=_constant)
