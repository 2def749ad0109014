"""A picture, and its rendering as PNG or SVG."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from jobfeatures.analysis.schedule.pictures.style import DPI, styled

_NO_METADATA: Final = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
}
_CLIP = re.compile(r'(?<=url\(#)p[0-9a-f]+(?=\))|(?<=<clipPath id=")p[0-9a-f]+(?=")')
_DOCTYPE = re.compile(r"<!DOCTYPE[^>]*>\s*")


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with its texts. `kind`: pictures of one kind are grouped."""

    kind: str
    name: str  # of the file, without extension
    title: str
    alt: str  # what it shows, for those who cannot see it
    figure: Figure
    files: dict[str, bytes] = field(default_factory=dict)  # rendered content, by format


def render(picture: Picture, form: str) -> bytes:
    """Render a picture in one of `gallery.FORMATS`: the same bytes for the same data."""
    if form not in picture.files:
        picture.files[form] = _render(picture, form)
    return picture.files[form]


def _render(picture: Picture, form: str) -> bytes:
    out = io.BytesIO()
    with styled():
        import matplotlib

        matplotlib.rcParams["svg.hashsalt"] = picture.name
        if (engine := picture.figure.get_layout_engine()) is not None:
            engine.execute(picture.figure)  # once: it is as slow as rendering
            picture.figure.set_layout_engine("none")
        picture.figure.dpi = DPI  # rendering SVG changes it
        # Not by savefig, which draws twice where there is a layout engine.
        canvas: Any = (FigureCanvasAgg if form == "png" else FigureCanvasSVG)(picture.figure)
        (canvas.print_png if form == "png" else canvas.print_svg)(out, metadata=_NO_METADATA[form])
    if form == "svg":
        clips: dict[str, str] = {}  # matplotlib's names for them differ from drawing to drawing
        text = _DOCTYPE.sub("", out.getvalue().decode(), count=1)
        return _CLIP.sub(lambda found: clips.setdefault(found[0], f"clip{len(clips)}"), text).encode()
    return out.getvalue()
