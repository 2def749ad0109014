from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.swf.check import check_log
from jobfeatures.formats.swf.fields import UNKNOWN
from jobfeatures.formats.swf.firstpass import (
    LATEST_SECS,
    SMALL,
    FirstPass,
    NameNumbers,
    columns_of,
    numbering_of,
)
from jobfeatures.formats.swf.write import write_records
from jobfeatures.joblogs.loggedjob import JobBatch, JobRecord, some_at_once
from jobfeatures.records.model import JobState

IDS = st.one_of(st.integers(0, 40), st.integers(SMALL - 2, SMALL + 2), st.just(2**63))


def counted(*records, wanted=()):
    first_pass = FirstPass(numbering_of(None), set(wanted))
    for some in some_at_once(records):
        first_pass.add(columns_of(JobBatch.of(some)))
    first_pass.number_queues()
    return first_pass


def job(job_id, **more):
    return JobRecord(batch_system="x", job_id=str(job_id), **more)


@given(st.lists(IDS, max_size=12))
def test_ids_are_kept_where_all_are_different_whole_numbers_from_1(ids):
    kept = all(0 < each < 2**63 for each in ids) and len(set(ids)) == len(ids)
    assert counted(*map(job, ids)).keeps_ids is kept
    assert counted(*map(job, ids), job("a")).keeps_ids is False


def test_times_are_those_of_all_jobs_but_for_ends_after_all_dates():
    found = counted(
        job(1, submit_secs=9, end_secs=30), job(2, submit_secs=5, end_secs=LATEST_SECS + 1), job(3)
    )
    assert (found.jobs, found.first_secs, found.end_secs, found.is_measured) == (3, 5, 30, True)
    assert not counted(job(1, submit_secs=9, run_secs=3)).is_measured
    assert counted(job(1, state=JobState.CANCELLED)).is_measured


def test_a_followed_job_has_a_place_unless_several_have_its_id():
    assert counted(job(7), job(8), job(9), job(8), wanted="789").places == {"7": 1, "8": 0, "9": 3}


def test_cpu_times_are_meant_where_nobody_asked_for_wall_time():
    cpu, wall = job(1, cpu_limit_secs=5), job(2, wall_limit_secs=5)
    assert [counted(*each).is_cpu for each in ((cpu, job(3)), (cpu, wall), (wall,), ())] == [
        True,
        False,
        False,
        False,
    ]


def test_new_names_come_after_all_numbers_and_stay():
    numbers = NameNumbers({7: "alice"}, are_numbers=True)
    assert [numbers.of(name) for name in ("bob", "12", "carol", "bob", "alice")] == [8, 12, 13, 8, 7]
    assert numbers.added == {"bob": 8, "carol": 13}


def test_no_name_gets_the_number_that_says_unknown():
    numbers = NameNumbers({-2: "alice"})
    assert [numbers.of(name) for name in ("bob", None, "alice")] == [1, UNKNOWN, -2]


def with_cpus(number, **more):
    return JobRecord(batch_system="swf", job_id=str(number), total_cpus=2, **more)


def written(*records):
    return list(write_records(records, lambda _: None))


MODEL = (
    with_cpus(1, submit_secs=0, run_secs=60),
    with_cpus(2, run_secs=7, preceding_job_id="1", think_secs=5),
    with_cpus(3, submit_secs=4, run_secs=8),
)


def test_a_model_has_no_time_of_a_clock_and_is_known_as_one_again():
    """ "The same format is used for models and logs." """
    lines = written(*MODEL)
    assert not [line for line in lines if "Time" in line]
    assert lines[-3:] == [
        "1 0 -1 60 2 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1",
        "2 -1 -1 7 2 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 1 5",
        "3 4 -1 8 2 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1",
    ]
    assert [fault.rule for fault in check_log(lines) if fault.level != "warning"] == ["model"]


def test_a_log_tells_when_it_began():
    for each in (
        with_cpus(1, submit_secs=5, run_secs=60),
        with_cpus(1, submit_secs=0, start_secs=0, end_secs=60),
        with_cpus(1, submit_secs=0, state=JobState.CANCELLED),
    ):
        assert f"; UnixStartTime: {each.submit_secs}" in written(each)


def test_what_requested_times_are_is_said():
    limits = dict.fromkeys(("total_cpus", "requested_cpus"), 4)
    cpu = JobRecord(batch_system="x", job_id="1", submit_secs=9, cpu_limit_secs=120, **limits)
    wall = JobRecord(batch_system="x", job_id="2", submit_secs=9, wall_limit_secs=30, **limits)
    lines = written(cpu)
    assert "; Note: requested times are average CPU times per processor" in lines
    assert lines[-1].split()[8] == "30"
    assert "; Note: requested times are wall clock times" in written(cpu, wall)
    assert "; Note: requested times are wall clock times" in written(wall)
