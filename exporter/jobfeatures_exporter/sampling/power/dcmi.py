"""Power by the board's management controller: what `ipmitool` or FreeIPMI's `ipmi-dcmi` prints.

Source: DCMI 1.5 6.6.1, Get Power Reading, whose answer ipmitool prints as
"Instantaneous power reading:  220 Watts" and "Power reading state is:
activated", ipmi-dcmi as "Current Power : 164 Watts" and "Power Measurement :
Active". Both take up to seconds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from jobfeatures.command import ask_command
from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.power.reading import PowerConfig, PowerError, checked_watts

TIMEOUT_SECS = 20.0
MAX_BYTES = 16_384
_WATTS = re.compile(
    r"^[ \t]*(?:Instantaneous power reading|Current Power)[ \t]*:[ \t]*([0-9]{1,6})[ \t]+watts?[ \t]*\r?$",
    re.IGNORECASE | re.MULTILINE,
)
_STATE = re.compile(
    r"^[ \t]*(?:Power reading state is|Power Measurement)[ \t]*:[ \t]*([A-Za-z ]{1,40}?)[ \t]*\r?$",
    re.IGNORECASE | re.MULTILINE,
)
_ACTIVE = frozenset({"active", "activated"})


def parse_power(text: str) -> float:
    """Return the watts of an answer that says them once, and that they are measured. Raises ParseError."""
    found, states = _WATTS.findall(text), _STATE.findall(text)
    if len(found) != 1:
        raise ParseError("not one reading of power", source="dcmi", text=text[:80])
    if [state.lower() for state in states if state.lower() not in _ACTIVE] or not states:
        raise ParseError("the controller does not measure power", source="dcmi", text="; ".join(states))
    return checked_watts(float(found[0]), "dcmi")


def make(config: PowerConfig) -> Callable[[], float]:
    """Return what runs the command and reads its answer."""
    try:
        command = shlex.split(config.power_dcmi)
    except ValueError as error:
        raise PowerError(f"power.dcmi: {error}") from None
    if not command:
        raise PowerError("power.dcmi: no command")
    return lambda: parse_power(ask_command(command, timeout_secs=TIMEOUT_SECS, max_bytes=MAX_BYTES))
