"""Documents in Sonar's format: what was sent, what waits, what was lost."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family, Metric, labels

SENT = Metric("batch_exporter_sink_sent", "counter", "Documents that the sink took.", ("sink", "type"))
FAILED = Metric(
    "batch_exporter_sink_failed", "counter", "Attempts to send a document that failed.", ("sink", "type")
)
DROPPED = Metric(
    "batch_exporter_sink_dropped",
    "counter",
    "Documents lost: no room while the sink was away (full), never taken by it (refused), or spool file "
    "damaged (corrupt).",
    ("sink", "reason"),
)
WAITING = Metric("batch_exporter_sink_spooled", "gauge", "Documents that wait for the sink.", ("sink",))
AGE = Metric(
    "batch_exporter_sink_last_success_age_seconds",
    "gauge",
    "Time since the sink last took a document; absent until it has taken one.",
    ("sink",),
    "seconds",
)
FAULTY = Metric(
    "batch_exporter_sonar_faulty_documents",
    "counter",
    "Own documents that broke the format and were not sent.",
    ("type",),
)
UNREADABLE = Metric(
    "batch_exporter_sonar_unreadable_readings",
    "counter",
    "Readings for documents left out because they could not be made.",
    ("kind",),
)

METRICS = (SENT, FAILED, DROPPED, WAITING, AGE, FAULTY, UNREADABLE)


def families(context: Context) -> Iterator[Family]:
    """Yield the sinks' families; nothing where nothing is sent."""
    sent = [(sink, kind, count) for sink in context.sinks for kind, count in sorted(sink.sent.items())]
    failed = [(sink, kind, count) for sink in context.sinks for kind, count in sorted(sink.failed.items())]
    yield Family(SENT, [(labels(sink=sink.name, type=kind), count) for sink, kind, count in sent])
    yield Family(FAILED, [(labels(sink=sink.name, type=kind), count) for sink, kind, count in failed])
    lost = [
        (labels(sink=sink.name, reason=reason), count)
        for sink in context.sinks
        for reason, count in (
            ("full", sink.dropped),
            ("refused", sink.refused),
            ("corrupt", sink.corrupt),
        )
    ]
    yield Family(DROPPED, lost)
    yield Family(WAITING, [(labels(sink=sink.name), sink.waiting) for sink in context.sinks])
    ages = [(sink.name, sink.last_success_secs) for sink in context.sinks]
    yield Family(
        AGE,
        [(labels(sink=name), max(0.0, context.now_secs - at)) for name, at in ages if at is not None],
    )
    yield Family(FAULTY, [(labels(type=kind), count) for kind, count in sorted(context.faulty.items())])
    readings = sorted(context.sonar_unreadable.items())
    yield Family(UNREADABLE, [(labels(kind=kind), count) for kind, count in readings])
