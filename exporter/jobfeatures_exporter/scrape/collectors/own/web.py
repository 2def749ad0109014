"""Collector: the HTTP listeners, their responses, and the requests and connections that they refused."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import counter, gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

REQUESTS = counter(
    "batch_exporter_web_requests", "Requests answered, by listener and HTTP status.", ("listener", "code")
)
REJECTED = counter(
    "batch_exporter_web_rejected", "Requests refused and connections ended, by listener.", ("listener",)
)
REJECTED_BY_REASON = counter(
    "batch_exporter_web_rejected_by_reason",
    "Those of batch_exporter_web_rejected_total, by reasons that there were.",
    ("listener", "reason"),
)
CONNECTIONS = gauge(
    "batch_exporter_web_connections", "Open connections, those in a TLS handshake included.", ("listener",)
)
FAILURES = counter(
    "batch_exporter_web_config_reload_failures",
    "Times that a new web configuration, certificate or key was invalid.",
)
GOOD = gauge(
    "batch_exporter_web_config_last_reload_successful",
    "1 if the latest reload of the web configuration succeeded; 0: an older one is in use.",
)

METRICS = (REQUESTS, REJECTED, REJECTED_BY_REASON, CONNECTIONS, FAILURES, GOOD)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about the HTTP listeners that are open."""
    status = context.web
    if status is None:
        return
    listeners = status.listeners
    answers = [(each.name, pair) for each in listeners for pair in sorted(each.answers.items())]
    yield Family(REQUESTS, [((name, str(code)), count) for name, (code, count) in answers])
    yield Family(REJECTED, [((each.name,), sum(each.rejected.values())) for each in listeners])
    refused = [(each.name, pair) for each in listeners for pair in each.rejected.items()]
    yield Family.counted(REJECTED_BY_REASON, [((name, reason), count) for name, (reason, count) in refused])
    yield Family(CONNECTIONS, [((each.name,), each.connections) for each in listeners])
    if status.file_failures is not None:
        yield Family.single(FAILURES, status.file_failures)
        yield Family.single(GOOD, int(status.file_is_good))
