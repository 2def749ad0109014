"""Collector: how many documents in Sonar's format were sent, are waiting, or were lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from jobfeatures.records.metrics import Metric, counter, gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

if TYPE_CHECKING:
    from jobfeatures_exporter.model.statuses import SinkStatus

SENT = counter("batch_exporter_sink_sent", "Documents that the sink accepted.", ("sink", "type"))
FAILED = counter("batch_exporter_sink_failed", "Attempts to send a document that failed.", ("sink", "type"))
DROPPED = counter(
    "batch_exporter_sink_dropped",
    "Documents lost: no room (full), never accepted (refused), file damaged (corrupt).",
    ("sink", "reason"),
)
WAITING = gauge("batch_exporter_sink_spooled", "Documents that wait for the sink.", ("sink",))
AGE = gauge(
    "batch_exporter_sink_last_success_age_seconds", "Time since the sink last accepted a document.", ("sink",)
)
FAULTY = counter(
    "batch_exporter_sonar_faulty_documents",
    "Own documents that broke the format and were not sent.",
    ("type",),
)
UNREADABLE = counter(
    "batch_exporter_sonar_unreadable_readings",
    "Readings for documents left out because they failed.",
    ("kind",),
)

_BY_TYPE: dict[Metric, Callable[[SinkStatus], Mapping[str, int]]] = {
    SENT: lambda sink: sink.sent,
    FAILED: lambda sink: sink.failed,
}
METRICS = (SENT, FAILED, DROPPED, WAITING, AGE, FAULTY, UNREADABLE)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about sinks of Sonar documents; without samples if no documents are made."""
    sinks = context.sinks
    for metric, counts_of in _BY_TYPE.items():
        pairs = [(sink.name, each) for sink in sinks for each in sorted(counts_of(sink).items())]
        yield Family(metric, [((name, kind), count) for name, (kind, count) in pairs])
    lost = [
        ((sink.name, reason), count)
        for sink in sinks
        for reason, count in (("full", sink.dropped), ("refused", sink.refused), ("corrupt", sink.corrupt))
    ]
    yield Family(DROPPED, lost)
    yield Family(WAITING, [((sink.name,), sink.waiting) for sink in sinks])
    ages = [((sink.name,), sink.last_success_secs) for sink in sinks]
    now = context.now_secs
    yield Family(AGE, [(values, max(0.0, now - at)) for values, at in ages if at is not None])
    yield Family.by_label(FAULTY, dict(sorted(context.faulty.items())))
    yield Family.by_label(UNREADABLE, dict(sorted(context.sonar_unreadable.items())))
