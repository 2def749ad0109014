"""Kills that the node counts and no group shows; oracle: a node where it is known what each kill was of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample
from jobfeatures_exporter.sampling.groups.unseenkills import UnseenKills

KEYS = [JobKey("slurm", str(number)) for number in range(3)]


def samples(counts, memory=MemoryBytes(), version=1):  # noqa: B008  # it cannot change
    return {
        key: JobSample(
            key=key, accounting=FigureSource.CGROUP, memory=memory, oom_kills=count, cgroup_version=version
        )
        for key, count in counts.items()
    }


@pytest.fixture
def look():
    """Return a function that takes a look: counts of the node and the jobs, who lost groups → what is shown."""
    kills, before = UnseenKills(), {}

    def look(node, counts, lost=(), **of_jobs):
        jobs, final = kills.blank_uncertain(node, before, samples(counts, **of_jobs), {}, lost)
        before.clear()
        before.update(jobs)
        return {key: each.oom_kills for key, each in {**final, **jobs}.items()}

    return look


@given(
    looks=st.lists(st.lists(st.tuples(st.sampled_from([*KEYS, None]), st.booleans()), max_size=4), max_size=8)
)
def test_a_count_of_0_is_unknown_where_a_kill_was_not_shown_in_the_look_in_which_the_job_lost_a_group(looks):
    """Each kill is of a job or of none, and is shown or was of a group that has gone."""
    kills, before = UnseenKills(), {}
    node, shown, unsure = 100, dict.fromkeys(KEYS, 0), set()
    for happened in [[], *looks]:
        for key, is_shown in happened:
            node += 1
            if key is not None and is_shown:
                shown[key] += 1
        lost = {key for key, is_shown in happened if key is not None and not is_shown}
        unsure |= lost
        jobs, _ = kills.blank_uncertain(node, before, samples(shown), {}, lost)
        expected = {key: None if key in unsure and not count else count for key, count in shown.items()}
        assert {key: each.oom_kills for key, each in jobs.items()} == expected
        before = jobs


def test_nothing_is_unsure_where_the_node_does_not_count_or_for_the_first_time(look):
    for node in (None, 7, None, 9):
        assert look(node, {KEYS[0]: 0}, KEYS[:1]) == {KEYS[0]: 0}
    assert look(10, {KEYS[0]: 0}, KEYS[:1]) == {KEYS[0]: None}
    assert look(10, {}) == {}  # it was said before
    assert look(10, {KEYS[0]: 0}) == {KEYS[0]: 0}  # the next of that id


FULL = MemoryBytes(peak=64, limit=64)


@pytest.mark.parametrize("late", [0, 1])
def test_a_kill_that_no_group_shows_may_be_of_a_job_that_comes_and_has_been_at_its_limit(look, late):
    """The task that was killed is gone; the kill is counted before the job is listed, or in the same look."""
    for node in (10, 10, 10 + late):
        look(node, {})
    assert look(11, {KEYS[0]: 0}, memory=FULL) == {KEYS[0]: None}
    assert look(12, {KEYS[0]: 1}, memory=FULL) == {KEYS[0]: 1}


@pytest.mark.parametrize(
    ("memory", "version", "expected"),
    [(FULL, 1, None), (FULL, 2, 0), (MemoryBytes(peak=57, limit=64), 1, 0), (MemoryBytes(peak=64), 1, 0)],
)
def test_a_kill_that_no_group_shows_may_be_of_a_step_that_came_and_went(look, memory, version, expected):
    told = [look(node, {KEYS[0]: 0}, memory=memory, version=version) for node in (10, 10, 11)]
    assert told == [{KEYS[0]: 0}, {KEYS[0]: 0}, {KEYS[0]: expected}]


def test_a_kill_that_is_shown_under_two_names_hides_no_other(look):
    sluid, number, other = KEYS
    look(10, {sluid: 0, other: 0})
    look(11, {sluid: 1, other: 0})
    look(11, {number: 1, other: 0})
    look(11, {number: 1, other: 0})
    assert look(12, {number: 1, other: 0}, [other]) == {number: 1, other: None}
