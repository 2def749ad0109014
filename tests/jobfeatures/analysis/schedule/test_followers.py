import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.followers import LinkIndex, Links, link_keys
from jobfeatures.analysis.schedule.runs import Store
from jobfeatures.joblogs.loggedjob import JobRecord

NUMBERS = st.lists(st.integers(1, 9), min_size=1, max_size=9)


def linked(numbers, preceding, most=9, room_bytes=10**6):
    """Return who follows whom, and how many follow none: of jobs that come in pieces of at most so many."""
    with Store(room_bytes) as store:
        index, sizes = LinkIndex(store), []
        for first in range(0, len(numbers), most):
            some = np.array(numbers[first : first + most])
            index.add(some, np.array(preceding[first : first + most]), 10 * some)
            sizes.append(len(some))
        missing = index.find_links()
        found = list(index.links_by_piece(sizes))
    assert [len(places) for places, _ in found] == sizes
    places = np.concatenate([places for places, _ in found]).tolist()
    ends = np.concatenate([ends for _, ends in found]).tolist()
    assert ends == [10 * numbers[place] if place >= 0 else -1 for place in places]
    return places, missing


def test_preceding_job_is_the_number_of_a_previous_job_in_the_workload():
    assert linked([7, 9, 8], [-1, 7, 9]) == ([-1, 0, 1], 0)
    assert linked([7, 9, 8], [-1, -1, 0]) == ([-1, -1, -1], 0)


def test_what_is_not_there_or_there_twice_is_taken_as_none():
    assert linked([7, 7, 8, 9], [-1, -1, 7, 5])[0] == [-1] * 4
    found, missing = linked([1, 2, 3], [-1, 1, 5])
    assert found == [-1, 0, -1]
    assert missing == 1


def test_jobs_that_would_wait_for_themselves_follow_none():
    assert linked([1, 2, 3, 4], [2, 3, 1, 3])[0] == [-1, -1, -1, 2]
    assert linked([1, 2], [1, 1])[0] == [-1, 0]


@given(
    NUMBERS.flatmap(lambda numbers: st.tuples(st.just(numbers), st.permutations([*numbers, 5, 6, -1]))),
    st.integers(1, 9),
    st.sampled_from([0, 10**6]),
)
def test_nobody_waits_for_himself_and_the_others_for_whom_they_name(drawn, most, room_bytes):
    numbers, preceding = drawn[0], drawn[1][: len(drawn[0])]
    named = [numbers.index(each) if numbers.count(each) == 1 else -1 for each in preceding]
    expected = []
    for place, before in enumerate(named):
        job, steps = place, 0
        while (job := named[job]) not in {-1, place} and steps < len(numbers):
            steps += 1
        expected.append(-1 if job == place else before)
    found, missing = linked(numbers, preceding, most, room_bytes)
    assert found == expected
    assert missing == sum(each > 0 for each in preceding) - sum(each >= 0 for each in expected)


@given(st.lists(st.integers(-1, 9), min_size=1, max_size=10), st.permutations(range(10)))
def test_of_those_who_are_left_each_follows_whom_he_followed_if_he_is_left(preceding, order):
    which = np.array([place for place in order if place < len(preceding)][:5])
    preceding = [place if place < len(preceding) else -1 for place in preceding]
    links = Links(np.array(preceding), np.array([7 if place >= 0 else -1 for place in preceding]))
    found = links.select(which)
    left = which.tolist()
    expected = [left.index(preceding[place]) if preceding[place] in left else -1 for place in left]
    assert found.preceding.tolist() == expected
    assert found.thinks.tolist() == [7 if place >= 0 else -1 for place in expected]


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
    numbers, preceding, thinks = link_keys([one, other, last])
    assert len(set(numbers.tolist())) == 3
    assert preceding.tolist() == [-1, -1, numbers[1]]
    assert thinks.tolist() == [-1, 3, 2.5]
    assert [each.tolist() for each in link_keys([])] == [[], [], []]


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
