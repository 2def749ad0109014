r"""ClassAds as HTCondor writes them into files, one attribute a line: pure.

Source: HTCondor manual, "HTCondor's ClassAd Mechanism" and "ClassAd: Old and
New". A line is ``Name = value``; names know no case; an ad ends at an empty
line or at the end of the text; lines that begin with ``#`` are comments, and
so are those that begin with ``***``, which end an ad in a history file.
Literals become values; whatever has to be evaluated stays text.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.errors import ParseError

MAX_LINE_CHARACTERS = 2**20


class Special(enum.Enum):
    """The two literals that are no value."""

    UNDEFINED = "undefined"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Expression:
    """What has to be evaluated to have a value, as it was written."""

    text: str


Value = str | int | float | bool | Special | Expression


@dataclass(frozen=True, slots=True)
class ClassAd:
    """One ad. `values` is by the name in lower case; of several of one name the last one counts."""

    values: Mapping[str, Value] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """Return a string, None where there is none of this name."""
        value = self.values.get(name.lower())
        return value if isinstance(value, str) else None

    def integer(self, name: str) -> int | None:
        """Return an integer, None where there is none of this name."""
        value = self.values.get(name.lower())
        return value if isinstance(value, int) and not isinstance(value, bool) else None


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]{1,4})?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'"}
_WORDS: dict[str, Value] = {
    "true": True,
    "false": False,
    "undefined": Special.UNDEFINED,
    "error": Special.ERROR,
}


def parse_ads(text: str, *, source: str = "ClassAd") -> list[ClassAd]:
    """Return the ads of a text, empty ones left out. Raises ParseError with the line."""
    ads: list[ClassAd] = []
    values: dict[str, Value] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\r")
        if not line or line.startswith("***"):
            if values:
                ads.append(ClassAd(values))
                values = {}
        elif not line.startswith("#"):
            name, value = _parse_line(line, source, number)
            values[name.lower()] = value
    if values:
        ads.append(ClassAd(values))
    return ads


def parse_ad(text: str, *, source: str = "ClassAd") -> ClassAd:
    """Return the only ad of a text, an empty one where there is none. Raises ParseError."""
    ads = parse_ads(text, source=source)
    if len(ads) > 1:
        raise ParseError(f"{len(ads)} ads where one was expected", source=source)
    return ads[0] if ads else ClassAd()


def parse_value(text: str) -> Value:
    r"""Return a literal, else the expression.

    A string may hold ``\"``, ``\\``, the escapes of C and octal ones; a
    backslash before anything else stands for itself. A number that does not
    fit 64 bits, or is not finite, stays an expression.
    """
    text = text.strip(" \t\r")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _STRING.fullmatch(text):
        return _ESCAPE.sub(_unescape, text[1:-1])
    if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    if _REAL.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return Expression(text)


def _parse_line(line: str, source: str, number: int) -> tuple[str, Value]:
    if len(line) > MAX_LINE_CHARACTERS:
        raise ParseError("line is too long", source=source, line=number, text=line)
    name, equals, value = line.partition("=")
    name, value = name.rstrip(" \t"), value.strip(" \t")
    if not equals or not _NAME.fullmatch(name) or value.startswith(("=", "?=", "!=")):
        raise ParseError("must be Name = value", source=source, line=number, text=line)
    if not value:
        raise ParseError("value is missing", source=source, line=number, field=name, text=line)
    if value.startswith('"') and not _STRING.match(value):
        raise ParseError("string does not end", source=source, line=number, field=name, text=line)
    return name, parse_value(value)


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8)) if int(escaped, 8) else match[0]
    return _ESCAPES.get(escaped, match[0])
