"""The thread that samples the node, and the threads whose readings are added to each sample."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from jobfeatures.records.model import JobKey
from jobfeatures.status.directory import has_entry
from jobfeatures.system.clock import Clock
from jobfeatures.system.rounds import EARLY, Round, Rounds
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.snapshot import Kind, Snapshot
from jobfeatures_exporter.node.knowledge import Knowledge
from jobfeatures_exporter.node.nodeboard import NodeBoard
from jobfeatures_exporter.node.publishingloop import PublishingLoop
from jobfeatures_exporter.node.sources import NodeSources, chosen_systems
from jobfeatures_exporter.node.supervised import supervised
from jobfeatures_exporter.sampling.bpf.choice import Choice
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget
from jobfeatures_exporter.sampling.gpu import Paths
from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
from jobfeatures_exporter.sampling.groups.groupwatch import JobArrivals
from jobfeatures_exporter.sampling.groups.lastreadings import LastReadings
from jobfeatures_exporter.sampling.host.sysinfo import read_sysinfo
from jobfeatures_exporter.sampling.layout.hierarchies import Places
from jobfeatures_exporter.sampling.performance.monitor import WorkMonitor
from jobfeatures_exporter.sampling.places.finder import LOOK_SECS as SEARCH_PLACES_SECS
from jobfeatures_exporter.sampling.places.finder import PlaceFinder
from jobfeatures_exporter.sampling.power.monitor import PowerMonitor
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SampleExtras
from jobfeatures_exporter.service.goingon import Progress
from jobfeatures_exporter.state.cpurates import CpuRates
from jobfeatures_exporter.state.daemongroups import GroupReader
from jobfeatures_exporter.state.missinggroups import MissingGroups
from jobfeatures_exporter.state.retention import Retention

PLACES_SECS = 60.0  # between two looks of commands for further places
PAUSE_SECS = 0.5  # at least, between two looks whether control groups are those of jobs
REST_SECS = 70.0  # between two samples that nothing demands; a scrape a minute, which takes one, is sooner
STILL_SECS = 300.0  # likewise, while no job runs
LONGEST_PART_SECS = 60.0  # of a wait, which counts as progress
PROFILING = "profiling"  # a file in a job's $JOBSTATUS: the job wants the hardware counters for itself
LATE_SECS = 30.0  # beyond the interval, after which the sampling thread counts as hung


def make_finder(config: ExporterConfig) -> PlaceFinder:
    """Return a finder of jobs' control groups in unusual places of the tree; it has not searched yet."""
    root, procfs = config.path.cgroup, config.path.procfs
    systems = partial(chosen_systems, config)
    return PlaceFinder(config.shared.batch, root=root, procfs=procfs, systems=systems)


def find_places(config: ExporterConfig, clock: Clock) -> Callable[[], Places]:
    """Return a function that finds unusual places of jobs' control groups, for commands without threads.

    Batch systems' configuration is read now. The function searches the tree when it is called, unless it did
    so within the last minute.
    """
    finder = make_finder(config)
    finder.read_configuration()
    searched_secs = float("-inf")

    def places() -> Places:
        nonlocal searched_secs
        if clock.monotonic_secs() - searched_secs >= PLACES_SECS:
            searched_secs = clock.monotonic_secs()
            finder.search()
        return finder.places()

    return places


class SamplingLoop:
    """Takes samples of the node, and puts each sample and what it says about jobs on the `NodeBoard`."""

    def __init__(
        self,
        board: NodeBoard,
        knowledge: Knowledge,
        sources: NodeSources,
        publishing: PublishingLoop | None,
        reader: Choice,
        rounds: Rounds,
    ) -> None:
        self._board = board
        self._knowledge = knowledge
        self._sources = sources
        self._publishing = publishing
        config, clock, wanted = board.config, board.clock, board.samples.wanted
        self._stopping = False
        enabled = config.enabled_collectors()
        self._gpus = GpuMonitor(
            config.gpu.drivers,
            clock,
            interval_secs=config.sample_interval_secs,
            paths=Paths(procfs=config.path.procfs, sysfs=config.path.sysfs),
            job_map=config.gpu.job_map_directory,
            detail="gpudetail" in enabled,
        )
        self._power = PowerMonitor(
            config.power, clock, sysfs=config.path.sysfs, sample_interval_secs=config.sample_interval_secs
        )
        budget = DescriptorBudget()
        self._work = WorkMonitor(config.work, config.path, budget)
        self._last_readings = LastReadings(on_end=self._note_end)
        self._has_ended = False  # whether a process that was waited for has, since the last sample
        self._sampled_secs = float("-inf")  # monotonic
        self.places = make_finder(config)
        self._place_searches = Round(self._find_places, least_secs=PAUSE_SECS)
        self._places_due_secs = float("-inf")  # monotonic
        self._read_secs = float("-inf")
        self._reading: threading.Thread | None = None  # of batch systems' configuration
        self._rounds = rounds
        self.sampler = Sampler(
            replace(
                config.of_sampler(),
                sysfs=config.path.sysfs,
                steps=config.jobs.steps,
                process_io=config.jobs.process_io,
                top_commands=config.processes_top if "processes" in enabled else 0,
            ),
            clock,
            jobs=knowledge.on_node,
            gpus=self._gpus,
            last_readings=self._last_readings,
            reader=reader,
            budget=budget,
            places=self.places.places,
        )
        self._arrivals = JobArrivals(
            config.path.cgroup,
            clock,
            wanted.set,
            interval_secs=config.sample_interval_secs,
            on_ending=self._last_readings.note,
            on_candidates=self._place_searches.want,
            shapes_at=self.places.shapes_at,
            skips=self.places.skips,
        )
        groups = GroupReader(
            config.path.procfs, config.path.cgroup, board.node_name, config.shared.batch.common.cgroup_parents
        )
        self._missing_groups = MissingGroups(clock, groups)
        self._rates = CpuRates()
        self._retention = Retention(config.jobs.retain_secs)
        self._progress = Progress(clock)
        self.threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (
                ("sampling", self.run),
                ("arrivals", self._arrivals.run),
                ("last readings", self._last_readings.run),
            )
        ]

    def start(self) -> None:
        """Start the sampling thread, and the threads that read GPUs, power and control groups."""
        self._arrivals.rescan()  # so that the first sample has all jobs
        self._search_places()
        self._gpus.start()
        self._power.start()
        self._progress.made()
        for thread in self.threads:
            thread.start()
        self._rounds.add(self._place_searches)

    def stop(self) -> None:
        """Stop the threads that `start` started; release threads that wait for a sample."""
        self._stopping = True
        self._board.samples.wanted.set()
        for each in (self._arrivals, self._last_readings, self._gpus, self._power):
            each.stop()
        self._board.samples.stop()

    def is_late(self) -> bool:
        """Return whether the sampling thread hangs. Call this at least every `goingon.MOST_SECS` seconds."""
        return self._progress.missing_secs() > self._board.pause_secs + LATE_SECS

    def reconfigure(self) -> None:
        """Apply changed settings, which the caller has put on the `NodeBoard` before."""
        config = self._board.config
        self._retention.retain_secs = config.jobs.retain_secs
        self.places.reconfigure(config.shared.batch, partial(chosen_systems, config))
        self._place_searches.want()

    def _wishes(self) -> SampleExtras:
        """Return what the next sample has to read, for the settings or a waiting request."""
        config = self._board.config
        are_shown = config.jobs.kinds != (Kind.BATCH.value,) or config.wants("reads_processes")
        return SampleExtras(
            all_processes=are_shown or self._board.samples.all_are_wanted,
            cores=config.wants("reads_cores"),
            open_files=config.wants("reads_open_files"),
            thread_states=set(map(Kind, config.jobs.kinds)) if config.wants("reads_thread_states") else (),
            programs=config.wants("reads_programs"),
        )

    def run(self) -> None:
        """Take samples until `stop` is called."""
        board = self._board
        while not self._stopping:
            board.samples.wanted.clear()
            self._progress.made()  # before, as the time waited so far may be long
            board.pause_secs = board.config.sample_interval_secs  # a sample that hangs is late by this
            with supervised("sampling"):
                self.sample()
            self._progress.made()
            board.pause_secs = self.pause_secs()
            self._knowledge.request_sample_if_unseen()  # by what was reported while the pause was shorter
            if not self._stopping:  # else the event may have been set before it was cleared
                self._rest()
        self.sampler.close()
        self._work.stop()

    def _rest(self) -> None:
        """Wait until a sample is requested or due; meanwhile read what a removed group would lose.

        That is each `sample.interval`, and a third as often while all jobs have slept since the last sample.
        """
        interval_secs, pause_secs = self._board.config.sample_interval_secs, self._board.pause_secs
        is_pause = pause_secs > interval_secs
        longest_secs = max(pause_secs, min(STILL_SECS, self.sampler.longest_pause_secs))
        waited_secs, due_secs = 0.0, longest_secs if is_pause else pause_secs
        while waited_secs < due_secs:
            part_secs = interval_secs if self.sampler.has_jobs else LONGEST_PART_SECS
            if waited_secs and not self.sampler.have_jobs_run:
                part_secs = min(3 * part_secs, LONGEST_PART_SECS)
            part_secs = min(part_secs, due_secs - waited_secs)
            if self._board.samples.wanted.wait(part_secs):
                return
            self._progress.made()
            waited_secs += part_secs
            with supervised("reading jobs between samples"):
                if is_pause and (self._has_ended or self.sampler.read_between()):
                    return
            due_secs = pause_secs if self.sampler.have_jobs_run else due_secs

    def _note_end(self) -> None:
        """Note that a job may have ended: a sample is due, `sample.interval` after the last one."""
        self._has_ended = True
        passed_secs = self._board.clock.monotonic_secs() - self._sampled_secs
        if passed_secs >= self._board.config.sample_interval_secs:
            self._board.samples.wanted.set()

    def pause_secs(self) -> float:
        """Return the seconds until the next regular sample.

        The pause is longer if the kernel sums what jobs use (eBPF) and reports each new control group
        (inotify); while no job runs, `run` may make it longer still.
        """
        interval_secs, snapshot = self._board.config.sample_interval_secs, self._board.samples.snapshot
        rests = (
            snapshot is not None
            and not snapshot.unconfirmed
            and self.sampler.is_at_rest
            and not self._power.readers
            and not self._wishes().all_processes
            and not self._arrivals.tree.unwatched
            and not self._work.is_counting
            and self._knowledge.are_all_seen()
        )
        return max(interval_secs, REST_SECS) if rests else interval_secs

    def _find_places(self) -> float:
        now_secs = self._board.clock.monotonic_secs()
        is_read = self._reading is None or not self._reading.is_alive()
        if is_read and now_secs - self._read_secs >= self._board.config.shared.batch.common.refresh_secs:
            self._read_secs = now_secs
            self._reading = threading.Thread(target=self._read_places, name="places", daemon=True)
            self._reading.start()
        is_due = now_secs >= self._places_due_secs
        if is_due:
            self._places_due_secs = now_secs + SEARCH_PLACES_SECS * (1 - EARLY)
        self._search_places(is_due=is_due)
        return SEARCH_PLACES_SECS

    def _search_places(self, *, is_due: bool = False) -> None:
        with supervised("looking for control groups"):
            changes = self.places.search(self._arrivals.tree.candidates(), is_due=is_due)
            if changes.shapes:
                self._arrivals.list_again()
            if changes.places:
                self._board.samples.wanted.set()

    def _read_places(self) -> None:
        """Read what batch systems' own configuration names: it may run their commands, which may hang."""
        with supervised("reading where control groups are"):
            self.places.read_configuration()
        self._place_searches.want()

    def sample(self) -> None:
        """Take one sample and put it on the `NodeBoard`. Only the sampling thread calls this."""
        board, knowledge = self._board, self._knowledge
        self._has_ended, self._sampled_secs = False, board.clock.monotonic_secs()
        knowledge.begin_sample()
        snapshot = self._power.fill(self.sampler.sample(self._wishes()))
        snapshot = self._work.fill(snapshot, self._whole_node_jobs, self.gives_up_counters)
        now_secs = board.clock.monotonic_secs()
        # Ended jobs are set before the snapshot, so that each job is in at least one of them.
        snapshot, board.ended = self._retention.take(
            snapshot, board.jobs, knowledge.ending, now_secs=now_secs, shown=board.shown
        )
        if board.sysinfo is None:
            board.sysinfo = read_sysinfo(
                procfs=board.config.path.procfs,
                sysfs=board.config.path.sysfs,
                now_secs=snapshot.taken_at_secs,
                unreadable=board.unreadable,
            )
        board.cpu_rates, board.node_busy_cpus = self._rates.update(snapshot), self._rates.node_busy_cpus
        board.samples.put(snapshot)
        self._take_in(snapshot)

    def _take_in(self, snapshot: Snapshot) -> None:
        """Judge all jobs by a sample; have the sources asked for those that none of them knows."""
        board = self._board
        board.history.update(snapshot, board.jobs, board.ended)
        if self._knowledge.judge() and self._publishing is not None:
            self._publishing.round.want()
        known = board.jobs
        self._missing_groups.follow(known, snapshot, board.tables())
        board.missing_groups = self._missing_groups.latest
        ours = (
            key for key, each in snapshot.jobs.items() if isinstance(key, JobKey) and not each.has_place_in_id
        )
        unknown = [key for key in ours if key not in known]
        living = {each.batch_system for each in unknown if snapshot.jobs[each].processes}
        empty = {each.batch_system for each in (*unknown, *snapshot.unconfirmed)}
        self._sources.refresh(living, empty - living)

    def _whole_node_jobs(self) -> Mapping[JobKey, bool]:
        return self._board.context().whole_node_jobs

    def gives_up_counters(self, key: JobKey) -> bool:
        """Return whether the job has a file in $JOBSTATUS that claims the hardware performance counters."""
        target = self._knowledge.status_targets().get(key)
        return target is not None and has_entry(target.path, target.owner_uid, PROFILING)
