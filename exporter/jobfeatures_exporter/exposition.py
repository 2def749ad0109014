"""Metric families as text: the Prometheus format 0.0.4 and OpenMetrics 1.0.

A collector declares each `Metric` once and gives samples as (label text,
value) pairs. Label texts are made by `labels` and kept from one scrape to the
next; what is left of the work is to write the numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Half characters, as JSON may hold them; those that stand for bytes are not among them.
_LONE_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")

Number = int | float
Sample = tuple[str, Number]


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a family.

    `name` has its unit and no ``_total`` or ``_info``; `kind` is "gauge",
    "counter", "info", "histogram" or "summary" (of quantiles alone);
    `label_names` are for the reference page. `sums` tells that values of
    several jobs may be added up: so it is for counters, and for gauges of
    amounts that say so. With `verbatim` the name stands as it is on every
    sample: another exporter's.
    """

    name: str
    kind: str
    meaning: str
    label_names: tuple[str, ...] = ()
    unit: str = ""
    sums: bool = False
    verbatim: bool = False

    @property
    def sample_name(self) -> str:
        """Return the name that samples carry."""
        if self.verbatim:
            return self.name
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its samples of one scrape; those of histograms are made by `histogram_samples`."""

    metric: Metric
    samples: Sequence[Sample]


def labels(**values: str) -> str:
    """Return label text without braces: ``job_id="12",mode="user"``; empty without labels."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in values.items())


def escape(value: str) -> str:
    """Return a label value escaped as both formats ask; what is not Unicode becomes U+FFFD."""
    if not value.isascii():
        value = _LONE_HALF.sub("\ufffd", value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value


def format_value(value: Number) -> str:
    """Return a number as both formats read it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return repr(value)


def histogram_samples(
    text: str, bounds: Sequence[Number], counts: Sequence[int], total: Number
) -> list[Sample]:
    """Return the samples of one histogram: `counts` of values up to each bound, then of all.

    They carry their suffix: ``_bucket{partition="a",le="60.0"}``. Bounds are
    written as floats, as OpenMetrics wants them.
    """
    inside = f"{text}," if text else ""
    limits = [*(float(each) for each in bounds), math.inf]
    found: list[Sample] = [
        (f'_bucket{{{inside}le="{format_value(limit)}"}}', count)
        for limit, count in zip(limits, counts, strict=True)
    ]
    braces = f"{{{text}}}" if text else ""
    return [*found, (f"_sum{braces}", total), (f"_count{braces}", counts[-1])]


def choose_format(accept: str) -> tuple[bool, str]:
    """Return (is it OpenMetrics, content type) for an Accept header: OpenMetrics where it is taken at all."""
    for media_range in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in media_range.split(";"))
        refused = any(re.fullmatch(r"q=0(\.0*)?", each) for each in parameters)
        if kind == "application/openmetrics-text" and not refused:
            return True, "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return False, "text/plain; version=0.0.4; charset=utf-8"


def render(families: Iterable[Family], *, openmetrics: bool) -> bytes:
    """Return the text of all families that have samples."""
    parts: list[str] = []
    for family in families:
        if family.samples:
            parts.append(_head_openmetrics(family.metric) if openmetrics else _head(family.metric))
            if family.metric.kind == "histogram":
                parts += [
                    f"{family.metric.name}{text} {format_value(value)}\n" for text, value in family.samples
                ]
            else:
                parts += _lines(family.metric.sample_name, family.samples)
    if openmetrics:
        parts.append("# EOF\n")
    return "".join(parts).encode("utf-8")


def _lines(name: str, samples: Sequence[Sample]) -> list[str]:
    """Return a line for each sample. Where all numbers are finite, as their sum tells, none is looked at."""
    try:
        finite = math.isfinite(sum([value for _, value in samples]))
    except OverflowError:  # an integer beyond what a float can be
        finite = False
    if finite:
        return [f"{name}{{{text}}} {value!r}\n" if text else f"{name} {value!r}\n" for text, value in samples]
    return [
        f"{name}{{{text}}} {format_value(value)}\n" if text else f"{name} {format_value(value)}\n"
        for text, value in samples
    ]


def _head(metric: Metric) -> str:
    kind = metric.kind if metric.kind in {"counter", "histogram", "summary"} else "gauge"
    meaning = metric.meaning.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {metric.sample_name} {meaning}\n# TYPE {metric.sample_name} {kind}\n"


def _head_openmetrics(metric: Metric) -> str:
    name, kind = metric.name, metric.kind
    if metric.verbatim and kind == "counter":
        # The format knows counters by the suffix of their samples; one without it has no kind there.
        name, kind = (name[: -len("_total")], kind) if name.endswith("_total") else (name, "unknown")
    unit = f"# UNIT {name} {metric.unit}\n" if metric.unit and kind != "info" else ""
    return f"# TYPE {name} {kind}\n{unit}# HELP {name} {escape(metric.meaning)}\n"
