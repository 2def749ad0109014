"""Opens a job log whose kind (format) is given, or else recognised by its beginning."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import TextIO

from jobfeatures.errors import shown_name
from jobfeatures.joblogs.logfiles import BOM, HEAD_CHARACTERS, SWF_ENDINGS, blaming, bounded_lines
from jobfeatures.logkinds import KINDS, KindError, recognise_kind


def open_log(stream: TextIO, named: str | None, name: str = "") -> tuple[str, Iterator[str]]:
    """Return the kind and the lines of the log in `stream`; raise KindError if its kind is unclear.

    `named` is the kind, None to recognise it by the log's beginning. If that fails, a file `name` that ends
    in ``.swf``, compressed or not, decides.
    """
    if named is not None:
        return named, blaming(name or "-", bounded_lines(stream, most=KINDS[named].longest_line))
    head = stream.read(HEAD_CHARACTERS)
    try:
        kind = recognise_kind(head.removeprefix(BOM))
    except KindError as error:
        if not name.endswith(SWF_ENDINGS):
            raise KindError(f"{shown_name(name or '-')}: {error}") from None
        kind = "swf"  # its reader reports what is wrong
    most = KINDS[kind].longest_line
    rest = bounded_lines(stream, most=most)
    if not head.endswith("\n"):
        head += next(rest, "")  # the remainder of its last line
    return kind, blaming(
        name or "-", itertools.chain(bounded_lines(io.StringIO(head, newline=""), most=most), rest)
    )
