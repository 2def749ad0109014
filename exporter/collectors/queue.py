"""The queue of each batch system, by partition. Only the controller role knows it.

A job that may start in several partitions counts in each of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from exporter.context import Context
from exporter.exposition import Family, Metric, Sample, labels
from jobfeatures.model import Job, JobState, JobTable

_BY_STATE = ("batch_system", "partition", "state")
_BY_PARTITION = ("batch_system", "partition")

JOBS = Metric(
    "batch_queue_jobs",
    "gauge",
    "Jobs that have not ended, each task of an array one job; a job that may start in several partitions "
    "counts in each.",
    _BY_STATE,
)
CPUS = Metric("batch_queue_cpus", "gauge", "CPUs that these jobs ask for or have.", _BY_STATE)
NODES = Metric("batch_queue_nodes", "gauge", "Nodes that these jobs ask for or have.", _BY_STATE)
GPUS = Metric(
    "batch_queue_gpus",
    "gauge",
    "GPUs that these jobs ask for or have; absent where the batch system does not account for GPUs.",
    _BY_STATE,
)
REASONS = Metric(
    "batch_queue_pending_jobs",
    "gauge",
    "Pending jobs by the batch system's word for why they do not run; sentences count as other.",
    (*_BY_PARTITION, "reason"),
)
OLDEST = Metric(
    "batch_queue_oldest_wait_seconds",
    "gauge",
    "Longest time that a pending job has been allowed to start and has not; held jobs and those that wait "
    "for another job or a date are left out.",
    _BY_PARTITION,
    "seconds",
)
WAIT = Metric(
    "batch_queue_wait_seconds",
    "gauge",
    "Sum of these times over batch_queue_waiting_jobs.",
    _BY_PARTITION,
    "seconds",
)
WAITING = Metric(
    "batch_queue_waiting_jobs", "gauge", "Pending jobs that are allowed to start.", _BY_PARTITION
)

METRICS = (JOBS, CPUS, NODES, GPUS, REASONS, OLDEST, WAIT, WAITING)

ALWAYS = (JobState.PENDING, JobState.RUNNING)  # shown as 0 where there are none
OTHER = "other"

_WORD = re.compile(r"[A-Za-z_]{1,40}\Z")
_NOT_ELIGIBLE = re.compile(r"JobHeld|Dependency|BeginTime")


def families(context: Context) -> Iterator[Family]:
    """Yield the queues' families."""
    known = {cluster.source: [each.name for each in cluster.partitions] for cluster in context.clusters}
    queues = [_Queue(table, known.get(table.source, ()), context.now_secs) for table in context.queues]
    for metric, name in ((JOBS, "jobs"), (CPUS, "cpus"), (NODES, "nodes"), (GPUS, "gpus")):
        yield Family(metric, [each for queue in queues for each in queue.by_state(name)])
    yield Family(REASONS, [each for queue in queues for each in queue.by_reason()])
    yield Family(OLDEST, [each for queue in queues for each in queue.by_partition(queue.oldest)])
    yield Family(WAIT, [each for queue in queues for each in queue.by_partition(queue.wait)])
    yield Family(WAITING, [each for queue in queues for each in queue.by_partition(queue.waiting)])


class _Queue:
    """Sums over one table, by partition."""

    def __init__(self, table: JobTable, partitions: Sequence[str], now_secs: float) -> None:
        self._source = table.source
        self._sums: dict[str, Counter[tuple[str, str]]] = {
            name: Counter() for name in ("jobs", "cpus", "nodes", "gpus")
        }
        self._reasons: Counter[tuple[str, str]] = Counter()
        self.oldest: dict[str, float] = {}
        self.wait: dict[str, float] = {}
        self.waiting: dict[str, float] = {}
        for partition in partitions:
            for name in ("jobs", "cpus", "nodes"):
                self._sums[name].update(dict.fromkeys(((partition, each.value) for each in ALWAYS), 0))
            self.oldest[partition] = self.wait[partition] = self.waiting[partition] = 0
        for job in table.jobs.values():
            if not job.state.is_finished:
                for partition in dict.fromkeys((job.partition or "").split(",")):
                    self._add(job, partition, now_secs)

    def _add(self, job: Job, partition: str, now_secs: float) -> None:
        place = partition, job.state.value
        self._sums["jobs"][place] += job.tasks
        for name, value in (("cpus", job.total_cpus), ("nodes", job.total_nodes), ("gpus", job.total_gpus)):
            if value is not None:
                self._sums[name][place] += value * job.tasks
        if job.state is not JobState.PENDING:
            return
        reason = job.reason or ""
        self._reasons[partition, reason if _WORD.match(reason) else OTHER] += job.tasks
        since = job.eligible_secs if job.eligible_secs is not None else job.submit_secs
        if since is None or since > now_secs or _NOT_ELIGIBLE.match(reason):
            return
        self.oldest[partition] = max(self.oldest.get(partition, 0), now_secs - since)
        self.wait[partition] = self.wait.get(partition, 0) + (now_secs - since) * job.tasks
        self.waiting[partition] = self.waiting.get(partition, 0) + job.tasks

    def by_state(self, name: str) -> Iterator[Sample]:
        for (partition, state), value in self._sums[name].items():
            yield labels(batch_system=self._source, partition=partition, state=state), value

    def by_reason(self) -> Iterator[Sample]:
        for (partition, reason), value in self._reasons.items():
            yield labels(batch_system=self._source, partition=partition, reason=reason), value

    def by_partition(self, values: dict[str, float]) -> Iterator[Sample]:
        for partition, value in values.items():
            yield labels(batch_system=self._source, partition=partition), value
