"""Collector in the controller role: how busy the batch system's controller is, as it reports itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobfeatures.records.administration import Cycles, Scheduler
from jobfeatures.records.metrics import Metric, counter, gauge
from jobfeatures_exporter.families.exposition import Family, Number
from jobfeatures_exporter.model.context import Context

REQUESTS = counter(
    "batch_scheduler_requests",
    "Requests (RPCs) that the controller served, by type.",
    ("batch_system", "type"),
)
REQUEST_SECS = counter(
    "batch_scheduler_request_seconds", "Time that the controller took for these.", ("batch_system", "type")
)
USER_REQUESTS = counter(
    "batch_scheduler_user_requests",
    "Requests of the users that took most of its time (schedule.top_users).",
    ("batch_system", "user"),
)
USER_REQUEST_SECS = counter(
    "batch_scheduler_user_request_seconds",
    "Time that the controller took for these.",
    ("batch_system", "user"),
)
THREADS = gauge("batch_scheduler_threads", "Threads of the controller that serve.", ("batch_system",))
QUEUED = gauge(
    "batch_scheduler_queued_messages",
    "Messages of the controller that wait to be sent: to nodes (agent), to accounting.",
    ("batch_system", "to"),
)
JOBS = counter(
    "batch_scheduler_jobs",
    "Jobs submitted, started, completed, canceled and failed.",
    ("batch_system", "event"),
)
BACKFILLED = counter("batch_scheduler_backfilled_jobs", "Jobs started by backfilling.", ("batch_system",))
_BY = ("batch_system", "scheduler")
CYCLES = counter("batch_scheduler_cycles", "Scheduling cycles.", _BY)
CYCLE_SECS = gauge(
    "batch_scheduler_cycle_seconds",
    "How long scheduling cycles take: the last, their mean, the longest (max).",
    (*_BY, "statistic"),
)
DEPTH = gauge("batch_scheduler_cycle_depth_jobs", "Mean number of jobs that a cycle considers.", _BY)
QUEUE = gauge("batch_scheduler_queue_jobs", "Pending jobs that the last cycle found.", _BY)

_OF_CYCLES: dict[Metric, Callable[[Cycles], Number | None]] = {
    CYCLES: lambda each: each.count,
    DEPTH: lambda each: each.mean_depth_jobs,
    QUEUE: lambda each: each.queue_jobs,
}
_STATISTICS: dict[str, Callable[[Cycles], Number | None]] = {
    "last": lambda each: each.last_secs,
    "mean": lambda each: each.mean_secs,
    "max": lambda each: each.max_secs,
}
METRICS = (
    *(REQUESTS, REQUEST_SECS, USER_REQUESTS, USER_REQUEST_SECS, THREADS, QUEUED, JOBS, BACKFILLED),
    *(*_OF_CYCLES, CYCLE_SECS),
)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about the load of each batch system's scheduler."""
    found = [each for each in context.administration if isinstance(each, Scheduler)]
    types = [((one.source, each.name), each) for one in found for each in one.types]
    users = [
        ((one.source, each.name), each)
        for one in found
        for each in sorted(one.users, key=lambda user: (-user.total_secs, user.name))[: context.top_users]
    ]
    for count, secs, requests in ((REQUESTS, REQUEST_SECS, types), (USER_REQUESTS, USER_REQUEST_SECS, users)):
        yield Family(count, [(values, each.count) for values, each in requests])
        yield Family(secs, [(values, each.total_secs) for values, each in requests])
    yield Family.known(THREADS, [((one.source,), one.threads) for one in found])
    yield Family(QUEUED, [((one.source, to), each) for one in found for to, each in one.queued.items()])
    yield Family(JOBS, [((one.source, event), each) for one in found for event, each in one.jobs.items()])
    yield Family.known(BACKFILLED, [((one.source,), one.backfilled_jobs) for one in found])
    cycles = [((one.source, name), each) for one in found for name, each in one.cycles.items()]
    for metric, value in _OF_CYCLES.items():
        yield Family.known(metric, [(values, value(each)) for values, each in cycles])
    yield Family.known(
        CYCLE_SECS,
        [((*values, name), value(each)) for values, each in cycles for name, value in _STATISTICS.items()],
    )
