"""Whose counters are opened, read and closed when. The counters are constructed: no machine of ours has a PMU."""

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample, NodeSample, Snapshot
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED
from jobfeatures_exporter.sampling.performance import WorkSettings
from jobfeatures_exporter.sampling.performance import monitor as module
from jobfeatures_exporter.sampling.performance.events import SOFTWARE
from jobfeatures_exporter.sampling.performance.monitor import WorkMonitor, open_counter, read_counter
from tests.running import until

A, B = JobKey("slurm", "1"), JobKey("slurm", "2")
ALL = "instructions,cycles,cache_misses,flops"


class Kernel:
    """Counters that each go on by what is said, of a machine that has some of them."""

    def __init__(self):
        self.open = {}  # by descriptor: event, CPU, whether it is of a control group
        self.files = {}  # what each was, for another file may have its number by now
        self.values = {}
        self.lacks = {}  # errno by config
        self.per_reading = 10

    def open_counter(self, event, cpu, cgroup):
        if event.config in self.lacks:
            raise OSError(self.lacks[event.config], os.strerror(self.lacks[event.config]))
        descriptor = os.memfd_create("counter")
        self.open[descriptor] = (event, cpu, cgroup is not None)
        self.files[descriptor] = os.fstat(descriptor)
        self.values[descriptor] = 0
        return descriptor

    def read_counter(self, descriptor):
        if self.per_reading is None:
            raise OSError(errno.ENODEV, "gone")
        self.values[descriptor] += self.per_reading
        return self.values[descriptor], self.values[descriptor] * 2, self.values[descriptor]

    def of_jobs(self):
        alive = []
        for descriptor, (event, cpu, of_group) in list(self.open.items()):
            try:
                is_open = os.path.samestat(os.fstat(descriptor), self.files[descriptor])
            except OSError:
                continue
            if of_group and is_open:
                alive.append((event.config, cpu))
        return alive


@pytest.fixture
def kernel(monkeypatch):
    made = Kernel()
    monkeypatch.setattr(module, "open_counter", made.open_counter)
    monkeypatch.setattr(module, "read_counter", made.read_counter)
    return made


@pytest.fixture
def make(tmp_path, kernel):
    """Return a function that makes a monitor on a machine of two CPUs with two jobs' groups."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n")
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-1\n")
    for name in ("1", "2"):
        (tmp_path / f"cgroup/slurm/job_{name}").mkdir(parents=True)
    (tmp_path / "cgroup/cgroup.controllers").write_text("cpu\n")
    made = []

    def make(events=ALL, budget=None):
        paths = PathsSettings(procfs=f"{tmp_path}/proc", sysfs=f"{tmp_path}/sys", cgroup=f"{tmp_path}/cgroup")
        config = WorkSettings(events=tuple(filter(None, events.split(","))))
        made.append(WorkMonitor(config, paths, budget or DescriptorBudget()))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def look(monitor, whole=None, gives_up=(), jobs=(A,), final=None, in_group=True, run=0):
    samples = {
        key: JobSample(
            key=key,
            run=run,
            accounting=FigureSource.CGROUP,
            in_group=in_group,
            cgroup=f"/slurm/job_{key.job_id}",
        )
        for key in jobs
    }
    snapshot = Snapshot(taken_at_secs=0, duration_secs=0, node=NodeSample(), jobs=samples, final=final or {})
    return monitor.fill(snapshot, lambda: {A: True} if whole is None else whole, lambda key: key in gives_up)


def test_each_figure_is_counted_on_each_cpu_and_scaled(make, kernel):
    snapshot = look(make())
    assert sorted(kernel.of_jobs()) == sorted((config, cpu) for config in (0, 1, 3, 0x1F03) for cpu in (0, 1))
    # 10 on each of two CPUs, counted half of the time.
    assert snapshot.jobs[A].work == dict.fromkeys(ALL.split(","), 40.0)
    assert snapshot.node.work_up == dict.fromkeys(ALL.split(","), True)


def test_another_run_of_a_job_is_counted_anew_in_its_own_group(make, kernel):
    made = make("cycles")
    look(made)
    assert look(made).jobs[A].work == {"cycles": 80}
    assert look(made, run=1).jobs[A].work == {"cycles": 40}
    assert len(kernel.of_jobs()) == 2


def test_intel_s_instructions_are_worth_their_elements(make, kernel, tmp_path):
    (tmp_path / "proc").mkdir(exist_ok=True)
    made = make("flops")
    (tmp_path / "proc/cpuinfo").write_text("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n")
    assert look(made).jobs[A].work == {"flops": 40.0 * (1 + 2 + 4 + 8 + 16)}


def test_only_jobs_with_the_node_to_themselves_are_counted(make, kernel):
    made = make("cycles")
    assert look(made, {A: False, B: False}, jobs=(A, B)).jobs[A].work == {}
    assert look(made, {}, jobs=(A,)).jobs[A].work == {}
    assert kernel.of_jobs() == []
    assert look(made, {A: True}).jobs[A].work == {"cycles": 40}
    assert look(made, {A: False, B: False}, jobs=(A, B)).jobs[A].work == {}
    assert kernel.of_jobs() == []


def test_a_job_that_wants_the_counters_gets_them_and_its_figures_go_on_later(make, kernel):
    made = make("cycles")
    assert look(made).jobs[A].work == {"cycles": 40}
    assert look(made, gives_up=(A,)).jobs[A].work == {}
    assert kernel.of_jobs() == []
    assert look(made).jobs[A].work["cycles"] > 40
    assert len(kernel.of_jobs()) == 2


def test_a_job_that_has_no_group_for_a_while_keeps_its_figures_and_its_next_group_is_counted(make, kernel):
    made = make("cycles")
    assert look(made).jobs[A].work == {"cycles": 40}
    gone = look(made, in_group=False).jobs[A].work
    assert gone == look(made, in_group=False).jobs[A].work == {"cycles": 80}
    assert kernel.of_jobs() == []
    assert look(made).jobs[A].work["cycles"] > 80
    assert len(kernel.of_jobs()) == 2


def test_a_job_that_ends_is_read_once_more_and_its_counters_are_closed(make, kernel):
    made = make("cycles")
    last = look(made).jobs[A]
    final = look(made, {}, jobs=(), final={A: last}).final[A]
    assert final.work == {"cycles": 80}
    assert kernel.of_jobs() == []
    assert look(made).jobs[A].work == {"cycles": 40}  # another one of its number


def test_a_job_that_gave_the_counters_back_ends_without_figures(make):
    made = make("cycles")
    last = look(made).jobs[A]
    look(made, gives_up=(A,))
    assert look(made, {}, jobs=(), final={A: last}).final[A].work == {}


def test_what_the_processor_does_not_count_is_absent_and_told_once(make, kernel, caplog):
    kernel.lacks = {3: errno.ENOENT, 0x1F03: errno.EOPNOTSUPP}
    made = make()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            snapshot = look(made)
    assert snapshot.jobs[A].work.keys() == {"instructions", "cycles"}
    assert snapshot.node.work_up == {
        "instructions": True, "cycles": True, "cache_misses": False, "flops": False
    }  # fmt: skip
    assert [record.getMessage() for record in caplog.records] == [
        "work.events: cache_misses of jobs are not counted: No such file or directory",
        "work.events: flops of jobs are not counted: Operation not supported",
    ]


def test_an_unknown_processor_has_no_floating_point(make, kernel, tmp_path, caplog):
    made = make()
    (tmp_path / "proc/cpuinfo").write_text("vendor_id\t: Someone\ncpu family\t: 1\nmodel\t\t: 1\n")
    assert look(made).jobs[A].work.keys() == {"instructions", "cycles", "cache_misses"}
    assert "this processor's events are not known" in caplog.text


def test_without_the_right_nothing_is_counted_and_the_remedy_is_told_once(make, kernel, caplog):
    kernel.lacks = {0: errno.EACCES}
    made = make("cycles")
    asked = []
    for _ in range(3):
        snapshot = look(made, asked)
    assert snapshot.node.work_up == {"cycles": False}
    assert snapshot.jobs[A].work == {}
    assert [record.getMessage() for record in caplog.records] == [
        f"work.events: cycles of jobs are not counted: Permission denied; it requires {module.REMEDY}"
    ]


@pytest.mark.parametrize("missing", ["group", "descriptors", "counter"])
def test_a_job_that_cannot_be_counted_leaves_no_descriptor_and_is_told_once(
    make, kernel, missing, tmp_path, caplog, open_descriptors
):
    budget = DescriptorBudget(max_open=3 if missing == "descriptors" else None)
    made = make("instructions,cycles", budget)
    look(made, {})
    if missing == "group":
        (tmp_path / "cgroup/slurm/job_1").rmdir()
    if missing == "counter":
        kernel.lacks = {0: errno.EBUSY}
    before = open_descriptors()
    for _ in range(3):
        assert look(made).jobs[A].work == {}
    assert open_descriptors() == before
    assert budget.open == 0
    assert len(caplog.records) == 1
    assert "nothing is counted for job 1: " in caplog.text


def test_a_counter_that_cannot_be_read_any_more_ends_the_job_s_figures(make, kernel, caplog):
    made = make("cycles")
    look(made)
    kernel.per_reading = None
    for _ in range(2):
        assert look(made).jobs[A].work == {}
    assert len(caplog.records) == 1
    assert kernel.of_jobs() == []


def test_the_hierarchy_of_v1_for_perf_is_preferred(make, kernel, tmp_path):
    (tmp_path / "cgroup/cgroup.controllers").unlink()
    (tmp_path / "cgroup/perf_event/slurm/job_1").mkdir(parents=True)
    assert look(make("cycles")).jobs[A].work == {"cycles": 40}


def test_without_the_setting_nothing_is_asked_or_changed(make):
    made = make("")
    snapshot = Snapshot(taken_at_secs=0, duration_secs=0, node=NodeSample(), jobs={})

    def fail(*_):
        raise AssertionError

    assert made.fill(snapshot, fail, fail) is snapshot


def test_stopping_closes_all(make, kernel):
    made = make("cycles")
    look(made)
    made.stop()
    assert kernel.of_jobs() == []


def test_a_scrape_has_the_work_of_a_job_that_is_alone(node, kernel, tmp_path, monkeypatch):
    node.job_v2("job_4")
    node.process(10, cgroup="0::/system.slice/slurmstepd.scope/job_4\n")
    (node.proc / "cpuinfo").write_text("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n")
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0\n")
    monkeypatch.setattr(
        Context, "whole_node_jobs", property(lambda context: dict.fromkeys(context.jobs_here, True))
    )
    flags = {
        "path.procfs": str(node.proc),
        "path.sysfs": f"{tmp_path}/sys",
        "path.cgroup": str(node.cgroup),
        "features.publish": "false",
        "batch.sources": "spool",
        "spool.directory": str(tmp_path),
        "gpu.drivers": "none",
        "sample.interval": "50ms",
        "work.events": ALL,
    }
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}))
    daemon.start()
    try:
        until(lambda: b"batch_job_floating_point_operations_total{" in daemon.exposition(openmetrics=False))
        page = daemon.exposition(openmetrics=False).decode()
    finally:
        daemon.stop()
    assert 'batch_node_work_event_up{event="cycles"} 1' in page
    for name in ("instructions", "cycles", "cache_misses"):
        assert f'batch_job_{name}_total{{batch_system="slurm",job_id="4"}} ' in page
    until(lambda: kernel.of_jobs() == [])  # closed by the thread that looks, when that ends


ROOT = "/sys/fs/cgroup"
PAGES = 4000
# Enters the group, then touches new pages; another one does the same outside.
PROGRAM = f"""
import mmap, resource, sys
if sys.argv[1]:
    open(sys.argv[1], "w").write("0")
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
with mmap.mmap(-1, {PAGES} * mmap.PAGESIZE) as area:
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range({PAGES}):
        area[page * mmap.PAGESIZE] = 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.fixture
def group():
    """Return a control group of our own in the hierarchy where perf counts."""
    if os.geteuid() != 0:
        pytest.skip("making control groups needs root")
    tops = [f"{ROOT}/perf_event", find_hierarchies(ROOT).get(UNIFIED, "")]
    top = next((each for each in tops if each and os.path.isdir(each)), None)
    if top is None:
        pytest.skip("this machine has no control groups for perf")
    made = Path(top, f"jobfeatures-work-{os.getpid()}")
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"this root may not make control groups: {error}")
    yield made
    made.rmdir()


@pytest.fixture
def counts():
    """Skip where the kernel has no perf, or not for us."""
    try:
        os.close(open_counter(SOFTWARE["task_clock"][0], 0, None))
    except OSError as error:
        pytest.skip(f"this machine has no perf events for us: {error}")


def run(group):
    done = subprocess.run([sys.executable, "-c", PROGRAM, group], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.program
def test_what_programs_of_a_group_do_is_counted_and_what_others_do_is_not(group, counts):
    def look():
        sample = JobSample(key=A, accounting=FigureSource.CGROUP, in_group=True, cgroup=f"/{group.name}")
        snapshot = Snapshot(taken_at_secs=0, duration_secs=0, node=NodeSample(), jobs={A: sample})
        return monitor.fill(snapshot, lambda: {A: True}, lambda _key: False).jobs[A].work

    monitor = WorkMonitor(
        WorkSettings(events=("page_faults", "task_clock")), PathsSettings(cgroup=ROOT), DescriptorBudget()
    )
    try:
        assert look() == {"page_faults": 0, "task_clock": 0}
        run("")
        assert look() == {"page_faults": 0, "task_clock": 0}
        own = run(f"{group}/cgroup.procs")
        work = look()
        # Its own account has those too that the kernel takes while it copies for it.
        assert PAGES <= work["page_faults"] <= own + PAGES // 2
        assert work["task_clock"] > 0
        (group / "step").mkdir()
        try:
            run(f"{group}/step/cgroup.procs")
            assert look()["page_faults"] >= work["page_faults"] + PAGES
        finally:
            (group / "step").rmdir()
    finally:
        monitor.stop()


@pytest.mark.program
def test_a_group_that_has_gone_still_has_what_it_did(group, counts):
    step = group / "gone"
    step.mkdir()
    descriptor = os.open(step, os.O_RDONLY | os.O_DIRECTORY)
    try:
        counters = [
            open_counter(SOFTWARE["page_faults"][0], cpu, descriptor)
            for cpu in sorted(os.sched_getaffinity(0))
        ]
    finally:
        os.close(descriptor)
    try:
        run(f"{step}/cgroup.procs")
        step.rmdir()
        assert sum(read_counter(each)[0] for each in counters) >= PAGES
    finally:
        for each in counters:
            os.close(each)


def test_what_is_no_control_group_is_refused(tmp_path, counts):
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError, match=r"Bad file descriptor|Invalid argument"):
            open_counter(SOFTWARE["task_clock"][0], 0, descriptor)
    finally:
        os.close(descriptor)
