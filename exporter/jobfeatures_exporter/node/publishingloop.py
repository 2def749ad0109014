"""The thread that keeps the feature directories, and what is announced in them: drains, statuses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack

from jobfeatures.drains.drain import machine_shutdown
from jobfeatures.errors import JobfeaturesError
from jobfeatures.publish.drainbook import DrainBook
from jobfeatures.publish.publisher import Publisher
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey, JobTable
from jobfeatures.system.clock import Clock
from jobfeatures.system.rounds import Round
from jobfeatures.system.watch import watch_directory
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.node.supervised import supervised
from jobfeatures_exporter.state.knowledge import Knowledge, find_swap_limits

log = logging.getLogger(__name__)

PUBLISH_INTERVAL_SECS = 60.0  # repairs what others have removed
PUBLISH_RETRY_SECS = 2.0  # no space, or read-only: nothing says when that is over


class PublishingLoop:
    """Brings the directories up to date when somebody wants it, and now and then: in its `round`.

    `judge` is told which directories there are, by job. `on_withdrawn` is called if epilogs were noticed,
    `on_published` after each round.
    """

    def __init__(
        self,
        publisher: Publisher,
        drains: DrainBook,
        tree: FeatureTree,
        clock: Clock,
        knowledge: Knowledge,
        *,
        tables: Callable[[], Collection[JobTable]],
        sources: Callable[[], Collection[str]],
        snapshot: Callable[[], Snapshot | None],
        judge: Callable[[Mapping[JobKey, float]], None],
        on_withdrawn: Callable[[], None],
        on_published: Callable[[], None],
    ) -> None:
        self.publisher = publisher
        self._drains = drains
        self.round = Round(self._do, close=self._unwatch)
        self._watching: ExitStack | None = None
        self._tree = tree
        self._clock = clock
        self._knowledge = knowledge
        self._tables = tables
        self._sources = sources
        self._snapshot = snapshot
        self._judge = judge
        self._on_withdrawn = on_withdrawn
        self._on_published = on_published

    def prepare(self) -> None:
        """Make the directories, and learn what an earlier daemon published."""
        try:
            self._tree.prepare()
        except (JobfeaturesError, OSError) as error:  # the publisher retries and counts failures
            log.error("cannot keep feature directories: %s", error)
        else:
            self._knowledge.remember(self.publisher.remembered())

    def _do(self) -> float:
        if self._watching is None:
            self._watching = ExitStack()
            self._watching.enter_context(watch_directory(self._tree.drains_path, self.round.want))
        self.publish()
        return self.wait_secs()

    def _unwatch(self) -> None:
        if self._watching is not None:
            self._watching.close()

    def wait_secs(self) -> float:
        """Return the time to the next round, cut at the machine's shutdown, which one profile withdraws."""
        if not self.publisher.status.is_complete:
            return PUBLISH_RETRY_SECS
        view = self._drains.view
        shutdown = machine_shutdown(view.drains, view.announced)
        left = PUBLISH_INTERVAL_SECS if shutdown is None else shutdown - self._clock.now_secs()
        return min(left, PUBLISH_INTERVAL_SECS) if left > 0 else PUBLISH_INTERVAL_SECS

    def publish(self) -> None:
        """Bring the directories up to date; a failure in one does not affect the others."""
        supervised("drains", lambda: self._drains.refresh(self._tables(), self._sources()))
        supervised("listing published jobs", lambda: self._judge(self._tree.published()))
        allowed = self._knowledge.roll, self._drains.view, find_swap_limits(self._snapshot())
        supervised("publishing", lambda: self.publisher.update(*allowed))
        if self._knowledge.note_epilogs(self.publisher.take_withdrawn()):
            self._on_withdrawn()
        supervised(
            "drains of ended jobs",
            lambda: self._drains.forget_ended(self._knowledge.jobs, self._tree.published()),
        )
        self._on_published()
