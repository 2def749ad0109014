"""Which answers of a sensor of power are none: pure."""

from __future__ import annotations

from jobfeatures.errors import JobfeaturesError, ParseError

MAX_WATTS = 200_000.0  # a rack and more: what is above is no reading


class PowerError(JobfeaturesError):
    """A sensor is not there, or does not say."""


def checked_watts(watts: float, source: str) -> float:
    """Return watts that a running machine can draw. Raises ParseError: one that runs never draws none."""
    if not 0 < watts <= MAX_WATTS:
        raise ParseError("not the power of a machine that runs", source=source, text=f"{watts:g} W")
    return watts
