"""Keeps the feature directories of jobs and of the machine up to date, announced drains included."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack

from jobfeatures.drains.drain import machine_shutdown
from jobfeatures.errors import JobfeaturesError
from jobfeatures.publish.publisher import Publisher
from jobfeatures.records.model import JobKey
from jobfeatures.status.keeper import StatusKeeper
from jobfeatures.system.rounds import Round
from jobfeatures.system.watch import watch_directory
from jobfeatures_exporter.node.knowledge import Knowledge, find_swap_limits
from jobfeatures_exporter.node.nodeboard import NodeBoard
from jobfeatures_exporter.node.supervised import supervised

log = logging.getLogger(__name__)

PUBLISH_INTERVAL_SECS = 60.0  # repairs what others have removed
PUBLISH_RETRY_SECS = 2.0  # no space, or read-only: nothing says when that is over


class PublishingLoop:
    """Updates the feature directories each time its `round` is run: on request, and at intervals."""

    def __init__(
        self, board: NodeBoard, publisher: Publisher, knowledge: Knowledge, statuses: StatusKeeper
    ) -> None:
        self._board = board
        self._publisher = publisher
        self._knowledge = knowledge
        self._statuses = statuses
        self.round = Round(self._do, close=self._unwatch)
        self._watching: ExitStack | None = None

    def prepare(self) -> None:
        """Make the feature directories and read what an earlier daemon published there; log a failure."""
        try:
            self._board.tree.prepare()
        except (JobfeaturesError, OSError) as error:  # the publisher retries and counts failures
            log.error("cannot make the folders of job features (features.root), and tries again: %s", error)
        else:
            self._knowledge.remember(self._publisher.remembered())

    def _do(self) -> float:
        if self._watching is None:
            self._watching = ExitStack()
            self._watching.enter_context(watch_directory(self._board.tree.drains_path, self.round.want))
        self.publish()
        return self.wait_secs()

    def _unwatch(self) -> None:
        if self._watching is not None:
            self._watching.close()

    def wait_secs(self) -> float:
        """Return the seconds until the next update of the feature directories, 60 at most.

        It is less after a failure, and if the machine is to shut down before: the features of the 2014 draft
        must not name the shutdown time once it has passed.
        """
        if not self._publisher.status.is_complete:
            return PUBLISH_RETRY_SECS
        view = self._board.drains.view
        shutdown = machine_shutdown(view.drains, view.announced)
        left = PUBLISH_INTERVAL_SECS if shutdown is None else shutdown - self._board.clock.now_secs()
        return min(left, PUBLISH_INTERVAL_SECS) if left > 0 else PUBLISH_INTERVAL_SECS

    def publish(self) -> None:
        """Update the feature directories, in steps; if one step fails, the others are done all the same."""
        board = self._board
        with supervised("reading drains"):
            board.drains.refresh(board.tables(), board.source_names)
        with supervised("listing published jobs"):
            self._judge(board.tree.published())
        with supervised("publishing"):
            limits = find_swap_limits(board.samples.snapshot)
            self._publisher.update(board.known_jobs, board.drains.view, limits)
        if self._knowledge.note_epilogs(self._publisher.take_withdrawn()):
            self._judge()
            self._knowledge.request_sample_if_unseen()
            self.round.want()
        with supervised("removing drains of ended jobs"):
            board.drains.forget_ended(board.jobs, board.tree.published())
        self._statuses.refresh()  # directories may have been created

    def _judge(self, published: Mapping[JobKey, float] | None = None) -> None:
        if self._knowledge.judge(published):
            self.round.want()
