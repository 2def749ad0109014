"""Power sensors of the whole machine: each has a module, a line in `SOURCES`, and a thread at run time.

A module has `make`, which returns a function that reads the present watts; both
raise `PowerError`, ParseError or OSError.
"""

from __future__ import annotations

from jobfeatures.errors import JobfeaturesError, ParseError

# In order of closeness to the mains: `power.pdu_factor` multiplies the first one in use.
SOURCES = ("dcmi", "hwmon")
MAX_WATTS = 200_000.0  # more than a rack: anything above is not a valid reading


class PowerError(JobfeaturesError):
    """A sensor is missing, ambiguous or badly configured."""


def checked_watts(watts: float, source: str) -> float:
    """Return `watts` if a running machine can draw them: above 0, at most `MAX_WATTS`. Raises ParseError."""
    if not 0 < watts <= MAX_WATTS:
        raise ParseError("not the power of a machine that runs", source=source, text=f"{watts:g} W")
    return watts
