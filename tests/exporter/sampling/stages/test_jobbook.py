"""Whose a control group is, and what an earlier run at the same path leaves to the next: nothing."""

import os
import shutil

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import BlockIo, Kind, NodeSample, ProcessSample, UnitKey
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.lastreadings import LastReadings
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes
from jobfeatures_exporter.sampling.processes import members
from jobfeatures_exporter.sampling.processes.accumulate import CpuTicks
from jobfeatures_exporter.sampling.processes.attribution import Owners
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
from tests.exporter.sampling.jobs import V2, killed_v1, slurm, v1


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


@pytest.mark.parametrize("first_number", ["before the next job", "when both are there"])
def test_nothing_of_another_users_group_of_the_same_id_is_the_jobs(node, make, first_number):
    """Slurm that has lost its state begins to count anew, and an empty group may still be there."""
    other, own = "slurm/uid_6001/job_2", "slurm/uid_6002/job_2"
    used_v1(node, other, 100)
    words = LastReadings()
    sampler = make(steps=True, last_readings=words)
    if first_number == "before the next job":
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
    monkeypatch.setattr(members, "read_owner", lambda folder: owners[int(folder.rpartition("/")[2])])
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
    assert (job.user_cpu_secs, job.memory.anon, job.alias.name, job.processes) == (1, 1, own, 1)


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
        assert sampler.sample().jobs[key].processes == (2 if max_open is None else 0)
    for each in hidden:
        each.rename(node.proc / each.name)
    node.process(10, user=300)
    node.process(12, ppid=1, pgid=10, user=7)
    job = sampler.sample().jobs[key]
    assert (job.user_cpu_secs, job.processes) == (3.57, 3)


def test_the_next_job_at_the_same_path_has_nothing_of_the_last(node, make):
    words, path = LastReadings(), "slurm_n1/uid_6001/job_10"
    sampler = make(last_readings=words)
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


def test_a_record_is_made_of_values_alone(monkeypatch):
    """Whoever has readings, by hand or of another machine, gets the record: no file is opened for it."""
    monkeypatch.setattr(os, "open", None)
    monkeypatch.setattr(os, "stat", None)
    directory = JobDirectory(
        path="/slurm/job_2",
        membership=Membership(batch_system="slurm", job_id="2", uid=6001),
        groups={"cpuacct": "/nowhere", "memory": "/nowhere"},
    )
    recorder, node = (
        JobRecorder(tells_io=True, tells_network=False),
        NodeReading(NodeSample(), NodeSigns(), (), 7, None),
    )
    job, sleeping, unit = (
        slurm("2"),
        ProcessSample(9, 1, 9, 9, 5, "x", "S", 30, 10, 0, 0, 2, 0, 0),
        UnitKey(Kind.SERVICE, "a"),
    )
    found = Attributed({9: unit}, {}, {job: [directory]}, {unit: [sleeping]}, Owners(uids={9: 44}))
    counted, last = ProcessTotals({unit: CpuTicks(30, 10)}, {}), LastSample()

    def record(cpu, **more):
        figures = GroupFigures(
            MemoryBytes(anon=5, limit=100, peak=8), CpuTimes(cpu, 0.5), {"oom_kills": {"": (1,)}}
        )
        reading = JobReading([GroupReading(directory, figures)], figures.memory, **more)
        readings = Readings({job: reading}, memory={unit: MemoryBytes(anon=3)})
        return recorder.records(found, counted, readings, node, {}, last)[0]

    records = record(2.0)
    made, of_unit = records[job], records[unit]
    assert (made.user_cpu_secs, made.uid, made.oom_kills, made.memory.peak) == (2.0, 6001, 1, 8)
    assert (of_unit.user_cpu_secs, of_unit.uid, of_unit.memory.anon, of_unit.threads) == (0.3, 44, 3, 2)
    assert record(3.0)[job].user_cpu_secs == 3.0
    still = record(3.0, is_still=True, is_frozen=True)[job]
    assert (still.user_cpu_secs, still.is_frozen) == (3.0, True)
