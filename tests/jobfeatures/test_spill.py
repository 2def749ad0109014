import gc
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures import spill
from jobfeatures.convert import write_log
from jobfeatures.joblog import JobRecord, Notes, sort_in_memory
from jobfeatures.spill import DiskSorter
from tests.jobfeatures.jobrecords import any_records


@given(st.lists(st.tuples(st.integers(0, 9), st.integers())), st.integers(1, 7))
def test_pairs_are_sorted_as_in_memory_however_few_have_room_and_can_be_read_again(tmp_path, pairs, most):
    found = DiskSorter(str(tmp_path), most)(iter(pairs))
    assert list(found) == list(found) == sort_in_memory(pairs)


def test_files_go_with_what_they_hold_but_not_while_it_is_read(tmp_path):
    sort = DiskSorter(str(tmp_path), 2)
    read = iter(sort((number % 3, number) for number in range(7)))
    gc.collect()
    assert [key for key, _ in read] == [0, 0, 0, 1, 1, 2, 2]
    gc.collect()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["swf", "sss"])
@given(made=st.lists(any_records(step=st.none() | st.just("0")), max_size=9), twice=st.booleans())
def test_logs_are_the_same_whether_they_fit_into_memory_or_not(tmp_path, kind, made, twice):
    records = made + made[:2] * twice
    told = [Notes(), Notes()]
    ways = (sort_in_memory, DiskSorter(str(tmp_path), 2))
    one, other = (
        list(write_log(records, kind, notes, sort=way)) for notes, way in zip(told, ways, strict=True)
    )
    assert one == other
    assert told[0] == told[1]


def test_a_conversion_holds_no_more_jobs_than_have_room(tmp_path, monkeypatch):
    """Jobs of 4 KB each: a million of them would be 4 GB."""
    monkeypatch.setattr(spill, "AT_ONCE", 5)

    def records():
        for number in range(3000, 0, -1):
            yield JobRecord(
                batch_system="x", job_id=str(number), submit_secs=number % 997, name="n" * 4000 + str(number)
            )

    def peak(sort):
        tracemalloc.start()
        lines = sum(1 for _ in write_log(records(), "swf", Notes(), sort=sort))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return lines, most

    assert peak(DiskSorter(str(tmp_path), 100))[1] < peak(sort_in_memory)[1] / 2
