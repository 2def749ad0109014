"""Parses time series, from pages of metrics and from answers of Prometheus. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jobfeatures.errors import ParseError, shown
from jobfeatures.records.jsontext import parse_object

MAX_SERIES = 1_000_000

_NAME, _TEXT = "[A-Za-z_][A-Za-z0-9_]*", r'"(?:[^"\\\n]|\\[\\"n])*"'
_LABEL = re.compile(f"({_NAME})=({_TEXT})")
_LABELS = f"(?:{_NAME}={_TEXT}(?:,{_NAME}={_TEXT})*,?)?"
_LINE = re.compile(rf"([A-Za-z_:][A-Za-z0-9_:]*)(?:{{({_LABELS})}})? (\S+)(?: \S+)?\Z")
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Series:
    """One sample of a time series: metric name, labels, and value, which may be NaN or infinite."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class InstantAnswer:
    """The samples that a query of Prometheus returned, and the server's warnings, if any.

    A query for a range of time returns several samples of one series. Then `series` has one element for each
    sample, in order of time. A warning may say that parts of the answer are missing.
    """

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


def parse_lines(text: str, names: Collection[str], *, source: str = "") -> list[Series]:
    """Parse a metrics page (text format 0.0.4), and return the series whose name is in `names`.

    Raises ParseError, with the line's number, if a line with one of these names is malformed.
    """
    beginnings = tuple(names)
    found: list[Series] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith(beginnings):
            continue
        match = _LINE.match(line)
        if match is None:
            raise ParseError("not a series", source=source, line=number, text=line)
        if match[1] in names:
            pairs = _LABEL.findall(match[2] or "")
            labels = {name: _ESCAPE.sub(_unescaped, quoted[1:-1]) for name, quoted in pairs}
            found.append(Series(match[1], labels, _value(match[3], source, number)))
    return found


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def _value(text: Any, source: str, line: int) -> float:
    try:
        return float(text)
    except (TypeError, ValueError) as error:
        raise ParseError("not a number", source=source, line=line, text=str(text)) from error


def parse_vector(text: str, *, source: str = "", kind: str = "vector") -> InstantAnswer:
    """Parse the answer of ``/api/v1/query`` to a query of Prometheus.

    Sample: ``{"status":"success","data":
    {"resultType":"vector","result":[{"metric":{"__name__":…,…},"value":[1435781451.781,"1"]},…]}}``. `kind`
    is the resultType to accept: ``vector`` for one sample of each series, ``matrix`` for those in a range of
    time. Raises ParseError, with the server's message if the server refused the query. Source:
    https://prometheus.io/docs/prometheus/latest/querying/api/.
    """
    document = parse_object(text, source=source)
    if document.get("status") != "success":
        raise ParseError("Prometheus refused the query", source=source, text=str(document.get("error", text)))
    data = document.get("data")
    result = data.get("result") if isinstance(data, dict) and data.get("resultType") == kind else None
    if not isinstance(result, list):
        reason = f"the server's answer is not a Prometheus {kind}: another program may answer there"
        raise ParseError(reason, source=source, field="data", text=str(data))
    series = tuple(islice(_all_of(result, source), MAX_SERIES + 1))
    if len(series) > MAX_SERIES:
        raise ParseError(f"more than {MAX_SERIES} series: restrict the query", source=source, field="result")
    found = document.get("warnings")
    warnings = tuple(shown(str(each)) for each in found[:10]) if isinstance(found, list) else ()
    return InstantAnswer(series, warnings)


def _all_of(result: list[Any], source: str) -> Iterator[Series]:
    for each in result:
        metric = each.get("metric") if isinstance(each, dict) else None
        values = each.get("values", [each.get("value")]) if isinstance(each, dict) else None
        if not isinstance(metric, dict) or not isinstance(values, list):
            raise ParseError("not a series", source=source, field="result", text=str(each))
        labels = {name: text for name, text in metric.items() if isinstance(text, str)}
        name = labels.pop("__name__", "")
        for value in values:
            if not isinstance(value, list) or len(value) != 2:
                raise ParseError("not a sample", source=source, field="result", text=str(each))
            yield Series(name, labels, _value(value[1], source, 0))
