"""What was counted until the end of a job is in its last record; kills that no group shows are left open."""

import shutil

import pytest

from jobfeatures_exporter.sampling.groups.lastreadings import LastReadings
from tests.exporter.sampling.jobs import killed_v1, slurm, v1


def test_what_was_counted_between_the_last_look_and_the_end_is_in_the_final_record(node, make):
    words, path = LastReadings(), "slurm_n1/uid_6001/job_10"
    sampler = make(last_readings=words)
    node.job_v1(path, usage_secs=1.0, user=100, memory=4096)
    (node.cgroup / "memory" / path / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 0\n")
    first = sampler.sample().jobs[slurm("10")]
    assert (first.oom_kills, first.memory.peak) == (0, 4096)  # 0 from the first look on
    node.job_v1(path, usage_secs=3.0, user=300)
    killed_v1(node, path, "step_batch/task_0")
    words.note(str(node.cgroup / "memory" / path))
    shutil.rmtree(node.cgroup / "memory" / path / "step_batch")
    words.note(str(node.cgroup / "cpu,cpuacct" / path))
    node.end_job(path)
    snapshot = sampler.sample()
    assert slurm("10") not in snapshot.jobs
    final = snapshot.final[slurm("10")]
    assert (final.oom_kills, final.memory.peak, final.user_cpu_secs) == (1, 9000, 3.0)
    assert sampler.sample().final == {}
    words.close()


def on_v1(node, secs, *, peak, moved):
    node.job_v1("slurm_n1/uid_6001/job_10", usage_secs=secs, user=int(100 * secs), memory=peak)
    group = node.cgroup / "blkio/slurm_n1/uid_6001/job_10"
    group.mkdir(parents=True, exist_ok=True)
    for name, count in (("io_service_bytes", moved), ("io_serviced", moved // 512)):
        text = f"8:0 Read {count}\n8:0 Write 0\nTotal {count}\n"
        (group / f"blkio.throttle.{name}_recursive").write_text(text)


def on_v2(node, secs, *, peak, moved):
    group = node.job_v2("system.slice/slurmstepd.scope/job_10", user_usec=int(secs * 1e6), memory=4096)
    (group / "memory.peak").write_text(f"{peak}\n")
    (group / "io.stat").write_text(
        f"8:0 rbytes={moved} wbytes=0 rios={moved // 512} wios=0 dbytes=0 dios=0\n"
    )


@pytest.mark.parametrize("write", [on_v1, on_v2])
def test_what_a_running_job_has_used_until_the_latest_reading_between_samples_outlives_its_group(
    node, make, write
):
    def figures(sample):
        return sample.user_cpu_secs, sample.memory.peak, sample.block_io.read_bytes

    write(node, 1.0, peak=5000, moved=1024)
    sampler = make()
    sampler.sample()
    assert figures(sampler.sample().jobs[slurm("10")]) == (1.0, 5000, 1024)
    write(node, 3.0, peak=9000, moved=4096)
    assert not sampler.read_between()
    assert figures(sampler.sample().jobs[slurm("10")]) == (3.0, 9000, 4096), "a job that goes on has it too"
    write(node, 5.0, peak=9100, moved=8192)
    sampler.read_between()
    for each in list(node.cgroup.rglob("job_10")):
        shutil.rmtree(each)
    assert figures(sampler.sample().final[slurm("10")]) == (5.0, 9100, 8192)
    assert sampler.sample().final == {}


def test_the_first_transfers_of_a_job_are_found_between_samples_and_told_ever_after(node, make):
    on_v1(node, 1.0, peak=5000, moved=0)
    for name in ("io_service_bytes", "io_serviced"):
        (node.cgroup / f"blkio/slurm_n1/uid_6001/job_10/blkio.throttle.{name}_recursive").write_text(
            "Total 0\n"
        )
    sampler = make()
    for _ in range(3):
        sampler.sample()
    on_v1(node, 2.0, peak=5000, moved=4096)
    sampler.read_between()
    told = [sampler.sample().jobs[slurm("10")].block_io for _ in range(3)]
    assert [each.read_bytes for each in told] == [4096] * 3


@pytest.mark.parametrize("first", ["cpu,cpuacct", "memory", "blkio"])
@pytest.mark.parametrize("made_first", ["cpu,cpuacct", "memory"])
def test_what_was_read_of_a_group_counts_once_though_one_hierarchy_after_the_other_removes_it(
    node, make, first, made_first
):
    def figures(sample):
        return sample.user_cpu_secs, sample.memory.peak, sample.block_io.read_bytes

    path = "slurm_n1/uid_6001/job_10"
    for each in ("cpu,cpuacct", "memory", "blkio"):
        (node.cgroup / each).mkdir()
    (node.cgroup / made_first / path).mkdir(parents=True)
    sampler = make()
    sampler.sample()
    on_v1(node, 1.0, peak=5000, moved=1024)
    sampler.sample()
    on_v1(node, 3.0, peak=7000, moved=4096)
    assert figures(sampler.sample().jobs[slurm("10")]) == (3.0, 7000, 4096)
    on_v1(node, 5.0, peak=9100, moved=8192)
    sampler.read_between()
    shutil.rmtree(node.cgroup / first / path)
    assert figures(sampler.sample().jobs[slurm("10")]) == (5.0, 9100, 8192)


def test_the_greater_of_the_reading_at_the_end_and_one_between_samples_is_told(node, make):
    words, path = LastReadings(), "slurm_n1/uid_6001/job_10"
    sampler = make(last_readings=words)
    node.job_v1(path, usage_secs=1.0, user=100)
    sampler.sample()
    node.job_v1(path, usage_secs=2.0, user=200, memory=9000)
    sampler.read_between()
    node.job_v1(path, usage_secs=4.0, user=400, memory=8000)
    words.note(str(node.cgroup / "cpu,cpuacct" / path))
    node.end_job(path)
    final = sampler.sample().final[slurm("10")]
    assert (final.user_cpu_secs, final.memory.peak) == (4.0, 9000)
    words.close()


def test_a_kill_in_a_step_that_went_between_two_looks_is_counted_of_a_job_that_goes_on(node, make):
    words, path = LastReadings(), "slurm_n1/uid_6001/job_10"
    sampler = make(last_readings=words)
    node.job_v1(path)
    (node.cgroup / "memory" / path / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 0\n")
    sampler.sample()
    killed_v1(node, path, "step_0/task_0")
    words.note(str(node.cgroup / "memory" / path))
    shutil.rmtree(node.cgroup / "memory" / path / "step_0")
    for _ in range(3):
        assert sampler.sample().jobs[slurm("10")].oom_kills == 1
    words.close()


def node_kills(node, count):
    (node.proc / "vmstat").write_text(f"nr_free_pages 1\noom_kill {count}\n")


def counted_v1(node, path, kills=0):
    node.job_v1(path)
    for group in (path, f"{path}/step_0"):
        (node.cgroup / "memory" / group).mkdir(exist_ok=True)
        (node.cgroup / "memory" / group / "memory.oom_control").write_text(f"oom_kill {kills}\n")


@pytest.mark.parametrize(
    ("killed", "goes", "ended", "other"),
    [
        (0, "job", 0, 0),  # nothing was killed: that is known
        (1, "job", None, 0),  # it, or something that is no job
        (1, "step", None, 0),
        (1, "job before its last process", None, 0),
        (1, "nothing", 0, 0),  # something that is no job
        (2, "job", None, 2),
    ],
)
def test_a_kill_that_no_group_shows_leaves_it_open_whether_a_job_was_killed_whose_group_has_gone(
    node, make, killed, goes, ended, other
):
    one, two = "slurm/uid_1/job_1", "slurm/uid_1/job_2"
    node_kills(node, 7)
    counted_v1(node, one)
    counted_v1(node, two)
    sampler = make()
    assert sampler.sample().jobs[slurm("1")].oom_kills == 0
    node_kills(node, 7 + killed + other)
    if other:
        counted_v1(node, two, kills=1)  # of the group and its step
    if goes == "job before its last process":
        node.process(10, name=b"slurmstepd", cgroup=f"6:freezer:/{one}/step_0\n")
    if goes.startswith("job"):
        node.end_job(one)
    elif goes == "step":
        shutil.rmtree(node.cgroup / "memory" / one / "step_0")
    snapshot = sampler.sample()
    last = snapshot.final.get(slurm("1")) if goes == "job" else snapshot.jobs[slurm("1")]
    assert (last.oom_kills if last else 0) == ended
    assert snapshot.jobs[slurm("2")].oom_kills == other
    again = sampler.sample()
    assert again.final == {}
    if goes != "job":
        assert again.jobs[slurm("1")].oom_kills == ended


def test_a_kill_that_a_group_shows_before_the_node_does_hides_no_other(node, make):
    """The node's count is read first."""
    one, two = "slurm/uid_1/job_1", "slurm/uid_1/job_2"
    node_kills(node, 0)
    counted_v1(node, one)
    counted_v1(node, two)
    sampler = make()
    sampler.sample()
    node_kills(node, 1)
    counted_v1(node, two, kills=1)  # of the group and its step
    assert sampler.sample().jobs[slurm("2")].oom_kills == 2
    node_kills(node, 2)
    node.end_job(one)
    assert sampler.sample().final == {}
    counted_v1(node, one)
    sampler.sample()
    node_kills(node, 3)
    node.end_job(one)
    assert sampler.sample().final[slurm("1")].oom_kills is None


def test_a_job_whose_groups_go_before_its_last_process_keeps_their_counts(node, make):
    path = "slurm_n1/uid_6001/job_10"
    node.job_v1(path, usage_secs=3.0, user=300, memory=4096)
    (node.cgroup / "memory" / path / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 2\n")
    node.process(10, name=b"slurmstepd", cgroup=v1(f"/{path}"))
    sampler = make()
    sampler.sample()
    node.end_job(path)
    for _ in range(2):
        job = sampler.sample().jobs[slurm("10")]
        assert (job.oom_kills, job.memory.peak, job.user_cpu_secs, job.processes) == (2, 4096, 3.0, 1)
