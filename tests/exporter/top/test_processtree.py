"""The processes of a job, and what each uses now."""

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.snapshot import ProcessSample, Snapshot
from jobfeatures_exporter.top.processtree import list_processes

KEY, OTHER = JobKey("slurm", "1"), JobKey("slurm", "2")


def process(pid, parent, ticks=0, start=5):
    return ProcessSample(pid, parent, 1, 1, start, f"p{pid}", "S", ticks, ticks, 0, 0, 2, 4096, 8192)


def look(at_secs, *processes):
    samples = {each.pid: each for each in processes}
    keys = {pid: OTHER if pid == 99 else KEY for pid in samples}
    return Snapshot(
        taken_at_secs=at_secs, duration_secs=0, node=None, jobs={}, read_at_secs=at_secs,
        processes=samples, keys=keys,
    )  # fmt: skip


def test_each_stands_behind_its_parent_and_those_of_other_jobs_are_left_out():
    now = look(
        10, process(30, 10), process(20, 1), process(10, 1), process(31, 30), process(11, 99), process(99, 1)
    )
    found = list_processes(now, None, KEY)
    assert [(each.process.pid, each.depth) for each in found] == [
        (10, 0),
        (30, 1),
        (31, 2),
        (11, 0),
        (20, 0),
    ]
    assert found[0].process.command == "p10"
    assert {each.cpus_now for each in found} == {None}


def test_cpus_are_those_between_two_looks_at_the_same_process():
    before = look(10, process(1, 0, 100), process(2, 0, 100), process(4, 0, 9))
    now = look(12, process(1, 0, 200), process(2, 0, 200, start=6), process(3, 0, 7), process(4, 0, 8))
    found = {each.process.pid: each.cpus_now for each in list_processes(now, before, KEY)}
    assert found == {1: 1.0, 2: None, 3: None, 4: 0.0}
    assert list_processes(now, now, KEY)[0].cpus_now is None
