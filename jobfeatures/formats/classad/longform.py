r"""Reads the long form of ClassAds, one attribute per line, as in job ads and history files. Pure.

Source: HTCondor manual, "HTCondor's ClassAd Mechanism", and the output of its library. HTCondor uses this
form for job and machine ads, for ``-long``, and for history files. A line is ``Name = value``. An ad ends at
an empty line or at the end of the text. Lines that begin with ``#`` are comments; so are lines that begin
with ``***``, which end an ad in a history file. Literals become values, expressions remain text.

In this form ``\"`` is the only escape: a backslash before any other character, or before the quote that ends
the line, stands for itself. A newline in a string is written unescaped, so a user's string can imitate lines.
Therefore an ad is rejected if a string does not end on its line, or if a name is repeated. If a line is too
long, only its value is lost. A string that imitates the end of an ad and a complete next ad is not detected:
for text from users, JSON is safer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad.ad import (
    MAX_INTEGER,
    MIN_INTEGER,
    ClassAd,
    Expression,
    Special,
    Value,
    name_of,
)

MAX_LINE_CHARACTERS = 2**20
MAX_DIGITS = 20  # with a sign, of an integer
NOT_OF_A_JOB = "a run or a transfer, of an epoch history: the history has the jobs"
CUT = "\0"  # the value of a line that was too long for whoever read it

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_OF_A_RUN = re.compile(r"\*\*\*.* RunInstanceId=[0-9]")
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_REAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]{1,4})?")
_WORDS: dict[str, Value] = {
    "true": True,
    "false": False,
    "undefined": Special.UNDEFINED,
    "error": Special.ERROR,
}


def read_long_ads(lines: Iterable[str], *, source: str) -> Iterator[ClassAd | Rejected]:
    """Yield the ads in lines, except empty ones; an ad with an invalid line is rejected as a whole."""
    values: dict[str, Value] = {}
    fault: Rejected | None = None
    for number, raw in enumerate(chain(lines, [""]), 1):
        line = raw.strip(" \t\r\n")
        ends = not line or line.startswith("***")
        if fault is None and (ends or line.startswith("#")):
            if _has_open_string(line):  # as the end of a string on several lines has
                fault = Rejected(source, "closing quote without an opening one", number, text=line)
        elif fault is None:
            try:
                _add_line(values, line)
            except ParseError as error:
                fault = Rejected.from_error(error.at(source, number))
        if ends:
            if fault is None and values and _OF_A_RUN.match(line):
                fault = Rejected(source, NOT_OF_A_JOB, number, text=line)
            if fault is not None:
                yield fault
            elif values:
                yield ClassAd(values)
            values, fault = {}, None


def parse_ad(text: str, *, source: str = "ClassAd") -> ClassAd:
    """Parse a text that holds at most one ad; without one, return an empty ad.

    Raises ParseError for an invalid line, and if there are several ads.
    """
    ads: list[ClassAd] = []
    for each in read_long_ads(text.split("\n"), source=source):
        if isinstance(each, Rejected):
            raise each.as_error()
        ads.append(each)
    if len(ads) > 1:
        raise ParseError(f"{len(ads)} ClassAds where one was expected", source=source)
    return ads[0] if ads else ClassAd()


def _has_open_string(text: str) -> bool:
    return text.replace('\\"', "").count('"') % 2 == 1


def _add_line(values: dict[str, Value], line: str) -> None:
    """Parse a stripped line and add its value. Raises ParseError."""
    name, equals, value = line.partition("=")
    name, value = name.rstrip(" \t"), value.strip(" \t")
    if not equals or not _NAME.fullmatch(name) or value.startswith(("=", "?=", "!=")):
        raise ParseError("must be Name = value", text=line)
    if not value:
        raise ParseError("value is missing", field=name, text=line)
    if name.lower() in values:
        raise ParseError("name occurs twice", field=name, text=line)
    found = parse_value(value)
    if isinstance(found, Expression) and _has_open_string(value):
        raise ParseError("string has no closing quote", field=name, text=line)
    is_cut = value == CUT or len(line) > MAX_LINE_CHARACTERS
    values[name_of(name)] = Special.TOO_LONG if is_cut else found


def parse_value(text: str) -> Value:
    """Return the value of a literal (integer, finite real, string, Boolean), else an `Expression`.

    An integer beyond 64 bits gives `Special.ERROR`.
    """
    text = text.strip(" \t\r")
    if text[:1] == '"' and text[-1:] == '"' and len(text) >= 2:
        inner = text[1:-1]
        if '"' not in inner.replace('\\"', ""):
            return inner.replace('\\"', '"')
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        is_small = len(text) <= MAX_DIGITS and MIN_INTEGER <= int(text) <= MAX_INTEGER
        return int(text) if is_small else Special.ERROR  # the library makes another number of it
    if _REAL.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return Expression(text)
