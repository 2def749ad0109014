"""The real call, by what any kernel counts: no machine of ours has counters of a processor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget
from jobfeatures_exporter.sampling.groups.hierarchy import UNIFIED, find_hierarchies
from jobfeatures_exporter.sampling.performance.events import SOFTWARE
from jobfeatures_exporter.sampling.performance.monitor import WorkMonitor
from jobfeatures_exporter.sampling.performance.perf import open_counter, read_counter
from jobfeatures_exporter.snapshot import Accounting, JobSample, NodeSample, Snapshot

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
KEY = JobKey("slurm", "1")


class Config:
    path_procfs, path_sysfs, path_cgroup = "/proc", "/sys", ROOT
    work_events = ("page_faults", "task_clock")


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
        sample = JobSample(key=KEY, accounting=Accounting.CGROUP, cgroup=f"/{group.name}")
        snapshot = Snapshot(taken_at_secs=0, duration_secs=0, node=NodeSample(), jobs={KEY: sample})
        return monitor.fill(snapshot, lambda: {KEY: True}, lambda _key: False).jobs[KEY].work

    monitor = WorkMonitor(Config(), DescriptorBudget())
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
