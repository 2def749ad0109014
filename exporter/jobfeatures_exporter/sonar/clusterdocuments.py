"""Makes the documents in Sonar's format that the controller role sends: on jobs and on nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from jobfeatures.batch.source import ClusterSource
from jobfeatures.errors import ParseError, SourceError
from jobfeatures.formats.sonar.envelopes import (
    CLUSTER,
    JOBS,
    Document,
    Origin,
    data_envelope,
    timestamp,
    unicode_text,
)
from jobfeatures.formats.sonar.writejobs import job_fields, jobs_document
from jobfeatures.joblogs.loggedjob import JobRecord, queue_pairs, record_of
from jobfeatures.records.combining import grouped
from jobfeatures.records.model import Cluster, JobState, JobTable
from jobfeatures.records.nodelist import fold_ranges
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.cluster.accountingfeed import AccountingFeed
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.jobchanges import JobChanges
from jobfeatures_exporter.sonar.sender import Sender

log = logging.getLogger(__name__)

SLURM = "slurm"
RECORDS_PER_DOCUMENT = 1000  # sinks and consumers bound the size of a message
MIN_OVERLAP_SECS = 600.0
MAX_HISTORY_SECS = 7 * 86400.0


class JobsDocuments:
    """Makes documents on one batch system's jobs, from its accounting.

    Jobs that accounting does not have yet are taken from the queue.
    """

    def __init__(
        self,
        origin: Origin,
        source: ClusterSource | AccountingFeed,
        clock: Clock,
        *,
        history_secs: float,
        overlap_secs: float = MIN_OVERLAP_SECS,
        queue: Callable[[], JobTable | None],
        changes: JobChanges | None = None,
    ) -> None:
        """Prepare to query `history_secs` back at first, then from `overlap_secs` before the last answer.

        Without `changes`, everything is sent each time.
        """
        self._origin = origin
        self._source = source
        self._clock = clock
        self._history_secs = history_secs
        self._overlap_secs = overlap_secs
        self._queue = queue
        self._changes = changes
        self._answered_secs: float | None = None
        self._complaint = ""

    def make(self) -> list[Document]:
        """Query the jobs; return documents of what has changed, an empty one if nothing has.

        Raises SourceError if the batch system cannot be queried.
        """
        taken_at_secs = self._clock.now_secs()
        records = list(self._records(taken_at_secs))
        chunks = [
            records[start : start + RECORDS_PER_DOCUMENT]
            for start in range(0, len(records), RECORDS_PER_DOCUMENT)
        ]
        return [jobs_document(self._origin, chunk, taken_at_secs) for chunk in chunks or [[]]]

    def make_one(self) -> Document:
        """Query the jobs; return all of them in one document. Raises SourceError as `make` does."""
        taken_at_secs = self._clock.now_secs()
        return jobs_document(self._origin, self._records(taken_at_secs), taken_at_secs)

    def _records(self, taken_at_secs: float) -> Iterator[Document]:
        lost = 0
        for record in self._found(taken_at_secs):
            try:
                fields = job_fields(self._origin, record)
            except ParseError as error:
                if not lost:  # there may be a hundred thousand of them
                    log.warning(
                        "job is left out of the document: %s", error, extra={"job_id": record.key.job_id}
                    )
                lost += 1
                continue
            new = fields if self._changes is None else self._changes.changes(fields)
            if new is not None:
                yield new
        if lost > 1:
            log.warning("%d jobs of this answer are left out of the document", lost)
        if self._changes is not None:
            self._changes.end_round()

    def _found(self, taken_at_secs: float) -> list[JobRecord]:
        table = self._queue()
        try:
            accounting = self._source.poll_accounting(self._since_secs(taken_at_secs))
        except SourceError as error:
            if table is None or not table.jobs:  # an empty report would mean that there are no jobs
                raise
            if str(error) != self._complaint:  # once, not each time: a cluster may keep no accounting
                log.warning("accounting cannot be read, so jobs are taken from the queue alone: %s", error)
            self._complaint = str(error)
            return list(queue_records(table))
        self._complaint = ""
        self._answered_secs = accounting.taken_at_secs
        for rejected in accounting.rejected:
            log.warning("accounting record skipped: %s", rejected, extra={"source": self._source.name})
        if table is None:
            return list(accounting.records)
        known = {record.key for record in accounting.records}
        queued = [each for each in queue_records(table) if each.key not in known]
        return [*(_with_queue(each, table) for each in accounting.records), *queued]

    def _since_secs(self, now_secs: float) -> float:
        if self._answered_secs is None:
            return now_secs - self._history_secs
        return max(now_secs - MAX_HISTORY_SECS, self._answered_secs - self._overlap_secs)


def add_cluster_documents(
    sender: Sender,
    config: SonarSettings,
    source: ClusterSource | AccountingFeed,
    clock: Clock,
    *,
    history_secs: float,
    queue: Callable[[], JobTable | None],
    cluster: Callable[[], Cluster | None],
) -> None:
    """Have a sender send the jobs and cluster documents of one batch system periodically.

    Accounting is first queried for the last `history_secs`. `queue` and `cluster` return the latest answers
    on the queue and the nodes (None: none yet).
    """
    jobs = JobsDocuments(
        sender.origin,
        source,
        clock,
        history_secs=history_secs,
        # To find jobs that ended between two rounds or reached accounting late.
        overlap_secs=max(MIN_OVERLAP_SECS, 2 * config.jobs_interval_secs),
        queue=queue,
        changes=None if config.jobs_stateless else JobChanges(),
    )

    def make_cluster() -> list[Document]:
        found = cluster()
        if found is None:
            raise SourceError("the batch system has not reported its nodes yet")
        return [cluster_document(sender.origin, found)]

    sender.add(JOBS, config.jobs_interval_secs, jobs.make)
    sender.add(CLUSTER, config.cluster_interval_secs, make_cluster)


def queue_records(table: JobTable) -> Iterator[JobRecord]:
    """Yield the jobs of a queue as accounting would report them, for a cluster that keeps no accounting."""
    for job in table.jobs.values():
        if job.state is not JobState.UNKNOWN:
            yield record_of(
                job, requested_nodes=job.total_nodes, requested_cpus=job.total_cpus, more=queue_pairs(job)
            )


def _with_queue(record: JobRecord, table: JobTable) -> JobRecord:
    """Return an accounting record, completed by the fields that only the queue has."""
    job = table.jobs.get(record.key) if record.step is None else None
    more = () if job is None else queue_pairs(job)
    return replace(record, more=(*record.more, *more)) if more else record


def cluster_document(origin: Origin, cluster: Cluster) -> Document:
    """Return the envelope (Sonar's outer object) of partitions and node states.

    Nodes in the same states are grouped as compressed ranges. Raises ParseError for an invalid node name.
    Source: NEW-FORMAT.md, "ClusterEnvelope".
    """
    nodes_by_states = grouped(
        (tuple(unicode_text(state).upper() for state in node.states), node.name) for node in cluster.nodes
    )
    return data_envelope(
        origin,
        CLUSTER,
        {
            "time": timestamp(cluster.taken_at_secs, origin.zone),
            "cluster": origin.cluster,
            "slurm": cluster.source == SLURM,
            "partitions": [
                {"name": unicode_text(each.name), "nodes": list(fold_ranges(each.nodes))}
                for each in cluster.partitions
            ],
            "nodes": [
                {"names": list(fold_ranges(names)), "states": list(states)}
                for states, names in sorted(nodes_by_states.items())
            ],
        },
    )
