"""Draws two box plots over users, side by side, with one row per schedule.

One shows VEET, the percentage of a user's jobs that ended after their expected end, the other the weighted
tardiness of each user.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from jobfeatures.analysis.schedule.pictures.drawn import DrawnSchedule, share_words
from jobfeatures.analysis.schedule.pictures.style import COLOURS, INK, WIDTH, brief, power
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.records.quantities import counted

ROW_INCHES: Final = 0.62
REACH: Final = 1.5  # in box lengths: values further away are outliers
RASTER: Final = 1500  # above so many dots, SVG embeds them as one bitmap
HALF: Final = 0.3


def draw_boxes(views: Sequence[DrawnSchedule], names: Sequence[str]) -> Figure:
    """Draw box plots over users: VEET on the left, weighted tardiness on the right.

    Each schedule is a row; `names` are the labels of the rows.
    """
    figure = Figure(figsize=(WIDTH, 1.75 + ROW_INCHES * len(views)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    veets = [np.array(list(view.document["veet"].values()), dtype=float) for view in views]
    tardy = [np.array(list(view.document["weighted_tardiness"].values()), dtype=float) for view in views]
    for row, (veet, weighted) in enumerate(zip(veets, tardy, strict=True)):
        colour = COLOURS[row % len(COLOURS)]
        _draw_box(left, row, veet, colour, lambda value: f"{brief(value)} %")
        _draw_box(right, row, weighted, colour, brief)
    mode = " and ".join(dict.fromkeys(view.document["mode"] for view in views))
    left.set_title(f"VEET: violated jobs of a user (mode {mode})")
    left.set_xlabel("of the user's jobs (%)")
    left.set_xlim(-2, 102)
    right.set_title("weighted tardiness of a user")
    right.set_xlabel("CPU seconds, logarithmic from the second mark on")
    _lay_out_powers(right, np.concatenate(tardy))
    labels = [
        f"{name}\n{counted(len(view.users), 'user')}, share {share_words(view.document)}"
        for name, view in zip(names, views, strict=True)
    ]
    left.set_yticks(range(len(views)), labels, linespacing=1.35)
    left.set_ylim(len(views) - 0.45, -0.55)
    for axes in (left, right):
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=True, axis="x")
    _draw_legend(figure)
    return figure


def _draw_box(axes: Axes, row: int, values: Array, colour: str, show: Callable[[float], str]) -> None:
    first, middle, third = np.percentile(values, (25, 50, 75)).tolist()
    far = REACH * (third - first)
    is_outside = (values < first - far) | (values > third + far)
    inside, outside = values[~is_outside], values[is_outside]
    for end, edge in ((inside.min(), first), (inside.max(), third)):
        axes.plot([end, edge], [row, row], color=colour, linewidth=1.3, zorder=2)
        axes.plot([end, end], [row - HALF / 3, row + HALF / 3], color=colour, linewidth=1.3, zorder=2)
    axes.barh(row, third - first, left=first, height=2 * HALF, facecolor=to_rgba(colour, 0.35),
              edgecolor=colour, linewidth=1.3, zorder=3)  # fmt: skip
    axes.plot([middle, middle], [row - HALF, row + HALF], color=INK, linewidth=2.2, zorder=5)
    offsets = _spread_out(len(outside)) * HALF * 0.6
    axes.scatter(np.sort(outside), row + offsets, s=9, color=colour, alpha=0.75, linewidths=0, zorder=4,
                 rasterized=len(outside) > RASTER)  # fmt: skip
    axes.annotate(show(middle), (middle, row - HALF), (0, 1.5), textcoords="offset points", ha="center",
                  va="bottom", fontsize=7.5, zorder=6, annotation_clip=False)  # fmt: skip


def _spread_out(count: int) -> Array:
    """Return offsets from −1 to 1 that keep neighbours apart; deterministic."""
    return 2 * ((np.arange(count) * 0.618033988749895) % 1) - 1 if count > 1 else np.zeros(count)


def _lay_out_powers(axes: Axes, values: Array) -> None:
    """Set up an axis that starts at 0, and is logarithmic from the smallest power of ten needed."""
    positive = values[values > 0]
    if not len(positive):
        axes.set_xlim(-0.02, 1)
        axes.set_xticks([0], ["0"])
        return
    low, high = math.floor(math.log10(positive.min())), math.ceil(math.log10(positive.max()))
    high = max(high, low + 1)
    scale: Any = axes.set_xscale
    scale("symlog", linthresh=10.0**low, linscale=0.6)
    step = -(-(high - low + 1) // 9)
    axes.xaxis.set_major_locator(FixedLocator([0.0, *(10.0**each for each in range(low, high + 1, step))]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(-0.06 * 10.0**low, 1.6 * 10.0**high)


def _draw_legend(figure: Figure) -> None:
    grey = COLOURS[7]
    handles = [
        Patch(facecolor=to_rgba(grey, 0.35), edgecolor=grey),
        Line2D([], [], color=INK, linewidth=2.2),
        Line2D([], [], color=grey, linewidth=1.3),
        Line2D([], [], color=grey, marker="o", markersize=3.5, linestyle=""),
    ]
    words = [
        "the middle half of the users",
        "median user",
        "least and most but for outliers",
        f"outliers: beyond {REACH} × the box",
    ]
    figure.legend(handles, words, loc="outside lower center", ncols=4, handlelength=1.5)
