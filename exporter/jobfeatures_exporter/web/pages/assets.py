"""The files that the page needs beside its text, as they lie in this package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

KINDS: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "page.svg": "image/svg+xml",
}


@cache
def read_asset(name: str) -> str:
    """Return the text of a file of `KINDS`. Raises OSError where the installation is damaged."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
