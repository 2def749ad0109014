from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.jobfold import fold_jobs
from jobfeatures.joblog import JobRecord
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


def test_a_step_without_its_job_is_told():
    assert folded(replace(step("0", 900), job_id="8"), JOB) == ([JOB], {"step without its job": 1})


def test_of_several_runs_the_one_submitted_last_counts_in_any_order():
    first = replace(JOB, submit_secs=1, start_secs=2, end_secs=9)
    again = replace(JOB, job_id="8")
    for order in ((first, JOB, again), (JOB, first, again)):
        found, lost = folded(*order)
        assert found == [replace(JOB, restarts=1), again]
        assert lost == {"earlier run": 1}


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
    assert folded(JOB, second, all_runs=True) == ([JOB, second], {})


def test_the_same_number_in_two_batch_systems_is_two_jobs():
    other = replace(JOB, batch_system="pbs")
    assert folded(JOB, other) == ([JOB, other], {})


@given(st.lists(any_records(), max_size=6))
def test_no_job_is_forgotten_and_none_is_there_twice(records):
    found, lost = folded(*records)
    assert [each.job_id for each in found] == list(dict.fromkeys(each.job_id for each in records))
    assert len(found) + lost["earlier run"] == len(records)
