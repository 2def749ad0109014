from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.swf.numbering import numbering_of
from jobfeatures.formats.swf.survey import SMALL, Survey
from jobfeatures.joblogs.loggedjob import JobRecord, some_at_once
from jobfeatures.records.model import JobState

IDS = st.one_of(st.integers(0, 40), st.integers(SMALL - 2, SMALL + 2), st.just(2**63))


def surveyed(*records, wanted=(), latest_secs=10**9):
    survey = Survey(numbering_of(None), set(wanted), latest_secs)
    for some in some_at_once(records):
        survey.add(some)
    survey.number_queues()
    return survey


def job(job_id, **more):
    return JobRecord(batch_system="x", job_id=str(job_id), **more)


@given(st.lists(IDS, max_size=12))
def test_ids_are_kept_where_all_are_different_whole_numbers_from_1(ids):
    kept = all(0 < each < 2**63 for each in ids) and len(set(ids)) == len(ids)
    assert surveyed(*map(job, ids)).keeps_ids is kept
    assert surveyed(*map(job, ids), job("a")).keeps_ids is False


def test_times_are_those_of_all_jobs_but_for_ends_after_all_dates():
    found = surveyed(job(1, submit_secs=9, end_secs=30), job(2, submit_secs=5, end_secs=10**9 + 1), job(3))
    assert (found.jobs, found.first_secs, found.end_secs, found.is_measured) == (3, 5, 30, True)
    assert not surveyed(job(1, submit_secs=9, run_secs=3)).is_measured
    assert surveyed(job(1, state=JobState.CANCELLED)).is_measured


def test_a_followed_job_has_a_place_unless_several_have_its_id():
    assert surveyed(job(7), job(8), job(9), job(8), wanted="789").places == {"7": 1, "8": 0, "9": 3}


def test_cpu_times_are_meant_where_nobody_asked_for_wall_time():
    cpu, wall = job(1, cpu_limit_secs=5), job(2, wall_limit_secs=5)
    assert [surveyed(*each).is_cpu for each in ((cpu, job(3)), (cpu, wall), (wall,), ())] == [
        True,
        False,
        False,
        False,
    ]
