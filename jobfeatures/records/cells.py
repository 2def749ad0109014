"""Formats text in columns for a terminal. Pure.

Characters that would move the cursor or misalign columns are removed or replaced.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Sequence

UNKNOWN = "?"  # a figure
_MARKS = frozenset({"Mn", "Me"})
MAX_MARKS = 2  # on one letter


def clean(text: str) -> str:
    """Return a text that is safe to print: characters that cannot be printed are replaced by U+FFFD.

    Of several combining marks on a letter, at most two are kept.
    """
    kept: list[str] = []
    marks = 0
    for character in text:
        if unicodedata.category(character) in _MARKS:
            marks += 1
            if marks > MAX_MARKS or not kept:
                continue
        else:
            marks = 0
        if unicodedata.category(character) == "Zs":
            kept.append(" ")
            continue
        kept.append(character if character.isprintable() else "\ufffd")
    return "".join(kept)


def width_of(text: str) -> int:
    """Return the number of terminal columns that a text takes; the text comes from `clean`."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(each) in _MARKS
        else 2
        if unicodedata.east_asian_width(each) in {"W", "F"}
        else 1
        for each in text
    )


def fit(text: str, columns: int) -> str:
    """Return a text cut to at most `columns` terminal columns; a text that is cut ends with an ellipsis."""
    text = clean(text)
    if width_of(text) <= columns:
        return text
    kept, used = "", 0
    for each in text:
        used += width_of(each)
        if used > columns - 1:
            break
        kept += each
    return kept + "…" if columns > 0 else ""


def or_unknown(value: float | None, form: Callable[[float], str]) -> str:
    """Format a number with the function `form`; return a question mark for None."""
    return UNKNOWN if value is None else form(value)


def pad(text: str, columns: int, *, is_left: bool) -> str:
    """Return a text from `clean`, padded with blanks to `columns` columns; left-aligned if `is_left`."""
    blanks = " " * (columns - width_of(text))
    return text + blanks if is_left else blanks + text


def align(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Format rows of texts, which come from `clean`, as lines with aligned columns.

    Columns with a number in `left` (from 0) are left-aligned, others right-aligned.
    """
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(pad(row[at], width, is_left=at in left) for at, width in enumerate(widths)).rstrip()
        for row in rows
    ]
