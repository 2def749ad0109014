"""Looks up the samples of /metrics by metric and label values. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jobfeatures.records.metrics import Metric
from jobfeatures.records.model import JobKey
from jobfeatures.records.series import Series
from jobfeatures_exporter.families.exposition import Family, Number, Sample, Values

NONE: Mapping[Values, Number] = {}


class Numbers:
    """The samples of metric families or of a scraped page, to be looked up by metric and label values."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._values: dict[str, Mapping[Values, Number]] = {
            metric.name: dict(samples) for metric, samples in families
        }
        self._by_job: dict[str, dict[Values, dict[Values, Number]]] = {}

    @classmethod
    def from_series(cls, series: Iterable[Series], metrics: Iterable[Metric]) -> Numbers:
        """Return the samples of `metrics` among the series of a scraped page; missing labels become ""."""
        declared = {metric.sample_name: (metric, metric.label_names) for metric in metrics}
        found: dict[Metric, list[Sample]] = {}
        for each in series:
            if each.name in declared:
                metric, names = declared[each.name]
                values = tuple([each.labels.get(name, "") for name in names])
                found.setdefault(metric, []).append((values, each.value))
        return cls(Family(metric, samples) for metric, samples in found.items())

    def all(self, metric: Metric) -> Mapping[Values, Number]:
        """Return a metric's samples by label values; empty if its collector is disabled or has failed."""
        return self._values.get(metric.name, NONE)

    def by_label(self, metric: Metric) -> dict[str, Number]:
        """Return the samples of a metric with one label, by the value of that label."""
        return {word: value for (word,), value in self.all(metric).items()}

    def one(self, metric: Metric, *values: str) -> Number | None:
        """Return the sample with these label values; None if there is none."""
        return self.all(metric).get(values)

    def jobs(self, metric: Metric) -> Mapping[Values, Mapping[Values, Number]]:
        """Return the samples of a metric by job, then by the values of the other labels."""
        found = self._by_job.get(metric.name)
        if found is None:
            found = self._by_job[metric.name] = {}
            for values, value in self.all(metric).items():
                found.setdefault(values[:2], {})[values[2:]] = value
        return found

    def of_job(self, metric: Metric, key: JobKey) -> Mapping[Values, Number]:
        """Return the samples of one job by the values of the other labels."""
        return self.jobs(metric).get(key, NONE)
