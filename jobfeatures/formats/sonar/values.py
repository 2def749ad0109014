"""Checks single values in Sonar's format. Pure.

`FAULTS` has a function for each type. It is called with the value, its field, and whether to be strict, and
returns "" or the reason why the value is invalid.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from jobfeatures.formats.sonar.fields import MAX_INT, MAX_UINT, MIN_INT, Field, FieldType
from jobfeatures.records.nodelist import NO_NODES

MAX_STRING_CHARACTERS: Final = 2**16
MAX_TOPOLOGY_CHARACTERS: Final = 2**22  # a drawing of an entire node
MAX_NODES: Final = 100_000  # in one range

_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?P<part>\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})\Z"
)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_TOLERANT_HOSTNAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_PART = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
_BRACKET = re.compile(rf"\[({_PART}(?:,{_PART})*)\]")
_NODE_RANGE = re.compile(rf"(?:[A-Za-z0-9._-]|\[{_PART}(?:,{_PART})*\])+\Z")
_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.[0-9]{1,9}(?:[-+][0-9A-Za-z.+-]+)?\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONG: Final = frozenset({"topo_svg", "topo_text"})
_KEYS: Final = frozenset({"uuid", "name"})  # useless if empty


def _string(value: object, field: Field, _strict: bool) -> str:
    """Check a Unicode string; lone surrogates are invalid."""
    if not isinstance(value, str):
        return "is not a string"
    maximum = MAX_TOPOLOGY_CHARACTERS if field.name in _LONG else MAX_STRING_CHARACTERS
    if len(value) > maximum:
        return f"is longer than {maximum} characters"
    if not value.isascii() and _SURROGATE.search(value):
        return "is not Unicode"
    return ""


def _nonempty(value: object, field: Field, strict: bool) -> str:
    is_empty = value == "" and (strict or field.name in _KEYS)
    return _string(value, field, strict) or ("is empty" if is_empty else "")


def _uint(value: object, field: Field, strict: bool) -> str:
    """Check an unsigned 64-bit integer, and the field's own maximum."""
    if not isinstance(value, int) or isinstance(value, bool):
        return "is not a whole number"
    if value < 0:
        return "is negative"
    maximum = MAX_UINT if field.maximum is None or not strict or value > MAX_UINT else field.maximum
    return f"is above {maximum}" if value > maximum else ""


def _nonzero(value: object, field: Field, strict: bool) -> str:
    is_zero = value == 0 and (strict or field.name == "job_id")
    return _uint(value, field, strict) or ("is zero" if is_zero else "")


def _int(value: object, _field: Field, _strict: bool) -> str:
    """Check a signed 64-bit integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        return "is not a whole number"
    return "" if MIN_INT <= value <= MAX_INT else "does not fit 64 bits"


def _float(value: object, _field: Field, _strict: bool) -> str:
    """Check a finite number, 0 or more: a share or a load."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "is not a number"
    if value > MAX_UINT if isinstance(value, int) else not math.isfinite(value):
        return "is not a finite number of 64 bits"
    return "is negative" if value < 0 else ""


def _timestamp(value: object, field: Field, strict: bool) -> str:
    """Check yyyy-mm-ddThh:mm:ss with a zone; fractions of seconds are allowed unless `strict`."""
    if not isinstance(value, str):
        return "is not a string"
    if not value and not (strict and field.type is FieldType.TIMESTAMP):
        return ""
    match = _TIMESTAMP.match(value)
    if match is None:
        return "is not yyyy-mm-ddThh:mm:ss with a zone"
    if strict and match["part"]:
        return "has parts of a second"
    try:
        timestamp_secs(value)
    except (ValueError, OverflowError):
        return "is no time of the calendar"
    return ""


def timestamp_secs(text: str) -> int:
    """Parse an ISO 8601 timestamp into whole seconds since the epoch.

    Raises ValueError for any other text, OverflowError for a time that cannot be represented.
    """
    whole = re.sub(r"\.[0-9]+", "", text, count=1)
    return int(datetime.fromisoformat(whole).timestamp())


def fault_of_hostname(value: object, *, strict: bool) -> str:
    """Return the reason why a host name is invalid, or "".

    Unless `strict`, underscores and misplaced dashes are allowed.
    """
    if not isinstance(value, str):
        return "is not a string"
    if not value:
        return "is empty"
    form = _HOSTNAME if strict else _TOLERANT_HOSTNAME
    return "" if len(value) <= 253 and form.match(value) else "is not a host name"


def _node_range(value: object, _field: Field, strict: bool) -> str:
    """Check names with brackets such as ``c[1-3,5]-[2-4].fox``: ascending ranges without repeated numbers."""
    if not isinstance(value, str):
        return "is not a string"
    if value in NO_NODES and not strict:
        return ""
    if not value:
        return "is empty"
    if len(value) > MAX_STRING_CHARACTERS or not _NODE_RANGE.match(value):
        return "is not a node range"
    counts = []
    for bracket in _BRACKET.findall(value):
        seen: list[tuple[int, int]] = []
        for part in bracket.split(","):
            low, _, high = part.partition("-")
            first, last = int(low), int(high or low)
            if last < first:
                return "has a range that runs backwards"
            seen.append((first, last))
        seen.sort()
        if any(after[0] <= before[1] for before, after in itertools.pairwise(seen)):
            return "has a number twice"
        counts.append(sum(last - first + 1 for first, last in seen))
        if math.prod(counts) > MAX_NODES:
            return f"means more than {MAX_NODES} nodes"
    return ""


def fault_of_version(value: str) -> str:
    """Return the reason why a format version is invalid, or "".

    Consumers treat versions up to 0.6 as an older format, so these are invalid.
    """
    match = _VERSION.match(value)
    if match is None:
        return "is not a semantic version"
    return "is below 0.7, which means an older format" if (int(match[1]), int(match[2])) < (0, 7) else ""


FAULTS: Final[dict[FieldType, Callable[[Any, Field, bool], str]]] = {
    FieldType.STRING: _string,
    FieldType.NONEMPTY: _nonempty,
    FieldType.UINT: _uint,
    FieldType.EXTENDED: _uint,
    FieldType.NONZERO: _nonzero,
    FieldType.INT: _int,
    FieldType.FLOAT: _float,
    FieldType.BOOL: lambda value, _field, _strict: "" if isinstance(value, bool) else "is not true or false",
    FieldType.TIMESTAMP: _timestamp,
    FieldType.OPTIONAL_TIMESTAMP: _timestamp,
    FieldType.HOSTNAME: lambda value, _field, strict: fault_of_hostname(value, strict=strict),
    FieldType.NODE_RANGE: _node_range,
}
