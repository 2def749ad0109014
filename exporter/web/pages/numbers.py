"""The figures of a page: those of /metrics, found by metric and labels. Pure.

The page computes nothing that a collector has computed, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exporter.exposition import Family, Metric, Number

NONE: Mapping[str, Number] = {}


class Numbers:
    """Samples of families by label text."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._values = {family.metric.name: dict(family.samples) for family in families}

    def all(self, metric: Metric) -> Mapping[str, Number]:
        """Return the samples of a metric; none where its collector is off or has failed."""
        return self._values.get(metric.name, NONE)

    def one(self, metric: Metric, text: str = "") -> Number | None:
        """Return the sample with this label text, None where there is none."""
        return self.all(metric).get(text)
