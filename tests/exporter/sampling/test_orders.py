"""Every order in which groups, processes and sources come and go, beside a model that knows only what was used."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import NodeSample, ProcessSample
from jobfeatures_exporter.sampling.bpf.byjob import Sums, TaskUsage
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.layout.hierarchy import _named
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes
from jobfeatures_exporter.sampling.processes.accumulate import CpuAccumulator
from jobfeatures_exporter.sampling.stages.jobbook import JobRecorder
from jobfeatures_exporter.sampling.stages.values import (
    Attributed,
    GroupReading,
    JobReading,
    LastSample,
    NodeReading,
    ProcessTotals,
    Readings,
)

KEY = JobKey("slurm", "7")
PATH = "/slurm/uid_6001/job_7"


class Group:
    """The job's groups on v1: memory, and perhaps cpuacct. What is used counts in those that are there."""

    def __init__(self, last: JobDirectory | None = None, made: Group | None = None, *, cpuacct=True) -> None:
        self.memory = next(INODES) if made is None else made.memory
        self.used = 0 if made is None else made.used
        self.counts_cpu, self.cpu = cpuacct, 0
        inodes = {"memory": self.memory, **({"cpuacct": next(INODES)} if cpuacct else {})}
        groups = dict.fromkeys([*inodes, "blkio"], PATH)
        membership = Membership(batch_system="slurm", job_id="7", uid=6001)
        self.directory = _named(
            JobDirectory(path=PATH, membership=membership, groups=groups, inodes=inodes), last
        )

    def read(self, processes) -> GroupReading:
        row = {"": (self.used,)}
        figures = GroupFigures(
            MemoryBytes(anon=1, charged=1, peak=10 + self.used),
            CpuTimes(self.cpu, 0.0) if self.counts_cpu else None,
            {"oom_kills": row, "limit_hits": row, "block_io": {"8:0": (self.used,) * 4}},
        )
        sums = Sums(TaskUsage(*[self.used] * len(TaskUsage._fields)), len(processes), len(processes))
        return GroupReading(self.directory, figures, sums)


INODES = itertools.count(1)
NODE = NodeReading(NodeSample(), NodeSigns(), {}, None, None)


class Jobs(dict):
    """A job as its source tells it, by restarts: the same object as long as it tells the same."""

    def __missing__(self, restarts):
        return self.setdefault(restarts, Job(key=KEY, state=JobState.RUNNING, restarts=restarts))


JOBS = Jobs()


class World:
    """A node with one job, its source, and the recorder that samples it after each event."""

    def __init__(self, *, grouped: bool, counts: bool) -> None:
        self.grouped, self.counts = grouped, counts
        self.group: Group | None = None
        self.pid: int | None = None
        self.pids, self.ticks = itertools.count(10), 0
        self.restarts, self.told = 0, False
        self.used = self.cpu = 0  # by all its processes ever, and what of it is counted as CPU time
        self.recorder = JobRecorder(tells_io=True, tells_network=False)
        self.accumulator = CpuAccumulator()
        self.last = LastSample()

    # --- events

    def start(self):
        if self.pid is None:
            self.pid, self.ticks = next(self.pids), 0
            if self.grouped and self.group is None:
                self.group = Group()

    def work(self):
        if self.pid is not None:
            self.used += 1
            self.ticks += 1
            if self.group is not None:
                self.group.used += 1
                self.group.cpu += self.group.counts_cpu
            self.cpu += self.group is None or self.group.counts_cpu

    def exit(self):
        self.pid = None

    def remove(self):
        self.pid = self.group = None

    def swap(self):
        """All of it is replaced between two samples."""
        if self.pid is not None:
            self.remove()
            self.start()

    def half(self):
        """The group of one hierarchy comes or goes, while that of another stays."""
        if self.group is not None:
            self.group = Group(self.group.directory, self.group, cpuacct=not self.group.counts_cpu)

    def said(self):
        self.told = True

    def over(self):
        self.told = False

    def again(self):
        self.told = True
        self.restarts += 1

    def does(self, event):
        """Have an event; return its name, or "" if it changed nothing, so that it is only another sample."""
        before = self.pid, self.group, self.told, self.restarts, self.used
        getattr(self, event)()
        return event if (self.pid, self.group, self.told, self.restarts, self.used) != before else ""

    # --- the sample

    def sample(self):
        jobs = {KEY: JOBS[self.restarts if self.counts else None]} if self.told else {}
        processes = {} if self.pid is None else {self.pid: process(self.pid, 100 * self.ticks)}
        groups = [] if self.group is None else [self.group.read(processes)]
        readings = {}
        staying = jobs.keys() & self.last.jobs.keys()
        if groups or processes or staying:
            memory = groups[0].figures.memory if groups else MemoryBytes(anon=1 if processes else None)
            readings[KEY] = JobReading(groups, memory)
        keys = dict.fromkeys(processes, KEY)
        found = Attributed(keys, {}, {}, {KEY: [*processes.values()]} if processes else {})
        ticks = self.accumulator.update(processes, keys, {KEY} if groups or staying else set())
        counted = ProcessTotals(ticks, {})
        records, _ = self.recorder.records(found, counted, Readings(readings), NODE, jobs, self.last)
        self.last = LastSample({}, records)
        return records.get(KEY)


def process(pid: int, ticks: int) -> ProcessSample:
    return ProcessSample(pid, 1, pid, pid, pid, "x", "R", ticks, 0, 0, 0, 1, 0, 0)


class Model:
    """What the present run has used: all that was used, less what was when the run began.

    Another run begins when the source tells so, with what was used since the job was last without a process:
    before that, or before it came again after its end.
    """

    def __init__(self) -> None:
        self.known = self.over = self.came = self.was_told = False
        self.restarts = None
        self.began = self.before = (0, 0)
        self.empty: tuple[int, int] | None = None
        self.life: object = None

    def sample(self, world: World):
        now, is_there = (world.used, world.cpu), world.group is not None or world.pid is not None
        if not (is_there or (self.known and world.told)):
            self.__init__()
            self.began = self.before = now
            return None
        life = world.group.memory if world.group is not None else world.pid
        if None not in (life, self.life) and life != self.life and not self.came:
            self.empty = self.before
        if world.told:
            is_another = self.was_told and (world.restarts != self.restarts if world.counts else self.over)
            if is_another:
                self.began = self.before if self.empty is None else self.empty
                self.empty = None
            self.restarts, self.was_told, self.over, self.came = world.restarts, True, False, False
        if world.pid is not None:
            self.came = self.over
        else:
            if not self.came:
                self.empty = now
            self.over = self.was_told and not world.told
        self.known, self.before, self.life = True, now, life
        return now[0] - self.began[0], now[1] - self.began[1]


BEGUN = ("said", "start", "work")
EVENTS = ("start", "work", "exit", "remove", "swap", "half", "said", "over", "again")


def every_order(length, *, grouped, first=(), last=()):
    """Return all orders of so many events between others; of those in which the same happens, one."""
    orders = {}
    for events in itertools.product(EVENTS, repeat=length):
        order, world = (*first, *events, *last), World(grouped=grouped, counts=True)
        orders.setdefault(tuple([world.does(event) for event in order]), order)
    return orders.values()


def assert_as_in_the_model(events, *, grouped, counts):
    world, model = World(grouped=grouped, counts=counts), Model()
    for event in events:
        getattr(world, event)()
        found, expected = world.sample(), model.sample(world)
        assert (found is None) == (expected is None), events
        if found is None:
            continue
        used, cpu = expected
        assert found.processes == found.threads == (world.pid is not None), events
        if grouped and world.group is not None:
            told = found.oom_kills, found.memory_limit_hits, found.block_io.reads, found.process_io.read_bytes
            assert told == (used,) * 4, (events, told, used)
        if world.group is None if grouped else world.pid is None:
            assert found.memory == MemoryBytes(peak=found.memory.peak), events
        # What no group counted while one hierarchy lacked it may be known of the processes.
        most = used if "half" in events else cpu
        assert cpu <= (found.user_cpu_secs or 0) <= most, (events, found.user_cpu_secs, cpu)


@pytest.mark.parametrize("counts", [True, False], ids=["runs have numbers", "nothing tells runs apart"])
@pytest.mark.parametrize("grouped", [True, False], ids=["groups", "processes"])
def test_a_job_has_what_its_run_has_used_in_every_order_of_events(grouped, counts):
    for first in (BEGUN, (*BEGUN, "exit", "over", "start", "work")):
        for events in every_order(3, grouped=grouped, first=first, last=["work"]):
            assert_as_in_the_model(events, grouped=grouped, counts=counts)


@pytest.mark.timeout(600)  # all four take 17 s of CPU
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_a_job_has_what_its_run_has_used_in_every_longer_order_of_events(grouped, counts):
    for events in every_order(5, grouped=grouped):
        assert_as_in_the_model(events, grouped=grouped, counts=counts)


@given(st.lists(st.sampled_from(EVENTS), max_size=40), st.booleans(), st.booleans())
def test_a_job_has_what_its_run_has_used_however_long_it_goes_on(events, grouped, counts):
    assert_as_in_the_model(events, grouped=grouped, counts=counts)
