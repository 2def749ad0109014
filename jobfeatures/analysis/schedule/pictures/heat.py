"""Draws a heatmap of late jobs (users × time), and below it the used resources and the waiting jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from jobfeatures.analysis.schedule.pictures.drawn import COLUMNS, DrawnSchedule, share_words, shortened
from jobfeatures.analysis.schedule.pictures.heatmap import (
    Grid,
    compute_heatmap,
    make_grid,
    rank_users,
    rows_of,
)
from jobfeatures.analysis.schedule.pictures.style import (
    COLOURS,
    EMPTY,
    FAINT,
    GRID,
    ON_EMPTY,
    RESOURCE_COLOURS,
    RESOURCE_NAMES,
    WIDTH,
    brief,
    dark_for_many,
    duration,
    lay_out_time,
    round_numbers,
    spaced,
)
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.records.quantities import counted

MOST_ROWS: Final = 600  # no more than pixels, or some would be invisible
NAMED_ROWS: Final = 40  # with more rows, users' names do not fit
ROW_INCHES: Final = 0.17
LEAST_INCHES, MOST_INCHES = 0.5, 5.5
DECADES: Final = 3  # of the colour scale
ALIKE: Final = 0.5  # schedules of one workload share at least this part of their time


class HeatmapData(NamedTuple):
    """A heatmap. Each row of `cells` is for `users_per_row` users, each column for a column of `grid`.

    `ranked` are the users in the order of rows; `span` is the time shown (seconds since the log's time zero).
    """

    cells: Array
    grid: Grid
    ranked: list[str]
    users_per_row: int  # users per row
    span: tuple[float, float]


def compute_heats(views: Sequence[DrawnSchedule]) -> list[HeatmapData]:
    """Return the heatmap of each schedule.

    If all schedules are of the same workload, their heatmaps have the same users and the same time span.
    """
    if are_alike(views):
        span = min(view.first_secs for view in views), max(view.last_secs for view in views)
        return [_heat(view, views, span) for view in views]
    return [_heat(view, [view], (view.first_secs, view.last_secs)) for view in views]


def are_alike(views: Sequence[DrawnSchedule]) -> bool:
    """Return whether schedules appear to be of the same workload.

    They do if they have the same users, and begin at the same time or have half of their time in common.
    """
    firsts, lasts = [view.first_secs for view in views], [view.last_secs for view in views]
    if any(set(view.users) != set(views[0].users) for view in views):
        return False
    return len(set(firsts)) == 1 or min(lasts) - max(firsts) >= ALIKE * (max(lasts) - min(firsts))


def _heat(view: DrawnSchedule, beside: Sequence[DrawnSchedule], span: tuple[float, float]) -> HeatmapData:
    ranked = rank_users(
        [each.document["weighted_tardiness"] for each in beside], [each.marked_users for each in beside]
    )
    row_of, rows, users_per_row = rows_of(view.users, ranked, MOST_ROWS)
    grid = make_grid(*span, COLUMNS)
    return HeatmapData(compute_heatmap(view.marks, row_of, rows, grid), grid, ranked, users_per_row, span)


def make_norm(heats: Sequence[HeatmapData]) -> LogNorm:
    """Return a logarithmic colour scale that fits all these heatmaps."""
    found = [heat.cells[heat.cells > 0] for heat in heats]
    most = max((float(each.max()) for each in found if len(each)), default=1.0)
    least = min((float(each.min()) for each in found if len(each)), default=1.0)
    high = max(most, 1.0)
    low = max(least, high / 10**DECADES)
    return LogNorm(min(low, high / 10), high, clip=True)


def draw_heat(view: DrawnSchedule, heat: HeatmapData, norm: LogNorm, title: str) -> Figure:
    """Draw the heatmap of one schedule, with the colour scale `norm` that all heatmaps share."""
    rows = len(heat.cells)
    tall = _inches(rows)
    use_tall, queue_tall = 1.25, 0.8
    figure = Figure(figsize=(WIDTH, tall + use_tall + queue_tall + 1.9), layout="constrained")
    spaced(figure, h_pad=0.05, hspace=0.03)
    parts = figure.subplots(3, 1, sharex=True, height_ratios=(tall, use_tall, queue_tall))
    figure.suptitle(title, x=0.01, ha="left", weight="bold")
    _draw_cells(figure, parts[0], view, heat, norm)
    _draw_use(parts[1], view)
    _draw_queue(parts[2], view)
    first, last = heat.span
    last = last if last > first else first + 1
    parts[2].set_xlim(first, last)
    lay_out_time(parts[2], first, last)
    figure.align_ylabels(parts)
    return figure


def _inches(rows: int) -> float:
    return min(max(rows * ROW_INCHES, LEAST_INCHES), MOST_INCHES)


def _draw_cells(figure: Figure, axes: Axes, view: DrawnSchedule, heat: HeatmapData, norm: LogNorm) -> None:
    rows, grid = len(heat.cells), heat.grid
    axes.set_facecolor(EMPTY)
    axes.tick_params(labelbottom=False)
    jobs, violated = view.document["jobs"], view.document["violated"]
    axes.set_title(
        f"expected end violated: {violated:,} of {counted(jobs, 'job')}, "
        f"{len(view.marked_users):,} of {counted(len(view.users), 'user')}\n"
        f"share {share_words(view.document)} a user, mode {view.document['mode']}; "
        f"a column is {duration(heat.grid.column_secs)}",
        fontsize=9.5, linespacing=1.4,
    )  # fmt: skip
    if not rows:
        _say(axes, "no job ended after its expected end", ON_EMPTY)
        axes.set_yticks([])
        axes.set_ylabel("users")
        return
    image = axes.imshow(
        np.ma.masked_less_equal(heat.cells, 0),
        cmap=dark_for_many(),
        norm=norm,
        aspect="auto",
        interpolation="none",
        extent=(grid.begin_secs, grid.end_secs, rows - 0.5, -0.5),
    )
    _label_rows(axes, heat)
    _draw_scale(figure, axes, image, heat)


def _draw_scale(figure: Figure, axes: Axes, image: Any, heat: HeatmapData) -> None:
    """Draw the colour scale above the right end, so that all parts below stay equally wide."""
    tall = _inches(len(heat.cells))
    place = axes.inset_axes((0.7, 1 + 0.07 / tall, 0.3, 0.09 / tall))
    bar: Any = figure.colorbar(image, cax=place, orientation="horizontal")
    bar.outline.set_visible(False)
    low, high = (math.log10(each) for each in image.get_clim())
    digits = (1,) if math.floor(high) - math.ceil(low) >= 1 else (1, 2, 5)
    ticks = [digit * 10.0**each for each in range(math.floor(low), math.ceil(high) + 1) for digit in digits]
    bar.locator = FixedLocator([each for each in ticks if low - 1e-9 <= math.log10(each) <= high + 1e-9])
    bar.formatter = FuncFormatter(lambda value, _: brief(value))
    bar.minorlocator = FixedLocator([])
    bar.update_ticks()
    place.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=2, pad=1)
    whose = "a user" if heat.users_per_row == 1 else f"{heat.users_per_row} users"
    place.set_title(f"violated at once, of {whose} (jobs)", loc="right", fontsize=8.5, pad=14)


def _label_rows(axes: Axes, heat: HeatmapData) -> None:
    if len(heat.ranked) <= NAMED_ROWS:
        axes.set_yticks(range(len(heat.ranked)), [shortened(each, 16) for each in heat.ranked])
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel("user")
        return
    step = next(each for each in round_numbers() if len(heat.ranked) / each <= 10)
    places = [1, *range(step, len(heat.ranked) + 1, step)]
    axes.set_yticks(
        [(place - 1) // heat.users_per_row for place in places], [f"{place:,}" for place in places]
    )
    axes.set_ylabel("users by weighted tardiness (1: most)")


def _draw_use(axes: Axes, view: DrawnSchedule) -> None:
    most = 100.0
    parts = {name: 100 * use.over_time / use.total for name, use in view.use.items() if use.total}
    for number, (resource, values) in enumerate(parts.items()):
        edges, colour = view.edges, RESOURCE_COLOURS[resource]
        most = max(most, float(values.max()))
        if number == 0:
            _add_steps(axes, values, edges, facecolor=colour, alpha=0.45, linewidth=0)
        whole = " of the most in use" if view.use[resource].total_from == "most in use" else ""
        label = f"{RESOURCE_NAMES[resource]}, mean {brief(float(values.mean()))} %{whole}"
        _add_steps(axes, values, edges, fill=False, edgecolor=colour, linewidth=0.9, label=label)
    if parts:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 0.97), ncols=3, borderaxespad=0, handlelength=1.4)
    else:
        _say(axes, "nothing was in use", FAINT)
    axes.set_ylim(0, most * 1.02)
    axes.set_ylabel("in use (%)")
    axes.grid(visible=True, axis="y")
    axes.tick_params(labelbottom=False)


def _draw_queue(axes: Axes, view: DrawnSchedule) -> None:
    edges, means = view.edges, view.waiting
    _add_steps(axes, means, edges, facecolor=COLOURS[7], alpha=0.6, linewidth=0)
    if not means.any():
        _say(axes, "no job waited", FAINT)
    axes.set_ylim(0, max(1.0, float(means.max())) * 1.08)
    axes.set_ylabel("waiting\n(jobs)")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.grid(visible=True, axis="y", color=GRID)


def _add_steps(axes: Axes, values: Any, edges: Any, **style: Any) -> None:
    """Draw steps without the slow search for limits that `stairs` makes: limits are set already."""
    axes.add_artist(StepPatch(values, edges, **style))


def _say(axes: Axes, words: str, colour: str) -> None:
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=colour)
