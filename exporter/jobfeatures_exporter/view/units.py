"""Formats numbers with their units as text for people. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime

Form = Callable[[float], str]  # formats a number

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SPANS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_THIN = "\u202f"  # narrow no-break space, between a number and its unit


def format_figure(value: float) -> str:
    """Return a number as text without exponent: 0.012, 3.92, 64, 12,345.

    Below 100 it has at most three significant digits and four decimals, without trailing zeros. From 100 on
    it is rounded to a whole number. Positive infinity is "∞"; another value that is not finite is "?".
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "?"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(size)))
    text = f"{value:.{min(digits, 4)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_cpus(value: float) -> str:
    """Return a number of CPUs as text, to one decimal place: 0.2, 15.9, 4, < 0.1."""
    if 0 < value < 0.05:
        return f"<{_THIN}0.1"
    return format_figure(round(value, 1))


def format_bytes(value: float) -> str:
    """Return a size in bytes as text in the binary unit that fits, such as 1.25 GiB; see `format_figure`."""
    power = _power_of(value)
    return f"{format_figure(value / 1024**power)}{_THIN}{_BINARY[power]}"


def format_part_of(value: float, whole: float) -> str:
    """Return the size `value` in bytes as text before "of" in a text such as "3 of 8 GiB".

    The unit is left out if it is that of the size `whole`, which follows in the text.
    """
    same = value == 0 or _power_of(value) == _power_of(whole)
    return format_figure(value / 1024 ** _power_of(whole)) if same else format_bytes(value)


def _power_of(size: float) -> int:
    power = 0
    while abs(size) >= 999.5 and power < len(_BINARY) - 1:
        size /= 1024
        power += 1
    return power


def natural_sort_key(text: str) -> str:
    """Return a key that sorts names by the values of numbers in them: job9 before job10."""
    return re.sub(r"[0-9]{1,12}", lambda found: found[0].rjust(12, "0"), text[:100])


def format_count(value: float) -> str:
    """Return a count as text with thousands separators."""
    return f"{value:,.0f}"


def format_when(after_secs: float) -> str:
    """Return a time relative to now as text: in 5 min, now, 5 min ago."""
    if after_secs < 0:
        return f"{format_span(-after_secs)} ago"
    return "now" if after_secs == 0 else f"in {format_span(after_secs)}"


def format_span(secs: float) -> str:
    """Return a duration as text in its two largest units, such as 2 d 3 h, 1 h 10 min, 45 s, −3 min."""
    if not math.isfinite(secs):
        return format_figure(secs)
    sign, rest = ("−" if secs <= -0.5 else ""), abs(round(secs))
    parts: list[str] = []
    for unit, size in _SPANS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{_THIN}{unit}")
        if len(parts) == 2 or (parts and not count):  # 1 d and 5 min are 1 d
            break
    return sign + (" ".join(parts) or f"0{_THIN}s")


def format_share(ratio: float) -> str:
    """Return a share (0 to 1) as text in percent."""
    percent = ratio * 100
    if 0 < percent < 0.05:
        return f"<{_THIN}0.1{_THIN}%"
    return f"{percent:.1f}{_THIN}%" if 0 < percent < 9.95 else f"{percent:.0f}{_THIN}%"


def format_core_time(core_secs: float) -> str:
    """Return core seconds as text in the unit that fits: 45 core s, 3 core min, 1.5 core h, 1.2 M core h."""
    size = abs(core_secs)
    if size < 99.5:
        return f"{core_secs:.0f}{_THIN}core{_THIN}s"
    if size < 3570:
        return f"{core_secs / 60:.0f}{_THIN}core{_THIN}min"
    hours = core_secs / 3600
    if not math.isfinite(hours) or abs(hours) < 999.5:
        return f"{format_figure(hours)}{_THIN}core{_THIN}h"
    if abs(hours) < 999_500:
        return f"{float(f'{hours:.3g}'):,.0f}{_THIN}core{_THIN}h"
    return f"{format_figure(hours / 1e6)}{_THIN}M{_THIN}core{_THIN}h"


def format_time(epoch_secs: float) -> str:
    """Return a Unix time as local date and time to the minute, with zone; as a number if out of range."""
    try:
        return datetime.fromtimestamp(epoch_secs).astimezone().strftime("%a %d %b %Y %H:%M %Z")
    except (ValueError, OverflowError, OSError):
        return f"{epoch_secs:.0f}"


def machine_time(epoch_secs: float) -> str:
    """Return a Unix time as the attribute of HTML's ``<time datetime>``; "" if it is out of range."""
    try:
        return datetime.fromtimestamp(epoch_secs, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
