"""Parses durations, sizes, counts and times as batch systems write them. Pure."""

from __future__ import annotations

import re

from jobfeatures.errors import ParseError

MAX_SECS = 2**63 - 1
_DIGITS = re.compile(r"[0-9]{1,19}\Z")
_DURATION = re.compile(
    r"(?:(?P<days>\d{1,9})-)?(?P<a>\d{1,9})(?::(?P<b>\d{1,9}))?(?::(?P<c>\d{1,9}))?(?:\.\d{1,9})?\Z", re.ASCII
)
_SIZE = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,9})?)(?P<unit>[A-Za-z]{0,2})\Z", re.ASCII)


def parse_count(text: str, *, field: str = "") -> int:
    """Parse a number of 1 to 19 ASCII digits. Raises ParseError for any other text."""
    if not _DIGITS.match(text):
        raise ParseError("must be a whole number, 0 or more", field=field, text=text)
    value = int(text)
    if value > MAX_SECS:
        raise ParseError("number too large", field=field, text=text)
    return value


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural, such as 1 job or 2 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def parse_slurm_duration(text: str, *, field: str = "", bare_unit_secs: int = 60) -> int:
    """Parse a Slurm duration into seconds, without fractions; ParseError for any other text.

    Source: sbatch(1) ``--time``: ``MM``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM``, ``D-HH:MM:SS``;
    sacct prints fractions in TotalCPU. A bare number is in units of `bare_unit_secs` (minutes in most
    places).
    """
    match = _DURATION.match(text)
    if match is None:
        raise ParseError("not a duration", field=field, text=text)
    numbers = [int(part) for part in (match["a"], match["b"], match["c"]) if part is not None]
    if match["days"] is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 1:
        return numbers[0] * bare_unit_secs
    else:
        hours, minutes, seconds = (0, *numbers)[-3:]
    return int(match["days"] or "0") * 86400 + hours * 3600 + minutes * 60 + seconds


_BINARY: dict[str, int] = {unit: 1024**power for power, unit in enumerate("BKMGTPE")}


def parse_binary_size(text: str, *, field: str = "", bare_unit: str = "B") -> int:
    """Parse a size with units that are powers of 1024 (``100M``, ``1.5G``, ``4GB``) into bytes, rounded down.

    A number without a unit is in `bare_unit`. Raises ParseError for other units.
    """
    match = _SIZE.match(text)
    unit = (match["unit"].upper().removesuffix("B") or ("B" if match["unit"] else bare_unit)) if match else ""
    if match is None or unit not in _BINARY:
        raise ParseError("not a size", field=field, text=text)
    whole, _, fraction = match["number"].partition(".")
    scale = _BINARY[unit]
    below: int = int(fraction) * scale // 10 ** len(fraction) if fraction else 0
    return int(whole) * scale + below
