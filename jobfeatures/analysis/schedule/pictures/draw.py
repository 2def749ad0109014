"""Draws all pictures of schedules, and writes them to files as PNG or SVG."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from jobfeatures.analysis.schedule.pictures.boxes import draw_boxes
from jobfeatures.analysis.schedule.pictures.drawn import DrawnSchedule, short_names
from jobfeatures.analysis.schedule.pictures.heat import HeatmapData, compute_heats, draw_heat, make_norm
from jobfeatures.analysis.schedule.pictures.style import DAY, DPI, brief, styled
from jobfeatures.records.quantities import counted

_NO_METADATA: Final = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
}
_CLIP = re.compile(r'(?<=url\(#)p[0-9a-f]+(?=\))|(?<=<clipPath id=")p[0-9a-f]+(?=")')
_DOCTYPE = re.compile(r"<!DOCTYPE[^>]*>\s*")


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with its title (`name`) and a description for readers who cannot see it (`alt`).

    Pictures of the same `kind` are in the same section of a report. `files` holds rendered images by format.
    """

    kind: str
    name: str  # of the file, without extension
    alt: str  # what it shows, for those who cannot see it
    figure: Figure
    files: dict[str, bytes] = field(default_factory=dict)  # rendered content, by format


def render(picture: Picture, form: str) -> bytes:
    """Render a picture as an image file in the format `form`, `png` or `svg`; equal data give equal bytes."""
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


def count_pictures(views: Sequence[DrawnSchedule]) -> int:
    """Return how many pictures `draw_pictures` yields."""
    return len(views) + 1


def draw_pictures(views: Sequence[DrawnSchedule]) -> Iterator[Picture]:
    """Yield the pictures one at a time: a heatmap of each schedule, and box plots of all schedules."""
    names = short_names([view.name for view in views])
    heats = compute_heats(views)
    norm = make_norm(heats)
    for number, (view, heat, name) in enumerate(zip(views, heats, names, strict=True), 1):
        with styled():
            figure = draw_heat(view, heat, norm, name)
        safe = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.")[:60] or "log"
        file = "heatmap" if len(views) == 1 else f"heatmap-{number}-{safe}"
        yield Picture("heatmap", file, _say_heat(view, heat, name), figure)
    with styled():
        figure = draw_boxes(views, names)
    yield Picture("boxes", "users", _say_boxes(views, names), figure)


def write_picture(picture: Picture, directory: str) -> None:
    """Write a picture as SVG and as PNG into a directory. Raises OSError if a file cannot be written."""
    for form in ("svg", "png"):  # SVG first: after PNG its clip names are not deterministic
        with open(os.path.join(directory, f"{picture.name}.{form}"), "wb") as file:
            file.write(render(picture, form))


def _say_heat(view: DrawnSchedule, heat: HeatmapData, name: str) -> str:
    days = (view.last_secs - view.first_secs) / DAY
    most = float(heat.cells.max()) if heat.cells.size else 0.0
    use = " and ".join(
        f"{100 * found['mean']:.0f} % of {resource}"
        for resource, found in view.document["utilisation"].items()
        if found["mean"] is not None
    )
    return (
        f"Heatmap of {name}, users against time over {brief(days)} days: {view.document['violated']:,} of "
        f"{counted(view.document['jobs'], 'job')} ended after their expected end, of "
        f"{len(view.marked_users):,} of {counted(len(view.users), 'user')}; in the darkest place "
        f"{brief(most)} at once. Underneath, over the same time: what was in use, on the average "
        f"{use or 'unknown'}, and how many jobs waited, at most "
        f"{brief(view.document['queue_length']['most'])}."
    )


def _say_boxes(views: Sequence[DrawnSchedule], names: Sequence[str]) -> str:
    sentences = []
    for view, name in zip(views, names, strict=True):
        veet, weighted = (view.document["over_users"][key] for key in ("veet", "weighted_tardiness"))
        sentences.append(
            f"{name}: half of the users have at most {brief(veet['p50'])} % violated jobs, three quarters "
            f"at most {brief(veet['p75'])} %; weighted tardiness of half of them is at most "
            f"{brief(weighted['p50'])}, of all at most {brief(weighted['max'])} CPU seconds."
        )
    return "Box-plots over users of violated jobs and of weighted tardiness. " + " ".join(sentences)
