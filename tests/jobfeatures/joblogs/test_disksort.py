import gc
import os
import tracemalloc
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.joblogs import disksort
from jobfeatures.joblogs import folding as jobfold
from jobfeatures.joblogs import loggedjob as joblog
from jobfeatures.joblogs.disksort import DiskSorter, TemporaryFileError
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, sort_in_memory
from jobfeatures.logkinds import write_log
from tests.jobfeatures.jobrecords import any_records


@contextmanager
def sorter(most):
    """Give one that holds so many pairs."""
    with pytest.MonkeyPatch.context() as patch, DiskSorter() as sort:
        patch.setattr(disksort, "MOST", most)
        yield sort


@given(st.lists(st.tuples(st.integers(0, 9), st.integers())), st.integers(1, 7))
def test_pairs_are_sorted_as_in_memory_however_few_have_room_and_can_be_read_again(pairs, most):
    with sorter(most) as sort:
        found = sort(iter(pairs))
        assert list(found) == list(found) == sort_in_memory(pairs)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_files_go_with_what_they_hold_but_not_while_it_is_read(folder):
    with sorter(2) as sort:
        assert os.listdir(folder) == []
        read = iter(sort((number % 3, number) for number in range(7)))
        gc.collect()
        assert [key for key, _ in read] == [0, 0, 0, 1, 1, 2, 2]
        gc.collect()
        [made] = os.listdir(folder)
        assert os.listdir(folder / made) == []
    assert os.listdir(folder) == []


def test_a_folder_without_room_is_named(folder, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(folder / "nowhere"))
    with sorter(2) as sort:
        assert sort([(2, "b"), (1, "a")]) == [(1, "a"), (2, "b")]
        with pytest.raises(TemporaryFileError, match="nowhere: cannot write: No such file"):
            sort((number, number) for number in range(3))


@pytest.mark.parametrize("kind", ["swf", "sss"])
@given(made=st.lists(any_records(step=st.none() | st.just("0")), max_size=9), twice=st.booleans())
def test_logs_are_the_same_whether_they_fit_into_memory_or_not(kind, made, twice):
    records = made + made[:2] * twice
    told = [Notes(), Notes()]
    one = list(write_log(records, kind, told[0]))
    with sorter(2) as sort, pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobfold, "MOST", 2)
        other = list(write_log(records, kind, told[1], sort=sort))
    assert one == other
    assert told[0] == told[1]


def test_a_conversion_holds_no_more_jobs_than_have_room(monkeypatch):
    """Jobs of 4 KB each: a million of them would be 4 GB."""
    monkeypatch.setattr(disksort, "AT_ONCE", 5)
    for module in (joblog, jobfold):
        monkeypatch.setattr(module, "AT_ONCE", 5)

    def records():
        for number in range(1000, 0, -1):
            yield JobRecord(
                batch_system="x", job_id=str(number), submit_secs=number % 997, name="n" * 4000 + str(number)
            )

    def peak(sort):
        tracemalloc.start()
        lines = sum(1 for _ in write_log(records(), "swf", Notes(), sort=sort))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return lines, most

    of_all = peak(sort_in_memory)[1]
    monkeypatch.setattr(jobfold, "MOST", 100)
    with sorter(100) as sort:
        assert peak(sort)[1] < of_all / 2
