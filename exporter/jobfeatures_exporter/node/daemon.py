"""The daemon: threads that keep the node, the batch sources and the feature directories up to date.

Each thread publishes its results by a single assignment; a scrape combines the
latest of each and takes no lock that a working thread holds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobfeatures.hooks.actions import node_name
from jobfeatures.publish.drainbook import DrainBook
from jobfeatures.publish.drainstore import DrainStore
from jobfeatures.publish.publisher import Publisher
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey
from jobfeatures.status.board import StatusBoard
from jobfeatures.status.directory import has_entry
from jobfeatures.status.keeper import StatusKeeper
from jobfeatures.system.clock import Clock, SystemClock
from jobfeatures.system.rounds import Rounds
from jobfeatures_exporter.config import DaemonConfig
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import Kind, Snapshot
from jobfeatures_exporter.model.statuses import LastReload, WebStatus
from jobfeatures_exporter.node.hookrequests import HookServer
from jobfeatures_exporter.node.nodepages import NodePages
from jobfeatures_exporter.node.publishingloop import PublishingLoop
from jobfeatures_exporter.node.samplingloop import SamplingLoop
from jobfeatures_exporter.node.sources import NodeSources, make_site
from jobfeatures_exporter.privacy.hiding import make_privacy
from jobfeatures_exporter.sampling.bpf.choice import PROCFS_ALONE, Choice
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.service.reload import Change
from jobfeatures_exporter.service.supervision import describe_sources
from jobfeatures_exporter.state.daemongroups import GroupReader
from jobfeatures_exporter.state.knowledge import Knowledge, manners_of
from jobfeatures_exporter.state.missinggroups import MissingGroups

if TYPE_CHECKING:
    from jobfeatures_exporter.sonar.sender import Sender

FRESH_SECS = 0.5  # scrapes that arrive together share one sample of the node
FIRST_LOOK_SECS = 5.0  # before controllers are queried, so that the queries can name the jobs found here
PROFILING = "profiling"  # a file in a job's $JOBSTATUS: the job wants the hardware counters for itself
STOP_SECS = 5.0  # for all threads together to end


class Daemon:
    """Everything that runs in the background, and the text that a scrape returns."""

    def __init__(
        self,
        config: DaemonConfig,
        clock: Clock | None = None,
        choose_reader: Callable[[], Choice] = lambda: PROCFS_ALONE,
    ) -> None:
        """`choose_reader` says how processes are read; it is called once the settings are known to agree."""
        self._config = config
        self._clock = clock = clock or SystemClock()
        self._privacy = make_privacy(config)
        self._name = node_name(config, {})
        self._tree = FeatureTree(config.features_root)
        self._site = make_site(config)
        self._knowledge = Knowledge(clock, manners_of(config))
        named = config.batch_cgroup_parents
        groups = GroupReader(config.path_procfs, config.path_cgroup, self._name, named)
        self._missing_groups = MissingGroups(clock, groups)
        self._stopping = threading.Event()
        self._board = StatusBoard(clock)
        self._statuses = StatusKeeper(
            self._board,
            lambda: self._knowledge.status_targets(self._tree),
            clock,
            interval_secs=config.sample_interval_secs,
        )
        self._rounds = Rounds("rounds")  # of work on this node alone
        self._sources = NodeSources(
            config,
            clock,
            self._name,
            self._tree,
            seen=lambda: self._knowledge.seen(self.sampling.looks.snapshot),
            on_change=self._tables_changed,
            first_look=lambda: self.sampling.looks.wait_for_any(FIRST_LOOK_SECS),
            rounds=self._rounds,
        )
        self.hooks = HookServer(self._tree, config, self._sources.refresh_in_haste)
        self.feature_answers: Mapping[int, int] = {}  # HTTP responses, by status
        self.web: Callable[[], WebStatus | None] = lambda: None  # of the daemon's listeners
        self.reload = LastReload(successful=True, success_secs=clock.now_secs())
        self._pages = PageMaker(
            config.enabled_collectors(), config.metrics_profile, config.metrics_max_series
        )
        self._drains_lock = threading.Lock()
        self._drains = DrainBook(DrainStore(self._tree) if config.features_publish else None, clock)
        self.publishing = self._make_publishing() if config.features_publish else None
        self.reader = choose_reader()
        self.sampling = SamplingLoop(
            config,
            clock,
            self._knowledge,
            self.reader,
            whole_node_jobs=lambda: self.all_known().whole_node_jobs,
            gives_up_counters=self._gives_up_counters,
            on_sample=self._sampled,
            rounds=self._rounds,
        )
        look = self.sampling.listing
        self._people = NodePages(config, self._privacy, self.known, self._pages.collected, look)
        self.html = self._people.html  # HTML pages
        self.own_html = self._people.own_html
        self._sender = self._make_sender()
        loops = [("status", self._statuses.run)]
        if self.publishing is not None:
            loops.append(("hooks", self.hooks.run))
        threads = [threading.Thread(target=loop, name=name, daemon=True) for name, loop in loops]
        self._threads = [*self.sampling.threads, *threads]

    def _make_publishing(self) -> PublishingLoop:
        return PublishingLoop(
            Publisher(self._tree, self._site, self._clock),
            self._drains,
            self._tree,
            self._clock,
            self._knowledge,
            tables=self._sources.tables,
            sources=lambda: self._sources.names,
            snapshot=lambda: self.sampling.looks.snapshot,
            judge=self._judge,
            on_withdrawn=self._tables_changed,
            on_published=self._statuses.refresh,  # directories may have been created
        )

    def _make_sender(self) -> Sender | None:
        if not self._config.sonar_sinks:
            return None
        from jobfeatures_exporter.sonar.sender import make_node_sender

        return make_node_sender(self._config, self._clock, self.sampling.listing, self.sampling.unreadable)

    # --- life -------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads."""
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
        if self._sender is not None:
            self._sender.start()

    def stop(self) -> None:
        """Stop all threads; one that hangs in the kernel is left behind."""
        self._stopping.set()
        self.hooks.stop()
        self._statuses.stop()
        self.sampling.stop()
        if self._sender is not None:
            self._sender.stop()
        self._rounds.stop(0.0)
        self._sources.stop()
        deadline = self._clock.monotonic_secs() + STOP_SECS
        self._rounds.stop(STOP_SECS)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self._clock.monotonic_secs()))

    @property
    def is_ready(self) -> bool:
        """Return whether the node has been sampled and every source has answered or failed."""
        return self.sampling.looks.snapshot is not None and self._sources.have_been_asked

    def wait_until_ready(self, most_secs: float) -> None:
        """Wait until the daemon is ready, for `most_secs` at most."""
        deadline = self._clock.monotonic_secs() + most_secs
        while not self.is_ready and self._clock.monotonic_secs() < deadline:
            self._stopping.wait(0.05)

    def problems(self) -> list[str]:
        """Return one line for each thing that has not been read yet or fails."""
        unread = [] if self.sampling.looks.snapshot else ["the node has not been read yet"]
        return unread + self._sources.problems()

    def stalled(self) -> list[str]:
        """Return the threads that have died, or that take too long to sample the node."""
        found = self.dead()
        return [*found, "sampling"] if self.sampling.is_late() and "sampling" not in found else found

    def dead(self) -> list[str]:
        """Return the threads that have died."""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        return dead + self._sources.dead() + ["rounds"] * self._rounds.has_died

    def summary(self) -> str:
        """Return a one-line status without names."""
        jobs = sum(job.state.is_on_node for job in self._knowledge.jobs.values())
        return f"{jobs} jobs here; {describe_sources(self._sources.statuses)}"

    def reconfigure(self, change: Change) -> None:
        """Apply new settings; counters continue. ConfigurationError: nothing has changed."""
        config = change.config
        replace_sources = self._sources.prepare(config) if change.concerns_sources else None
        self._site, self._config = make_site(config), config
        self._people.config = config
        self._pages.reconfigure(
            config.enabled_collectors(), config.metrics_profile, config.metrics_max_series
        )
        self.sampling.reconfigure(config)
        self.hooks.reconfigure(config)
        if self.publishing is not None:
            self.publishing.publisher.site = self._site
        if replace_sources is not None:
            replace_sources()
        self._tables_changed()

    def job(self, key: JobKey) -> Job | None:
        """Return what is known about a job."""
        return self._knowledge.jobs.get(key)

    # --- what a scrape gets -------------------------------------------------------

    def exposition(self, *, openmetrics: bool) -> bytes:
        """Return the metrics as text, from a fresh sample if it is complete within the deadline."""
        return self._pages.render(self.context(), openmetrics=openmetrics)

    def families(self) -> list[Family]:
        """Return the metric families of that text."""
        return self._pages.families(self.context())

    def context(self) -> Context:
        """Return everything that a scrape shows, from a fresh sample of the node."""
        self.sampling.looks.wait_for_fresh(FRESH_SECS, self._config.scrape_deadline_secs)
        context = self.all_known()
        self.sampling.shown = context.ended
        return self._privacy.context(context)

    def known(self) -> Context:
        """Return everything that may be shown, as of the latest sample."""
        return self._privacy.context(self.all_known())

    def all_known(self) -> Context:
        """Return everything that is known, with all names, as of the latest sample."""
        sampling, publishing = self.sampling, self.publishing
        return Context(
            now_secs=self._clock.now_secs(),
            snapshot=sampling.looks.snapshot,
            ended=sampling.ended,
            jobs=self._knowledge.jobs,
            leftovers=self._knowledge.roll.leftovers,
            statuses=self._board.view,
            status_violations=self._board.violations,
            sources=self._sources.statuses,
            publisher=publishing.publisher.status if publishing is not None else None,
            machine=self._site.machine,
            kinds=frozenset(map(Kind, self._config.jobs_kinds)),
            drains=self._drains.view,
            cpu_rates=sampling.cpu_rates,
            node_busy_cpus=sampling.rates.node_busy_cpus,
            node_name=self._name,
            reload=self.reload,
            feature_answers=dict(self.feature_answers),
            sysinfo=sampling.sysinfo,
            sinks=self._sender.sinks if self._sender is not None else (),
            faulty=self._sender.faulty if self._sender is not None else {},
            sonar_unreadable=dict(sampling.unreadable.counts),
            web=self.web(),
            findings=self._knowledge.roll.findings,
            missing_groups=self._missing_groups.latest,
        )

    # --- what follows from news ---------------------------------------------------

    def _judge(self, published: Mapping[JobKey, float] | None = None) -> None:
        looks = self.sampling.looks
        has_ended, is_to_publish = self._knowledge.judge(
            self._sources.tables, lambda: looks.snapshot, self._sources.names, published
        )
        if has_ended:
            looks.wanted.set()
        if is_to_publish and self.publishing is not None:
            self.publishing.round.want()

    def _tables_changed(self) -> None:
        self._judge()
        self.sampling.notice()
        if self.publishing is not None:
            self.publishing.round.want()
        else:
            with self._drains_lock:
                self._drains.refresh(self._sources.tables(), self._sources.names)
        self._statuses.refresh()

    def _sampled(self, snapshot: Snapshot) -> None:
        self._people.history.update(snapshot, self._knowledge.jobs, self.sampling.ended)
        self._judge()
        known = self._knowledge.jobs
        self._missing_groups.follow(known, snapshot, self._sources.tables())
        ours = (key for key, each in snapshot.jobs.items() if isinstance(key, JobKey) and not each.is_apart)
        unknown = [key for key in ours if key not in known]
        living = {each.batch_system for each in unknown if snapshot.jobs[each].processes}
        empty = {each.batch_system for each in (*unknown, *snapshot.claims)}
        self._sources.refresh(living, empty - living)

    def _gives_up_counters(self, key: JobKey) -> bool:
        """Return whether the hardware counters are left to a job that asked for them."""
        target = self._knowledge.status_targets(self._tree).get(key)
        return target is not None and has_entry(target.path, target.owner_uid, PROFILING)
