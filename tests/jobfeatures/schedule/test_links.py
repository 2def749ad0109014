import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.joblog import JobRecord
from jobfeatures.schedule.links import find_links, links_of

NUMBERS = st.lists(st.integers(1, 9), min_size=1, max_size=9)


def linked(numbers, preceding, thinks=None):
    thinks = [-1] * len(numbers) if thinks is None else thinks
    links, told = find_links(np.array(numbers), np.array(preceding), np.array(thinks))
    return None if links is None else links.preceding.tolist(), told


def test_preceding_job_is_the_number_of_a_previous_job_in_the_workload():
    assert linked([7, 9, 8], [-1, 7, 9]) == ([-1, 0, 1], [])
    assert linked([7, 9, 8], [-1, -1, 0]) == (None, [])
    links, _ = find_links(np.array([7, 9]), np.array([-1, 7]), np.array([4, 10]))
    assert links.thinks.tolist() == [-1, 10]


def test_what_is_not_there_or_there_twice_is_taken_as_none():
    assert linked([7, 7, 8, 9], [-1, -1, 7, 5])[0] is None
    found, told = linked([1, 2, 3], [-1, 1, 5])
    assert found == [-1, 0, -1]
    assert told == ["1 × preceding job that is not there, or follows the job itself: it is taken as none"]


def test_jobs_that_would_wait_for_themselves_follow_none():
    assert linked([1, 2, 3, 4], [2, 3, 1, 3])[0] == [-1, -1, -1, 2]
    assert linked([1, 2], [1, 1])[0] == [-1, 0]


@given(NUMBERS.flatmap(lambda numbers: st.tuples(st.just(numbers), st.permutations([*numbers, 5, 6, -1]))))
def test_nobody_waits_for_himself_and_the_others_for_whom_they_name(drawn):
    numbers, preceding = drawn[0], drawn[1][: len(drawn[0])]
    found = linked(numbers, preceding)[0] or [-1] * len(numbers)
    for place, before in enumerate(found):
        seen, job = 0, place
        while (job := found[job]) >= 0:
            seen += 1
            assert seen <= len(numbers), "a circle"
        if before >= 0:
            assert numbers[before] == preceding[place]
            assert numbers.count(numbers[before]) == 1


def test_records_name_the_job_by_its_id_on_the_same_cluster():
    one, other, last = (
        JobRecord(
            batch_system="slurm", job_id=name, cluster=cluster, preceding_job_id=before, think_secs=think
        )
        for name, cluster, before, think in (
            ("1", "a", None, None),
            ("1", "b", None, 3),
            ("2", "b", "1", 2.5),
        )
    )
    links, told = links_of([one, other, last])
    assert (links.preceding.tolist(), links.thinks.tolist(), told) == ([-1, -1, 1], [-1, -1, 2.5], [])
    assert links_of([one, other]) == (None, [])


def test_a_job_could_start_its_think_time_after_that_end_and_no_later_than_it_did(read_swf):
    log = read_swf(
        "1   0  0 100 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1",
        "2   5 95  10 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1  1 -1",  # waited for the first
        "3   6 94  10 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1  1  7",  # started too early
        "4 120  1  10 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1  1 20",
        "5 200  1  10 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1  1  -1",
        "6 200 -1  10 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1  6  -1",
        "7 200  9  10 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1  6  -1",  # when 6 ended is not known
    )
    assert log.could_start.tolist() == [-1, 100, 100, 120, 200, -1, -1]
    assert log.warnings == (
        "1 × preceding job that is not there, or follows the job itself: it is taken as none",
    )
