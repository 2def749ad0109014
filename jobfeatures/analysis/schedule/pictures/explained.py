"""Explains expected ends by small examples: the same picture for every schedule.

The examples are those of Tóth and Klusáček, *User-Aware Metrics for Measuring
Quality of Parallel Job Schedules*, figures 1 to 4 and table 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from jobfeatures.analysis.schedule.pictures.style import COLOURS, FAINT, INK, WIDTH, spaced

ANN, BOB = COLOURS[0], COLOURS[1]
TABLE_1: Final = ((0, 2, 4), (1, 2, 1))  # arrival, request, runtime
SHARE: Final = 3


class Block(NamedTuple):
    """A job's processors, from `low` on, over a time span that starts at a given second."""

    job: int
    begin: int
    low: int
    secs: int
    high: int
    colour: str = ANN


def lay_into_share(jobs: Sequence[tuple[int, int, int]], share: int) -> list[Block]:
    """Return what each job takes of a share, second by second: the paper's algorithm 1, unchanged."""
    used: dict[int, int] = {}
    blocks = []
    for number, (arrival, request, runtime) in enumerate(jobs, 1):
        work, second = request * runtime, arrival
        while work > 0:
            taken = min(share - used.get(second, 0), request)
            if taken:
                low = used.get(second, 0)
                blocks.append(Block(number, second, low, 1, low + taken))
                used[second] = low + taken
                work -= taken
            second += 1
    return blocks


def draw_explained() -> Figure:
    """Draw the explanation as one figure."""
    figure = Figure(figsize=(WIDTH, 6.6), layout="constrained")
    spaced(figure, hspace=0.12, wspace=0.08)
    parts = figure.subplot_mosaic("AB;CD;EE", height_ratios=(2, 2.4, 1.5))
    short = [Block(n + 1, n % 2, n // 2, 1, n // 2 + 1) for n in range(4)]
    long = [Block(n + 5, 2, n, 2, n + 1, BOB) for n in range(2)]
    _draw_blocks(parts["A"], [*short, *long], "Mean wait 1 s: one user waits for the other", 2, 4)
    beside = [Block(n + 1, n, 0, 1, 1) for n in range(4)] + [
        Block(n + 5, 2 * n, 1, 2, 2, BOB) for n in range(2)
    ]
    _draw_blocks(parts["B"], beside, "Mean wait 1.33 s: both users get the same", 2, 4)
    laid = lay_into_share(TABLE_1, SHARE)
    _draw_blocks(parts["C"], _merged(laid), f"A user's jobs laid into a share of {SHARE}", SHARE, 6)
    parts["C"].set_ylabel("share (CPUs)")
    for job, at, high in ((1, 4, 2), (2, 3, 3)):
        parts["C"].annotate(f"job {job} expected to end", (at, high - 0.5), (4, 0), fontsize=8.5,
                            textcoords="offset points", va="center")  # fmt: skip
    kept = [Block(1, 0, 0, 4, 2), Block(2, 1, 4, 1, 6), Block(3, 0, 2, 4, 4, BOB), Block(4, 2, 4, 1, 6, BOB)]
    _draw_blocks(parts["D"], kept, "Two such users: job 4 had to wait, every end is kept", 6, 5)
    _draw_mark(parts["E"])
    return figure


def _merged(blocks: Iterable[Block]) -> list[Block]:
    """Join consecutive blocks of the same job at the same height."""
    found: list[Block] = []
    for each in blocks:
        last = found[-1] if found else None
        if last and (last.job, last.low, last.high, last.begin + last.secs) == (
            each.job, each.low, each.high, each.begin,
        ):  # fmt: skip
            found[-1] = last._replace(secs=last.secs + each.secs)
        else:
            found.append(each)
    return found


def _draw_blocks(axes: Axes, blocks: Iterable[Block], title: str, high: int, last: int) -> None:
    for each in blocks:
        tall = each.high - each.low
        axes.barh(each.low, each.secs, left=each.begin, height=tall, align="edge",
                  facecolor=to_rgba(each.colour, 0.4), edgecolor=each.colour, linewidth=1.3)  # fmt: skip
        axes.text(each.begin + each.secs / 2, each.low + tall / 2, f"job {each.job}", ha="center",
                  va="center", fontsize=8.5)  # fmt: skip
    axes.set_title(title)
    axes.set_xlim(0, last)
    axes.set_ylim(0, high)
    axes.xaxis.set_major_locator(FixedLocator(list(range(last + 1))))
    axes.yaxis.set_major_locator(FixedLocator(list(range(high + 1))))
    axes.set_xlabel("time (s)")
    axes.set_ylabel("CPUs")


def _draw_mark(axes: Axes) -> None:
    """Draw where in time a late job is marked in the heatmap."""
    arrival, expected, start, end = 0, 7, 6, 10
    latest = expected - (end - start)
    axes.barh(
        1.6, end - start, left=start, height=0.8, facecolor=to_rgba(ANN, 0.4), edgecolor=ANN, linewidth=1.3
    )
    axes.text((start + end) / 2, 1.6, "the job as it ran", ha="center", va="center", fontsize=8.5)
    axes.barh(1.6, end - start, left=latest, height=0.8, facecolor="none", edgecolor=FAINT, linestyle="--")
    axes.barh(0.4, start - latest, left=latest, height=0.5, facecolor=COLOURS[3], edgecolor="none")
    axes.text(latest - 0.12, 0.4, "mark in the heatmap:\nas long as it was late", ha="right", va="center",
              fontsize=8.5)  # fmt: skip
    axes.text((latest + start) / 2, 1.6, "in time, had it run here", ha="center", va="center", fontsize=8.5)
    for at in (arrival, latest, start, expected, end):
        axes.plot([at, at], [0, 2.2], color=INK if at == expected else FAINT, linewidth=0.9, zorder=0)
    words = {
        arrival: "arrival",
        latest: "expected end\n− runtime",
        start: "start",
        expected: "expected\nend",
        end: "end",
    }
    axes.set_xticks(list(words), list(words.values()))
    axes.tick_params(axis="x", length=0)
    axes.set_yticks([])
    axes.set_xlim(-0.3, 11)
    axes.set_ylim(0, 2.2)
    axes.spines[["left"]].set_visible(False)
    axes.set_title("A job that ended after its expected end")
