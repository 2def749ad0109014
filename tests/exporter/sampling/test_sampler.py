import errno
import os

import pytest

from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.sampler import NodeReader, Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings, Wishes
from jobfeatures_exporter.snapshot import Accounting, BlockIo, GroupKey, MemoryBytes
from tests.exporter.sampling.jobs import EPOCH, V2, slurm, v1


def test_a_captured_node_with_a_job_on_v1(fixtures, clock):
    sampler = Sampler(
        SamplerSettings(procfs=str(fixtures / "proc"), cgroup=str(fixtures / "cgroup-v1")), clock
    )
    snapshot = sampler.sample()
    sampler.close()
    assert snapshot.taken_at_secs == clock.now_secs()
    assert len(snapshot.processes) == 5
    assert snapshot.unreadable == {}
    assert snapshot.node.load1 == 0.35
    job = snapshot.jobs[slurm("10")]
    assert job.accounting is Accounting.CGROUP
    assert (job.user_cpu_secs, job.system_cpu_secs) == (pytest.approx(4.8), pytest.approx(1.2))
    assert (job.processes, job.threads, job.uid, job.node) == (3, 7, 6001, "n1")
    assert (job.memory.anon, job.memory.limit) == (593920, 104857600)
    assert (job.cgroup, job.cgroup_version) == ("/slurm_n1/uid_6001/job_10", 1)
    groups = {key: each for key, each in snapshot.jobs.items() if isinstance(key, GroupKey)}
    assert groups.keys() == {GroupKey(1, EPOCH), GroupKey(0, EPOCH)}
    init = groups[GroupKey(1, EPOCH)]
    assert (init.user_cpu_secs, init.system_cpu_secs) == (28.2, 20.31)
    assert init.memory == MemoryBytes(anon=5000 * 1024, file=9000 * 1024, shmem=0, swap=0)
    assert groups[GroupKey(0, EPOCH)].memory == MemoryBytes()


def test_what_other_exporters_names_need_is_read_where_they_are_shown(node, make):
    path = "slurm/uid_1/job_2"
    node.job_v1(path)
    (node.cgroup / "cpu,cpuacct" / path / "cpuacct.usage_percpu").write_text("170 0 23 5 \n")
    cpuset = node.cgroup / "cpuset" / path
    cpuset.mkdir(parents=True)
    (cpuset / "cpuset.effective_cpus").write_text("0-2\n")
    node.process(10, cgroup=v1(f"/{path}"))
    (node.proc / "10/limits").write_text("Max open files            4                    8  files\n")
    (node.proc / "10/fd").mkdir()
    (node.proc / "10/fd/0").touch()
    sampler = make()
    snapshot = sampler.sample()
    assert snapshot.jobs[slurm("2")].cpu_numbers == {0, 1, 2}
    assert (snapshot.jobs[slurm("2")].core_nanosecs, snapshot.open_files) == ({}, {})
    snapshot = sampler.sample(Wishes(cores=True, open_files=True))
    assert snapshot.jobs[slurm("2")].core_nanosecs == {0: 170, 1: 0, 2: 23}
    assert snapshot.open_files[10].limit == 4


def test_a_job_on_v2_with_its_user_from_a_process(node, make):
    node.job_v2("job_4", user_usec=1_500_000, system_usec=500_000, memory=7)
    node.process(10, cgroup=f"{V2}/job_4/step_0/user/task_0\n", threads=3)
    job = make().sample().jobs[slurm("4")]
    assert (job.user_cpu_secs, job.system_cpu_secs, job.memory.anon) == (1.5, 0.5, 7)
    assert (job.processes, job.threads, job.node) == (1, 3, None)
    assert (job.cgroup, job.cgroup_version) == ("/system.slice/slurmstepd.scope/job_4", 2)
    assert job.uid == os.stat(node.proc / "10").st_uid


@pytest.mark.parametrize("step", ["extern/user/task_0", "0/slurm"])
def test_roots_own_processes_do_not_make_the_job_roots(node, make, monkeypatch, step):
    node.job_v2("job_4")
    node.process(10, name=b"slurmstepd", cgroup=f"{V2}/job_4/step_0/slurm\n")
    node.process(11, name=b"sleep" if "extern" in step else b"slurmstepd", cgroup=f"{V2}/job_4/step_{step}\n")
    owners = {10: 0, 11: 0, 12: 0, 13: 6001}
    real = os.stat
    monkeypatch.setattr(
        os,
        "stat",
        lambda path, *rest, **more: (
            os.stat_result([0, 0, 0, 0, owners[int(str(path).rpartition("/")[2])], *[0] * 5])
            if str(path).rpartition("/")[2].isdigit()
            else real(path, *rest, **more)
        ),
    )
    sampler = make()
    assert sampler.sample().jobs[slurm("4")].uid is None
    node.process(12, name=b"ping", cgroup=f"{V2}/job_4/step_0/user/task_0\n")
    node.process(13, cgroup=f"{V2}/job_4/step_0/user/task_0\n")
    assert sampler.sample().jobs[slurm("4")].uid == 6001


def test_a_job_shows_before_its_processes_are_known(node, make):
    node.job_v1("slurm/uid_6001/job_2", usage_secs=1)
    job = make().sample().jobs[slurm("2")]
    assert (job.processes, job.threads, job.uid, job.accounting) == (0, 0, 6001, Accounting.CGROUP)


def test_a_job_whose_cpu_time_the_kernel_does_not_count_is_accumulated(node, make):
    node.process(10, cgroup="6:freezer:/slurm/uid_6001/job_2/step_0\n0::/\n", user=150, rss_kib=8)
    sampler = make()
    job = sampler.sample().jobs[slurm("2")]
    assert (job.accounting, job.user_cpu_secs, job.uid) == (Accounting.PROCESSES, 1.5, 6001)
    assert job.memory == MemoryBytes(anon=8192, file=1024, shmem=0, swap=2048)
    assert (job.cgroup, job.in_group) == (None, True)
    node.job_v1("slurm/uid_6001/job_2", usage_secs=1)
    job = sampler.sample().jobs[slurm("2")]
    assert (job.accounting, job.user_cpu_secs) == (Accounting.CGROUP, 1.5)  # never decreases
    assert job.memory.charged == 4096


def test_a_job_by_processes(node, make):
    key = JobKey("gridengine", "7")
    jobs = {key: Job(key=key, processes=frozenset({10}))}
    node.process(10, user=100, children_user=50)
    node.process(11, ppid=10, user=30, system=20, threads=2)
    node.process(12, user=1)
    sampler = make(lambda: jobs)
    job = sampler.sample().jobs[key]
    assert (job.accounting, job.user_cpu_secs, job.system_cpu_secs) == (Accounting.PROCESSES, 1.8, 0.2)
    assert (job.processes, job.threads, job.in_group) == (2, 3, False)
    node.end(11)
    node.process(10, user=100, children_user=90, children_system=25)
    assert sampler.sample().jobs[key].user_cpu_secs == pytest.approx(1.9)
    node.end(10)
    assert key not in sampler.sample().jobs


def test_a_control_group_is_a_better_witness_than_a_list(node, make):
    key = JobKey("gridengine", "7")
    node.job_v2("job_4")
    node.process(10, cgroup=f"{V2}/job_4/step_0/user\n")
    jobs = make(lambda: {key: Job(key=key, processes=frozenset({10}))}).sample().jobs
    assert jobs[slurm("4")].processes == 1
    assert key not in jobs


def test_a_snapshot_does_not_change_afterwards(node, make):
    node.process(10)
    sampler = make()
    before = sampler.sample()
    jobs, unreadable = dict(before.jobs), dict(before.unreadable)
    (node.proc / "loadavg").write_text("")
    node.end(10)
    assert sampler.sample().jobs != jobs
    assert (before.jobs, before.unreadable) == (jobs, unreadable)


def test_all_that_is_counted_for_a_job_is_in_its_record(node, make):
    group = node.job_v2("job_4", user_usec=1_500_000)
    node.job_v2("system.slice/slurmstepd.scope/job_4/step_0", user_usec=1_000_000)
    (group / "memory.events").write_text("max 7\noom_kill 1\n")
    (group / "io.stat").write_text(
        "8:0 rbytes=10 wbytes=20 rios=1 wios=2\n253:0 rbytes=10 wbytes=20 rios=1 wios=2\n"
    )
    (group / "io.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n")
    (group / "cpuset.cpus.effective").write_text("0-3\n")
    (node.proc / "diskstats").write_text(" 253       0 dm-0 1 0 8 0 0 0 0 0 0 0 0\n")
    path = node.process(10, name=b"python3", cgroup=f"{V2}/job_4/step_0/user/task_0\n", user=20)
    (path / "io").write_text("rchar: 5\nwchar: 4\nread_bytes: 3\nwrite_bytes: 2\ncancelled_write_bytes: 1\n")
    snapshot = make(steps=True, process_io=True, top_commands=3).sample()
    job = snapshot.jobs[slurm("4")]
    assert (job.oom_kills, job.memory_limit_hits, job.cpus) == (1, 7, 4)
    assert job.block_io == BlockIo(read_bytes=10, written_bytes=20, reads=1, writes=2)
    assert job.pressure_secs == {("io", "some"): 2.5}
    assert (job.process_io.read_bytes, job.process_io.data_cancelled_bytes) == (5, 1)
    assert [(step.step, step.user_cpu_secs) for step in job.steps] == [("0", 1.0)]
    [command] = snapshot.commands[slurm("4")]
    assert (command.command, command.cpu_secs, command.processes) == ("python3", 0.2, 1)
    assert snapshot.node.disks["dm-0"].whole is False


def test_what_is_not_asked_for_is_not_read(node, make, fail_opening):
    node.job_v2("job_4")
    node.job_v2("system.slice/slurmstepd.scope/job_4/step_0")
    node.process(10, cgroup=f"{V2}/job_4/step_0/user/task_0\n")
    fail_opening("/10/io", errno.EACCES)
    fail_opening("step_0/cpu.stat", errno.EACCES)
    snapshot = make().sample()
    assert (snapshot.jobs[slurm("4")].steps, snapshot.jobs[slurm("4")].process_io) == ((), None)
    assert snapshot.commands == {}
    assert snapshot.unreadable == {}


@pytest.fixture
def reader(node):
    return NodeReader(str(node.proc), "/nonexistent", Unreadable())


def test_process_groups_keep_their_epoch_when_the_clock_is_set(reader, node):
    epoch = reader.read().epoch
    stat = node.proc / "stat"
    stat.write_text(stat.read_text().replace("btime ", "btime 9"))
    look = reader.read()
    assert epoch is not None
    assert look.epoch == epoch
    assert look.node.boot_time_secs != epoch


def test_without_a_time_of_boot_there_is_none_until_it_is_known(reader, node):
    stat = node.proc / "stat"
    text = stat.read_text()
    stat.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("btime")))
    assert reader.read().epoch is None
    stat.write_text(text)
    assert reader.read().epoch is not None


def test_a_sign_changes_with_what_it_is_the_sign_of_and_else_stands(reader, node):
    def swap(free):
        (node.proc / "meminfo").write_text(f"SwapTotal: 9 kB\nSwapFree: {free} kB\nSwapCached: 0 kB\n")
        return reader.read().signs.changes[0]

    first = swap(9)
    assert swap(9) == first
    assert swap(8) == first + 1
