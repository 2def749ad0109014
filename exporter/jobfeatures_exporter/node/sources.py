"""The batch sources of a node, which are its batch systems and the records of hooks, and their polling."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from functools import partial

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.source import BatchSource, Keeper
from jobfeatures.errors import JobfeaturesError
from jobfeatures.hooks.actions import node_name
from jobfeatures.publish.drainstore import DrainStore
from jobfeatures.publish.hooksource import HookSource
from jobfeatures.records.model import Job, JobKey, JobTable
from jobfeatures.status.keeper import StatusKeeper
from jobfeatures.system.clock import Clock
from jobfeatures.system.rounds import Rounds
from jobfeatures_exporter.config import AUTO, ExporterConfig
from jobfeatures_exporter.node.knowledge import Knowledge
from jobfeatures_exporter.node.nodeboard import NodeBoard
from jobfeatures_exporter.node.publishingloop import PublishingLoop
from jobfeatures_exporter.service.supervision import describe_problems

log = logging.getLogger(__name__)

FIRST_SAMPLE_SECS = 5.0  # before controllers are queried, so that the queries can name the jobs found here
LOCAL_MIN_INTERVAL_SECS = 0.2  # between two polls of a folder
STOP_SECS = 5.0  # for all queries in progress together to end


class NodeSources:
    """Polls each batch source by a `Keeper` of its own; a reload keeps their answers and counters."""

    def __init__(
        self,
        board: NodeBoard,
        knowledge: Knowledge,
        statuses: StatusKeeper,
        publishing: PublishingLoop | None,
        rounds: Rounds,
    ) -> None:
        """Make the sources; raise ConfigurationError if one cannot be queried as the settings say.

        `rounds` is the thread that reads what hooks leave; other sources, which may hang, have their own.
        """
        self._board = board
        self._knowledge = knowledge
        self._statuses = statuses
        self._publishing = publishing
        self._drains_lock = threading.Lock()
        self._rounds = rounds
        self._published: Collection[JobKey] = frozenset()
        self._expected: frozenset[str] = frozenset()  # not found at the start, but with jobs here
        self._left: frozenset[str] = frozenset()  # not found at the start, but with empty groups here
        self._replacing = threading.Lock()
        board.keepers = self._make(board.config)

    def start(self) -> None:
        """Start polling."""
        for keeper in self._board.keepers:
            keeper.start()

    def stop(self) -> None:
        """Stop polling; a query that hangs is abandoned after some seconds."""
        for keeper in self._board.keepers:
            keeper.stop(0.0)  # signal all before waiting for any
        deadline = self._board.clock.monotonic_secs() + STOP_SECS
        for keeper in self._board.keepers:
            keeper.stop(max(0.0, deadline - self._board.clock.monotonic_secs()))

    def prepare(self, config: ExporterConfig) -> Callable[[], None]:
        """Make the sources that new settings name; return a function that replaces the present ones by these.

        Raises ConfigurationError if one cannot be queried as the settings say.
        """
        made = self._make(config)

        def replace() -> None:
            with self._replacing:
                self.stop()
                known = {keeper.status.name: keeper.status for keeper in self._board.keepers}
                for keeper in made:
                    keeper.status = known.get(keeper.status.name, keeper.status)
                self._board.keepers = made
                self._expected &= self._board.source_names  # one that came meanwhile is to be found again
                self.start()

        return replace

    def refresh(self, names: Collection[str], empty: Collection[str] = ()) -> None:
        """Poll the batch systems in `names` and `empty` at once, within their rate limits.

        All of them have control groups here of jobs that they have not reported: those in `names` a group
        with processes, those in `empty` only groups without. With batch.sources set to auto, a system in
        `names` that was not found at the start is polled from now on. A system in `empty` is not: it may have
        been uninstalled.
        """
        is_auto = AUTO in self._board.config.polling.sources
        kept = {keeper.status.name: keeper for keeper in self._board.keepers}
        for name in {*names, *empty}:
            if name in kept:
                kept[name].refresh()
            elif not is_auto or name not in SYSTEMS or name in self._expected:
                continue
            elif name in names:
                self._expect(name)
            elif name not in self._left:
                self._left |= {name}
                log.warning(
                    "an empty control group named like a %s job's is ignored, as %s was not found on this "
                    "node: if it is in use here, name it in batch.sources",
                    *(name, name),
                    extra={"source": name},
                )

    def refresh_in_haste(self, names: Collection[str]) -> None:
        """Poll these batch sources again without delay, because a job is starting."""
        for keeper in self._board.keepers:
            if keeper.status.name in names:
                keeper.refresh(in_haste=True)

    def _expect(self, name: str) -> None:
        with self._replacing:
            self._expected |= {name}
            log.warning(
                "this batch system was not found at the start, but has jobs here: it is queried from now on",
                extra={"source": name},
            )
            board, config = self._board, self._board.config
            source = make_source(name, config, board.clock, board.node_name)
            keeper = self._keep(source, config.polling.interval_secs)
            board.keepers = [*board.keepers, keeper]
            keeper.start()

    @property
    def have_been_asked(self) -> bool:
        """Return whether each batch source has answered or failed at least once."""
        return all(status.table is not None or status.failures for status in self._board.sources)

    def problems(self) -> list[str]:
        """Return a line for each batch source that has not answered yet, or fails."""
        return describe_problems(self._board.sources, self._board.clock.now_secs())

    def dead(self) -> list[str]:
        """Return the names of batch sources whose thread has died."""
        return [f"source {keeper.status.name}" for keeper in self._board.keepers if keeper.has_died]

    def _make(self, config: ExporterConfig) -> list[Keeper[JobTable]]:
        """Return a keeper for each source; if two know a job, the later one counts."""
        board, made = self._board, list[BatchSource]()
        if config.features_publish:
            made.append(HookSource(board.tree.records_path, board.clock))
        if config.shared.site.machine.metadata_url is not None:
            from jobfeatures.publish.cloudsource import CloudSource  # an HTTP client is half of this package

            location = DrainStore(board.tree).read_cloud_location
            made.append(CloudSource(config.shared.site.machine.metadata_url, board.clock, location=location))
        names = chosen_systems(config, self._expected)
        made += [make_source(name, config, board.clock, board.node_name) for name in names]
        return [self._keep(source, config.polling.interval_secs) for source in made]

    def _keep(self, source: BatchSource, interval_secs: float) -> Keeper[JobTable]:
        # A source that is queried job by job cannot be queried before the first sample.
        first_secs = 0.0 if source.is_local else FIRST_SAMPLE_SECS
        return Keeper(
            source.name,
            partial(self._poll, source),
            interval_secs=interval_secs,
            min_interval_secs=LOCAL_MIN_INTERVAL_SECS if source.is_local else interval_secs,
            watch=source.watch,
            on_change=self.update_jobs,
            clock=self._board.clock,
            before_first=partial(self._board.samples.wait_for_any, first_secs),
            rounds=self._rounds if isinstance(source, HookSource) else None,
        )

    def update_jobs(self) -> None:
        """Update the board's jobs by the sources' latest answers; request that features are published."""
        self._knowledge.judge()
        self._knowledge.request_sample_if_unseen()
        if self._publishing is not None:
            self._publishing.round.want()
        else:
            with self._drains_lock:
                self._board.drains.refresh(self._board.tables(), self._board.source_names)
        self._statuses.refresh()

    def _poll(self, source: BatchSource) -> JobTable:
        living, empty = self._knowledge.seen()
        return source.poll_jobs(living, {*self._claimed(), *empty})

    def _claimed(self) -> Collection[JobKey]:
        """Return the jobs that have directories; if these cannot be listed, the last result."""
        try:
            self._published = self._board.tree.published().keys()
        except OSError as error:
            log.warning("the folders of published jobs cannot be listed: %s", error)
        return self._published


def chosen_systems(config: ExporterConfig, expected: Collection[str] = ()) -> list[str]:
    """Return the batch systems that batch.sources names; for auto, those found here or in `expected`."""
    named, is_auto = config.polling.sources, AUTO in config.polling.sources
    return [
        name
        for name, each in SYSTEMS.items()
        if name in named or (is_auto and (name in expected or each.is_here(config.of_system(name))))
    ]


def make_source(name: str, config: ExporterConfig, clock: Clock, node_name: str) -> BatchSource:
    """Return the source that queries the batch system `name` on this node.

    Raises ConfigurationError if a setting that it needs is missing or invalid.
    """
    return SYSTEMS[name].make_source(config.of_system(name), clock, node_name)


def confirm_jobs(config: ExporterConfig, clock: Clock, unconfirmed: Collection[JobKey]) -> dict[JobKey, Job]:
    """Query the batch systems about the jobs in `unconfirmed`; return those that run on this node.

    The control groups of these jobs count only once their batch system confirms them. A batch system that
    does not answer is logged and left out.
    """
    confirmed: dict[JobKey, Job] = {}
    for name in sorted({each.batch_system for each in unconfirmed}.intersection(chosen_systems(config))):
        try:
            table = make_source(name, config, clock, node_name(config.shared.node.name, {})).poll_jobs(
                (), unconfirmed
            )
        except (JobfeaturesError, OSError) as error:
            log.warning("cannot find out which jobs run here: %s", error, extra={"source": name})
        else:
            confirmed.update((key, job) for key, job in table.jobs.items() if job.state.is_on_node)
    return confirmed
