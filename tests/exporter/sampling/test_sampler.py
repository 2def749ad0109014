import errno
import gc
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget
from jobfeatures_exporter.sampling.groups.lastwords import LastWords
from jobfeatures_exporter.sampling.processes import attributor
from jobfeatures_exporter.sampling.processes.members import Members
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings, Wishes
from jobfeatures_exporter.snapshot import Accounting, BlockIo, GroupKey, Kind, MemoryBytes, UnitKey

EPOCH = 1795247965 - 1577836800
V2 = "0::/system.slice/slurmstepd.scope"
SLUID = "s5K1KKYAYG5D00"


def slurm(job_id: str) -> JobKey:
    return JobKey("slurm", job_id)


def v1(path: str) -> str:
    return f"9:memory:{path}\n8:cpu,cpuacct:{path}\n0::/\n"


@pytest.fixture
def make(node, clock):
    """Return a function that makes a sampler of the made-up node."""
    made = []

    def make(jobs=dict, last_words=None, **settings) -> Sampler:
        settings = SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), **settings)
        made.append(Sampler(settings, clock, jobs=jobs, last_words=last_words))
        return made[-1]

    yield make
    for each in made:
        each.close()


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


def test_of_two_users_groups_of_one_id_that_with_processes_says_whose_the_job_is(node, make):
    """Slurm that has lost its state begins to count anew, and an empty group may still be there."""
    node.job_v1("slurm/uid_6001/job_2", usage_secs=1)
    sampler = make()
    assert sampler.sample().jobs[slurm("2")].uid == 6001
    node.job_v1("slurm/uid_6002/job_2", usage_secs=1)
    node.process(10, cgroup="3:cpuacct:/slurm/uid_6002/job_2/step_0\n")
    assert sampler.sample().jobs[slurm("2")].uid == 6002


def used_v1(node, path, amount):
    """Have a group of v1, and a step in it, that have used so much of everything."""
    node.job_v1(path, usage_secs=amount, user=50 * amount, system=50 * amount, memory=1000 * amount)
    (node.cgroup / "memory" / path / "memory.oom_control").write_text(f"oom_kill {amount}\n")
    (node.cgroup / "memory" / path / "memory.failcnt").write_text(f"{amount}\n")
    blkio = node.cgroup / "blkio" / path
    blkio.mkdir(parents=True, exist_ok=True)
    for name in ("io_service_bytes", "io_serviced"):
        (blkio / f"blkio.throttle.{name}_recursive").write_text(f"8:0 Read {amount}\n8:0 Write {amount}\n")
    if not path.endswith("step_0"):
        used_v1(node, f"{path}/step_0", amount)


def assert_used(job, uid, amount):
    (step,) = job.steps
    assert job.uid == uid
    assert (job.user_cpu_secs, step.user_cpu_secs) == (amount / 2, amount / 2)
    assert (job.memory.anon, job.memory.peak, step.memory.anon) == (1000 * amount,) * 3
    assert (job.oom_kills, job.memory_limit_hits) == (2 * amount,) * 2  # of the job's group and the step's
    assert job.block_io == BlockIo(amount, amount, amount, amount)


@pytest.mark.parametrize("first_look", ["before the next job", "when both are there"])
def test_nothing_of_another_users_group_of_the_same_id_is_the_jobs(node, make, first_look):
    """Slurm that has lost its state begins to count anew, and an empty group may still be there."""
    other, own = "slurm/uid_6001/job_2", "slurm/uid_6002/job_2"
    used_v1(node, other, 100)
    words = LastWords()
    sampler = make(steps=True, last_words=words)
    if first_look == "before the next job":
        assert_used(sampler.sample().jobs[slurm("2")], 6001, 100)
    used_v1(node, own, 4)
    node.process(10, cgroup=v1(f"/{own}/step_0"))
    assert_used(sampler.sample().jobs[slurm("2")], 6002, 4)
    words.note(f"{node.cgroup}/memory/{other}")
    for controller in ("cpu,cpuacct", "memory", "blkio"):
        shutil.rmtree(node.cgroup / controller / other)
    used_v1(node, own, 6)
    assert_used(sampler.sample().jobs[slurm("2")], 6002, 6)
    words.close()


@pytest.mark.parametrize(("living", "known", "owner"), [
    ((), 6001, 6001), ((), 6002, 6002), ((6001, 6002), 6001, 6001), ((6001, 6002), 6002, 6002),
    ((6001,), 6002, 6001),  # the list is older than what the node shows
    ((), None, 6002), ((6001, 6002), None, 6002),  # the group that was made last
])  # fmt: skip
def test_of_two_users_groups_of_one_id_processes_tell_then_the_batch_system_then_age(
    node, make, living, known, owner
):
    for uid in (6001, 6002):
        used_v1(node, f"slurm/uid_{uid}/job_2", uid - 6000)
        if uid in living:
            node.process(uid, cgroup=v1(f"/slurm/uid_{uid}/job_2/step_0"))
    jobs = {slurm("2"): Job(key=slurm("2"), uid=known)}
    snapshot = make(lambda: jobs, steps=True).sample()
    assert_used(snapshot.jobs[slurm("2")], owner, owner - 6000)
    assert snapshot.jobs[slurm("2")].processes == (owner in living)
    assert {snapshot.keys[uid] for uid in living} == {slurm("2") if uid == owner else uid for uid in living}


def test_a_group_of_v2_that_was_left_empty_is_the_next_users_as_soon_as_his_processes_are_in_it(
    node, make, monkeypatch
):
    owners = {10: 6001, 11: 0, 12: 6002}
    monkeypatch.setattr(Members, "uid", lambda _, pid: owners[pid])
    node.job_v2("job_4")
    node.process(10, cgroup=f"{V2}/job_4/step_0/user/task_0\n")
    sampler = make()
    assert sampler.sample().jobs[slurm("4")].uid == 6001
    node.end(10)
    assert sampler.sample().jobs[slurm("4")].uid == 6001  # as far as is known
    node.process(11, name=b"slurmstepd", cgroup=f"{V2}/job_4/step_0/slurm\n")
    node.process(12, cgroup=f"{V2}/job_4/step_0/user/task_0\n")
    for _ in range(2):
        assert sampler.sample().jobs[slurm("4")].uid == 6002


def test_nothing_of_an_earlier_run_whose_empty_group_has_another_sluid_is_the_next_ones(node, make):
    other, own = "s5K1KKYAYG5D00", "s5K1KKYAYG5D01"
    node.job_v2(other, user_usec=100_000_000, memory=100)
    node.process(10, cgroup=f"{V2}/{other}/step_0\n", environ=b"SLURM_JOB_ID=5\0")
    sampler = make()
    assert sampler.sample().jobs[slurm("5")].user_cpu_secs == 100
    node.end(10)
    assert sampler.sample().jobs[slurm("5")].user_cpu_secs == 100
    node.job_v2(own, user_usec=1_000_000, memory=1)
    node.process(11, cgroup=f"{V2}/{own}/step_0\n", environ=b"SLURM_JOB_ID=5\0")
    job = sampler.sample().jobs[slurm("5")]
    assert (job.user_cpu_secs, job.memory.anon, job.sluid, job.processes) == (1, 1, own, 1)


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


def test_process_groups_without_a_job_are_told_by_group_and_boot(node, make):
    node.process(10, user=100)
    node.process(11, pgid=10, user=20)
    node.process(12)
    sampler = make()
    jobs = sampler.sample().jobs
    assert jobs.keys() == {GroupKey(10, EPOCH), GroupKey(12, EPOCH)}
    assert (jobs[GroupKey(10, EPOCH)].user_cpu_secs, jobs[GroupKey(10, EPOCH)].processes) == (1.2, 2)
    (node.proc / "stat").write_text("btime 1795247966\n")  # the clock was set
    again = sampler.sample().jobs
    assert again[GroupKey(10, EPOCH)] is jobs[GroupKey(10, EPOCH)]
    node.process(12, user=5)
    assert sampler.sample().jobs[GroupKey(12, EPOCH)].user_cpu_secs == 0.05


def test_without_a_boot_time_groups_have_no_name_but_jobs_do(node, make):
    (node.proc / "stat").unlink()
    node.job_v2("job_4")
    node.process(10)
    node.process(11, cgroup=f"{V2}/job_4/step_0/user\n")
    assert make().sample().jobs.keys() == {slurm("4")}


def test_emulated_nodes_are_told_apart_or_summed(node, make):
    for name, pid, usage in (("n1", 10, 1), ("n2", 20, 2)):
        node.job_v1(f"slurm_{name}/uid_6001/job_2", usage_secs=usage, memory=100 * pid)
        node.process(pid, cgroup=v1(f"/slurm_{name}/uid_6001/job_2/step_0/task_0"))
    both = make().sample().jobs
    assert (both[slurm("2")].user_cpu_secs, both[slurm("2")].memory.anon) == (3.0, 3000)
    assert (both[slurm("2")].processes, both[slurm("2")].node) == (2, None)
    one = make(node_name="n2").sample().jobs
    assert (one[slurm("2")].user_cpu_secs, one[slurm("2")].memory.anon) == (2.0, 2000)
    assert (one[slurm("2")].processes, one[slurm("2")].node) == (1, "n2")
    assert one[GroupKey(10, EPOCH)].processes == 1
    assert slurm("2") not in make(node_name="n3").sample().jobs


def test_a_path_that_names_no_node_is_everybodys(node, make):
    node.job_v1("slurm/uid_6001/job_2")
    assert slurm("2") in make(node_name="n1").sample().jobs


def test_cpu_time_does_not_fall_when_one_emulated_node_is_done(node, make):
    node.job_v1("slurm_n1/uid_1/job_2", usage_secs=1)
    node.job_v1("slurm_n2/uid_1/job_2", usage_secs=2)
    sampler = make()
    sampler.sample()
    node.end_job("slurm_n1/uid_1/job_2")
    node.job_v1("slurm_n2/uid_1/job_2", usage_secs=2.5)
    assert sampler.sample().jobs[slurm("2")].user_cpu_secs == 3.5


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_cpu_time_that_cannot_be_read_is_none_for_a_while(node, make, fail_opening, number):
    path = node.job_v2("job_4", user_usec=2_000_000)
    fail_opening("/cpu.stat", number)
    sampler = make()
    snapshot = sampler.sample()
    assert snapshot.jobs[slurm("4")].user_cpu_secs is None
    assert snapshot.jobs[slurm("4")].accounting is Accounting.CGROUP
    assert snapshot.unreadable == {f"job_cpu_stat_{errno.errorcode[number].lower()}": 1}
    fail_opening("/cpu.stat", None)
    assert sampler.sample().jobs[slurm("4")].user_cpu_secs == 2.0
    (path / "cpu.stat").write_text("user_usec 1000000\nsystem_usec 0\n")
    assert sampler.sample().jobs[slurm("4")].user_cpu_secs == 2.0


def test_a_job_is_named_by_sluid_until_its_number_is_known(node, make, monkeypatch):
    monkeypatch.setattr(attributor, "NAMING_SECS", 0.0)
    node.job_v2(SLUID, user_usec=1_000_000)
    sampler = make()
    assert sampler.sample().jobs.keys() == set()  # an empty group without a name is no job
    process = node.process(10, cgroup=f"{V2}/{SLUID}/step_0/user/task_0\n")
    assert sampler.sample().jobs.keys() == {slurm(SLUID)}
    (process / "environ").write_bytes(b"SLURM_JOB_ID=3385\0")
    for _ in range(3):
        jobs = sampler.sample().jobs
    assert jobs.keys() == {slurm("3385")}
    assert (jobs[slurm("3385")].user_cpu_secs, jobs[slurm("3385")].processes) == (1.0, 1)
    assert jobs[slurm("3385")].sluid == SLUID


def test_a_sluid_that_the_batch_system_reports_is_never_a_name(node, make):
    node.job_v2(SLUID, user_usec=1_000_000)
    known = Job(key=slurm("3385"), sluid=SLUID)
    sampler = make(lambda: {known.key: known})
    assert sampler.sample().jobs.keys() == {slurm("3385")}
    node.process(10, cgroup=f"{V2}/{SLUID}/step_0/user/task_0\n")
    assert sampler.sample().jobs.keys() == {slurm("3385")}


def test_an_empty_group_of_a_slot_is_no_job(node, make, monkeypatch):
    monkeypatch.setattr(attributor, "NAMING_SECS", 0.0)
    path = "htcondor/condor_var_lib_condor_execute_slot1_5@wn1.lab"
    node.job_v2(path)
    sampler = make()
    assert sampler.sample().jobs.keys() == set()
    node.process(10, cgroup=f"0::/{path}\n")
    assert sampler.sample().jobs.keys() == {JobKey("htcondor", "slot1_5@wn1.lab")}


def test_a_slot_stands_for_a_job_that_has_not_been_found_for_ten_seconds(node, make, clock):
    """The ad, the starter's directory, or the answer with a SLUID may come a moment after the first process."""
    path = "htcondor/condor_var_lib_condor_execute_slot1_5@wn1.lab"
    node.job_v2(path, user_usec=2_000_000)
    node.process(10, cgroup=f"0::/{path}\n")
    sampler, key = make(), JobKey("htcondor", "slot1_5@wn1.lab")
    assert key not in sampler.sample().jobs
    clock.advance(9)
    assert key not in sampler.sample().jobs
    clock.advance(1)
    assert sampler.sample().jobs[key].user_cpu_secs == 2.0


def test_a_user_cannot_pass_for_a_job(node, make):
    node.process(10, cgroup="0::/user.slice/user-1000.slice/slurmstepd.scope/job_99/step_0\n")
    node.job_v2("user.slice/user-1000.slice/slurmstepd.scope/job_99")
    assert make().sample().jobs.keys() == {UnitKey(Kind.SESSION, "user-1000")}


def test_memory_of_a_sleeping_service_that_could_not_be_read_is_read_at_the_next_sample(node, make):
    status = node.process(10, cgroup="0::/system.slice/one.service\n", rss_kib=4) / "status"
    text = status.read_text()
    status.write_text("Name:\tx\n")
    sampler, key = make(), UnitKey(Kind.SERVICE, "one.service")
    assert sampler.sample().jobs[key].memory.anon is None
    status.write_text(text)
    assert sampler.sample().jobs[key].memory.anon == 4096


def test_a_node_that_is_a_container_names_its_own_prefix(node, make):
    node.job_v1("docker/abc/slurm/uid_6001/job_2", usage_secs=1)
    node.process(10, cgroup=v1("/docker/abc/slurm/uid_6001/job_2/step_0"))
    assert make().sample().jobs.keys() == {GroupKey(10, EPOCH)}
    assert make(cgroup_root="/docker/abc").sample().jobs[slurm("2")].processes == 1


def test_a_process_list_that_cannot_be_read_ends_nothing(node, make, monkeypatch):
    node.process(10, user=100)
    sampler = make()
    before = sampler.sample()
    real = os.listdir

    def fake(path="."):
        if str(path) == str(node.proc):
            raise OSError(errno.EMFILE, "x")
        return real(path)

    monkeypatch.setattr(os, "listdir", fake)
    after = sampler.sample()
    assert after.jobs == before.jobs
    assert after.unreadable == {"process_list_emfile": 1}


@pytest.mark.parametrize("max_open", [0, None], ids=["no descriptors kept", "kept"])
def test_a_job_that_was_not_seen_for_a_while_is_the_same_job_and_its_cpu_time_goes_on(
    node, make, tmp_path, monkeypatch, max_open
):
    monkeypatch.setattr(
        "jobfeatures_exporter.sampling.sampler.DescriptorBudget", lambda: DescriptorBudget(max_open)
    )
    key = JobKey("spool", "a")
    sampler = make(lambda: {key: Job(key=key, processes=frozenset({10}))})
    node.process(10, user=100)
    node.process(11, ppid=10, pgid=11, user=50)
    assert sampler.sample().jobs[key].user_cpu_secs == 1.5
    hidden = (node.proc / "10").rename(tmp_path / "10"), (node.proc / "11").rename(tmp_path / "11")
    for _ in range(3):
        assert (key in sampler.sample().jobs) is (max_open is None)
    for each in hidden:
        each.rename(node.proc / each.name)
    node.process(10, user=300)
    node.process(12, ppid=1, pgid=10, user=7)
    job = sampler.sample().jobs[key]
    assert (job.user_cpu_secs, job.processes) == (3.57, 3)


def killed_v1(node, path, task):
    """Have the kernel's counts of a kill in a task's group of v1, and the peak before it."""
    (node.cgroup / "memory" / path / "memory.max_usage_in_bytes").write_text("9000\n")
    group = node.cgroup / "memory" / path / task
    group.mkdir(parents=True, exist_ok=True)
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")


def test_what_was_counted_between_the_last_look_and_the_end_is_in_the_final_record(node, make):
    words, path = LastWords(), "slurm_n1/uid_6001/job_10"
    sampler = make(last_words=words)
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


def test_a_kill_in_a_step_that_went_between_two_looks_is_counted_of_a_job_that_goes_on(node, make):
    words, path = LastWords(), "slurm_n1/uid_6001/job_10"
    sampler = make(last_words=words)
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


def test_the_next_job_at_the_same_path_has_nothing_of_the_last(node, make):
    words, path = LastWords(), "slurm_n1/uid_6001/job_10"
    sampler = make(last_words=words)
    node.job_v1(path, usage_secs=3.0, user=300)
    sampler.sample()
    killed_v1(node, path, "step_batch/task_0")
    words.note(str(node.cgroup / "memory" / path))
    (node.cgroup / "cpu,cpuacct" / path).rename(
        node.cgroup / "old"
    )  # or the file system gives its inode again
    node.end_job(path)
    node.job_v1(path, usage_secs=1.0, user=100)
    used = [sampler.sample().jobs[slurm("10")].user_cpu_secs for _ in range(2)]
    assert used == [3.0 + 1.0] * 2, "what was read of the former group is not taken for the latter's"
    words.close()


def test_a_snapshot_does_not_change_afterwards(node, make):
    node.process(10)
    sampler = make()
    before = sampler.sample()
    jobs, unreadable = dict(before.jobs), dict(before.unreadable)
    (node.proc / "loadavg").write_text("")
    node.end(10)
    assert sampler.sample().jobs != jobs
    assert (before.jobs, before.unreadable) == (jobs, unreadable)


def test_an_empty_node_has_an_empty_snapshot(tmp_path, clock):
    sampler = Sampler(SamplerSettings(procfs=str(tmp_path), cgroup=str(tmp_path / "none")), clock)
    snapshot = sampler.sample()
    assert (snapshot.jobs, snapshot.processes, snapshot.unreadable) == ({}, {}, {})
    assert snapshot.node.cpu is None
    sampler.close()


def test_closing_gives_all_descriptors_back(node, make, open_descriptors):
    node.job_v1("slurm/uid_1/job_2")
    node.process(10, cgroup=v1("/slurm/uid_1/job_2/step_0"))
    before = open_descriptors()
    sampler = make()
    sampler.sample()
    assert open_descriptors() == before + 8
    sampler.close()
    assert open_descriptors() == before


def size_of(root: object) -> int:
    """Return how many objects hang on this one, modules and classes aside."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or type(each).__name__ in {"module", "function"}:
            continue
        seen.add(id(each))
        todo.extend(gc.get_referents(each))
    return len(seen)


def test_thousands_of_ended_jobs_leave_nothing_behind(node, make, open_descriptors):
    """100 jobs at a time, 99 by number and one by SLUID, which are renamed to be the next 100."""
    names = [f"job_{number + 1}" for number in range(99)] + [f"s{0:013d}"]
    for name in names:
        node.job_v2(name)
    scope = node.cgroup / "system.slice/slurmstepd.scope"
    listed = JobKey("gridengine", "0")
    jobs = {listed: Job(key=listed, processes=frozenset({12}))}
    sampler = make(lambda: jobs)
    seen, sizes, descriptors = set(), [], []
    for look in range(21):
        node.process(10, start=look, cgroup=f"{V2}/{names[0]}/step_0/user\n")
        node.process(
            11,
            start=look,
            cgroup=f"{V2}/{names[99]}/step_0/user\n",
            environ=b"SLURM_JOB_ID=%d" % (10**6 + look),
        )
        node.process(12, start=look, ppid=10, pgid=1000 + look, user=look, children_user=look)
        seen |= sampler.sample().jobs.keys()
        if look in {10, 20}:
            gc.collect()
            sizes.append(size_of(sampler))
            descriptors.append(open_descriptors())
        following = [f"job_{(look + 1) * 100 + number + 1}" for number in range(99)] + [f"s{look + 1:013d}"]
        for old, new in zip(names, following, strict=True):
            (scope / old).rename(scope / new)
        names = following
        jobs = {
            listed: jobs[listed],
            JobKey("gridengine", str(look)): Job(key=listed, sessions=frozenset({look})),
        }
    assert sum(isinstance(key, JobKey) for key in seen) >= 2_000
    assert sizes[1] == pytest.approx(sizes[0], abs=50)
    assert descriptors[1] == descriptors[0]


@given(
    files=st.dictionaries(
        st.sampled_from(["stat", "status", "cgroup", "cmdline", "environ"]), st.binary(max_size=80)
    )
)
def test_any_bytes_in_any_file_cost_nobody_else(node, make, files):
    node.process(10)
    path = node.process(11)
    for name, data in files.items():
        (path / name).write_bytes(data)
    sampler = make()
    for _ in range(2):
        assert sampler.sample().jobs[GroupKey(10, EPOCH)].processes == 1
    sampler.close()


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


COUNTERS = st.integers(0, 2**64 - 1)
FILES = {
    "memory.events": st.builds("max {}\noom_kill {}\n".format, COUNTERS, COUNTERS),
    "io.stat": st.builds("8:{} rbytes={} wbytes=1 rios=1 wios=1\n".format, st.integers(0, 2), COUNTERS),
    "cpu.pressure": st.builds("some avg10=0.00 avg60=0.00 avg300=0.00 total={}\n".format, COUNTERS),
    "cpu.stat": st.builds("user_usec {}\nsystem_usec {}\n".format, st.integers(0, 10**12), st.integers(0, 9)),
}


@given(
    looks=st.lists(
        st.fixed_dictionaries(
            {name: st.none() | st.binary(max_size=9) | texts for name, texts in FILES.items()}
        ),
        max_size=8,
    )
)
def test_counters_that_vanish_begin_anew_or_turn_to_garbage_never_fall_and_are_never_a_false_zero(
    node, make, looks, monkeypatch
):
    # A kept descriptor of a plain file outlives it; one of the kernel's does not.
    monkeypatch.setattr(DescriptorBudget, "take", lambda *_: False)
    group = node.job_v2("job_4")
    sampler = make()
    told: dict[object, float] = {}
    without_pressure = 0
    for look in looks:
        for name, content in look.items():
            path = group / name
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        job = sampler.sample().jobs[slurm("4")]
        now = {
            "kills": job.oom_kills,
            "hits": job.memory_limit_hits,
            "read": job.block_io and job.block_io.read_bytes,
            "user": job.user_cpu_secs,
            "pressure": job.pressure_secs.get(("cpu", "some")),
        }
        known = {name: value for name, value in now.items() if value is not None}
        assert all(value >= told.get(name, 0) for name, value in known.items())
        told.update(known)
        if look["memory.events"] is None:
            assert job.oom_kills is None
        without_pressure = without_pressure + 1 if look["cpu.pressure"] is None else 0
        if without_pressure >= 4:  # by then each file has had its turn
            assert job.pressure_secs == {}
    sampler.close()
