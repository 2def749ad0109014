"""The controller role: polls batch systems about the whole cluster. None of it runs on compute nodes.

One such process per cluster is enough. It needs a machine where the batch
system's commands work, and permission to see the jobs of all users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from jobfeatures.batch import CLUSTER_SYSTEMS
from jobfeatures.batch.source import AdministrationSource, AnswerT, ClusterSource, Keeper
from jobfeatures.errors import ConfigurationError
from jobfeatures.records.administration import AdministrationAnswer
from jobfeatures.records.model import Cluster, JobTable
from jobfeatures.records.schedulequality import ScheduleQuality
from jobfeatures.system.clock import Clock, SystemClock
from jobfeatures_exporter.cluster.accountingfeed import AccountingFeed
from jobfeatures_exporter.cluster.discovery import TargetGroup, make_targets
from jobfeatures_exporter.cluster.nodeanswers import NodeAnswers
from jobfeatures_exporter.cluster.sums import ClusterSums, QueueSums, compute_cluster_sums, compute_queue_sums
from jobfeatures_exporter.config import AUTO, ExporterConfig
from jobfeatures_exporter.controller.livequality import LiveQuality
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.statuses import LastReload, WebStatus
from jobfeatures_exporter.privacy.hiding import make_privacy
from jobfeatures_exporter.scrape.collectors import collect
from jobfeatures_exporter.service.reload import SettingsChange
from jobfeatures_exporter.service.supervision import describe_problems, describe_sources
from jobfeatures_exporter.sonar.clusterdocuments import SLURM, add_cluster_documents
from jobfeatures_exporter.sonar.sender import make_sender
from jobfeatures_exporter.web.asked import FRONT, AskedPage

STOP_SECS = 2.0

# Administrative data besides queue and nodes, by collector; disabled collectors cause no queries.
QUESTIONS: dict[str, Callable[[AdministrationSource], Callable[[], AdministrationAnswer]]] = {
    "scheduler": lambda source: source.poll_scheduler,
    "licences": lambda source: source.poll_licences,
    "fairshare": lambda source: source.poll_shares,
    "reservations": lambda source: source.poll_reservations,
}
RARELY = {"fairshare": 5, "reservations": 5}  # times controller.interval; the others at each interval


@dataclass
class ClusterBoard:
    """The controller's latest sums over queues and nodes, and the outcome of its latest settings reload.

    Threads replace each field by one assignment, so that readers need no lock.
    """

    reload: LastReload
    queue_sums: tuple[QueueSums, ...] = ()
    cluster_sums: tuple[ClusterSums, ...] = ()


class Controller:
    """Runs the controller role: queries batch systems in threads, makes metrics and pages of the answers."""

    def __init__(self, config: ExporterConfig, clock: Clock | None = None) -> None:
        """Make all parts; start nothing. Raises ConfigurationError if no batch system can be polled."""
        self._config = config
        self._clock = clock or SystemClock()
        self._privacy = make_privacy(config.privacy)
        self.sources = make_cluster_sources(config, self._clock)
        self._queues: list[Keeper[JobTable]] = [
            self._keep(f"{source.name}-queue", source.poll_queue, self._queues_changed)
            for source in self.sources
        ]
        self._clusters: list[Keeper[Cluster]] = [
            self._keep(f"{source.name}-nodes", source.poll_cluster, self._clusters_changed)
            for source in self.sources
        ]
        self._administration: list[Keeper[AdministrationAnswer]] = [
            self._keep(f"{source.name}-{name}", ask_of(source), times=RARELY.get(name, 1))
            for source in self.sources
            if isinstance(source, AdministrationSource)
            for name, ask_of in QUESTIONS.items()
            if name in config.enabled_collectors()
        ]
        self.node_answers: NodeAnswers | None = None  # of the first batch system
        if config.cluster.listen is not None:
            self.node_answers = NodeAnswers(
                self.sources[0],
                self._queues[0],
                self._clock,
                interval_secs=config.cluster.interval_secs,
                timeout_secs=config.cluster.timeout_secs,
            )
        self.board = ClusterBoard(LastReload(successful=True, success_secs=self._clock.now_secs()))
        self._sender = (
            make_sender(config.sonar, config.shared.node.name, self._privacy, self._clock)
            if config.sonar.sinks.chosen
            else None
        )
        self._qualities: list[LiveQuality] = []
        self._schedules: list[Keeper[ScheduleQuality]] = []
        for source, queue, cluster in zip(self.sources, self._queues, self._clusters, strict=True):
            self._use_accounting(source, queue, cluster)

    def _use_accounting(
        self, source: ClusterSource, queue: Keeper[JobTable], cluster: Keeper[Cluster]
    ) -> None:
        """Use accounting for schedule quality and for documents. Raises ConfigurationError.

        Of batch systems, Sonar's format has job records of Slurm alone.
        """
        config, watches_schedule = self._config, "schedule" in self._config.enabled_collectors()
        sender = self._sender if source.name == SLURM else None
        feed = AccountingFeed(source)
        if watches_schedule:
            quality = LiveQuality(
                source,
                self._clock,
                config,
                feed=feed,
                fed_secs=None if sender is None else config.sonar.jobs_interval_secs,
                queue=queue,
                cluster=cluster,
            )
            self._qualities.append(quality)
            self._schedules.append(self._keep(f"{source.name}-schedule", quality.ask))
        if sender is not None:
            add_cluster_documents(
                sender,
                config.sonar,
                feed if watches_schedule else source,  # nobody else would take the answers
                self._clock,
                history_secs=config.cluster.history_secs,
                queue=lambda: queue.status.table,
                cluster=lambda: cluster.status.table,
            )

    def _keep(
        self, name: str, ask: Callable[[], Any], on_change: Callable[[], None] = lambda: None, times: int = 1
    ) -> Keeper[Any]:
        interval_secs = self._config.cluster.interval_secs * times
        return Keeper(
            name,
            ask,
            interval_secs=interval_secs,
            min_interval_secs=interval_secs / 2,
            on_change=on_change,
            clock=self._clock,
        )

    def _queues_changed(self) -> None:
        self.board.queue_sums = tuple(compute_queue_sums(table) for table in last_answers(self._queues))
        for keeper in self._schedules:
            keeper.refresh()
        if self.node_answers is not None:
            self.node_answers.refresh()

    def _clusters_changed(self) -> None:
        self.board.cluster_sums = tuple(
            compute_cluster_sums(cluster) for cluster in last_answers(self._clusters)
        )

    # --- life -------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads that poll batch systems and send Sonar documents."""
        for keeper in self._keepers():
            keeper.start()
        if self._sender is not None:
            self._sender.start()

    def stop(self) -> None:
        """Stop the controller's threads; a query that hangs is abandoned."""
        if self._sender is not None:
            self._sender.stop()
        for quality in self._qualities:
            quality.stop()
        for timeout_secs in (0.0, STOP_SECS):  # tell all to stop before waiting for any
            for keeper in self._keepers():
                keeper.stop(timeout_secs)

    @property
    def is_ready(self) -> bool:
        """Return whether each query for a queue or nodes has succeeded or failed at least once."""
        asked: list[Keeper[Any]] = [*self._queues, *self._clusters]
        return all(map(_was_asked, asked))

    def problems(self) -> list[str]:
        """Return a line for each query that has not been answered yet, or fails."""
        return describe_problems((keeper.status for keeper in self._keepers()), self._clock.now_secs())

    def stalled(self) -> list[str]:
        """Return the names of queries whose thread has died.

        A query that takes long does not count: its thread is not at fault.
        """
        return self.dead()

    def dead(self) -> list[str]:
        """Return the names of queries whose thread has died."""
        return [f"source {keeper.status.name}" for keeper in self._keepers() if keeper.has_died]

    def summary(self) -> str:
        """Return a one-line status of the controller's queries, which names no job or user."""
        return describe_sources(keeper.status for keeper in self._keepers())

    def reconfigure(self, change: SettingsChange) -> None:
        """Apply the settings in `change`, which holds new ones only where no restart is needed."""
        self._config = change.config

    def _keepers(self) -> Iterator[Keeper[Any]]:
        yield from self._queues
        yield from self._clusters
        yield from self._schedules
        yield from self._administration
        if self.node_answers is not None:
            yield self.node_answers.keeper

    # --- what is known ------------------------------------------------------------

    def exposition(self, *, openmetrics: bool, web: WebStatus | None = None) -> bytes:
        """Return the controller's metrics page, from the last good answer to each query.

        It is in the OpenMetrics format if `openmetrics`, else in Prometheus' text format.
        """
        return render(collect(self.context(web), self._config.enabled_collectors()), openmetrics=openmetrics)

    def html(self, asked: AskedPage = FRONT) -> str | None:
        """Return the controller's HTML page; None if a job's page is asked for: only nodes have those."""
        if asked.job_id:
            return None
        from jobfeatures_exporter.cluster.overview import compute_cluster_view, find_jobs
        from jobfeatures_exporter.web.pages.controller import render_controller

        context = self.context()
        reported = zip(self.sources, self._queues, self._clusters, strict=True)
        views = [
            compute_cluster_view(
                source.name, queue.status.table, cluster.status.table, now_secs=context.now_secs
            )
            for source, queue, cluster in reported
        ]
        families = collect(context, self._config.enabled_collectors())
        found = find_jobs(last_answers(self._queues), asked.find, self._privacy.job)
        return render_controller(
            context, families, views, found=found, find=asked.find, node_url=self._config.web.node_url
        )

    def context(self, web: WebStatus | None = None) -> Context:
        """Return what a scrape shows: the last good answer to each query, of any age.

        `web` is the status of the HTTP listeners.
        """
        found = Context(
            now_secs=self._clock.now_secs(),
            sources=tuple(keeper.status for keeper in self._keepers()),
            reload=self.board.reload,
            queues=self.board.queue_sums,
            clusters=self.board.cluster_sums,
            schedules=tuple(last_answers(self._schedules)),
            administration=tuple(last_answers(self._administration)),
            top_users=self._config.schedule_top_users,
            sinks=self._sender.sinks if self._sender is not None else (),
            faulty=self._sender.faulty if self._sender is not None else {},
            web=web,
        )
        return self._privacy.context(found)

    def targets(self) -> list[TargetGroup] | None:
        """Return the nodes to scrape, for Prometheus' service discovery; None while they are not all known.

        That is until each batch system has answered or failed, and at least one has reported nodes:
        Prometheus replaces its whole list, and would drop the nodes of a system that is still being queried.
        """
        clusters = list(last_answers(self._clusters))
        if not clusters or not all(map(_was_asked, self._clusters)):
            return None
        return make_targets(
            clusters,
            port=self._config.cluster.sd_port,
            host=self._config.cluster.sd_host,
            skip=self._config.cluster.sd_skip,
        )


def _was_asked(keeper: Keeper[Any]) -> bool:
    """Return whether its first query has ended, with an answer or without."""
    return keeper.status.table is not None or keeper.status.failures > 0


def last_answers(keepers: Iterable[Keeper[AnswerT]]) -> Iterator[AnswerT]:
    """Yield the last good answer of each query that has been answered."""
    for keeper in keepers:
        if (table := keeper.status.table) is not None:
            yield table


def make_cluster_sources(config: ExporterConfig, clock: Clock) -> list[ClusterSource]:
    """Return the batch systems to query, as the setting batch.sources selects them.

    Raises ConfigurationError if there is none, or one of them cannot report a whole cluster.
    """
    asked = [name for name in dict.fromkeys(config.polling.sources) if name != AUTO]
    for name in asked:
        if name not in CLUSTER_SYSTEMS:
            raise ConfigurationError(
                "batch.sources",
                f"{name} cannot list the jobs of a whole cluster, as the controller role needs: leave it "
                f"out, or name one of {', '.join(sorted(CLUSTER_SYSTEMS))}",
            )
    if AUTO in config.polling.sources:
        asked += [
            name
            for name, each in CLUSTER_SYSTEMS.items()
            if name not in asked and each.is_here(config.of_system(name))
        ]
    if not asked:
        raise ConfigurationError(
            "batch.sources",
            "the controller role needs a batch system, but none is found here of "
            f"{', '.join(CLUSTER_SYSTEMS)}",
        )
    return [
        CLUSTER_SYSTEMS[name].make_cluster_source(config.of_system(name), clock, config.cluster.timeout_secs)
        for name in asked
    ]
