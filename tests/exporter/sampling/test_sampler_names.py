"""What a job is called: by its number, its SLUID, its slot or its node."""

from jobfeatures.records.model import Alias, Job, JobKey
from jobfeatures_exporter.model.snapshot import GroupKey, Kind, UnitKey
from jobfeatures_exporter.sampling.processes import attributor
from tests.exporter.sampling.jobs import EPOCH, V2, slurm, v1

SLUID = "s5K1KKYAYG5D00"


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


def test_after_a_reboot_a_job_s_process_number_is_somebody_else_s(node, make):
    """A crash leaves the job's file; its job is not here any more, whatever the file says."""
    node.process(10, user=100)
    key = JobKey("spool", "render.17")
    boot_secs = 1795247965
    for start_secs, user_cpu_secs in ((boot_secs + 60, 1.0), (None, 1.0), (boot_secs - 86400, None)):
        known = Job(key=key, start_secs=start_secs, processes=frozenset({10}))
        found = make(lambda known=known: {key: known}).sample().jobs.get(key)
        assert (None if found is None else found.user_cpu_secs) == user_cpu_secs


def test_emulated_nodes_are_told_apart_or_summed(node, make):
    for name, pid, usage in (("n1", 10, 1), ("n2", 20, 2)):
        node.job_v1(f"slurm_{name}/uid_6001/job_2", usage_secs=usage, memory=100 * pid)
        node.process(pid, cgroup=v1(f"/slurm_{name}/uid_6001/job_2/step_0/task_0"))
    known = Job(key=slurm("2"), nodes=("n1", "n2"))
    both = make(lambda: {known.key: known}).sample().jobs
    assert (both[slurm("2")].user_cpu_secs, both[slurm("2")].memory.anon) == (3.0, 3000)
    assert (both[slurm("2")].processes, both[slurm("2")].node) == (2, None)
    one = make(node_name="n2").sample().jobs
    assert (one[slurm("2")].user_cpu_secs, one[slurm("2")].memory.anon) == (2.0, 2000)
    assert (one[slurm("2")].processes, one[slurm("2")].node) == (1, "n2")
    assert one[GroupKey(10, EPOCH)].processes == 1
    assert slurm("2") not in make(node_name="n3").sample().jobs


def test_two_nodes_jobs_of_one_number_are_one_job_only_by_their_batch_system_s_word(node, make):
    """They may be two clusters'."""
    for name, pid, usage in (("n1", 10, 1), ("n2", 20, 2)):
        node.job_v1(f"slurm_{name}/uid_6001/job_2", usage_secs=usage)
        node.process(pid, cgroup=v1(f"/slurm_{name}/uid_6001/job_2/step_0/task_0"))
    jobs = {}
    sampler = make(lambda: jobs)

    def seconds():
        found = sampler.sample().jobs
        return {
            key.job_id: (each.user_cpu_secs, each.processes, each.node, each.place)
            for key, each in found.items()
            if isinstance(key, JobKey)
        }

    apart = seconds()
    assert sorted(each[:3] for each in apart.values()) == [(1.0, 1, "n1"), (2.0, 1, "n2")]
    assert sorted(apart) in (["2", "2@n1"], ["2", "2@n2"])
    assert seconds() == apart
    jobs[slurm("2")] = Job(key=slurm("2"), nodes=("n2", "n7"))
    for _ in range(2):
        assert seconds() == {"2": (2.0, 1, "n2", ""), "2@n1": (1.0, 1, "n1", "n1")}


def test_jobs_of_two_nodes_are_one_as_soon_as_their_batch_system_says_so(node, make):
    for name, pid in (("n1", 10), ("n2", 20)):
        node.job_v1(f"slurm_{name}/uid_6001/job_2", usage_secs=1)
        node.process(pid, cgroup=v1(f"/slurm_{name}/uid_6001/job_2/step_0/task_0"))
    jobs = {}
    sampler = make(lambda: jobs)
    assert len([key for key in sampler.sample().jobs if isinstance(key, JobKey)]) == 2
    jobs[slurm("2")] = Job(key=slurm("2"), nodes=("n1", "n2"))
    for _ in range(2):
        [found] = [each for key, each in sampler.sample().jobs.items() if isinstance(key, JobKey)]
        assert (found.key, found.user_cpu_secs, found.processes) == (slurm("2"), 2.0, 2)


def test_a_path_that_names_no_node_is_everybodys(node, make):
    node.job_v1("slurm/uid_6001/job_2")
    assert slurm("2") in make(node_name="n1").sample().jobs


def test_cpu_time_does_not_fall_when_one_emulated_node_is_done(node, make):
    node.job_v1("slurm_n1/uid_1/job_2", usage_secs=1)
    node.job_v1("slurm_n2/uid_1/job_2", usage_secs=2)
    known = Job(key=slurm("2"), nodes=("n1", "n2"))
    sampler = make(lambda: {known.key: known})
    sampler.sample()
    node.end_job("slurm_n1/uid_1/job_2")
    node.job_v1("slurm_n2/uid_1/job_2", usage_secs=2.5)
    assert sampler.sample().jobs[slurm("2")].user_cpu_secs == 3.5


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
    assert jobs[slurm("3385")].alias == Alias("sluid", SLUID)


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


def test_what_stands_below_a_container_is_no_job_of_the_node(node, make):
    node.job_v1("docker/abc/slurm/uid_6001/job_2", usage_secs=1)
    node.process(10, cgroup=v1("/docker/abc/slurm/uid_6001/job_2/step_0"))
    assert make().sample().jobs.keys() == {GroupKey(10, EPOCH)}
