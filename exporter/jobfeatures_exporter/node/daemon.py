"""The daemon: threads that keep the node, the batch sources and the feature directories up to date.

Each thread publishes its results by a single assignment; a scrape combines the
latest of each and takes no lock that a working thread holds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jobfeatures.drains.drain import machine_shutdown
from jobfeatures.errors import JobfeaturesError
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
from jobfeatures.system.watch import watch_directory
from jobfeatures_exporter.config import DaemonConfig
from jobfeatures_exporter.context import Context, LastReload
from jobfeatures_exporter.node.hookrequests import HookServer
from jobfeatures_exporter.node.sources import NodeSources, make_site
from jobfeatures_exporter.privacy.key import make_privacy
from jobfeatures_exporter.sampling.bpf.choice import PROCFS_ALONE, Choice
from jobfeatures_exporter.sampling.cpurates import CpuRates
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu.device import Paths
from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
from jobfeatures_exporter.sampling.groups.groupwatch import JobArrivals
from jobfeatures_exporter.sampling.groups.lastwords import LastWords
from jobfeatures_exporter.sampling.host.sysinfo import read_sysinfo
from jobfeatures_exporter.sampling.power.monitor import PowerMonitor
from jobfeatures_exporter.sampling.sampler import make_sampler
from jobfeatures_exporter.sampling.work.monitor import WorkMonitor
from jobfeatures_exporter.scrape.exposition import Family
from jobfeatures_exporter.scrape.listenercounts import WebStatus
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.service.reload import Change
from jobfeatures_exporter.service.supervision import describe_sources
from jobfeatures_exporter.snapshot import Kind, Snapshot, SysinfoSample
from jobfeatures_exporter.state.knowledge import Knowledge, find_swap_limits
from jobfeatures_exporter.state.latestlook import LatestLook
from jobfeatures_exporter.state.retention import EndedJob, Retention
from jobfeatures_exporter.web.nodepages import NodePages

if TYPE_CHECKING:
    from jobfeatures_exporter.sonar.sender import Sender

log = logging.getLogger(__name__)

FRESH_SECS = 0.5  # scrapes that arrive together share one sample of the node
PUBLISH_INTERVAL_SECS = 30.0  # repairs what others have removed
PUBLISH_RETRY_SECS = 2.0  # no space, or read-only: nothing says when that is over
LOOK_SECS = 30.0  # beyond the interval, after which the sampling thread counts as hung
FIRST_LOOK_SECS = 5.0  # before controllers are queried, so that the queries can name the jobs found here
PROFILING = "profiling"  # a file in a job's $JOBSTATUS: the job wants the hardware counters for itself
STOP_SECS = 5.0  # for all threads together to end


class Daemon:
    """Everything that runs in the background, and the text that a scrape returns."""

    def __init__(self, config: DaemonConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._privacy = make_privacy(config)
        self._name = node_name(config, {})
        self._tree = FeatureTree(config.features_root)
        self._site = make_site(config)
        self._knowledge = Knowledge(self._clock)
        self._stopping = threading.Event()
        self._looks = LatestLook(self._clock)
        self._publish_wanted = threading.Event()
        self._gpus = GpuMonitor(
            config.gpu_drivers,
            self._clock,
            interval_secs=config.sample_interval_secs,
            paths=Paths(procfs=config.path_procfs, sysfs=config.path_sysfs),
            job_map=config.gpu_job_map_directory,
            detail="gpudetail" in config.enabled_collectors(),
        )
        enabled = config.enabled_collectors()
        self._power = PowerMonitor(config, self._clock)
        self._last_words = LastWords()
        self._sampler = make_sampler(
            config,
            self._clock,
            wants_all=self._wants_all,
            shows=lambda what: self._config.wants(what),  # noqa: PLW0108  # a reload replaces it
            last_words=self._last_words,
            gpus=self._gpus,
            sysfs=config.path_sysfs,
            taskstats=config.sample_taskstats,
            jobs=self._knowledge.on_node,
            steps=config.jobs_steps,
            process_io=config.jobs_process_io,
            top_commands=config.processes_top if "processes" in enabled else 0,
        )
        self._work = WorkMonitor(config, self._sampler.budget)
        self.reader = PROCFS_ALONE
        self.feature_answers: Mapping[int, int] = {}  # HTTP responses, by status
        self.web: Callable[[], WebStatus | None] = lambda: None  # of the daemon's listeners
        self.reload = LastReload(successful=True, success_secs=self._clock.now_secs())
        self._pages = PageMaker(enabled, config.metrics_profile, config.metrics_max_series)
        self._rates = CpuRates()
        self._people = NodePages(config, self._privacy, self.known, self._pages.collected, self.listing)
        self.html = self._people.html  # HTML pages
        self.own_html = self._people.own_html
        self._cpu_rates: Mapping[JobKey, float] = {}
        self._retention = Retention(config.jobs_retain_secs)
        self._ended: Mapping[JobKey, EndedJob] = {}
        self._shown: Mapping[JobKey, EndedJob] = {}  # in the latest scrape
        self._arrivals = JobArrivals(
            config.path_cgroup,
            self._clock,
            self._looks.wanted.set,
            interval_secs=config.sample_interval_secs,
            on_ending=self._last_words.note,
        )
        self._drains_lock = threading.Lock()
        self._drains = DrainBook(DrainStore(self._tree) if config.features_publish else None, self._clock)
        self._board = StatusBoard(self._clock)
        self._statuses = StatusKeeper(
            self._board,
            lambda: self._knowledge.status_targets(self._tree),
            self._clock,
            interval_secs=config.sample_interval_secs,
        )
        self._publisher = Publisher(self._tree, self._site, self._clock) if config.features_publish else None
        self._sources = NodeSources(
            config,
            self._clock,
            self._name,
            self._tree,
            seen=lambda: self._knowledge.seen(self._looks.snapshot),
            on_change=self._tables_changed,
            first_look=lambda: self._looks.wait_for_any(FIRST_LOOK_SECS),
        )
        self.hooks = HookServer(self._tree, config, self._sources.refresh_in_haste)
        self._looked_at = self._clock.monotonic_secs()  # when the last sample of the node was complete
        self._sysinfo: SysinfoSample | None = None
        self._unreadable = Unreadable()  # failed reads for documents
        self._sender = self._make_sender()
        loops: list[tuple[str, Callable[[], None]]] = [
            ("sampling", self._sample_loop),
            ("arrivals", self._arrivals.run),
            ("last words", self._last_words.run),
            ("status", self._statuses.run),
        ]
        if self._publisher is not None:
            loops += [("publishing", self._publish_loop), ("hooks", self.hooks.run)]
        self._threads = [threading.Thread(target=loop, name=name, daemon=True) for name, loop in loops]

    def read_by(self, reader: Choice) -> None:
        """Set how processes are read; call it before `start`."""
        self.reader = reader
        self._sampler.read_by(reader)

    # --- life -------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads."""
        if self._publisher is not None:
            try:
                self._tree.prepare()
            except (JobfeaturesError, OSError) as error:  # the publisher retries and counts failures
                log.error("cannot keep feature directories: %s", error)
            else:
                self._knowledge.remember(self._publisher.remembered())
        self._gpus.start()
        self._power.start()
        self._looked_at = self._clock.monotonic_secs()
        self._sources.start()
        for thread in self._threads:
            thread.start()
        if self._sender is not None:
            self._sender.start()

    def stop(self) -> None:
        """Stop all threads; one that hangs in the kernel is left behind."""
        self._stopping.set()
        self._looks.wanted.set()
        self._publish_wanted.set()
        self.hooks.stop()
        for each in (self._arrivals, self._last_words, self._statuses, self._gpus, self._power):
            each.stop()
        if self._sender is not None:
            self._sender.stop()
        self._sources.stop()
        self._looks.stop()
        deadline = self._clock.monotonic_secs() + STOP_SECS
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self._clock.monotonic_secs()))

    @property
    def is_ready(self) -> bool:
        """Return whether the node has been sampled and every source has answered or failed."""
        return self._looks.snapshot is not None and self._sources.have_been_asked

    def wait_until_ready(self, most_secs: float) -> None:
        """Wait until the daemon is ready, for `most_secs` at most."""
        deadline = self._clock.monotonic_secs() + most_secs
        while not self.is_ready and self._clock.monotonic_secs() < deadline:
            self._stopping.wait(0.05)

    def problems(self) -> list[str]:
        """Return one line for each thing that has not been read yet or fails."""
        return ([] if self._looks.snapshot else ["the node has not been read yet"]) + self._sources.problems()

    def stalled(self) -> list[str]:
        """Return the threads that have died, or that take too long to sample the node."""
        found = [thread.name for thread in self._threads if not thread.is_alive()]
        patience_secs = self._config.sample_interval_secs + LOOK_SECS
        if self._clock.monotonic_secs() - self._looked_at > patience_secs and "sampling" not in found:
            found.append("sampling")
        return found + self._sources.stalled()

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
        self._pages.reconfigure(config)
        self._retention.retain_secs = config.jobs_retain_secs
        self.hooks.reconfigure(config)
        if self._publisher is not None:
            self._publisher.site = self._site
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
        self._looks.wait_for_fresh(FRESH_SECS, self._config.scrape_deadline_secs)
        context = self.all_known()
        self._shown = context.ended
        return self._privacy.context(context)

    def known(self) -> Context:
        """Return everything that may be shown, as of the latest sample."""
        return self._privacy.context(self.all_known())

    def all_known(self) -> Context:
        """Return everything that is known, with all names, as of the latest sample."""
        return Context(
            now_secs=self._clock.now_secs(),
            snapshot=self._looks.snapshot,
            ended=self._ended,  # set before the snapshot, so that each job is in at least one of them
            jobs=self._knowledge.jobs,
            leftovers=self._knowledge.roll.leftovers,
            statuses=self._board.view,
            status_violations=self._board.violations,
            sources=self._sources.statuses,
            publisher=self._publisher.status if self._publisher is not None else None,
            machine=self._site.machine,
            kinds=frozenset(map(Kind, self._config.jobs_kinds)),
            drains=self._drains.view,
            cpu_rates=self._cpu_rates,
            node_busy_cpus=self._rates.node_busy_cpus,
            node_name=self._name,
            reload=self.reload,
            feature_answers=dict(self.feature_answers),
            sysinfo=self._sysinfo,
            sinks=self._sender.sinks if self._sender is not None else (),
            faulty=self._sender.faulty if self._sender is not None else {},
            sonar_unreadable=dict(self._unreadable.counts),
            web=self.web(),
            findings=self._knowledge.roll.findings,
        )

    def _make_sender(self) -> Sender | None:
        if not self._config.sonar_sinks:
            return None
        from jobfeatures_exporter.sonar.output import make_node_sender

        return make_node_sender(self._config, self._clock, self.listing, self._unreadable)

    def listing(self, fresh_secs: float = 0.0) -> Snapshot | None:
        """Return a snapshot of all processes, at most `fresh_secs` old; None if it takes too long."""
        self._looks.wait_for_fresh(fresh_secs, self._config.scrape_deadline_secs, lists_all=True)
        snapshot = self._looks.snapshot
        return snapshot if snapshot is not None and snapshot.lists_all else None

    def _wants_all(self) -> bool:
        """Return whether this sample must list all processes, for the settings or a waiting request."""
        return self._looks.all_are_wanted or self._config.jobs_kinds != (Kind.BATCH.value,)

    # --- sources --------------------------------------------------------------------

    def _judge(self, published: Mapping[JobKey, float] | None = None) -> None:
        has_ended, is_to_publish = self._knowledge.judge(
            self._sources.tables, lambda: self._looks.snapshot, self._sources.names, published
        )
        if has_ended:
            self._looks.wanted.set()
        if is_to_publish:
            self._publish_wanted.set()

    def _tables_changed(self) -> None:
        self._judge()
        if self._publisher is None:
            with self._drains_lock:
                self._drains.refresh(self._sources.tables(), self._sources.names)
        self._publish_wanted.set()
        self._statuses.refresh()

    # --- loops ------------------------------------------------------------------------

    def _sample_loop(self) -> None:
        while not self._stopping.is_set():
            self._looks.wanted.clear()
            self._supervised("sampling", self._sample)
            self._looked_at = self._clock.monotonic_secs()
            self._looks.wanted.wait(self._config.sample_interval_secs)
        self._sampler.close()
        self._work.stop()

    def _sample(self) -> None:
        self._knowledge.begin_look()
        snapshot = self._power.fill(self._sampler.sample())
        snapshot = self._work.fill(
            snapshot, lambda: self.all_known().whole_node_jobs, self._gives_up_counters
        )
        snapshot, self._ended = self._retention.take(
            snapshot, self._knowledge, now_secs=self._clock.monotonic_secs(), shown=self._shown
        )
        if self._sysinfo is None:
            self._sysinfo = read_sysinfo(
                procfs=self._config.path_procfs,
                sysfs=self._config.path_sysfs,
                now_secs=snapshot.taken_at_secs,
                unreadable=self._unreadable,
            )
        self._cpu_rates = self._rates.update(snapshot)
        self._people.history.update(snapshot, self._knowledge.jobs, self._ended)
        self._looks.put(snapshot)
        self._judge()
        known = self._knowledge.jobs
        unknown = [each for each in snapshot.jobs if isinstance(each, JobKey) and each not in known]
        living = {each.batch_system for each in unknown if snapshot.jobs[each].processes}
        self._sources.refresh(living, {each.batch_system for each in unknown} - living)

    def _gives_up_counters(self, key: JobKey) -> bool:
        """Return whether the hardware counters are left to a job that asked for them."""
        target = self._knowledge.status_targets(self._tree).get(key)
        return target is not None and has_entry(target.path, target.owner_uid, PROFILING)

    def _publish_loop(self) -> None:
        with watch_directory(self._tree.drains_path, self._publish_wanted.set):
            while not self._stopping.is_set():
                self._publish_wanted.clear()
                self._publish()
                self._publish_wanted.wait(self._until_next_publish())

    def _until_next_publish(self) -> float:
        """Return the seconds, cut at the machine's shutdown: one profile withdraws that once it is past."""
        if self._publisher is not None and not self._publisher.status.is_complete:
            return PUBLISH_RETRY_SECS
        view = self._drains.view
        shutdown = machine_shutdown(view.drains, view.announced)
        left = PUBLISH_INTERVAL_SECS if shutdown is None else shutdown - self._clock.now_secs()
        return min(left, PUBLISH_INTERVAL_SECS) if left > 0 else PUBLISH_INTERVAL_SECS

    def _publish(self) -> None:
        """Bring the directories up to date; a failure in one does not affect the others."""
        publisher = self._publisher
        assert publisher is not None  # noqa: S101  # the loop runs only with a publisher
        self._supervised("drains", lambda: self._drains.refresh(self._sources.tables(), self._sources.names))
        self._supervised("listing published jobs", lambda: self._judge(self._tree.published()))
        allowed = self._knowledge.roll, self._drains.view, find_swap_limits(self._looks.snapshot)
        self._supervised("publishing", lambda: publisher.update(*allowed))
        if self._knowledge.note_epilogs(publisher.take_withdrawn()):
            self._tables_changed()
        self._supervised(
            "drains of ended jobs",
            lambda: self._drains.forget_ended(self._knowledge.jobs, self._tree.published()),
        )
        self._statuses.refresh()  # directories may have been created

    @staticmethod
    def _supervised(what: str, work: Callable[[], Any]) -> None:
        try:
            work()
        except (JobfeaturesError, OSError) as error:
            log.error("%s failed: %s", what, error)
        except Exception:  # supervised: a failed round must not end the loop
            log.exception("%s failed", what)
