import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.swf.records import read_records, recognise
from jobfeatures.formats.swf.write import write_records
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import UNLIMITED, JobState

LOG = (
    "; UnixStartTime: 1000",
    "; Queue: 0 interactive",
    "; Queue: 3 long",
    "; Note: user 7 is alice",
    "; Note: executable 2 is a.out",
    "4 10 5 100 8 60 2048 8 3600 4096 1 7 2 2 3 1 -1 -1",
    "5 12 -1 -1 0 -1 -1 4 600 -1 5 8 2 -1 0 -1 4 30",
)


def read(*lines, strict=False):
    return list(read_records(lines, source="log.swf", strict=strict, notes=Notes()))


def test_figures_per_processor_become_those_of_the_job():
    done, cancelled = read(*LOG)
    assert done == JobRecord(
        batch_system="swf",
        job_id="4",
        state=JobState.COMPLETED,
        user="alice",
        group="2",
        executable="a.out",
        queue="long",
        partition="1",
        submit_secs=1010,
        start_secs=1015,
        end_secs=1115,
        run_secs=100,
        total_cpus=8,
        requested_cpus=8,
        requested_memory_bytes=4096 * 1024 * 8,
        wall_limit_secs=3600,
        used_cpu_secs=480,
        used_memory_bytes=2048 * 1024 * 8,
    )
    assert (cancelled.state, cancelled.queue, cancelled.user) == (JobState.CANCELLED, "interactive", "8")
    assert (cancelled.start_secs, cancelled.end_secs, cancelled.total_cpus) == (None, None, 0)
    assert (cancelled.preceding_job_id, cancelled.think_secs) == ("4", 30)


def test_time_between_parts_is_time_suspended():
    [record] = read(
        "; Preemption: Double",
        "1 0 5 30 1 -1 -1 1 -1 -1 1 1 -1 -1 -1 -1 -1 -1",
        "1 0 5 10 1 -1 -1 1 -1 -1 2 1 -1 -1 -1 -1 -1 -1",
        "1 -1 40 20 1 -1 -1 1 -1 -1 3 1 -1 -1 -1 -1 -1 -1",
    )
    assert (record.start_secs, record.suspended_secs, record.end_secs) == (5, 40, 75)


def test_a_header_that_cannot_be_read_is_rejected_once_and_the_jobs_live():
    found = read("; UnixStartTime: soon", LOG[-2], "oops")
    assert [type(each) for each in found] == [Rejected, JobRecord, Rejected]
    assert found[1].submit_secs == 10
    with pytest.raises(ParseError, match=r"log\.swf:1:UnixStartTime"):
        read("; UnixStartTime: soon", LOG[-2], strict=True)


def test_runs_of_a_swapped_job_are_joined_though_another_comment_cannot_be_read():
    found = read(
        "; UnixStartTime: soon",
        "; Preemption: Double",
        "1 0 5 30 1 -1 -1 1 -1 -1 1 1 -1 -1 -1 -1 -1 -1",
        "1 0 5 10 1 -1 -1 1 -1 -1 2 1 -1 -1 -1 -1 -1 -1",
        "1 -1 40 20 1 -1 -1 1 -1 -1 3 1 -1 -1 -1 -1 -1 -1",
    )
    assert [type(each) for each in found] == [Rejected, JobRecord]
    assert (found[1].start_secs, found[1].suspended_secs, found[1].end_secs) == (5, 40, 75)


def written(*records):
    lost = {}
    lines = list(write_records(records, lambda name, count=1: lost.update({name: lost.get(name, 0) + count})))
    return lines, lost


def test_a_log_that_is_read_written_and_read_is_the_same():
    records = read(*LOG)
    lines, lost = written(*records)
    assert read(*lines, strict=True) == records
    assert lost == {}
    assert "; Queue: 0 interactive" in lines
    assert "; StartTime: Thu Jan 01 00:16:50 UTC 1970" in lines


def test_what_has_no_place_is_told_by_name():
    records = [
        JobRecord(batch_system="slurm", job_id="12_3", submit_secs=5, user="ann", account="physics", nodes=("c1",)),
        JobRecord(batch_system="slurm", job_id="12_4", submit_secs=3, user="bob", wall_limit_secs=UNLIMITED,
                  used_cpu_secs=5, state=JobState.RUNNING),
        JobRecord(batch_system="slurm", job_id="13"),
        JobRecord(batch_system="slurm", job_id="12_4", step="batch", submit_secs=3),
    ]  # fmt: skip
    lines, lost = written(*records)
    assert lost == {
        "job without submit time": 1, "step": 1, "job_id": 2, "account": 1, "nodes": 1, "wall_limit_secs": 1,
        "used_cpu_secs": 1, "state": 1,
    }  # fmt: skip
    first, second = read(*lines, strict=True)
    assert [(each.job_id, each.user, each.submit_secs) for each in (first, second)] == [
        ("1", "bob", 3),
        ("2", "ann", 5),
    ]


names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=6)
records = st.builds(
    JobRecord,
    batch_system=st.just("swf"),
    job_id=st.integers(1, 10**6).map(str),
    state=st.sampled_from([JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.UNKNOWN]),
    user=st.none() | names,
    group=st.none() | names,
    executable=st.none() | names,
    queue=st.none() | names,
    partition=st.none() | names,
    submit_secs=st.integers(10**6, 10**9),
    total_cpus=st.none() | st.integers(0, 4096),
    requested_cpus=st.none() | st.integers(1, 4096),
    wall_limit_secs=st.none() | st.integers(0, 10**7),
    think_secs=st.none() | st.integers(0, 99),
)


@given(st.lists(records, max_size=5, unique_by=lambda record: record.job_id))
def test_any_records_come_back_in_the_order_of_their_submission(made):
    lines, lost = written(*made)
    assert lost == {}
    assert read(*lines, strict=True) == sorted(made, key=lambda record: record.submit_secs)


def test_swf_is_recognised_by_its_look():
    assert recognise("; Version: 2.2\n" + LOG[-1] + "\n")
    assert recognise(LOG[-1])
    assert recognise("; Computer: Cray\n")
    for other in ("{}", "<Job/>", "JobID|User\n1|a\n", "", "; just a comment\n", "1 2 3\n"):
        assert not recognise(other)
