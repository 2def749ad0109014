"""The node's board: the latest data on the node, which the daemon's threads write and scrapes read."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jobfeatures.batch.source import Keeper, SourceStatus
from jobfeatures.hooks.actions import node_name
from jobfeatures.jobs.roster import EMPTY, KnownJobs
from jobfeatures.publish.drainbook import DrainBook
from jobfeatures.publish.drainstore import DrainStore
from jobfeatures.publish.publisher import Publisher
from jobfeatures.publish.site import Site, read_cores, read_cpu_model
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey, JobTable
from jobfeatures.status.board import StatusBoard
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.hardware import SysinfoSample
from jobfeatures_exporter.model.missing import JobsWithoutGroup
from jobfeatures_exporter.model.snapshot import Kind, Snapshot
from jobfeatures_exporter.model.statuses import LastReload, WebStatus
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.state.history import History

if TYPE_CHECKING:
    from jobfeatures_exporter.sonar.sender import Sender


class LatestSample:
    """Holds the latest snapshot of the node, and lets threads wait for a new one.

    The sampling thread puts each snapshot here; a thread that needs a new one sets the event `wanted`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken = threading.Condition()
        self._stopping = False
        self._all_wanted_at = float("-inf")
        self._all_taken_at = float("-inf")
        self.wanted = threading.Event()
        self.snapshot: Snapshot | None = None

    @property
    def all_are_wanted(self) -> bool:
        """Return whether a thread is waiting for a snapshot that lists all processes."""
        return self._all_wanted_at > self._all_taken_at

    def put(self, snapshot: Snapshot) -> None:
        """Replace the latest snapshot."""
        with self._taken:
            self.snapshot = snapshot
            if snapshot.lists_all:
                self._all_taken_at = snapshot.taken_at_secs
            self._taken.notify_all()

    def stop(self) -> None:
        """Release all threads that wait for a snapshot: they go on with the latest one, if there is any."""
        self._stopping = True
        with self._taken:
            self._taken.notify_all()

    def wait_for_any(self, timeout_secs: float) -> None:
        """Wait until there is a first snapshot, `timeout_secs` at most."""
        with self._taken:
            self._taken.wait_for(lambda: self.snapshot is not None or self._stopping, timeout_secs)

    def wait_for_fresh(self, fresh_secs: float, timeout_secs: float, *, lists_all: bool = False) -> None:
        """Wait for a new snapshot, `timeout_secs` at most, if the latest is more than `fresh_secs` old.

        With `lists_all`, only a snapshot that lists all processes will do.
        """
        asked_at = self._clock.now_secs()

        def fresh() -> bool:
            latest = self.snapshot
            if latest is None or latest.taken_at_secs < asked_at - fresh_secs:
                return self._stopping
            return latest.lists_all or not lists_all or self._stopping

        if fresh():
            return
        if lists_all:
            self._all_wanted_at = asked_at
        self.wanted.set()
        with self._taken:
            self._taken.wait_for(fresh, timeout_secs)


class NodeBoard:
    """The latest data on the node, which the daemon's threads set as attributes and scrapes read.

    An attribute is only ever replaced as a whole, by the one thread that the comment beside it names. So
    readers take no lock. `samples` has the latest snapshot, and lets threads wait for a new one.
    """

    def __init__(self, config: ExporterConfig, clock: Clock) -> None:
        self.clock = clock
        self.config, self.site = config, make_site(config)  # by a reload
        self.reload = LastReload(successful=True, success_secs=clock.now_secs())  # by a reload
        self.node_name = node_name(config.shared.node.name, {})
        self.tree = FeatureTree(config.shared.batch.common.root)
        self.samples = LatestSample(clock)
        self.pause_secs = config.sample_interval_secs  # to the next sample; this and the next by the sampling
        self.ended: Mapping[JobKey, EndedJob] = {}
        self.cpu_rates: Mapping[JobKey, float] = {}
        self.node_busy_cpus: float | None = None
        self.sysinfo: SysinfoSample | None = None
        self.missing_groups = JobsWithoutGroup()
        self.history = History()
        self.unreadable = Unreadable()  # failed reads for documents
        self.shown: Mapping[JobKey, EndedJob] = {}  # ended jobs in the latest scrape, by the scrape
        self.keepers: Sequence[Keeper[JobTable]] = ()  # by the sources
        self.known_jobs: KnownJobs = EMPTY  # this and `jobs` by whoever judges
        self.jobs: Mapping[JobKey, Job] = {}
        self.statuses = StatusBoard(clock)
        self.drains = DrainBook(DrainStore(self.tree) if config.features_publish else None, clock)
        self.publisher = Publisher(self.tree, self.site, clock) if config.features_publish else None
        self.feature_answers: Mapping[int, int] = {}  # HTTP responses, by status; by their listener
        self.sender: Sender | None = None  # by whoever makes it

    def reconfigure(self, config: ExporterConfig) -> None:
        """Replace the settings, and describe the machine again by the new ones."""
        site = make_site(config)
        self.config, self.site = config, site
        if self.publisher is not None:
            self.publisher.site = site

    @property
    def sources(self) -> tuple[SourceStatus, ...]:
        """Return the status of each batch source that is polled."""
        return tuple(keeper.status for keeper in self.keepers)

    @property
    def source_names(self) -> frozenset[str]:
        """Return the names of the batch sources that are polled."""
        return frozenset(status.name for status in self.sources)

    def tables(self) -> list[JobTable]:
        """Return the last valid answer of each batch source that has given one."""
        return [status.table for status in self.sources if status.table is not None]

    def job(self, key: JobKey) -> Job | None:
        """Return what is known about a job; None for an unknown job."""
        return self.jobs.get(key)

    def listing(self, fresh_secs: float = 0.0) -> Snapshot | None:
        """Return a snapshot of all processes, at most `fresh_secs` old; None if none is taken in time."""
        self.samples.wait_for_fresh(fresh_secs, self.config.scrape_deadline_secs, lists_all=True)
        snapshot = self.samples.snapshot
        return snapshot if snapshot is not None and snapshot.lists_all else None

    def recent_context(self) -> Context:
        """Return the data for a page; wait for a new sample if the latest is older than the interval.

        The interval is `sample_interval_secs`. If no sample is taken in time, the latest one is used.
        """
        self.samples.wait_for_fresh(self.config.sample_interval_secs, self.config.scrape_deadline_secs)
        return self.context()

    def context(self, web: WebStatus | None = None) -> Context:
        """Return the data for a scrape or page, with all names, as privacy settings are not applied yet.

        `web` is the state of the HTTP listeners.
        """
        sender, publisher = self.sender, self.publisher
        return Context(
            now_secs=self.clock.now_secs(),
            snapshot=self.samples.snapshot,
            ended=self.ended,
            jobs=self.jobs,
            leftovers=self.known_jobs.leftovers,
            statuses=self.statuses.view,
            status_violations=self.statuses.violations,
            sources=self.sources,
            publisher=publisher.status if publisher is not None else None,
            machine=self.site.machine,
            kinds=frozenset(map(Kind, self.config.jobs.kinds)),
            drains=self.drains.view,
            cpu_rates=self.cpu_rates,
            node_busy_cpus=self.node_busy_cpus,
            node_name=self.node_name,
            reload=self.reload,
            feature_answers=dict(self.feature_answers),
            sysinfo=self.sysinfo,
            sinks=sender.sinks if sender is not None else (),
            faulty=sender.faulty if sender is not None else {},
            sonar_unreadable=dict(self.unreadable.counts),
            web=web,
            findings=self.known_jobs.findings,
            missing_groups=self.missing_groups,
        )


def make_site(config: ExporterConfig) -> Site:
    """Return a description of this machine: by the settings, with CPU model and cores from /proc and /sys."""
    return Site(
        config.shared.site,
        cpu_model=read_cpu_model(f"{config.path.procfs}/cpuinfo"),
        cores=read_cores(f"{config.path.sysfs}/devices/system/cpu"),
    )
