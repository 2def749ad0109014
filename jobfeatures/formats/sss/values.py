"""Contents of SSS elements → values, within bounds: pure. Used for reading and for writing."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.vocabulary import UNITS
from jobfeatures.formats.sss.xml import Element
from jobfeatures.quantities import MAX_SECS, parse_count

MAX_NUMBER: Final = MAX_SECS  # 63 bits
MAX_ID_CHARACTERS: Final = 180  # percent-encoded: it names a folder
MAX_TEXT_CHARACTERS: Final = 1024
MIN_PROCESS: Final = 2  # 0 is the kernel's, 1 is init: no job's
MAX_PROCESS: Final = 2**22  # proc(5), /proc/sys/kernel/pid_max

_FLOAT = re.compile(
    r"(?P<whole>[0-9]{1,32})?(?:\.(?P<part>[0-9]{0,32}))?(?:[eE](?P<power>[+-]?[0-9]{1,2}))?\Z"
)


def error_at(element: Element, reason: str, text: str = "") -> ParseError:
    """Return an error that names an element and its line."""
    return ParseError(reason, line=element.line, field=element.name, text=text)


def read_id(element: Element) -> str:
    """Return a job id; raises ParseError as `checked_id` does."""
    return checked_id(element.text.strip(), element.line)


def checked_id(text: str, line: int = 0) -> str:
    """Return `text` if it can be a job id: printable, without blanks, 1 to 180 characters.

    It names a folder, where characters outside ASCII count as they are encoded.

    Raises ParseError otherwise.
    """
    reason = ""
    if not text:
        reason = "empty"
    elif " " in text or not text.isprintable():
        reason = "blank or unprintable character in a job id"
    elif len(quote(text, safe="")) > MAX_ID_CHARACTERS:
        reason = f"longer than {MAX_ID_CHARACTERS} characters"
    if reason:
        raise ParseError(reason, line=line, field="Id", text=text)
    return text


def read_text(element: Element) -> str | None:
    """Return a text without the blanks around it, None for an empty one.

    Raises ParseError for unprintable characters and for more than 1,024 characters.
    """
    return checked_text(element.text.strip(), element.name, element.line) or None


def checked_text(text: str, field: str, line: int = 0) -> str:
    """Return `text` if it can be the value of a property of type String; raises ParseError otherwise."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ParseError(f"longer than {MAX_TEXT_CHARACTERS} characters", line=line, field=field, text=text)
    if not text.isprintable():
        raise ParseError("unprintable character", line=line, field=field, text=text)
    return text


def read_count(element: Element) -> int:
    """Return a non-negative integer of at most 63 bits; raises ParseError for anything else."""
    text = element.text.strip()
    try:
        return parse_count(text)
    except ParseError as error:
        raise error_at(element, error.reason, text or "(empty)") from None


def read_duration(element: Element) -> int:
    """Return seconds; raises ParseError."""
    units, default = UNITS["Duration"]
    return _bounded(element, read_count(element) * units[element.attributes.get("units", default)])


def read_size(element: Element) -> int:
    """Return bytes, rounded down, of a Memory, Swap or Disk in its units; raises ParseError."""
    units, default = UNITS[element.name]
    return _scaled(element, units[element.attributes.get("units", default)])


def read_limit_size(element: Element) -> int:
    """Return bytes, rounded down, of a ResourceLimit in megabytes, the default unit of Memory and Disk."""
    return _scaled(element, 2**20)


def read_process(element: Element) -> int:
    """Return the id of a process or a session that can be a job's; raises ParseError."""
    number = read_count(element)
    if not MIN_PROCESS <= number <= MAX_PROCESS:
        raise error_at(element, "not the id of a job's process", element.text.strip())
    return number


def _scaled(element: Element, scale: int) -> int:
    """Return a Float times `scale`, computed exactly and rounded down.

    Signs, INF and NaN, which the type allows, are no amounts and are refused.
    """
    text = element.text.strip()
    match = _FLOAT.match(text)
    if match is None or not (match["whole"] or match["part"]):
        raise error_at(element, "not a non-negative number", text or "(empty)")
    part = match["part"] or ""
    digits, power = int((match["whole"] or "") + part), int(match["power"] or 0) - len(part)
    value = digits * scale * 10**power if power >= 0 else digits * scale // 10**-power
    return _bounded(element, value)


def _bounded(element: Element, value: int) -> int:
    if value > MAX_NUMBER:
        raise error_at(element, "number too large", element.text.strip())
    return value
