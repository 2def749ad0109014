"""A picture, and what it is as PNG or SVG."""

from __future__ import annotations

import io
import re
from typing import Final, NamedTuple

from matplotlib.figure import Figure

from jobfeatures.schedule.pictures.style import styled

FORMATS: Final = ("png", "svg")
_NO_METADATA: Final = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
}
_DOCTYPE = re.compile(r"<!DOCTYPE[^>]*>\s*")


class Picture(NamedTuple):
    """A figure and what is said of it. `kind`: pictures of one kind stand together."""

    kind: str
    name: str  # of a file, without its ending
    title: str
    alt: str  # what it shows, for those who cannot see it
    figure: Figure


def render(picture: Picture, form: str) -> bytes:
    """Return a file of one of FORMATS: the same for the same data."""
    out = io.BytesIO()
    with styled():
        import matplotlib

        matplotlib.rcParams["svg.hashsalt"] = picture.name
        picture.figure.savefig(out, format=form, metadata=_NO_METADATA[form])
    if form == "svg":
        return _DOCTYPE.sub("", out.getvalue().decode(), count=1).encode()
    return out.getvalue()
