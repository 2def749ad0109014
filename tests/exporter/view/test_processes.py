"""Processes as a tree, whatever their parents are said to be."""

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.snapshot import ProcessSample
from jobfeatures_exporter.view.processes import make_tree


def process(pid, ppid, *, started=0):
    return ProcessSample(pid, ppid, pid, pid, started, f"c{pid}", "S", 0, 0, 0, 0, 1, 2**20, 2**21)


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
