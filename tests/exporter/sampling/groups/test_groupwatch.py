import os
import shutil
import subprocess
import threading
from contextlib import suppress

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures.system import inotify
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.sampling.extrasamples import BURST_SAMPLES
from jobfeatures_exporter.sampling.groups import grouptree
from jobfeatures_exporter.sampling.groups import groupwatch as arrivals
from jobfeatures_exporter.sampling.groups.grouptree import compute_shapes_below
from jobfeatures_exporter.sampling.groups.groupwatch import JobArrivals
from jobfeatures_exporter.sampling.layout.hierarchies import shapes_at
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from tests.running import NO_INOTIFY, count_watches, until

V2 = "system.slice/slurmstepd.scope"


@pytest.fixture
def watch(node, clock):
    """Return a function that starts to watch the made-up node; it returns the watcher and the looks asked for."""
    made = []

    def start(root=None, **more):
        asked = []
        made.append(
            JobArrivals(str(root or node.cgroup), clock, lambda: asked.append(1), interval_secs=10.0, **more)
        )
        made[-1].rescan()
        return made[-1], asked

    yield start
    for each in made:
        each.stop()
        each.run()  # which closes what it has


def looks(watcher, asked):
    """Return how many looks are asked for by what has happened."""
    del asked[:]
    watcher.follow()
    return len(asked)


def test_each_batch_system_s_shapes_are_watched():
    below = compute_shapes_below(shapes_at(""), "system.slice")
    assert () in compute_shapes_below(compute_shapes_below(below, "slurmstepd.scope"), "job_1")
    assert () in compute_shapes_below(compute_shapes_below(shapes_at("/x"), "n1_slurmstepd.scope"), "job_1")
    assert () in compute_shapes_below(compute_shapes_below(shapes_at(""), "torque"), "7")
    assert compute_shapes_below(shapes_at("/x"), "7.srv") == frozenset()
    assert compute_shapes_below(shapes_at(""), "nobody") == frozenset()


def test_nothing_is_due_where_nothing_happens(node, watch):
    node.job_v2("job_1")
    watcher, asked = watch()
    assert looks(watcher, asked) == 0


def test_a_job_that_begins_is_looked_at_at_once(node, watch):
    node.job_v2("job_1")
    watcher, asked = watch()
    node.job_v2("job_2")
    assert looks(watcher, asked) == 1
    assert looks(watcher, asked) == 0


def test_a_job_that_begins_is_looked_at_again_soon(node, watch, clock):
    node.job_v2("job_1")
    watcher, asked = watch()
    node.job_v2("job_2")
    watcher.follow()
    clock.advance(0.6)
    assert looks(watcher, asked) == 1


def test_a_job_in_directories_made_with_it_is_seen(node, watch):
    """The first job of a user, the first job of all: no directory but the root was there."""
    (node.cgroup / "cpu,cpuacct").mkdir()
    watcher, asked = watch()
    node.job_v1("slurm_n1/uid_6001/job_10")
    assert looks(watcher, asked) == 1
    node.job_v1("slurm_n1/uid_6002/job_11")
    assert looks(watcher, asked) == 1


def test_groups_that_have_been_removed_need_no_watch(node, watch, monkeypatch, caplog):
    """A control group's removal ends its watch without a notification: 50 jobs a second would use them up."""
    node.job_v2("job_0")
    monkeypatch.setattr(grouptree, "MAX_WATCHES", 8)
    watcher, asked = watch()
    all_notices = inotify.Inotify.notices
    told = lambda own: (each for each in all_notices(own) if not each.mask & inotify.IGNORED)  # noqa: E731
    monkeypatch.setattr(inotify.Inotify, "notices", told)
    for number in range(1, 50):
        group = node.job_v2(f"job_{number}")
        (group / "step_0").mkdir()
        assert looks(watcher, asked) <= 1
        (group / "step_0").rmdir()
        shutil.rmtree(group)
        watcher.follow()
    assert "watches" not in caplog.text


def test_a_step_and_a_job_that_end_are_looked_at(node, watch, clock):
    group = node.job_v2("job_1")
    (group / "step_0").mkdir()
    watcher, asked = watch()
    (group / "step_0").rmdir()
    assert looks(watcher, asked) == 1
    clock.advance(60)
    node.end_job("job_1")
    assert looks(watcher, asked) == 1


def test_other_directories_and_what_is_below_jobs_is_nobody_s_business(node, watch):
    group = node.job_v2("job_1")
    (group / "step_0").mkdir()
    watcher, asked = watch()
    (node.cgroup / "system.slice/cron.service").mkdir()
    (group / "step_0/user").mkdir()
    (group / "step_0/user/job_7").mkdir()
    (group / "cgroup.procs").write_text("1\n")
    assert looks(watcher, asked) == 0


def test_jobs_by_the_hundred_ask_for_a_few_looks_only(node, watch):
    node.job_v2("job_1")
    watcher, asked = watch()
    for number in range(2, 200):
        node.job_v2(f"job_{number}")
        watcher.follow()
    assert len(asked) <= BURST_SAMPLES


def test_watches_go_with_the_jobs(node, watch, caplog, monkeypatch):
    monkeypatch.setattr(grouptree, "MAX_WATCHES", 8)  # of which none is used up by jobs that have ended
    node.job_v2("job_1")
    watcher, _ = watch()
    before = count_watches()
    for number in range(2, 200):
        node.job_v2(f"job_{number}")
        watcher.follow()
        node.end_job(f"job_{number}")
        watcher.follow()
    assert count_watches() == before
    watcher.rescan()
    assert count_watches() == before
    assert caplog.records == []


def test_watches_are_bounded_and_the_lack_is_told_once(node, watch, caplog, monkeypatch):
    monkeypatch.setattr(grouptree, "MAX_WATCHES", 5)
    for number in range(1, 20):
        node.job_v2(f"job_{number}")
    before = count_watches()
    watcher, _ = watch()
    watcher.rescan()
    assert count_watches() == before + 5
    assert len(caplog.records) == 1


def test_links_are_not_followed(node, watch, tmp_path):
    (tmp_path / "elsewhere/slurmstepd.scope/job_1").mkdir(parents=True)
    node.job_v2("job_1")
    watcher, _ = watch()
    before = count_watches()
    (node.cgroup / "slurm").symlink_to(tmp_path / "elsewhere")
    (node.cgroup / V2 / "job_9").symlink_to(tmp_path / "elsewhere")
    watcher.follow()
    assert count_watches() == before


def test_a_missing_root_is_looked_for_again(node, watch):
    before = count_watches()
    watcher, asked = watch(root=node.cgroup / "later")
    assert count_watches() == before
    (node.cgroup / "later" / V2).mkdir(parents=True)
    (node.cgroup / "later/cgroup.controllers").write_text("cpu\n")
    watcher.rescan()
    (node.cgroup / "later" / V2 / "job_1").mkdir()
    assert looks(watcher, asked) == 1


def test_the_thread_wakes_the_sampling_and_ends(node, clock, open_descriptors):
    before = open_descriptors()
    node.job_v2("job_1")
    asked = threading.Event()
    watcher = JobArrivals(str(node.cgroup), clock, asked.set, interval_secs=10.0)
    ready = threading.Event()
    original = watcher.rescan
    watcher.rescan = lambda: (original(), ready.set())
    thread = threading.Thread(target=watcher.run)
    thread.start()
    assert ready.wait(60)
    node.job_v2("job_2")
    assert asked.wait(60)
    watcher.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert open_descriptors() == before


def test_without_inotify_the_thread_goes_on_says_so_once_and_watches_as_soon_as_it_can(
    node, monkeypatch, caplog
):
    node.job_v2("job_1")
    before, kernel = count_watches(), pytest.MonkeyPatch()
    kernel.setattr(inotify, "_libc", NO_INOTIFY)
    monkeypatch.setattr(arrivals, "RESCAN_SECS", 0.01)
    looked = threading.Event()
    watcher = JobArrivals(str(node.cgroup), SystemClock(), looked.set, interval_secs=0.1)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        assert not looked.wait(0.2)
        assert thread.is_alive()
        assert caplog.text.count("short jobs may be missed: Too many open files") == 1
        assert count_watches() == before
        kernel.undo()
        until(lambda: count_watches() > before)
        node.job_v2("job_2")
        assert looked.wait(60)
    finally:
        kernel.undo()
        watcher.stop()
        thread.join(60)


# --- on the real kernel ------------------------------------------------------------


def group_below(tops, tmp_path):
    """Return a new control group of the real kernel, or skip."""
    for top in tops:
        path = f"{top}/jobfeatures-test-{os.getpid()}-{tmp_path.name}"
        with suppress(OSError):
            os.mkdir(path)
            if os.path.exists(f"{path}/cgroup.procs"):
                return path
            os.rmdir(path)
    pytest.skip("no control group can be made here: needs root and a mounted hierarchy")


@pytest.fixture(params=["v1", "v2"])
def real(request, tmp_path, monkeypatch):
    """Return the root of a real hierarchy, a group of its own, and the directory in which a job of Slurm's stands."""
    if request.param == "v1":
        tops, below = ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct"], "slurm/uid_6001"
    else:
        tops, below = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"], V2
    top = group_below(tops, tmp_path)
    made = [top]
    for name in below.split("/"):
        made.append(f"{made[-1]}/{name}")
        os.mkdir(made[-1])
    if request.param == "v1":
        monkeypatch.setattr(arrivals, "find_hierarchies", lambda root: {"cpuacct": root})
    yield top, made[-1]
    for path in reversed(made):
        os.rmdir(path)


def test_the_real_kernel_tells_of_jobs_and_their_figures_end_with_them(real, watch, clock):
    root, parent = real
    watcher, asked = watch(root=root)
    job = f"{parent}/job_5"
    os.mkdir(job)
    try:
        assert looks(watcher, asked) == 1
        clock.advance(60)
        looks(watcher, asked)
        os.mkdir(f"{job}/step_0")
        looks(watcher, asked)
        clock.advance(60)
        os.rmdir(f"{job}/step_0")
        assert looks(watcher, asked) == 1
        name = "cpu.stat" if os.path.exists(f"{job}/cpu.stat") else "cpuacct.usage"
        kept = os.open(f"{job}/{name}", os.O_RDONLY)
        assert os.pread(kept, 64, 0)
    finally:
        os.rmdir(job)
    with pytest.raises(OSError, match="No such device"):
        os.pread(kept, 64, 0)
    os.close(kept)
    clock.advance(60)
    assert looks(watcher, asked) == 1


def test_the_real_kernel_tells_of_a_job_below_a_prefix_never_thought_of_and_of_its_end(real, watch, clock):
    root, _ = real
    watcher, asked = watch(root=root)
    before, there = count_watches(), watcher.tree.candidates()
    groups = ["site.slice", "cri-1.scope", "system.slice", "n1_slurmstepd.scope", "job_5"]
    paths = [f"{root}/{'/'.join(groups[: depth + 1])}" for depth in range(len(groups))]
    for path in paths:
        os.mkdir(path)
    try:
        assert looks(watcher, asked) == 1
        assert watcher.tree.candidates() - there == {"/site.slice/cri-1.scope/system.slice"}
    finally:
        for path in reversed(paths):
            os.rmdir(path)
    clock.advance(60)
    assert looks(watcher, asked) == 1
    assert watcher.tree.candidates() == there
    assert count_watches() == before


@pytest.mark.parametrize("real", ["v2"], indirect=True)
def test_on_v2_the_real_kernel_tells_when_a_job_runs_empty_and_its_figures_are_whole_then(real, watch, clock):
    root, parent = real
    watcher, asked = watch(root=root)
    job = f"{parent}/job_5"
    os.mkdir(job)
    sampler = Sampler(SamplerSettings(cgroup=root), clock)
    try:
        watcher.follow()
        clock.advance(60)
        watcher.follow()
        script = f"echo $$ > {job}/cgroup.procs && i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
        subprocess.run(["/bin/sh", "-c", script], check=True)
        clock.advance(60)
        assert until(lambda: looks(watcher, asked)) == 1
        used = sampler.sample().jobs[JobKey("slurm", "5")]
        assert used.user_cpu_secs > 0
        assert used.processes == 0
    finally:
        sampler.close()
        os.rmdir(job)


def test_pods_that_come_and_go_wake_it_a_few_times_a_second_at_most(node, clock, monkeypatch):
    """What stands in one without a sign of jobs waits for the next look; an idle node wakes nobody."""
    (node.cgroup / "cgroup.controllers").touch()
    pods = node.cgroup / "kubepods.slice/kubepods-burstable.slice"
    pods.mkdir(parents=True)
    watcher = JobArrivals(str(node.cgroup), clock, lambda: None, interval_secs=10.0)
    waits = []

    def make(name):
        (pods / f"{name}.slice/x.scope/slurmstepd.scope").mkdir(parents=True)

    def wait(_self, timeout_secs, other=None):
        found = "".join(sorted(each.split("/")[3][0] for each in watcher.tree.candidates() if "pods" in each))
        waits.append((timeout_secs <= arrivals.PODS_SECS, other is not None, found))
        if len(waits) == 1:
            make("1")
        elif len(waits) == 2:
            make("2")
        elif len(waits) == 3:
            clock.advance(arrivals.PODS_SECS)
        elif len(waits) == 6:
            watcher.stop()
        return other is not None and len(waits) < 5

    monkeypatch.setattr(inotify.Inotify, "wait", wait)
    watcher.run()
    until_all, until_due = (False, True), (True, False)
    assert waits == [
        (*until_all, ""),
        (*until_due, "1"),
        (*until_due, "1"),
        (*until_all, "1"),
        (*until_due, "12"),
        (*until_due, "12"),
    ]
