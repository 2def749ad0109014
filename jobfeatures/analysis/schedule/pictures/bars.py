"""Draws the metrics that do not depend on users, one panel each, one row per schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from jobfeatures.analysis.schedule.document import Values
from jobfeatures.analysis.schedule.pictures.drawn import View
from jobfeatures.analysis.schedule.pictures.style import (
    COLOURS,
    INK,
    RESOURCE_NAMES,
    WIDTH,
    brief,
    duration,
    spaced,
    time_unit,
)

PANELS_BESIDE: Final = 3
ROW_INCHES: Final = 0.3


class Panel(NamedTuple):
    """One metric of all schedules; None where it is unknown. `middles`: medians over jobs."""

    title: str
    unit: str
    values: list[float | None]
    middles: list[float | None]
    labels: list[str]


def make_panels(views: Sequence[View]) -> list[Panel]:
    """Return the panels to draw: metrics that at least one schedule has."""
    documents = [view.document for view in views]
    tau = {document["tau_secs"] for document in documents}
    bound = f", τ = {brief(tau.pop())} s" if len(tau) == 1 else ""
    panels = [
        _times("wait", [each["wait"] for each in documents]),
        _times("response", [each["response"] for each in documents]),
        _time("makespan", [view.last_secs - view.first_secs for view in views]),
        _ratios("slowdown", [each["slowdown"] for each in documents]),
        _ratios(f"bounded slowdown{bound}", [each["bounded_slowdown"] for each in documents]),
        _over_time("waiting", "jobs, mean over time", [each["queue_length"]["mean"] for each in documents]),
    ]
    for resource, name in RESOURCE_NAMES.items():
        parts = [each["utilisation"].get(resource, {}).get("mean") for each in documents]
        percent = [None if part is None else 100 * part for part in parts]
        panels.append(_over_time(f"use of {name}", "%, mean over time", percent))
    return [panel for panel in panels if any(value is not None for value in panel.values)]


def draw_bars(views: Sequence[View], names: Sequence[str]) -> Figure:
    """Draw all panels as one figure."""
    panels = make_panels(views)
    lines = -(-len(panels) // PANELS_BESIDE)
    tall = lines * (0.95 + ROW_INCHES * len(views)) + 0.45
    figure = Figure(figsize=(WIDTH, tall), layout="constrained")
    grid = figure.subplots(lines, PANELS_BESIDE, sharey=True, squeeze=False)
    spaced(figure, hspace=0.08, wspace=0.06)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_visible(False)
            continue
        _draw_panel(axes, panels[place])
        axes.set_yticks(range(len(views)), names)
        axes.set_ylim(len(views) - 0.45, -0.55)
        axes.tick_params(axis="y", length=0, pad=8, labelleft=place % PANELS_BESIDE == 0)
    handles = [
        Patch(facecolor=COLOURS[7]),
        Line2D([], [], color=INK, marker="D", markerfacecolor="white", markersize=5, linestyle=""),
    ]
    words = ["the figure beside: mean over jobs, or over time", "median over jobs"]
    figure.legend(handles, words, loc="outside lower center", ncols=2, handlelength=1.2)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    most = max((value for value in (*panel.values, *panel.middles) if value is not None), default=0) or 1.0
    for row, value in enumerate(panel.values):
        if value is None:
            axes.text(0, row, " not known", va="center", fontsize=8)
            continue
        axes.barh(row, value, height=0.66, color=COLOURS[row % len(COLOURS)], alpha=0.85)
        middle = panel.middles[row] if panel.middles else None
        beyond = max(value, middle or 0) + (0.02 if middle is None else 0.04) * most
        axes.text(beyond, row, panel.labels[row], va="center", fontsize=8.5, zorder=4,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
    known = [(middle, row) for row, middle in enumerate(panel.middles) if middle is not None]
    if known:
        axes.plot(*zip(*known, strict=True), linestyle="", marker="D", markersize=5, color=INK,
                  markerfacecolor="white", zorder=5, clip_on=False)  # fmt: skip
    axes.set_xlim(0, 1.3 * most)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.unit)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: brief(value)))
    axes.grid(visible=True, axis="x")


def _times(title: str, found: Sequence[Values]) -> Panel:
    means = [each["mean"] for each in found]
    secs, unit = _unit(means)
    middles = [None if each["p50"] is None else each["p50"] / secs for each in found]
    values = [None if mean is None else mean / secs for mean in means]
    return Panel(title, f"{unit} a job", values, middles, [duration(mean or 0) for mean in means])


def _ratios(title: str, found: Sequence[Values]) -> Panel:
    values = [each["mean"] for each in found]
    labels = [brief(value or 0) for value in values]
    return Panel(title, "× runtime", values, [each["p50"] for each in found], labels)


def _over_time(title: str, unit: str, values: list[float | None]) -> Panel:
    return Panel(title, unit, values, [], [brief(value or 0) for value in values])


def _time(title: str, values: Sequence[float]) -> Panel:
    secs, unit = _unit(values)
    parts: list[float | None] = [value / secs for value in values]
    return Panel(title, f"{unit}, first arrival to last end", parts, [], [duration(each) for each in values])


def _unit(values: Sequence[float | None]) -> tuple[int, str]:
    return time_unit(max((value for value in values if value is not None), default=0))
