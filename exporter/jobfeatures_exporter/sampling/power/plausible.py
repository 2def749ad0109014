"""Plausibility of power readings: pure."""

from __future__ import annotations

from jobfeatures.errors import JobfeaturesError, ParseError

MAX_WATTS = 200_000.0  # more than a rack: anything above is not a valid reading


class PowerError(JobfeaturesError):
    """A sensor is missing, ambiguous or badly configured."""


def checked_watts(watts: float, source: str) -> float:
    """Return `watts` if a running machine can draw them: above 0, at most `MAX_WATTS`. Raises ParseError."""
    if not 0 < watts <= MAX_WATTS:
        raise ParseError("not the power of a machine that runs", source=source, text=f"{watts:g} W")
    return watts
