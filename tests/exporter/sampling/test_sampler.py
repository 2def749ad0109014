import errno
import os
import shutil

import pytest

from jobfeatures.records.model import UNLIMITED, Job, JobKey, Limits
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import BlockIo, FigureSource, GroupKey, Kind
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.sampler import NodeReader, Sampler
from jobfeatures_exporter.sampling.samplersettings import SampleExtras, SamplerSettings
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
    assert job.accounting is FigureSource.CGROUP
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
    os.symlink("/opt/x", node.proc / "10/exe")
    (node.proc / "10/comm").write_text("sleep\n")
    sampler = make(top_commands=2)
    snapshot = sampler.sample()
    assert snapshot.jobs[slurm("2")].cpu_numbers == {0, 1, 2}
    assert (snapshot.jobs[slurm("2")].core_nanosecs, snapshot.open_files) == ({}, {})
    assert (snapshot.programs, snapshot.thread_states) == ({}, {})
    node.process(12, pgid=12)  # no job's
    wishes = SampleExtras(cores=True, open_files=True, thread_states=frozenset({Kind.BATCH}), programs=True)
    snapshot = sampler.sample(wishes)
    assert snapshot.programs.keys() == {slurm("2")}
    assert snapshot.programs[slurm("2")].keys() == {"/opt/x"}
    assert snapshot.thread_states == {10: {"S": 1}}
    assert sampler.sample(SampleExtras(thread_states=frozenset(Kind))).thread_states.keys() == {10, 12}
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


def test_huge_pages_of_a_job_are_a_part_of_their_own_that_no_limit_counts(node, make):
    group = node.job_v2("job_4", memory=7)
    node.job_v2("job_5")
    node.process(10, cgroup=f"{V2}/job_4/step_0/user/task_0\n")
    node.process(11, cgroup=f"{V2}/job_5/step_0/user/task_0\n")
    node.process(12, pgid=12)
    sampler = make(sysfs=node.huge_pages({10: 10, 11: 0, 12: 3}, free=5))
    jobs = sampler.sample().jobs
    memory = jobs[slurm("4")].memory
    assert (memory.hugetlb, memory.used) == (20 * 2**20, 7)
    assert jobs[slurm("5")].memory.hugetlb == 0
    assert jobs[GroupKey(12, EPOCH)].memory.hugetlb == 6 * 2**20
    (group / "hugetlb.2MB.current").write_text(f"{2**21}\n")
    again = make(sysfs=str(node.proc.parent / "sys"))
    assert again.sample().jobs[slurm("4")].memory.hugetlb == 2**21, "the kernel's count of the group"


def test_no_job_has_more_huge_pages_than_the_node(node, make):
    node.job_v2("job_4")
    for pid in (10, 11, 12):
        node.process(pid, cgroup=f"{V2}/job_4/step_0/user/task_0\n")
    sysfs = node.huge_pages({10: 4, 11: 4, 12: 4})
    (node.proc.parent / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").write_text("4\n")
    assert make(sysfs=sysfs).sample().jobs[slurm("4")].memory.hugetlb == 4 * 2**21, "three share them"


def test_where_the_node_has_no_huge_pages_jobs_have_no_such_part(node, make):
    node.job_v2("job_4")
    (node.proc / "meminfo").write_text("MemTotal:  1024 kB\nHugetlb:      0 kB\n")
    assert make().sample().jobs[slurm("4")].memory.hugetlb is None


@pytest.mark.parametrize(
    ("own", "above", "given", "limit"),
    [
        ("max", "max", None, None),
        ("100", "max", None, 100),
        ("max", "50", None, 50),
        ("100", "50", None, 50),
        ("100", "5000", None, 100),
        ("max", "50", 80, 50),
        ("max", "5000", 80, None),  # others may share it: what was given is what the job may use
        ("max", "50", UNLIMITED, 50),
        ("100", "5000", 80, 100),
    ],
)
def test_a_limit_above_counts_where_it_leaves_a_job_less_than_it_was_given(
    node, make, own, above, given, limit
):
    group = node.job_v2("job_4")
    (group / "memory.max").write_text(f"{own}\n")
    (group.parent / "memory.max").write_text(f"{above}\n")
    jobs = {slurm("4"): Job(key=slurm("4"), limits=Limits(memory_bytes=given))}
    assert make(jobs=lambda: jobs).sample().jobs[slurm("4")].memory.limit == limit


def test_the_limit_of_the_container_that_all_is_in_is_one_above(node, make):
    node.job_v2("job_4")
    (node.cgroup / "memory.max").write_text("70\n")
    assert make().sample().jobs[slurm("4")].memory.limit == 70


# What v1 tells of a process that has ended: the roots.
ENDED = "9:memory:/\n8:cpu,cpuacct:/\n0::/system.slice/slurmd.service\n"


def test_a_program_without_its_main_thread_is_a_process_of_its_job_on_v1(node, make):
    path = "slurm/uid_1/job_2"
    node.job_v1(path)
    node.process(10, cgroup=ENDED, state="Z", threads=4, virtual=0, resident=0)
    for tid in (11, 12, 13):
        node.thread(10, tid, v1(f"/{path}"), rss_kib=20)
    (node.proc / "10/io").write_text(
        "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 5\n"
    )
    sampler = make(process_io=True)
    for _ in range(3):
        job = sampler.sample().jobs[slurm("2")]
        assert (job.processes, job.threads, job.process_io.read_bytes) == (1, 4, 1)


def test_a_program_without_its_main_thread_has_the_memory_of_its_threads(node, make):
    node.process(10, cgroup=ENDED, state="Z", threads=2, virtual=0, resident=0)
    node.thread(10, 11, v1("/slurm/uid_1/job_2"), rss_kib=20)  # there are no groups of memory here
    assert make().sample().jobs[slurm("2")].memory.anon == 20 * 1024


def test_zombies_are_processes_of_their_job_on_v1_until_somebody_waits_for_them(node, make):
    path = "slurm/uid_1/job_2"
    node.job_v1(path)
    of_job = {"cgroup": v1(f"/{path}")}
    node.process(10, **of_job)
    node.process(11, ppid=10, **of_job)
    node.process(20, ppid=1, pgid=20, **of_job)
    sampler = make()
    assert sampler.sample().jobs[slurm("2")].processes == 3
    ended = {"cgroup": ENDED, "state": "Z", "virtual": 0, "resident": 0}
    node.process(11, ppid=10, **ended)  # was seen alive
    node.process(12, ppid=10, **ended)  # was not: its parent has to wait for it
    node.process(21, ppid=1, pgid=20, **ended)  # an orphan that init has to wait for
    node.process(22, ppid=1, pgid=22, session=20, **ended)
    node.process(30, ppid=1, **ended)  # nobody knows whose it was
    for _ in range(70):
        assert sampler.sample().jobs[slurm("2")].processes == 6
    node.process(10, cgroup="9:memory:/\n8:cpu,cpuacct:/\n")  # moved away: it lives
    for _ in range(70):
        job = sampler.sample().jobs[slurm("2")]
    assert job.processes == 5
    for pid in (11, 12, 21, 22):
        node.end(pid)
    assert sampler.sample().jobs[slurm("2")].processes == 1


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
    assert (job.processes, job.threads, job.uid, job.accounting) == (0, 0, 6001, FigureSource.CGROUP)


def test_a_job_whose_cpu_time_the_kernel_does_not_count_is_accumulated(node, make):
    node.process(10, cgroup="6:freezer:/slurm/uid_6001/job_2/step_0\n0::/\n", user=150, rss_kib=8)
    sampler = make()
    job = sampler.sample().jobs[slurm("2")]
    assert (job.accounting, job.user_cpu_secs, job.uid) == (FigureSource.PROCESSES, 1.5, 6001)
    assert job.memory == MemoryBytes(anon=8192, file=1024, shmem=0, swap=2048)
    assert (job.cgroup, job.in_group) == (None, True)
    node.job_v1("slurm/uid_6001/job_2", usage_secs=1)
    job = sampler.sample().jobs[slurm("2")]
    assert (job.accounting, job.user_cpu_secs) == (FigureSource.CGROUP, 1.5)  # never decreases
    assert job.memory.charged == 4096


def test_a_job_by_processes(node, make):
    key = JobKey("gridengine", "7")
    jobs = {key: Job(key=key, processes=frozenset({10}))}
    node.process(10, user=100, children_user=50)
    node.process(11, ppid=10, user=30, system=20, threads=2)
    node.process(12, user=1)
    sampler = make(lambda: jobs)
    job = sampler.sample().jobs[key]
    assert (job.accounting, job.user_cpu_secs, job.system_cpu_secs) == (FigureSource.PROCESSES, 1.8, 0.2)
    assert (job.processes, job.threads, job.in_group) == (2, 3, False)
    node.end(11)
    node.process(10, user=100, children_user=90, children_system=25)
    assert sampler.sample().jobs[key].user_cpu_secs == pytest.approx(1.9)
    node.end(10)
    gone = sampler.sample().jobs[key]
    assert (gone.processes, gone.threads, gone.memory) == (0, 0, MemoryBytes())
    assert gone.user_cpu_secs == pytest.approx(1.9)
    jobs.clear()
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


def test_a_job_counted_by_its_processes_goes_on_when_for_a_while_it_has_none(node, make, clock):
    """Slurm's JobAcctGather by control groups: on v1 these are in memory alone, where nothing counts CPU time."""
    path = "slurm/uid_1/job_2"
    node.job_v1(path)
    shutil.rmtree(node.cgroup / "cpu,cpuacct")
    sampler = make()
    found = []
    for pid, ticks in ((10, 150), (10, 350), (None, 0), (None, 0), (11, 50), (11, 150), (None, 0), (12, 650)):
        for other in {10, 11, 12} - {pid}:
            if (node.proc / str(other)).exists():
                node.end(other)
        if pid is not None:
            node.process(pid, cgroup=f"9:memory:/{path}\n0::/\n", user=ticks, start=pid)
        clock.advance(10)
        job = sampler.sample().jobs[slurm("2")]
        found.append((job.user_cpu_secs, job.processes))
    assert [secs for secs, processes in found if processes] == [1.5, 3.5, 4.0, 5.0, 11.5]
    assert all(secs in {None, 3.5, 5.0} for secs, processes in found if not processes)


def test_where_v2_does_not_count_memory_a_job_has_that_of_its_processes(node, make):
    """As where a batch system's daemon, or who delegated to it, has not enabled the controller."""
    group = node.job_v2("job_4", user_usec=1_500_000)
    for name in ("stat", "current", "max"):
        (group / f"memory.{name}").unlink()
    (group.parent / "memory.max").write_text("1000000\n")
    node.process(10, cgroup=f"{V2}/job_4\n", rss_kib=400)
    node.process(11, cgroup=f"{V2}/job_4\n", rss_kib=100)
    sampler = make()
    job = sampler.sample().jobs[slurm("4")]
    assert (job.accounting, job.user_cpu_secs) == (FigureSource.CGROUP, 1.5)
    assert (job.memory.anon, job.memory.used, job.memory.charged) == (500 * 1024, 500 * 1024, None)
    assert job.memory.limit == 1_000_000
    node.job_v2("job_4", user_usec=1_500_000, memory=8192)  # it is enabled later
    memories = [sampler.sample().jobs[slurm("4")].memory for _ in range(3)]
    assert (memories[-1].anon, memories[-1].charged) == (8192, 8192)


def test_processes_of_another_pid_namespace_are_unknown_not_0(node, make):
    """As on v2 in a container that has not the host's: the kernel lists them as 0, in the group of a step."""
    step = node.job_v2("job_4", user_usec=1_500_000) / "step_0"
    step.mkdir()
    (step / "cgroup.procs").write_text("0\n0\n")
    node.job_v2("job_5")
    snapshot = make().sample()
    jobs = {key.job_id: each for key, each in snapshot.jobs.items()}
    assert (jobs["4"].user_cpu_secs, jobs["4"].processes, jobs["4"].threads, jobs["4"].process_io) == (
        1.5, None, None, None,
    )  # fmt: skip
    assert (jobs["5"].processes, jobs["5"].threads) == (0, 0)
    assert snapshot.unreadable == {"job_processes_hidden": 1}


@pytest.mark.parametrize("is_apart", [True, False])
def test_on_v1_a_group_that_runs_without_processes_has_hidden_ones_in_a_pid_namespace_of_its_own(
    node, make, is_apart
):
    if is_apart:
        (node.proc / "self/ns").mkdir(parents=True)
        (node.proc / "self/ns/pid").touch()  # its inode is not that of the initial one
    sampler, seen = make(), []
    for secs in (1.0, 1.0, 2.0, 2.0):
        node.job_v1("slurm/uid_1/job_2", usage_secs=secs, user=int(100 * secs))
        seen.append(sampler.sample().jobs[slurm("2")].processes)
    assert seen == [0, 0, None if is_apart else 0, 0]
