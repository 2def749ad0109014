import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import UNLIMITED, JobKey, JobState, Limits, fill_unknown


@given(st.sampled_from(["slurm", "spool"]), st.text(min_size=1, max_size=60))
def test_a_directory_name_is_one_safe_path_component_and_leads_back(batch_system, job_id):
    try:
        key = JobKey(batch_system, job_id)
        name = key.directory_name
    except UnicodeEncodeError:  # lone surrogates are no text at all
        return
    assert "/" not in name
    assert "\0" not in name
    assert not name.startswith(".")
    assert JobKey.from_directory_name(name) == key


@pytest.mark.parametrize("name", ["", "slurm", "slurm-", "-1", "slurm-a b", "slurm-%7e", "x-%ZZ "])
def test_names_of_other_origin_are_no_keys(name):
    assert JobKey.from_directory_name(name) is None


def test_a_state_is_on_the_node_or_finished_or_neither_but_never_both():
    assert not any(state.is_on_node and state.is_finished for state in JobState)
    assert not JobState.UNKNOWN.is_finished
    assert not JobState.PENDING.is_on_node


def test_filling_takes_unknown_fields_only(make_job):
    job = fill_unknown(make_job(uid=0, state=JobState.UNKNOWN), make_job(uid=5, nodes=("n1",)))
    assert job.uid == 0
    assert job.nodes == ("n1",)
    assert job.state is JobState.RUNNING


@pytest.mark.parametrize(("wall_secs", "end_secs"), [(60, 172), (None, 172), (90, None), (UNLIMITED, None)])
def test_the_end_by_another_wall_limit_is_not_that_by_this_one(make_job, wall_secs, end_secs):
    before = make_job(limits=Limits(wall_secs=60), limit_end_secs=172)
    assert fill_unknown(make_job(limits=Limits(wall_secs=wall_secs)), before).limit_end_secs == end_secs


def test_the_end_by_the_wall_limit_is_known_only_with_start_and_limit(make_job):
    assert make_job(start_secs=100, limits=Limits(wall_secs=60)).end_limit_secs == 160
    assert make_job(start_secs=100, limits=Limits(wall_secs=UNLIMITED)).end_limit_secs is None
    assert make_job(limits=Limits(wall_secs=60)).end_limit_secs is None


def test_the_batch_system_s_own_reckoning_of_the_end_counts_the_time_of_a_suspension(make_job):
    job = make_job(start_secs=100, limits=Limits(wall_secs=60), limit_end_secs=172)
    assert job.end_limit_at(150) == 172
    assert job.wall_limit_from_start_secs == 72
    assert make_job(start_secs=100, limits=Limits(wall_secs=60)).wall_limit_from_start_secs == 60
    lifted = make_job(start_secs=100, limits=Limits(wall_secs=UNLIMITED), limit_end_secs=172)
    assert (lifted.end_limit_at(150), lifted.wall_limit_from_start_secs) == (None, UNLIMITED)


def test_a_job_whose_start_lies_ahead_by_another_clock_has_its_limit_left_and_no_more(make_job):
    job = make_job(start_secs=100, limits=Limits(wall_secs=60))
    assert [job.end_limit_at(now) for now in (40, 99.5, 100, 130)] == [100, 159.5, 160, 160]
    resumed = make_job(start_secs=100, limits=Limits(wall_secs=60), limit_end_secs=172)
    assert [resumed.end_limit_at(now) for now in (111, 112, 150)] == [171, 172, 172]


def test_a_job_that_completes_ends_now_whatever_it_was_given(make_job):
    for limit in (60, UNLIMITED, None):
        job = make_job(state=JobState.COMPLETING, start_secs=100, limits=Limits(wall_secs=limit))
        assert job.end_limit_at(1000) == 1000


def test_a_suspended_job_s_time_stands_still(make_job):
    job = make_job(state=JobState.SUSPENDED, start_secs=100, limits=Limits(wall_secs=60), ran_secs=20)
    assert [job.end_limit_at(now) - now for now in (120, 1000)] == [40, 40]


def test_a_deadline_that_is_not_reported_any_more_has_been_withdrawn(make_job):
    assert fill_unknown(make_job(), make_job(deadline_secs=5, grace_secs=3)) == make_job(grace_secs=3)
