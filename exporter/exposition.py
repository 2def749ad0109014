"""Metric families as text: the Prometheus format 0.0.4 and OpenMetrics 1.0.

A collector declares each `Metric` once and gives samples as (label text,
value) pairs. Label texts are made by `labels` and kept by the collectors:
writing them is most of the work of a scrape.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client.exposition import choose_encoder

Number = int | float
Sample = tuple[str, Number]


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a family.

    `name` has its unit and no ``_total`` or ``_info``; `kind` is "gauge",
    "counter" or "info"; `label_names` are for the reference page.
    """

    name: str
    kind: str
    meaning: str
    label_names: tuple[str, ...] = ()
    unit: str = ""

    @property
    def sample_name(self) -> str:
        """Return the name that samples carry."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its samples of one scrape."""

    metric: Metric
    samples: Sequence[Sample]


def labels(**values: str) -> str:
    """Return label text without braces: ``job_id="12",mode="user"``; empty without labels."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in values.items())


def escape(value: str) -> str:
    """Return a label value escaped as both formats ask; what is not Unicode becomes U+FFFD."""
    if not value.isascii():
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value


def format_value(value: Number) -> str:
    """Return a number as both formats read it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return repr(value)


def choose_format(accept: str) -> tuple[bool, str]:
    """Return (is it OpenMetrics, content type) for an Accept header."""
    content_type = choose_encoder(accept)[1]
    return content_type.startswith("application/openmetrics-text"), content_type


def render(families: Iterable[Family], *, openmetrics: bool) -> bytes:
    """Return the text of all families that have samples."""
    parts: list[str] = []
    for family in families:
        if family.samples:
            parts.append(_head_openmetrics(family.metric) if openmetrics else _head(family.metric))
            name = family.metric.sample_name
            parts.extend(
                f"{name}{{{text}}} {format_value(value)}\n" if text else f"{name} {format_value(value)}\n"
                for text, value in family.samples
            )
    if openmetrics:
        parts.append("# EOF\n")
    return "".join(parts).encode("utf-8")


def _head(metric: Metric) -> str:
    kind = "counter" if metric.kind == "counter" else "gauge"
    meaning = metric.meaning.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {metric.sample_name} {meaning}\n# TYPE {metric.sample_name} {kind}\n"


def _head_openmetrics(metric: Metric) -> str:
    unit = f"# UNIT {metric.name} {metric.unit}\n" if metric.unit and metric.kind != "info" else ""
    return f"# TYPE {metric.name} {metric.kind}\n{unit}# HELP {metric.name} {escape(metric.meaning)}\n"
