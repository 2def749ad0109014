from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.joblogs import folding as jobfold
from jobfeatures.joblogs.folding import REPORTED_AGAIN, SAME_ID, fold_jobs
from jobfeatures.joblogs.loggedjob import JobRecord, StepUse
from jobfeatures.records.model import JobState
from tests.jobfeatures.jobrecords import any_records

JOB = JobRecord(batch_system="slurm", job_id="7", submit_secs=10, start_secs=20, end_secs=30, used_cpu_secs=5)


def folded(*records, **options):
    lost = Counter()
    return list(fold_jobs(records, lambda name: lost.update([name]), **options)), lost


def step(name, memory=None, **changes):
    return replace(JOB, step=name, used_memory_bytes=memory, used_cpu_secs=1, **changes)


def test_steps_give_their_most_memory_to_their_job_and_nothing_else():
    [job], lost = folded(JOB, step("batch", 500), step("extern"), step("0", 900))
    assert job == replace(JOB, used_memory_bytes=900)
    assert lost == {"step": 3}


def test_what_a_job_knows_itself_is_not_overruled_by_its_steps():
    known = replace(JOB, used_memory_bytes=100)
    assert folded(known, step("0", 900))[0] == [known]


def test_a_step_that_follows_another_job_is_still_one_of_its_own():
    other = replace(JOB, job_id="8")
    found, lost = folded(JOB, other, step("0", 900))
    assert found == [replace(JOB, used_memory_bytes=900), other]
    assert lost == {"step": 1}


def test_a_step_without_its_job_is_told():
    assert folded(replace(step("0", 900), job_id="8"), JOB) == ([JOB], {"step without its job": 1})


def test_of_several_runs_the_one_submitted_last_counts_in_any_order():
    first = replace(JOB, submit_secs=1, start_secs=2, end_secs=9)
    again = replace(JOB, job_id="8")
    for order in ((first, JOB, again), (JOB, first, again)):
        found, lost = folded(*order)
        assert found == [replace(JOB, restarts=1), again]
        assert lost == {"earlier run": 1}


def test_a_job_stands_where_its_first_run_stood():
    first = replace(JOB, submit_secs=1, start_secs=2, end_secs=9)
    other = replace(JOB, job_id="8")
    assert folded(first, other, JOB)[0] == [replace(JOB, restarts=1), other]


def test_runs_with_one_submission_are_told_apart_by_their_start():
    late = replace(JOB, start_secs=50, end_secs=60)
    never = replace(JOB, start_secs=None, end_secs=70)  # requeued, then cancelled
    assert folded(late, JOB)[0] == [replace(late, restarts=1)]
    assert folded(JOB, never, late)[0] == [replace(never, restarts=2)]


def test_steps_belong_to_the_run_before_them():
    second = replace(JOB, submit_secs=35, start_secs=40, end_secs=50)
    found, _ = folded(JOB, step("0", 900), second, step("0", 100))
    assert found == [replace(second, used_memory_bytes=100, restarts=1)]


def test_all_runs_can_be_kept():
    second = replace(JOB, submit_secs=35)
    assert folded(JOB, second, all_runs=True) == ([JOB, replace(second, restarts=1)], {})


def test_the_same_number_in_two_batch_systems_is_two_jobs():
    other = replace(JOB, batch_system="pbs")
    assert folded(JOB, other) == ([JOB, other], {})


def test_the_same_number_on_two_clusters_is_two_jobs():
    one, other = replace(JOB, cluster="serverA"), replace(JOB, cluster="serverB")
    assert folded(one, other) == ([one, other], {})


def test_the_same_number_of_two_users_is_two_jobs_and_told():
    one, other = (
        replace(JOB, user="ann"),
        replace(JOB, user="bob", submit_secs=40, start_secs=50, end_secs=60),
    )
    assert folded(one, other) == ([one, other], {SAME_ID: 1})


def test_a_number_that_came_round_again_is_another_job():
    later = replace(JOB, submit_secs=10**8, start_secs=10**8 + 5, end_secs=10**8 + 9)
    assert folded(JOB, later) == ([JOB, later], {SAME_ID: 1})


def test_runs_at_the_same_time_are_not_of_one_job():
    other = replace(JOB, submit_secs=15, start_secs=25, end_secs=35)
    assert folded(JOB, other) == ([JOB, other], {SAME_ID: 1})


def test_a_run_that_is_told_twice_is_one_and_its_end_counts():
    running = replace(JOB, end_secs=None, state=JobState.RUNNING)
    for order in ((running, JOB), (JOB, running), (JOB, JOB)):
        assert folded(*order) == ([JOB], {REPORTED_AGAIN: 1})


def test_steps_go_to_the_job_on_their_own_cluster():
    one, other = replace(JOB, cluster="a"), replace(JOB, cluster="b")
    found, _ = folded(one, other, replace(step("0", 900), cluster="a"))
    assert [each.used_memory_bytes for each in found] == [900, None]


def test_a_step_of_no_memory_is_not_one_of_which_none_is_known():
    assert folded(JOB, step("0", 0))[0] == [replace(JOB, used_memory_bytes=0)]


def test_all_runs_of_all_jobs_under_one_id_can_be_kept():
    other = replace(JOB, submit_secs=10**8, start_secs=10**8 + 5, end_secs=10**8 + 9)
    assert folded(JOB, other, all_runs=True) == ([JOB, other], {SAME_ID: 1})


@given(st.lists(any_records(job_id=st.sampled_from(["1", "2"])), max_size=6))
def test_no_record_is_forgotten_and_none_is_there_twice(records):
    found, lost = folded(*records)
    assert len(found) + lost["earlier run"] + lost[REPORTED_AGAIN] == len(records)
    assert {each.job_id for each in found} == {each.job_id for each in records}


SOME = st.none() | st.integers(0, 3)
ENTRIES = st.builds(
    JobRecord,
    batch_system=st.just("slurm"),
    job_id=st.sampled_from("12"),
    cluster=st.sampled_from([None, "", "a"]),
    step=st.sampled_from([None, None, "0"]),
    user=st.sampled_from([None, "u", "v"]),
    **dict.fromkeys(("submit_secs", "start_secs", "end_secs", "restarts", "used_memory_bytes"), SOME),
)
STEPS = st.builds(
    StepUse, st.just("slurm"), st.sampled_from("12"), st.sampled_from([None, "a"]), st.just("0"), SOME
)


@given(st.lists(ENTRIES | STEPS, max_size=12), st.integers(0, 12), st.booleans())
def test_records_are_folded_the_same_whether_they_fit_into_memory_or_are_sorted(entries, most, all_runs):
    expected = folded(*entries, all_runs=all_runs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobfold, "MOST", most)
        assert folded(*entries, all_runs=all_runs) == expected
