"""Whether a stream takes colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO


def has_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether to write colours: on a terminal, unless NO_COLOR (https://no-color.org) or TERM=dumb."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
