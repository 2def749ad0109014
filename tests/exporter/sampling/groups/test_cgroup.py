import errno
import os
import shutil

import pytest

from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.groups.cgroup import RARELY_SAMPLES, STILL_SAMPLES, JobCgroup, JobCgroups
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.groupfiles import GroupFile
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes
from tests.exporter.sampling.groups.made import listed


def test_a_captured_job_of_v1_is_read(fixtures, budget, unreadable):
    (directory,) = listed(fixtures / "cgroup-v1", unreadable)
    assert directory.path == "/slurm_n1/uid_6001/job_10"
    assert (directory.membership.job_id, directory.membership.uid, directory.membership.node) == (
        "10",
        6001,
        "n1",
    )
    group = JobCgroup(directory, budget, unreadable)
    for _ in range(2):  # opened, then read through the kept descriptors
        assert group.read() == GroupFigures(
            cpu=CpuTimes(pytest.approx(4.8), pytest.approx(1.2)),
            memory=MemoryBytes(
                anon=593920, file=131072, shmem=4096, kernel=348160, swap=8192, charged=2277376, limit=104857600,
                peak=3502080, reclaimable=135168,
            ),
            counters={
                "oom_kills": {"": (0,), "/step_batch": (0,), "/step_batch/task_0": (1,)},
                "limit_hits": {"": (174,), "/step_batch": (0,), "/step_batch/task_0": (0,)},
                "block_io": {"254:0": (8192, 4096, 2, 1)},
            },
            cpus=frozenset({0, 1}),
        )  # fmt: skip
    assert unreadable.counts == {}
    assert budget.open == 16
    group.close()
    assert budget.open == 0


def test_jobs_of_v2_are_read_by_number_and_by_sluid(fixtures, budget, unreadable):
    directories = {each.path.rpartition("/")[2]: each for each in listed(fixtures / "cgroup-v2", unreadable)}
    assert sorted(directories) == ["job_4", "s5K1KKYAYG5D00"]
    job = JobCgroup(directories["job_4"], budget, unreadable)
    assert job.read() == GroupFigures(
        cpu=CpuTimes(0.049043, 0.077643),
        memory=MemoryBytes(
            anon=2260992,
            file=499712,
            shmem=16384,
            kernel=2756608,
            swap=4096,
            charged=5533696,
            limit=None,
            peak=6533120,
            sock=0,
            reclaimable=499712,
        ),
        counters={
            "oom_kills": {"": (1,)},
            "ooms": {"": (2,)},
            "limit_hits": {"": (174,)},
            "high_hits": {"": (0,)},
            "block_io": {"254:0": (8192, 4096, 2, 1), "253:0": (8192, 4096, 2, 1)},
            ("cpu", "some"): {"": (1500000,)},
            ("cpu", "full"): {"": (100000,)},
            ("memory", "some"): {"": (2500000,)},
            ("memory", "full"): {"": (200000,)},
            ("io", "some"): {"": (3500000,)},
            ("io", "full"): {"": (300000,)},
        },
        cpus=frozenset({0, 1, 2, 5}),
    )
    old = JobCgroup(directories["s5K1KKYAYG5D00"], budget, unreadable)
    assert old.read() == GroupFigures(
        cpu=CpuTimes(2.0, 1.0),
        memory=MemoryBytes(anon=1000, file=200, shmem=100, kernel=100, sock=7, charged=1500, reclaimable=200),
    )
    assert directories["s5K1KKYAYG5D00"].membership.name == "s5K1KKYAYG5D00"
    assert unreadable.counts == {}  # a file that a kernel does not have is no failure
    job.close()
    old.close()


def test_a_hybrid_layout_is_read_from_v1(node, budget, unreadable):
    node.job_v1("slurm/uid_1/job_2", usage_secs=5, user=1, system=0)
    (node.cgroup / "unified/system.slice").mkdir(parents=True)
    (directory,) = listed(node.cgroup, unreadable)
    assert JobCgroup(directory, budget, unreadable).read().cpu == CpuTimes(5.0, 0.0)


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("memory.stat", {"anon", "file", "shmem", "swap"}),
        ("memory.usage_in_bytes", {"charged"}),
        ("memory.limit_in_bytes", set()),
        ("memory.kmem.usage_in_bytes", {"kernel"}),
        ("memory.max_usage_in_bytes", {"peak"}),
    ],
)
@pytest.mark.parametrize("failure", [errno.EACCES, errno.EIO, errno.ENODEV, "garbage"])
def test_a_file_that_cannot_be_read_costs_its_own_figures_only(
    node, budget, unreadable, fail_opening, name, lost, failure
):
    node.job_v1("slurm/uid_1/job_2", usage_secs=1)
    whole = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable).read()
    if failure == "garbage":
        (node.cgroup / "memory/slurm/uid_1/job_2" / name).write_text("\xff-1\n")
    else:
        fail_opening(name, failure)
    broken = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable).read()
    assert broken.cpu == whole.cpu
    for field in ("anon", "file", "shmem", "swap", "kernel", "charged", "peak"):
        assert getattr(broken.memory, field) == (None if field in lost else getattr(whole.memory, field))
    kind = failure if failure == "garbage" else errno.errorcode[failure].lower()
    expected = {} if failure == errno.ENODEV else {f"job_{name.replace('.', '_')}_{kind}": 1}
    assert unreadable.counts == expected


def test_without_the_precise_total_the_sampled_times_count(node, budget, unreadable):
    node.job_v1("slurm/uid_1/job_2", user=300, system=100)
    (node.cgroup / "cpu,cpuacct/slurm/uid_1/job_2/cpuacct.usage").unlink()
    assert JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable).read().cpu == CpuTimes(3.0, 1.0)
    (node.cgroup / "cpu,cpuacct/slurm/uid_1/job_2/cpuacct.stat").write_text("")
    assert JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable).read().cpu is None


def test_a_directory_that_vanished_is_not_an_error(node, budget, unreadable):
    node.job_v1("slurm/uid_1/job_2")
    group = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable)
    node.end_job("slurm/uid_1/job_2")
    assert group.read() == GroupFigures(cpu=None, memory=MemoryBytes())
    assert unreadable.counts == {}


def test_groups_come_and_go_with_their_directories(node, budget, unreadable):
    groups = JobCgroups(str(node.cgroup), budget, unreadable, wanted=lambda each: each.job_id != "3")
    node.job_v2("job_1")
    node.job_v2("job_2")
    found = groups.update()
    first = {each.membership.job_id: each for each in found.directories}
    for each in found.directories:
        groups.reader(each).read()
    node.end_job("job_1")
    found = groups.update()
    assert list(found.directories) == [first["2"]]
    node.job_v2("job_3")
    node.end_job("job_2")
    found = groups.update()
    assert list(found.directories) == [], "and the third is not wanted"
    assert budget.open == 0
    groups.close()


def test_the_swap_that_a_job_may_have_is_its_own_limit_or_what_is_above_that_of_its_memory(
    node, budget, unreadable
):
    group = node.job_v2("job_1")

    def limit():
        return JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable).read().memory.swap_limit

    assert limit() is None
    (group / "memory.swap.max").write_text("0\n")
    assert limit() == 0
    (group / "memory.swap.max").write_text("max\n")
    assert limit() is None


@pytest.mark.parametrize(
    ("memory", "both", "swap"),
    [(100, 150, 50), (100, 100, 0), (100, 2**63 - 4096, None), (2**63 - 4096, 2**63 - 4096, None)],
)
def test_of_v1_the_limit_of_memory_and_swap_together_leaves_that_of_swap(
    node, budget, unreadable, memory, both, swap
):
    node.job_v1("slurm/uid_1/job_3")
    group = node.cgroup / "memory/slurm/uid_1/job_3"
    (group / "memory.limit_in_bytes").write_text(f"{memory}\n")
    (group / "memory.memsw.limit_in_bytes").write_text(f"{both}\n")
    (directory,) = listed(node.cgroup, unreadable)
    assert JobCgroup(directory, budget, unreadable).read().memory.swap_limit == swap


def readers(groups):
    """Return what reads the groups that are there at this sample."""
    return [groups.reader(each) for each in groups.update().directories]


def limits_of(node, budget, unreadable, looks=1):
    """Return the limits of the only job at the last of so many samples."""
    groups = JobCgroups(str(node.cgroup), budget, unreadable)
    for _ in range(looks):
        [job] = readers(groups)
        memory = job.read().memory
    groups.close()
    return memory.limit_above or memory.limit, memory.swap_limit, memory.high


def test_a_limit_above_the_group_of_a_job_of_v2_is_the_job_s(node, budget, unreadable):
    scope = node.job_v2("job_1").parent
    assert limits_of(node, budget, unreadable) == (None, None, None)
    (scope / "memory.max").write_text("5000\n")
    (scope.parent / "memory.max").write_text("4000\n")
    (scope.parent / "memory.swap.max").write_text("30\n")
    (scope / "memory.high").write_text("3000\n")
    assert limits_of(node, budget, unreadable) == (4000, 30, 3000)
    (scope / "job_1/memory.max").write_text("100\n")
    (scope / "job_1/memory.high").write_text("90\n")
    assert limits_of(node, budget, unreadable) == (100, 30, 90)
    assert budget.open == 0


def test_memory_that_v2_counts_beside_v1_s_cpu_time_is_read(node, budget, unreadable):
    node.job_v1("slurm/uid_1/job_3")
    shutil.rmtree(node.cgroup / "memory")
    group = node.cgroup / "unified/slurm/uid_1/job_3"
    group.mkdir(parents=True)
    (node.cgroup / "unified/cgroup.controllers").write_text("memory\n")
    for name, text in (
        ("stat", "anon 9\nfile 0\nshmem 0\nnew_in_7 x y\n"),
        ("current", "20\n"),
        ("max", "50\n"),
    ):
        (group / f"memory.{name}").write_text(text)
    [job] = [JobCgroup(each, budget, unreadable) for each in listed(node.cgroup, unreadable)]
    assert job.directory.counts_cpu
    memory = job.read().memory
    assert (memory.anon, memory.used, memory.limit) == (9, 20, 50)
    job.close()


def test_a_limit_above_the_group_of_a_job_of_v1_is_the_job_s(node, budget, unreadable):
    node.job_v1("slurm/uid_6001/job_901")
    stat = node.cgroup / "memory/slurm/uid_6001/job_901/memory.stat"
    stat.write_text(f"hierarchical_memory_limit 49999872\n{stat.read_text()}")
    assert limits_of(node, budget, unreadable) == (49_999_872, None, None)


def test_limits_above_are_read_once_for_all_jobs_below_and_seldom(node, budget, unreadable, monkeypatch):
    scope = node.job_v2("job_1").parent
    for number in range(2, 30):
        node.job_v2(f"job_{number}")
    (scope / "memory.max").write_text("5000\n")
    reads = []
    known = GroupFile.read

    def read(file, *, rarely=False):
        reads.append(file.path)
        return known(file, rarely=rarely)

    monkeypatch.setattr(GroupFile, "read", read)
    groups = JobCgroups(str(node.cgroup), budget, unreadable)
    for _ in range(RARELY_SAMPLES):
        assert {each.read().memory.limit_above for each in readers(groups)} == {5000}
    assert reads.count(f"{scope}/memory.max") == 2
    (scope / "memory.max").write_text("6000\n")
    for _ in range(RARELY_SAMPLES):
        found = {each.read().memory.limit_above for each in readers(groups)}
    assert found == {6000}
    groups.close()
    assert budget.open == 0


def test_a_limit_above_that_cannot_be_read_is_counted(node, budget, unreadable):
    scope = node.job_v2("job_1").parent
    (scope / "memory.max").write_text("garbage\n")
    assert limits_of(node, budget, unreadable) == (None, None, None)
    assert unreadable.counts == {"job_memory_max_garbage": 1}


@pytest.mark.parametrize("is_asleep", [False, True])
@pytest.mark.parametrize(("make", "file"), [("job_v1", "memory.limit_in_bytes"), ("job_v2", "memory.max")])
def test_a_memory_limit_that_is_lowered_while_the_job_runs_is_told_soon(
    node, budget, unreadable, make, file, is_asleep
):
    """As by scontrol update MinMemoryNode, or by itself with --mem-update (Slurm 26.05)."""
    is_v1 = make == "job_v1"
    group = getattr(node, make)("slurm/uid_1/job_3" if is_v1 else "job_3")
    group = node.cgroup / "memory/slurm/uid_1/job_3" if is_v1 else group
    (group / file).write_text("400000000\n")
    groups = JobCgroups(str(node.cgroup), budget, unreadable)
    [job] = readers(groups)
    assert job.read().memory.limit == 400_000_000
    (group / file).write_text("76000000\n")
    for _ in range(RARELY_SAMPLES):
        groups.update()
        if not is_asleep or not job.sample_if_unchanged(cpu=True):
            found = job.read().memory.limit
    assert found == 76_000_000
    groups.close()


def test_a_sleeping_job_s_limit_above_it_is_noticed(node, budget, unreadable):
    scope = node.job_v2("job_1").parent
    groups = JobCgroups(str(node.cgroup), budget, unreadable)
    [job] = readers(groups)
    job.read()
    (scope / "memory.max").write_text("5000\n")
    seen = []
    while 5000 not in seen and len(seen) < STILL_SAMPLES:
        groups.update()
        seen.append(None if job.sample_if_unchanged(cpu=True) else job.read().memory.limit_above)
    assert seen[-1] == 5000
    groups.close()


def test_huge_pages_are_those_that_the_controller_counts(node, budget, unreadable):
    group = node.job_v2("job_1")
    [job] = [JobCgroup(each, budget, unreadable) for each in listed(node.cgroup, unreadable)]
    assert job.read_huge_pages([2**21]) is None
    (group / "hugetlb.2MB.current").write_text(f"{10 * 2**21}\n")
    (group / "hugetlb.1GB.current").write_text(f"{2**30}\n")
    job.read()
    job.read()
    assert job.read_huge_pages([2**21]) == 10 * 2**21
    assert job.read_huge_pages([2**21, 2**30]) == 10 * 2**21 + 2**30
    assert job.read_huge_pages([2**21, 2**25]) is None, "one size is not counted"


@pytest.mark.parametrize("is_local", [False, True])
def test_kills_of_steps_that_the_job_s_group_leaves_out_are_not_0(
    node, budget, unreadable, monkeypatch, is_local
):
    monkeypatch.setattr("jobfeatures_exporter.sampling.groups.cgroup.has_local_events", lambda: is_local)
    top = node.job_v2("job_2")
    (top / "memory.events").write_text("low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n")
    counters = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable).read().counters
    assert counters.get("oom_kills") == (None if is_local else {"": (0,)})
    assert ("limit_hits" in counters, unreadable.counts) == (not is_local, {})


def test_kernel_memory_that_v1_does_not_count_is_not_0(node, budget, unreadable):
    path = "slurm/uid_1/job_2"
    node.job_v1(path, memory=8192)
    (node.cgroup / "memory" / path / "memory.kmem.usage_in_bytes").write_text("0\n")
    group = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable)
    assert group.read().memory[:4] == (8192, 0, 0, None)


def test_huge_pages_of_v1_are_in_a_hierarchy_of_their_own(node, budget, unreadable):
    node.job_v1("slurm/uid_1/job_2")
    group = node.cgroup / "hugetlb/slurm/uid_1/job_2"
    group.mkdir(parents=True)
    (group / "hugetlb.2MB.usage_in_bytes").write_text("4194304\n")
    [job] = [JobCgroup(each, budget, unreadable) for each in listed(node.cgroup, unreadable)]
    assert job.read_huge_pages([2**21]) == 4_194_304


def fail_listing(monkeypatch, name):
    real = os.scandir

    def fake(path):
        if str(path).endswith(name):
            raise OSError(errno.EIO, "x")
        return real(path)

    monkeypatch.setattr(os, "scandir", fake)


def test_a_listing_that_fails_ends_no_job(node, budget, unreadable, monkeypatch):
    groups = JobCgroups(str(node.cgroup), budget, unreadable)
    node.job_v2("job_1")
    node.job_v2("job_2")
    found = groups.update()
    before = list(found.directories)
    fail_listing(monkeypatch, "slurmstepd.scope")
    found = groups.update()
    assert list(found.directories) == before
    assert unreadable.counts == {"job_directories_eio": 1}
    shutil.rmtree(node.cgroup / "system.slice/slurmstepd.scope/job_1")
    found = groups.update()
    assert [each.membership.job_id for each in found.directories] == ["2"]
    groups.close()


def test_directories_are_the_same_until_one_comes_or_goes(node, budget, unreadable, monkeypatch):
    node.job_v1("slurm/uid_1/job_1")
    memory = node.cgroup / "memory/slurm/uid_1/job_1"
    memory.rename(memory.with_name("later"))
    groups = JobCgroups(str(node.cgroup), budget, unreadable)
    found = groups.update()
    (before,) = found.directories
    found = groups.update()
    assert list(found.directories) == [before]
    assert not found.have_changed
    memory.with_name("later").rename(memory)
    found = groups.update()
    (with_memory,) = found.directories
    assert with_memory.counts_memory > before.counts_memory, "that of memory was made a moment later"
    listed = found.directories
    found = groups.update()
    assert found.directories is listed
    fail_listing(monkeypatch, "uid_1")
    found = groups.update()
    failed = unreadable.counts["job_directories_eio"]
    found = groups.update()
    assert list(found.directories) == [with_memory]
    assert unreadable.counts == {"job_directories_eio": 2 * failed}, "it is counted at each look"
    groups.close()


def fail(path, **_):
    raise OSError(errno.EIO, "x", path)


def test_a_kernel_that_did_not_say_which_version_it_has_is_asked_again(node, budget, unreadable, monkeypatch):
    node.job_v2("job_1")
    groups = JobCgroups(str(node.cgroup), budget, unreadable)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        found = groups.update()
        assert list(found.directories) == []
        assert unreadable.counts == {"cgroup_hierarchies_eio": 1}
    found = groups.update()
    assert [each.membership.job_id for each in found.directories] == ["1"]
    groups.close()


def test_a_node_without_control_groups_has_no_jobs(tmp_path, budget, unreadable):
    groups = JobCgroups(str(tmp_path / "nothing"), budget, unreadable)
    found = groups.update()
    assert list(found.directories) == []
    assert unreadable.counts == {}


def test_a_pipe_in_place_of_a_file_does_not_hang(node, budget, unreadable):
    group = node.job_v2("job_1")
    (group / "cpu.stat").unlink()
    os.mkfifo(group / "cpu.stat")
    assert JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable).read().cpu is None
    assert unreadable.counts == {"job_cpu_stat_espipe": 1}


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("memory.events", {"oom_kills", "ooms", "limit_hits", "high_hits"}),
        ("io.stat", {"block_io"}),
        ("cpu.pressure", {("cpu", "some"), ("cpu", "full")}),
    ],
)
@pytest.mark.parametrize("failure", [errno.EACCES, errno.EIO, "garbage"])
def test_a_counter_that_cannot_be_read_is_told_apart_from_one_that_is_not_there(
    node, budget, unreadable, fail_opening, name, lost, failure
):
    group = node.job_v2("job_2")
    (group / "memory.events").write_text("high 2\nmax 1\noom 3\noom_kill 0\n")
    (group / "io.stat").write_text("")
    (group / "cpu.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    reader = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable)
    assert reader.read().counters == {
        "oom_kills": {"": (0,)},
        "ooms": {"": (3,)},
        "limit_hits": {"": (1,)},
        "high_hits": {"": (2,)},
        "block_io": {},
        ("cpu", "some"): {"": (0,)},
    }
    reader.close()
    if failure == "garbage":
        (group / name).write_text("\xff")
    else:
        fail_opening(name, failure)
    counters = reader.read().counters
    assert {counter for counter, rows in counters.items() if rows is None} == lost
    kind = failure if failure == "garbage" else errno.errorcode[failure].lower()
    assert unreadable.counts == {f"job_{name.replace('.', '_')}_{kind}": 1}
    reader.close()


def after(looks, reader):
    """Return what the last of so many looks finds."""
    for _ in range(looks - 1):
        reader.read()
    return reader.read()


def test_a_cpuset_of_an_old_kernel_tells_what_was_asked_for_and_an_empty_one_nothing(
    node, budget, unreadable
):
    path = "slurm/uid_1/job_2"
    group = node.cgroup / "cpuset" / path
    group.mkdir(parents=True)
    (group / "cpuset.cpus").write_text("0-3\n")
    reader = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable)
    assert reader.read().cpus == {0, 1, 2, 3}
    (group / "cpuset.cpus").write_text("\n")
    assert after(RARELY_SAMPLES, reader).cpus is None
    (group / "cpuset.effective_cpus").write_text("0-7\n")
    assert len(after(RARELY_SAMPLES, reader).cpus) == 8
    reader.close()


def test_a_file_of_v1_without_any_device_does_not_say_that_nothing_was_moved(node, budget, unreadable):
    group = node.cgroup / "blkio/slurm/uid_1/job_2"
    group.mkdir(parents=True)
    for name in ("io_service_bytes", "io_serviced"):
        (group / f"blkio.throttle.{name}_recursive").write_text("Total 0\n")
    reader = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable)
    assert reader.read().counters == {}
    (group / "blkio.throttle.io_serviced_recursive").write_text("8:0 Read 1\n8:0 Write 0\nTotal 1\n")
    assert after(RARELY_SAMPLES, reader).counters == {"block_io": {"8:0": (0, 0, 1, 0)}}
    (group / "blkio.throttle.io_service_bytes_recursive").write_text("8:0 Read x\n")
    assert reader.read().counters == {"block_io": None}
    reader.close()


@pytest.mark.parametrize(
    ("make", "where", "text", "later"),
    [
        ("job_v1", "cpu,cpuacct/slurm/uid_1/job_3", "throttled_time 2068688167", "throttled_time 3068688167"),
        (
            "job_v2",
            "",
            "user_usec 1\nsystem_usec 1\nthrottled_usec 2068688",
            "user_usec 1\nsystem_usec 1\nthrottled_usec 3068688",
        ),
    ],
)
def test_the_time_for_which_a_quota_kept_a_job_from_its_cpus_is_read_where_there_is_one(
    node, budget, unreadable, make, where, text, later
):
    made = getattr(node, make)("slurm/uid_1/job_3" if where else "job_3")
    file = (node.cgroup / where if where else made) / "cpu.stat"
    file.write_text(f"nr_periods 30\n{text}\n")
    reader = JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable)
    assert reader.read().counters["throttled"] == {"": (2_068_688,)}
    file.write_text(f"nr_periods 60\n{later}\n")
    assert reader.read().counters["throttled"] == {"": (3_068_688,)}
    file.write_text("user_usec 1\nsystem_usec 1\nnr_periods 0\nthrottled_usec 0\n")
    assert "throttled" not in reader.read().counters
    reader.close()
