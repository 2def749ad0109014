"""Reads power from the board's management controller, by `ipmitool` or FreeIPMI's `ipmi-dcmi`.

Source: DCMI 1.5 6.6.1, Get Power Reading. ipmitool prints the answer as "Instantaneous power reading:  220
Watts" and "Power reading state is: activated", ipmi-dcmi as "Current Power : 164 Watts" and "Power
Measurement : Active". Both may take seconds. OpenBMC measures, but always reports the state "deactivated".
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from jobfeatures.errors import ParseError
from jobfeatures.system.command import ask_command
from jobfeatures_exporter.sampling.power import PowerError, checked_watts

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.power import PowerSettings

TIMEOUT_SECS = 20.0
MAX_BYTES = 16_384
_WATTS = frozenset({"instantaneous power reading", "current power"})
# Of the time before, with words behind that differ: minimum, maximum and average.
_OTHERS = re.compile(r"(minimum|maximum|average)[ \t](?:during|power|reading)")
_STATE = frozenset({"power reading state is", "power measurement"})
_VALUE = re.compile(r"([0-9]{1,6})[ \t]+watts?", re.IGNORECASE)
_BLANKS = " \t\r"
_ACTIVE = frozenset({"active", "activated"})


def parse_power(text: str) -> float:
    """Return the watts in a command's output. Raises ParseError unless it has exactly one measured reading.

    If the reported state is not active, the reading counts if it fits minimum, maximum and average, where
    given.
    """
    lines = [line.partition(":") for line in text.split("\n")]
    pairs = [(name.strip(_BLANKS).lower(), value.strip(_BLANKS)) for name, _, value in lines]
    found = [match[1] for name, value in pairs if name in _WATTS and (match := _VALUE.fullmatch(value))]
    states = [value for name, value in pairs if name in _STATE and value]
    if len(found) != 1:
        raise ParseError("the output must have exactly one power reading", source="dcmi", text=text[:80])
    watts = checked_watts(float(found[0]), "dcmi")
    if not states or not (all(state.lower() in _ACTIVE for state in states) or _is_measured(watts, pairs)):
        raise ParseError(
            "the management controller (BMC) does not measure power",
            source="dcmi",
            text="; ".join(states)[:80],
        )
    return watts


def _is_measured(watts: float, pairs: Iterable[tuple[str, str]]) -> bool:
    others = {
        match[1]: float(value[1])
        for name, text in pairs
        if (match := _OTHERS.match(name)) and (value := _VALUE.fullmatch(text))
    }
    least, most = others.get("minimum", 0.0), others.get("maximum", math.inf)
    readings = [others[name] for name in ("minimum", "average") if name in others]
    return least <= watts <= most and (any(readings) or not readings)


def make(config: PowerSettings, _sysfs: str) -> Callable[[], float]:
    """Return a function that runs the configured command and returns its watts.

    Raises PowerError if the command is empty or cannot be parsed.
    """
    try:
        command = shlex.split(config.dcmi)
    except ValueError as error:
        raise PowerError(f"power.dcmi: {error}") from None
    if not command:
        raise PowerError(
            "power.dcmi is empty: set a command, such as ipmi-dcmi --get-system-power-statistics"
        )
    return lambda: parse_power(ask_command(command, timeout_secs=TIMEOUT_SECS, max_bytes=MAX_BYTES))
