"""Power sensors of the whole machine: each kind has a module, an entry in `SOURCES`, and a thread.

`make(config, sysfs)` of a module returns a function that returns the present watts. Both raise `PowerError`,
ParseError or OSError.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.errors import JobfeaturesError, ParseError
from jobfeatures.settings.declare import BOOLEAN, FACTOR, POSITIVE_DURATION, TEXT, option, words

# In order of closeness to the mains: `power.pdu_factor` multiplies the first one in use.
SOURCES = ("dcmi", "hwmon")
# Less or more is not a valid reading, but one in other units.
MIN_WATTS, MAX_WATTS = 1.0, 50_000.0
NO_READING = frozenset({0xFFFF, 0x7FFF_FFFF / 1e6, 0xFFFF_FFFF / 1e6})  # all ones: W of DCMI, µW of hwmon


class PowerError(JobfeaturesError):
    """Raised if a power sensor is missing, ambiguous or badly configured."""


def checked_watts(watts: float, source: str) -> float:
    """Return `watts` if a running machine can draw that much; else raise ParseError, which names `source`."""
    if not MIN_WATTS <= watts <= MAX_WATTS or watts in NO_READING:
        raise ParseError("this cannot be the power of a running machine", source=source, text=f"{watts:g} W")
    return watts


@dataclass(frozen=True, kw_only=True)
class PowerSettings:
    """Settings: which power sensors of the machine are read, how often, and what they measure."""

    sources: tuple[str, ...] = option(
        words(*SOURCES), (), "sensors of what the whole machine draws: hwmon, dcmi; none: not measured"
    )
    interval_secs: float = option(POSITIVE_DURATION, 30.0, "how often they are read")
    hwmon: str = option(
        TEXT, "power_meter", "hwmon's sensors of the board, summed: CHIP, or CHIP:LABEL of several on a chip"
    )
    dcmi: str = option(
        TEXT, "ipmitool dcmi power reading", "command of dcmi; or ipmi-dcmi --get-system-power-statistics"
    )
    includes_gpus: bool = option(BOOLEAN, True, "whether the sensors measure GPUs too")
    pdu_factor: str | None = option(
        FACTOR, None, "what the supply draws from the mains for each watt measured, e.g. 1.08"
    )
