"""Processes as a tree, whatever their parents are said to be, and what each uses now."""

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample, Snapshot
from jobfeatures_exporter.view.processes import list_processes, make_tree

KEY, OTHER = JobKey("slurm", "1"), JobKey("slurm", "2")


def process(pid, ppid, *, ticks=0, started=0):
    return ProcessSample(pid, ppid, pid, pid, started, f"c{pid}", "S", ticks, ticks, 0, 0, 1, 2**20, 2**21)


def tree(*processes, most=200):
    return [(each.pid, depth) for each, depth in make_tree(processes, most)]


def test_children_stand_below_their_parents_in_the_order_of_their_starts():
    found = tree(process(9, 5, started=3), process(5, 1), process(7, 5, started=2), process(8, 7, started=9))
    assert found == [(5, 0), (7, 1), (8, 2), (9, 1)]


def test_a_circle_of_parents_ends():
    assert tree(process(2, 3), process(3, 2), process(4, 4)) == [(4, 0), (2, 0), (3, 1)]


def test_no_more_than_a_page_holds():
    assert len(tree(*(process(pid, pid - 1) for pid in range(1, 500)), most=50)) == 50


@given(st.dictionaries(st.integers(1, 12), st.integers(0, 12), max_size=12))
def test_every_process_is_there_once(parents):
    found = tree(*(process(pid, ppid) for pid, ppid in parents.items()))
    assert sorted(pid for pid, _ in found) == sorted(parents)


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
    assert found[0].process.command == "c10"
    assert {each.cpus_now for each in found} == {None}


def test_cpus_are_those_between_two_looks_at_the_same_process():
    before = look(10, process(1, 0, ticks=100), process(2, 0, ticks=100), process(4, 0, ticks=9))
    now = look(
        12,
        process(1, 0, ticks=200),
        process(2, 0, ticks=200, started=6),
        process(3, 0, ticks=7),
        process(4, 0, ticks=8),
    )
    found = {each.process.pid: each.cpus_now for each in list_processes(now, before, KEY)}
    assert found == {1: 1.0, 2: None, 3: None, 4: 0.0}
    assert list_processes(now, now, KEY)[0].cpus_now is None
