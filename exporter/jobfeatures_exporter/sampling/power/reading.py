"""What a sensor of power is asked with, and which answers are none: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jobfeatures.errors import JobfeaturesError, ParseError

MAX_WATTS = 200_000.0  # a rack and more: what is above is no reading


@dataclass(frozen=True, match_args=False)  # frozen: whoever has settings need not let them be set
class PowerConfig(Protocol):
    """The settings of power."""

    path_sysfs: str
    sample_interval_secs: float
    power_sources: tuple[str, ...]
    power_interval_secs: float
    power_hwmon: str
    power_dcmi: str
    power_includes_gpus: bool
    power_pdu_factor: str | None


class PowerError(JobfeaturesError):
    """A sensor is not there, or does not say."""


def checked_watts(watts: float, source: str) -> float:
    """Return watts that a running machine can draw. Raises ParseError: one that runs never draws none."""
    if not 0 < watts <= MAX_WATTS:
        raise ParseError("not the power of a machine that runs", source=source, text=f"{watts:g} W")
    return watts
