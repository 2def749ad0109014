"""What `convert` and `replay` have in common: a log that is opened, and which kind it is."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from datetime import tzinfo
from typing import TextIO
from zoneinfo import ZoneInfo

from jobfeatures.convert import KINDS, recognise_kind
from jobfeatures.errors import ConfigurationError
from jobfeatures.logfiles import bounded_lines

HEAD_CHARACTERS = 4096


def parse_zone(name: str | None) -> tzinfo | None:
    """Return the zone of a name, None for this machine's. Raises ConfigurationError."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # what is not found is a KeyError
        raise ConfigurationError("--zone", f"no such zone: {name!r}") from None


def open_log(stream: TextIO, named: str | None) -> tuple[str, Iterator[str]]:
    """Return the kind of a log, as it was named or by its beginning, and its lines. Raises KindError."""
    if named is not None:
        return named, bounded_lines(stream, most=KINDS[named].longest_line)
    head = stream.read(HEAD_CHARACTERS)
    kind = recognise_kind(head)
    most = KINDS[kind].longest_line
    rest = bounded_lines(stream, most=most)
    if not head.endswith("\n"):
        head += next(rest, "")  # what its last line lacks
    return kind, itertools.chain(bounded_lines(io.StringIO(head), most=most), rest)
