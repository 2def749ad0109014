"""The daemon: threads that sample the node, poll batch systems and keep the feature directories.

Each thread publishes its latest results by a single assignment. A scrape combines these results and takes no
lock that a working thread holds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from jobfeatures.status.keeper import StatusKeeper
from jobfeatures.system.clock import Clock, SystemClock
from jobfeatures.system.rounds import Rounds
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.statuses import WebStatus
from jobfeatures_exporter.node.hookrequests import HookServer
from jobfeatures_exporter.node.keptsettings import KeptSettings, WatchedSettings
from jobfeatures_exporter.node.knowledge import Knowledge
from jobfeatures_exporter.node.nodeboard import NodeBoard
from jobfeatures_exporter.node.nodepages import NodePages
from jobfeatures_exporter.node.publishingloop import PublishingLoop
from jobfeatures_exporter.node.samplingloop import SamplingLoop
from jobfeatures_exporter.node.sources import NodeSources
from jobfeatures_exporter.privacy.hiding import Privacy, make_privacy
from jobfeatures_exporter.sampling.bpf.choice import PROCFS_ALONE, Choice
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.service.reload import SettingsChange
from jobfeatures_exporter.service.supervision import describe_sources
from jobfeatures_exporter.web.asked import FRONT, AskedPage

if TYPE_CHECKING:
    from jobfeatures_exporter.sonar.sender import Sender

FRESH_SECS = 0.5  # scrapes that arrive together share one sample of the node
STOP_SECS = 5.0  # for all threads together to end


class Daemon:
    """Runs the threads of a node, and makes the metrics page and HTML pages from their latest results."""

    def __init__(
        self,
        config: ExporterConfig,
        clock: Clock | None = None,
        choose_reader: Callable[[], Choice] = lambda: PROCFS_ALONE,
        settings: WatchedSettings | None = None,
    ) -> None:
        """Make all parts; start nothing. Raises ConfigurationError.

        `choose_reader` returns how processes are read; it is called when most settings have been checked.
        The file of `settings`, if given, is checked at intervals, and a valid copy is kept for hooks.
        """
        clock = clock or SystemClock()
        self._privacy = make_privacy(config.privacy)
        self.board = board = NodeBoard(config, clock)
        knowledge = Knowledge(board)
        self._stopping = threading.Event()
        self._statuses = StatusKeeper(
            board.statuses, knowledge.status_targets, clock, interval_secs=config.sample_interval_secs
        )
        self.publishing = None
        if board.publisher is not None:
            self.publishing = PublishingLoop(board, board.publisher, knowledge, self._statuses)
        self._rounds = Rounds("rounds")  # of work on this node alone
        self._sources = NodeSources(board, knowledge, self._statuses, self.publishing, self._rounds)
        self._hooks = HookServer(board, self._sources, KeptSettings(settings, board) if settings else None)
        self.reader = choose_reader()
        self.sampling = SamplingLoop(
            board, knowledge, self._sources, self.publishing, self.reader, self._rounds
        )
        self._metrics = PageMaker(
            config.enabled_collectors(), config.metrics.profile, config.metrics.max_series
        )
        self.pages = NodePages(board, self._privacy, self._metrics, board.history)
        board.sender = _make_sender(board, self._privacy)
        loops = [("status", self._statuses.run)]
        if self.publishing is not None:
            loops.append(("hooks", self._hooks.run))
        threads = [threading.Thread(target=loop, name=name, daemon=True) for name, loop in loops]
        self._threads = [*self.sampling.threads, *threads]

    # --- life -------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads of the daemon."""
        if self.publishing is not None:
            self.publishing.prepare()
        self._sources.start()
        self.sampling.start()
        if self.publishing is not None:
            self._rounds.add(self.publishing.round)
        self._rounds.start()
        for thread in self._threads:
            if not thread.is_alive():
                thread.start()
        if self.board.sender is not None:
            self.board.sender.start()

    def stop(self) -> None:
        """Stop all threads of the daemon; do not wait for a thread that hangs in a system call."""
        self._stopping.set()
        self._hooks.stop()
        self._statuses.stop()
        self.sampling.stop()
        if self.board.sender is not None:
            self.board.sender.stop()
        self._rounds.stop(0.0)
        self._sources.stop()
        deadline = self.board.clock.monotonic_secs() + STOP_SECS
        self._rounds.stop(STOP_SECS)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self.board.clock.monotonic_secs()))

    @property
    def is_ready(self) -> bool:
        """Return whether the node has been sampled, and each batch source has answered or failed once."""
        return self.board.samples.snapshot is not None and self._sources.have_been_asked

    def wait_until_ready(self, most_secs: float) -> None:
        """Wait until the daemon is ready, for `most_secs` at most."""
        deadline = self.board.clock.monotonic_secs() + most_secs
        while not self.is_ready and self.board.clock.monotonic_secs() < deadline:
            self._stopping.wait(0.05)

    def problems(self) -> list[str]:
        """Return a line for each batch source that fails or has not answered, and one if no sample exists."""
        unread = [] if self.board.samples.snapshot else ["the node has not been read yet"]
        return unread + self._sources.problems()

    def stalled(self) -> list[str]:
        """Return the names of the daemon's threads that have died, and of the sampling thread if it hangs."""
        found = self.dead()
        return [*found, "sampling"] if self.sampling.is_late() and "sampling" not in found else found

    def dead(self) -> list[str]:
        """Return the names of the daemon's threads that have died."""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        return dead + self._sources.dead() + ["rounds"] * self._rounds.has_died

    def summary(self) -> str:
        """Return the daemon's status in one line, without names of jobs or users."""
        jobs = sum(job.state.is_on_node for job in self.board.jobs.values())
        return f"{jobs} jobs here; {describe_sources(self.board.sources)}"

    def reconfigure(self, change: SettingsChange) -> None:
        """Apply new settings and keep all counters.

        Raises ConfigurationError if they cannot be applied; then nothing has changed.
        """
        config = change.config
        replace_sources = self._sources.prepare(config) if change.concerns_sources else None
        self.board.reconfigure(config)
        self._metrics.reconfigure(
            config.enabled_collectors(), config.metrics.profile, config.metrics.max_series
        )
        self.sampling.reconfigure()
        self._hooks.reconfigure()
        if replace_sources is not None:
            replace_sources()
        self._sources.update_jobs()

    # --- what a scrape gets -------------------------------------------------------

    def exposition(self, *, openmetrics: bool, web: WebStatus | None = None) -> bytes:
        """Return the metrics page; `web` is the state of the HTTP listeners.

        It waits up to `scrape_deadline_secs` for a new sample of the node, then uses the latest one.
        """
        return self._metrics.render(self.context(web), openmetrics=openmetrics)

    def families(self) -> list[Family]:
        """Return the metric families that the metrics page shows; wait for a new sample like `exposition`."""
        return self._metrics.families(self.context())

    def context(self, web: WebStatus | None = None) -> Context:
        """Return the data that privacy settings let a scrape show; `web` is the HTTP listeners' state.

        It waits up to `scrape_deadline_secs` for a new sample of the node, then uses the latest one.
        """
        board = self.board
        board.samples.wait_for_fresh(FRESH_SECS, board.config.scrape_deadline_secs)
        context = board.context(web)
        board.shown = context.ended
        return self._privacy.context(context)

    def known(self) -> Context:
        """Return the data that a scrape may show, from the latest sample, without waiting for a new one."""
        return self._privacy.context(self.board.context())

    def html(self, asked: AskedPage = FRONT) -> str | None:
        """Return the HTML page `asked` for; None if it is the page of an unknown job."""
        return self.pages.html(asked)


def _make_sender(board: NodeBoard, privacy: Privacy) -> Sender | None:
    config = board.config
    if not config.sonar.sinks.chosen:
        return None
    from jobfeatures_exporter.sonar.sender import add_node_documents, make_sender

    sender = make_sender(config.sonar, config.shared.node.name, privacy, board.clock)
    add_node_documents(sender, config.sonar, config.path, board.clock, board.listing, board.unreadable)
    return sender
