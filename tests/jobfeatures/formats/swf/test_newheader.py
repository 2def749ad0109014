from jobfeatures.formats.swf.check import check_log
from jobfeatures.formats.swf.write import write_records
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import JobState


def job(number, **more):
    return JobRecord(batch_system="swf", job_id=str(number), total_cpus=2, **more)


def written(*records):
    return list(write_records(records, lambda _: None))


MODEL = (
    job(1, submit_secs=0, run_secs=60),
    job(2, run_secs=7, preceding_job_id="1", think_secs=5),
    job(3, submit_secs=4, run_secs=8),
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
        job(1, submit_secs=5, run_secs=60),
        job(1, submit_secs=0, start_secs=0, end_secs=60),
        job(1, submit_secs=0, state=JobState.CANCELLED),
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
