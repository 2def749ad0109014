"""Draws the chart of a drain plan: core time wasted, by the time of the shutdown. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jobfeatures_exporter.cluster.draincurves import CurvePoint, cheapest, thin
from jobfeatures_exporter.view.units import format_figure, format_span, format_when
from jobfeatures_exporter.web.pages.markup import Html, tag

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 34, 46  # margins
MAX_POINTS = 300
HOURS_FROM_SECS = 360  # 0.1 core hours; below, the axis is in seconds
_STEPS = (60, 300, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800)


def draw_curve(every: Sequence[CurvePoint], label: str, *, planned_secs: float | None = None) -> Html:
    """Return the chart of the cost of a shutdown by its time; `every` has the curve's points.

    `label` is the text alternative, `planned_secs` the seconds to a planned shutdown (None: none is planned).
    """
    points = thin(every, MAX_POINTS)
    span = max(max(points[-1].after_secs, planned_secs or 0.0) * 1.02, 60.0)
    top = max(max(point.core_secs, point.core_secs_before) for point in points)
    unit_secs = 3600 if top >= HOURS_FROM_SECS or not top else 1
    high = _round_up(top / unit_secs or 1.0)

    def x(secs: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * secs / span

    def y(core_secs: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * core_secs / unit_secs / high

    path = []
    for number, point in enumerate(points):
        if number:
            path.append(f"{x(point.after_secs):.1f},{y(point.core_secs_before):.1f}")
        path.append(f"{x(point.after_secs):.1f},{y(point.core_secs):.1f}")
    line = "M" + "L".join(path)
    ground = y(0)
    area = f"{line}L{x(points[-1].after_secs):.1f},{ground:.1f}L{x(0):.1f},{ground:.1f}Z"
    best = cheapest(every)
    at_x, at_y = x(best.after_secs), y(best.core_secs)
    planned: list[Html] = []
    if planned_secs is not None and planned_secs >= 0:  # its label goes below that of the cheapest
        planned_x = x(planned_secs)
        planned = [_upright("planned", planned_x, ground), _mark("planned", planned_x, TOP + 28)]
    return tag(
        "svg",
        *_axes(high, unit_secs, span, x, y),
        tag("path", d=area, class_="area"),
        tag("path", d=line, class_="curve"),
        *planned,
        _upright("guide", at_x, ground),
        tag("circle", class_="best", cx=f"{at_x:.1f}", cy=f"{at_y:.1f}", r=6),
        _mark(f"cheapest: {format_when(best.after_secs)}", at_x, TOP + 10),
        class_="chart",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
    )


def _upright(kind: str, at_x: float, ground: float) -> Html:
    return tag("line", class_=kind, x1=f"{at_x:.1f}", x2=f"{at_x:.1f}", y1=TOP, y2=f"{ground:.1f}")


def _mark(words: str, at_x: float, y: int) -> Html:
    left_half = at_x < WIDTH * 0.62
    place, anchor = (at_x + 10, "start") if left_half else (at_x - 10, "end")
    return tag("text", words, class_="mark", x=f"{place:.1f}", y=y, text_anchor=anchor)


def _axes(
    high: float, unit_secs: int, span: float, x: Callable[[float], float], y: Callable[[float], float]
) -> list[Html]:
    made: list[Html] = []
    for quarter in range(3):
        value = high * quarter / 2
        at = y(value * unit_secs)
        made.append(tag("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{at:.1f}", y2=f"{at:.1f}"))
        made.append(tag("text", format_figure(value), x=LEFT - 8, y=f"{at + 4:.1f}", text_anchor="end"))
    step = next((each for each in _STEPS if span / each <= 8), _STEPS[-1] * math.ceil(span / _STEPS[-1] / 8))
    for number in range(int(span // step) + 1):
        when = "now" if number == 0 else format_span(number * step)
        kind = "minor" if number % 2 else None  # hidden on phones, for lack of space
        place = f"{x(number * step):.1f}"
        made.append(tag("text", when, class_=kind, x=place, y=HEIGHT - BOTTOM + 18, text_anchor="middle"))
    made.append(tag("text", f"core {'seconds' if unit_secs == 1 else 'hours'} wasted", x=4, y=18))
    made.append(tag("text", "shutdown in …", x=WIDTH - RIGHT, y=HEIGHT - 4, text_anchor="end"))
    return made


def _round_up(value: float) -> float:
    """Return the next value up that is 1, 2, 4, 5 or 10 times a power of ten."""
    power: float = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(each * power for each in (1, 2, 4, 5, 10) if each * power >= value * 0.9999)
