"""Power sensors of the whole machine: each has a module, a line in `SOURCES`, and a thread at run time.

A module has `make`, which returns a function that reads the present watts; both
raise `PowerError`, ParseError or OSError.
"""

from __future__ import annotations

from jobfeatures.errors import JobfeaturesError, ParseError

# In order of closeness to the mains: `power.pdu_factor` multiplies the first one in use.
SOURCES = ("dcmi", "hwmon")
# Less or more is not a valid reading, but one in other units.
MIN_WATTS, MAX_WATTS = 1.0, 50_000.0
NO_READING = frozenset({0xFFFF, 0x7FFF_FFFF / 1e6, 0xFFFF_FFFF / 1e6})  # all ones: W of DCMI, µW of hwmon


class PowerError(JobfeaturesError):
    """A sensor is missing, ambiguous or badly configured."""


def checked_watts(watts: float, source: str) -> float:
    """Return `watts` if they are a reading that a running machine can have. Raises ParseError."""
    if not MIN_WATTS <= watts <= MAX_WATTS or watts in NO_READING:
        raise ParseError("not the power of a machine that runs", source=source, text=f"{watts:g} W")
    return watts
