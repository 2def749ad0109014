"""A drain plan as a drawing: core hours wasted against the time of the shutdown. Pure."""

from __future__ import annotations

import math

from exporter.draincurves import DrainCurve, thin
from exporter.web.pages.markup import Html, tag
from exporter.web.pages.units import format_figure, format_span

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 30, 40  # margins
MAX_POINTS = 300
_STEPS = (60, 300, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800)


def draw_curve(curve: DrainCurve, label: str) -> Html:
    """Return the drawing; `label` says in words what it shows."""
    points = list(thin(curve, MAX_POINTS).values())
    span = max(points[-1].after_secs * 1.02, 60.0)
    top = max(max(point.core_secs, point.core_secs_before) for point in points) / 3600 or 1.0
    high = _round_up(top)

    def x(secs: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * secs / span

    def y(core_secs: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * core_secs / 3600 / high

    path = []
    for number, point in enumerate(points):
        if number:
            path.append(f"{x(point.after_secs):.1f},{y(point.core_secs_before):.1f}")
        path.append(f"{x(point.after_secs):.1f},{y(point.core_secs):.1f}")
    line = "M" + "L".join(path)
    ground = y(0)
    area = f"{line}L{x(points[-1].after_secs):.1f},{ground:.1f}L{x(0):.1f},{ground:.1f}Z"
    best = curve.best
    at_x, at_y = x(best.after_secs), y(best.core_secs)
    left_half = at_x < WIDTH * 0.62
    return tag(
        "svg",
        *_axes(high, span, x, y),
        tag("path", d=area, class_="area"),
        tag("path", d=line, class_="curve"),
        tag("line", class_="guide", x1=f"{at_x:.1f}", x2=f"{at_x:.1f}", y1=TOP, y2=f"{ground:.1f}"),
        tag("circle", class_="best", cx=f"{at_x:.1f}", cy=f"{at_y:.1f}", r=6),
        tag(
            "text",
            "cheapest: " + ("now" if best.after_secs == 0 else f"in {format_span(best.after_secs)}"),
            class_="mark",
            x=f"{at_x + (10 if left_half else -10):.1f}",
            y=TOP + 10,
            text_anchor="start" if left_half else "end",
        ),
        class_="chart",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
    )


def _axes(high: float, span: float, x, y) -> list[Html]:  # type: ignore[no-untyped-def]
    made: list[Html] = []
    for quarter in range(3):
        value = high * quarter / 2
        at = y(value * 3600)
        made.append(tag("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{at:.1f}", y2=f"{at:.1f}"))
        made.append(tag("text", format_figure(value), x=LEFT - 8, y=f"{at + 4:.1f}", text_anchor="end"))
    step = next((each for each in _STEPS if span / each <= 8), _STEPS[-1] * math.ceil(span / _STEPS[-1] / 8))
    for number in range(int(span // step) + 1):
        said = "now" if number == 0 else format_span(number * step)
        made.append(
            tag("text", said, x=f"{x(number * step):.1f}", y=HEIGHT - BOTTOM + 18, text_anchor="middle")
        )
    made.append(tag("text", "core hours wasted", x=8, y=14))
    made.append(tag("text", "shutdown in …", x=WIDTH - RIGHT, y=HEIGHT - 4, text_anchor="end"))
    return made


def _round_up(value: float) -> float:
    """Return 1, 2, 4, 5 or 10 times a power of ten that is not below."""
    power: float = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(each * power for each in (1, 2, 4, 5, 10) if each * power >= value * 0.9999)
