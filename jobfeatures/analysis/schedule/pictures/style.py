"""Defines the style that all pictures share: colours, fonts, time axes, number formats."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

INK: Final = "#21252b"
FAINT: Final = "#8a9099"
GRID: Final = "#d9dce1"
EMPTY: Final = "#f3f4f6"  # a heatmap's empty cells
ON_EMPTY: Final = "#5d636b"
WIDTH: Final = 10.0  # inches
DPI: Final = 120
# Okabe and Ito's palette, safe for colour-blind readers.
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#666666")
RESOURCE_COLOURS: Final = {"cpu": "#0072B2", "memory": "#E69F00", "gpu": "#009E73"}
RESOURCE_NAMES: Final = {"cpu": "CPU", "memory": "memory", "gpu": "GPU"}
MINUTE, HOUR, DAY = 60, 3600, 86400
_UNITS: Final = ((2 * DAY, DAY, "days"), (2 * HOUR, HOUR, "hours"), (2 * MINUTE, MINUTE, "minutes"))
_SHORT: Final = {"days": "d", "hours": "h", "minutes": "min", "seconds": "s"}
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_STYLE: Final[dict[str, Any]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "figure.dpi": DPI,
    "figure.facecolor": "white",
    "figure.titlesize": 12.5,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "font.size": 9.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "image.composite_image": False,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "savefig.dpi": DPI,
    "svg.fonttype": "none",  # text stays text, for screen readers and search
    "text.color": INK,
    "text.parse_math": False,  # a name may contain a dollar sign
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.5,
}


def spaced(figure: Figure, **settings: float) -> None:
    """Set the spacing between the parts of a figure.

    `settings` are parameters of matplotlib's layout engine.
    """
    layout: Any = figure.get_layout_engine()
    layout.set(**settings)


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style of these pictures inside the `with` block.

    The user's matplotlib settings are ignored.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A character missing from the font is a box in PNG, and intact in SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams
        settings.update(_STYLE)
        yield


def dark_for_many() -> Colormap:
    """Return a colour map from light (few) to dark (many) that colour-blind readers can distinguish.

    All of its colours differ from EMPTY, the colour of empty cells.
    """
    whole = matplotlib.colormaps["viridis_r"]
    return LinearSegmentedColormap.from_list("many", [whole(0.08 + 0.92 * step / 255) for step in range(256)])


def time_unit(span_secs: float) -> tuple[int, str]:
    """Choose the unit in which to show a time span; return the unit's length in seconds, and its name."""
    return next(((secs, name) for least, secs, name in _UNITS if span_secs >= least), (1, "seconds"))


def lay_out_time(axes: Axes, first_secs: float, last_secs: float) -> None:
    """Set up and label the time axis of a picture, in seconds since the log's time zero."""
    secs, name = time_unit(last_secs - first_secs)
    steps = (1, 1.5, 2, 3, 6, 10) if name in {"seconds", "minutes"} else (1, 2, 2.5, 5, 10)
    locator = MaxNLocator(nbins=10, steps=steps, integer=name == "seconds")
    low, high = first_secs / secs, last_secs / secs
    ticks = [each for each in locator.tick_values(low, high) if low <= each <= high]
    axes.xaxis.set_major_locator(FixedLocator([each * secs for each in ticks]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: brief(value / secs)))
    axes.set_xlabel(f"time since the log's time zero ({name})")


def brief(value: float) -> str:
    """Return a number as short text with about three digits, such as 12.5, 1,500 or 1.5·10⁷; "–" for NaN."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    size = abs(value)
    if size >= 1e7 or size < 1e-3:
        exponent = math.floor(math.log10(size) + 1e-9)
        return f"{value / 10**exponent:.3g}·10{str(exponent).translate(_SUPERSCRIPTS)}"
    if size >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.3g}".replace("-", "−")


def duration(secs: float) -> str:
    """Return a number of seconds as short text in a suitable unit, such as 1.5 h."""
    unit, name = time_unit(secs)
    return f"{brief(secs / unit)} {_SHORT[name]}"


def power(value: float) -> str:
    """Return the label of a tick on a logarithmic axis, such as 100 or 10⁵."""
    if value <= 0:
        return "0"
    exponent = round(math.log10(value))
    if -3 < exponent < 4:
        return f"{value:,.10g}"
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def round_numbers() -> Iterator[int]:
    """Yield 10, 20, 50, 100 … without end."""
    size = 10
    while True:
        yield from (size, 2 * size, 5 * size)
        size *= 10
