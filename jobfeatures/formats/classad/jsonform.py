r"""Reads ClassAds as JSON, as HTCondor's commands print them with ``-json`` or ``-jsonl``. Pure.

With ``-json`` the output is an array of objects, or several arrays one after another for several schedds;
with ``-jsonl`` it is one object per line. Without ads there is no output at all. An expression is written as
the string ``\/Expr(text)\/``, undefined as null. A string of a user that looks like an expression is taken
for one, whose value is unknown.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

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
from jobfeatures.records.jsontext import clean, refuse

MAX_AD_CHARACTERS = 2**22

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|[{}]'
)  # a string that is cut off too: it is not looked through again
_OPEN, _CLOSE = "/Expr(", ")/"
_BETWEEN = frozenset("[], \t\r\n")


def parse_json_ads(text: str, *, source: str) -> list[ClassAd]:
    """Return the ads in a command's output.

    Text before the first line that begins with ``[`` or ``{`` is ignored as a
    banner. Raises ParseError if the output is truncated or not ClassAds.
    """
    with contextlib.suppress(ValueError, RecursionError):  # what is wrong, if anything, is reported below
        whole = json.loads(text, parse_constant=refuse)
        if isinstance(whole, list) and all(isinstance(each, dict) for each in whole):
            return [_ad(each) for each in whole]
    ads = []
    banner = re.search(r"^[ \t]*[\[{]", text, re.MULTILINE)
    lines = re.findall(
        r".*\n|.+", text[banner.start() :] if banner else text
    )  # splitlines() would split strings at U+2028
    for each in read_json_ads(lines, source=source):
        if isinstance(each, Rejected):
            raise ParseError(each.reason, source=source, line=each.line)
        ads.append(each)
    return ads


def read_json_ads(lines: Iterable[str], *, source: str) -> Iterator[ClassAd | Rejected]:
    """Yield the ads in lines as they are read; anything that is not an ad is yielded as Rejected.

    Brackets, commas and blanks between ads are skipped.
    """
    depth = size = opened = 0
    parts: list[str] = []
    for number, line in enumerate(lines, 1):
        place = 0
        for token in _TOKEN.finditer(line):
            word = token.group()
            if word == "{":
                if depth == 0:
                    yield from _foreign(line[place : token.start()], source, number)
                    opened, place = number, token.start()
                depth += 1
            elif word == "}" and depth:
                depth -= 1
                if depth == 0:
                    parts.append(line[place : token.end()])
                    place = token.end()
                    yield _parse("".join(parts), source, opened, size > MAX_AD_CHARACTERS)
                    parts, size = [], 0
        if depth == 0:
            yield from _foreign(line[place:], source, number)
            continue
        size += len(line) - place
        if size <= MAX_AD_CHARACTERS:
            parts.append(line[place:])
    if depth:
        yield Rejected(source, "ad is cut off", opened)


def _foreign(text: str, source: str, line: int) -> Iterator[Rejected]:
    if not _BETWEEN.issuperset(text):
        yield Rejected(source, "not JSON of ClassAds", line, text=text.strip())


def _parse(text: str, source: str, line: int, is_large: bool) -> ClassAd | Rejected:
    if is_large:
        return Rejected(source, f"ad has more than {MAX_AD_CHARACTERS} characters", line)
    try:
        found = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or "nested too deeply or not a number"
        return Rejected(source, f"not JSON: {reason}", line, text=text)
    return _ad(found)


def _ad(found: Mapping[str, Any]) -> ClassAd:
    return ClassAd({name_of(name): _value(value) for name, value in found.items()})


def _value(value: Any) -> Value:
    if isinstance(value, str):
        if value.startswith(_OPEN) and value.endswith(_CLOSE):
            inner = value[len(_OPEN) : -len(_CLOSE)]
            return Special.ERROR if inner.lower() == "error" else Expression(clean(inner))
        return clean(value)
    if value is None:
        return Special.UNDEFINED
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if MIN_INTEGER <= value <= MAX_INTEGER else Special.ERROR
    if isinstance(value, float):
        return value if math.isfinite(value) else Special.ERROR
    return Expression("{}" if isinstance(value, list) else "[]")  # their contents are never used
