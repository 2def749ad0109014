"""Provides a node's metrics to a registry of `prometheus_client`, for programs with their own listener.

from prometheus_client import REGISTRY, start_http_server
from jobfeatures_exporter.registry import NodeCollector

collector = NodeCollector.from_settings({"batch.sources": "slurm"})
collector.start()
REGISTRY.register(collector)
start_http_server(9200, addr="127.0.0.1")
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jobfeatures.records.metrics import Metric as Declared
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.families.exposition import COUNT, SUM, Family, Sample

if TYPE_CHECKING:
    from jobfeatures_exporter.node.daemon import Daemon

READY_SECS = 10.0  # for the first answers of the batch systems
# A registry, or the exporter that reads the file, has metrics of its own process under the same names.
ELSEWHERE = {"role": "node", "collector.process": "false"}


class NodeCollector(Collector):
    """Collects the metrics of this node that the command `serve` shows, but not the daemon's own.

    It runs a daemon without listeners, which samples in its own threads. A collection waits for a fresh
    sample, at most for the setting `scrape.deadline`.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @classmethod
    def from_settings(cls, settings: Mapping[str, str], *, file: str | None = None) -> NodeCollector:
        """Return a collector with `settings`, by key; settings in `file` have lower precedence.

        Raises ConfigurationError if a setting is invalid.
        """
        return cls.from_config(load_config(ExporterConfig, flags={**ELSEWHERE, **settings}, file=file))

    @classmethod
    def from_config(cls, config: ExporterConfig) -> NodeCollector:
        """Return a collector with these settings. Raises ConfigurationError if they contradict each other."""
        from jobfeatures_exporter.node.daemon import Daemon
        from jobfeatures_exporter.startup.checks import check

        check(config)
        return cls(Daemon(config))

    def start(self, *, ready_secs: float = READY_SECS) -> None:
        """Start sampling; wait `ready_secs` at most for the first sample and batch systems' answers."""
        from jobfeatures_exporter.node.daemon import FRESH_SECS

        self._daemon.start()
        self._daemon.wait_until_ready(ready_secs)
        time.sleep(FRESH_SECS)  # the next collection uses a sample that knows the jobs

    def stop(self) -> None:
        """Stop sampling."""
        self._daemon.stop()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the metrics depend on the node, and registering must not sample it."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the families, from a new sample of the node."""
        return to_metrics(self._daemon.families())


def to_metrics(families: Iterable[Family]) -> Iterator[Metric]:
    """Yield metric families as objects of prometheus_client.

    Families of the same name are merged: the first of them gives the help text and type.
    """
    found: dict[str, Metric] = {}
    for family in families:
        if family.samples:
            _add(found, family.metric, family.samples)
    yield from found.values()


def _add(found: dict[str, Metric], declared: Declared, samples: Iterable[Sample]) -> None:
    names, kind = declared.label_names, declared.kind
    if declared.verbatim and kind == "counter" and not declared.name.endswith("_total"):
        kind = "unknown"  # the library would rename its samples
    # A counter passed unchanged already has the suffix that the library adds to a family's name.
    name = declared.name.removesuffix("_total") if kind == "counter" else declared.name
    metric = found.setdefault(name, Metric(name, declared.meaning, kind))
    for values, value in samples:
        if kind != "histogram":
            metric.add_sample(declared.sample_name, dict(zip(names, values, strict=True)), value)
            continue
        *own, limit = values
        labels = dict(zip(names[:-1], own, strict=True))
        if limit in {SUM, COUNT}:
            metric.add_sample(f"{name}_{limit}", labels, value)
        else:
            bound = "+Inf" if float(limit) == math.inf else limit
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, value)
