"""The thread that samples the node and what else is read at each sample; waiting for a fresh sample."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import Clock
from jobfeatures.system.rounds import EARLY, Round, Rounds
from jobfeatures_exporter.config import DaemonConfig
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.snapshot import Kind, Snapshot, SysinfoSample
from jobfeatures_exporter.node.sources import chosen_systems
from jobfeatures_exporter.node.supervised import supervised
from jobfeatures_exporter.sampling.bpf.choice import Choice
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.gpu import Paths
from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
from jobfeatures_exporter.sampling.groups.groupwatch import JobArrivals
from jobfeatures_exporter.sampling.groups.lastwords import LastWords
from jobfeatures_exporter.sampling.host.sysinfo import read_sysinfo
from jobfeatures_exporter.sampling.layout.hierarchies import Places
from jobfeatures_exporter.sampling.performance.monitor import WorkMonitor
from jobfeatures_exporter.sampling.places.finder import LOOK_SECS as LOOK_FOR_PLACES_SECS
from jobfeatures_exporter.sampling.places.finder import PlaceFinder
from jobfeatures_exporter.sampling.power.monitor import PowerMonitor
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import Wishes
from jobfeatures_exporter.service.goingon import Progress
from jobfeatures_exporter.state.cpurates import CpuRates
from jobfeatures_exporter.state.knowledge import Knowledge
from jobfeatures_exporter.state.retention import Retention

PLACES_SECS = 60.0  # between two looks of commands for further places
PAUSE_SECS = 0.5  # at least, between two looks whether control groups are those of jobs
REST_SECS = 55.0  # between two samples without any job: the page's history has a point a minute
LOOK_SECS = 30.0  # beyond the interval, after which the sampling thread counts as hung


def make_finder(config: DaemonConfig, **more: Any) -> PlaceFinder:
    """Return a finder of places of jobs' groups on this node, which has looked for none yet."""
    root, procfs = config.path_cgroup, config.path_procfs
    return PlaceFinder(config, root=root, procfs=procfs, systems=chosen_systems, **more)


def find_places(config: DaemonConfig, clock: Clock) -> Callable[[], Places]:
    """Return what says where jobs' groups are on this node, and looks again as time goes by."""
    finder = make_finder(config)
    finder.read_configuration()
    looked_secs = float("-inf")

    def places() -> Places:
        nonlocal looked_secs
        if clock.monotonic_secs() - looked_secs >= PLACES_SECS:
            looked_secs = clock.monotonic_secs()
            finder.look()
        return finder.places()

    return places


class SamplingLoop:
    """Keeps the latest sample of the node, and what follows from it; each result is one assignment.

    `whole_node_jobs` returns the jobs that have the node alone, of which `gives_up_counters` tells whether
    the hardware counters are left to them. `on_sample` is called after each sample. `config` may be replaced.
    """

    def __init__(
        self,
        config: DaemonConfig,
        clock: Clock,
        knowledge: Knowledge,
        reader: Choice,
        *,
        whole_node_jobs: Callable[[], Mapping[JobKey, bool]],
        gives_up_counters: Callable[[JobKey], bool],
        on_sample: Callable[[Snapshot], None],
        rounds: Rounds,
    ) -> None:
        self.config = config
        self._clock = clock
        self._knowledge = knowledge
        self._whole_node_jobs = whole_node_jobs
        self._gives_up_counters = gives_up_counters
        self._on_sample = on_sample
        self._stopping = False
        self.unreadable = Unreadable()  # failed reads for documents
        self.looks = LatestLook(clock)
        enabled = config.enabled_collectors()
        self._gpus = GpuMonitor(
            config.gpu_drivers,
            clock,
            interval_secs=config.sample_interval_secs,
            paths=Paths(procfs=config.path_procfs, sysfs=config.path_sysfs),
            job_map=config.gpu_job_map_directory,
            detail="gpudetail" in enabled,
        )
        self._power = PowerMonitor(config, clock)
        budget = DescriptorBudget()
        self._work = WorkMonitor(config, budget)
        self._last_words = LastWords()
        self.places = make_finder(
            config,
            candidates=self._list_candidates,
            on_change=self.looks.wanted.set,
            on_shapes=self._list_anew,
        )
        self._place_looks = Round(self._find_places, least_secs=PAUSE_SECS)
        self._places_due_secs = float("-inf")  # monotonic
        self._read_secs = float("-inf")
        self._reading: threading.Thread | None = None  # of batch systems' configuration
        self._rounds = rounds
        self.sampler = Sampler(
            replace(
                config.of_sampler(),
                sysfs=config.path_sysfs,
                steps=config.jobs_steps,
                process_io=config.jobs_process_io,
                top_commands=config.processes_top if "processes" in enabled else 0,
            ),
            clock,
            jobs=knowledge.on_node,
            gpus=self._gpus,
            last_words=self._last_words,
            reader=reader,
            budget=budget,
            places=self.places.places,
        )
        self._arrivals = JobArrivals(
            config.path_cgroup,
            clock,
            self.looks.wanted.set,
            interval_secs=config.sample_interval_secs,
            on_ending=self._last_words.note,
            on_candidates=self._place_looks.want,
            shapes_at=self.places.shapes_at,
            skips=self.places.skips,
        )
        self.rates = CpuRates()
        self.cpu_rates: Mapping[JobKey, float] = {}
        self._retention = Retention(config.jobs_retain_secs)
        self.ended: Mapping[JobKey, EndedJob] = {}
        self.shown: Mapping[JobKey, EndedJob] = {}  # in the latest scrape
        self._pause_secs = config.sample_interval_secs
        self._progress = Progress(clock)
        self.sysinfo: SysinfoSample | None = None
        self.threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (
                ("sampling", self._run),
                ("arrivals", self._arrivals.run),
                ("last words", self._last_words.run),
            )
        ]

    def start(self) -> None:
        """Start all threads."""
        self._arrivals.rescan()  # so that the first sample has all jobs
        supervised("looking for control groups", self.places.look)
        self._gpus.start()
        self._power.start()
        self._progress.made()
        for thread in self.threads:
            thread.start()
        self._rounds.add(self._place_looks)

    def stop(self) -> None:
        """Have all threads end; who waits for a sample gets the latest."""
        self._stopping = True
        self.looks.wanted.set()
        for each in (self._arrivals, self._last_words, self._gpus, self._power):
            each.stop()
        self.looks.stop()

    def is_late(self) -> bool:
        """Return whether the sampling thread takes too long; to be asked as often as `Progress` says."""
        return self._progress.missing_secs() > self._pause_secs + LOOK_SECS

    def notice(self) -> None:
        """End a rest if a job is known to be here that no control group has shown. Any thread."""
        if self._pause_secs > self.config.sample_interval_secs and self._knowledge.on_node():
            self.looks.wanted.set()

    def reconfigure(self, config: DaemonConfig) -> None:
        """Apply new settings."""
        self.config = config
        self._retention.retain_secs = config.jobs_retain_secs
        self.places.reconfigure(config)
        self._place_looks.want()

    def listing(self, fresh_secs: float = 0.0) -> Snapshot | None:
        """Return a snapshot of all processes, at most `fresh_secs` old; None if it takes too long."""
        self.looks.wait_for_fresh(fresh_secs, self.config.scrape_deadline_secs, lists_all=True)
        snapshot = self.looks.snapshot
        return snapshot if snapshot is not None and snapshot.lists_all else None

    def _wishes(self) -> Wishes:
        """Return what the next sample has to read, for the settings or a waiting request."""
        config = self.config
        are_shown = config.jobs_kinds != (Kind.BATCH.value,) or config.wants("reads_processes")
        return Wishes(
            all_processes=are_shown or self.looks.all_are_wanted,
            cores=config.wants("reads_cores"),
            open_files=config.wants("reads_open_files"),
            thread_states=set(map(Kind, config.jobs_kinds)) if config.wants("reads_thread_states") else (),
            programs=config.wants("reads_programs"),
        )

    def _run(self) -> None:
        while not self._stopping:
            self.looks.wanted.clear()
            supervised("sampling", self.sample)
            self._progress.made()
            self._pause_secs = self.pause_secs()
            self.notice()  # of what was told while the pause was shorter
            if not self._stopping:  # else the event may have been set before it was cleared
                self.looks.wanted.wait(self._pause_secs)
        self.sampler.close()
        self._work.stop()

    def pause_secs(self) -> float:
        """Return the time to the next sample: longer while the kernel reports each job that begins."""
        interval_secs, snapshot = self.config.sample_interval_secs, self.looks.snapshot
        rests = (
            snapshot is not None
            and not snapshot.claims
            and self.sampler.is_at_rest
            and not self._power.readers
            and not self._wishes().all_processes
            and not self._arrivals.tree.unwatched
            and not self._knowledge.on_node()
        )
        return max(interval_secs, REST_SECS) if rests else interval_secs

    def _list_candidates(self) -> Collection[str]:
        return self._arrivals.tree.candidates()

    def _list_anew(self) -> None:
        self._arrivals.look_anew()

    def _find_places(self) -> float:
        now_secs = self._clock.monotonic_secs()
        is_read = self._reading is None or not self._reading.is_alive()
        if is_read and now_secs - self._read_secs >= self.config.batch_refresh_secs:
            self._read_secs = now_secs
            self._reading = threading.Thread(target=self._read_places, name="places", daemon=True)
            self._reading.start()
        is_due = now_secs >= self._places_due_secs
        if is_due:
            self._places_due_secs = now_secs + LOOK_FOR_PLACES_SECS * (1 - EARLY)
        supervised("looking for control groups", lambda: self.places.look(is_due=is_due))
        return LOOK_FOR_PLACES_SECS

    def _read_places(self) -> None:
        """Read what batch systems' own configuration names: it may run their commands, which may hang."""
        supervised("reading where control groups are", self.places.read_configuration)
        self._place_looks.want()

    def sample(self) -> None:
        """Take one sample. Only the sampling thread calls it, or a test without that thread."""
        self._knowledge.begin_look()
        snapshot = self._power.fill(self.sampler.sample(self._wishes()))
        snapshot = self._work.fill(snapshot, self._whole_node_jobs, self._gives_up_counters)
        # Ended jobs are set before the snapshot, so that each job is in at least one of them.
        snapshot, self.ended = self._retention.take(
            snapshot, self._knowledge, now_secs=self._clock.monotonic_secs(), shown=self.shown
        )
        if self.sysinfo is None:
            self.sysinfo = read_sysinfo(
                procfs=self.config.path_procfs,
                sysfs=self.config.path_sysfs,
                now_secs=snapshot.taken_at_secs,
                unreadable=self.unreadable,
            )
        self.cpu_rates = self.rates.update(snapshot)
        self.looks.put(snapshot)
        self._on_sample(snapshot)


class LatestLook:
    """One thread puts snapshots here; any thread may take the latest or wait for one, which sets `wanted`."""

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
        """Release all waiting threads; they use the latest snapshot, if any."""
        self._stopping = True
        with self._taken:
            self._taken.notify_all()

    def wait_for_any(self, timeout_secs: float) -> None:
        """Wait for the first snapshot."""
        with self._taken:
            self._taken.wait_for(lambda: self.snapshot is not None or self._stopping, timeout_secs)

    def wait_for_fresh(self, fresh_secs: float, timeout_secs: float, *, lists_all: bool = False) -> None:
        """Wait for a snapshot at most `fresh_secs` old; with `lists_all`, one that lists all processes."""
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
