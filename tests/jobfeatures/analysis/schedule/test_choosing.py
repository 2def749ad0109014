import numpy as np
import pytest

from jobfeatures.analysis.schedule.choosing import (
    REASONS,
    Arrival,
    Filter,
    ScheduleError,
    choose,
    stable_order,
    summable,
    total,
)
from jobfeatures.analysis.schedule.jobarrays import from_records
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.spooled import spool
from jobfeatures.analysis.schedule.whole import Whole
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.joblogs.loggedjob import JobRecord


def line(number, submit, wait, run, *, cpus=1, status=1, user=1, group=1, queue=1):
    return f"{number} {submit} {wait} {run} {cpus} -1 -1 -1 -1 -1 {status} {user} {group} -1 {queue} -1 -1 -1"


def test_jobs_stand_by_user_and_by_arrival_and_equal_ones_as_in_the_log(read_swf):
    log = read_swf(
        line(1, 5, 0, 1, user=2),
        line(2, 5, 0, 1, user=1),
        line(3, 4, 0, 1, user=2),
        line(4, 5, 0, 1, user=2),
        line(5, 5, 0, 1, user=1),
    )
    chosen = choose(log)
    assert (chosen.users, chosen.bounds.tolist()) == (["1", "2"], [0, 2, 5])
    assert chosen.position.tolist() == [1, 4, 2, 0, 3]


def test_each_job_that_does_not_count_has_one_reason(read_swf):
    log = read_swf(
        line(1, -1, 0, 1),
        line(2, 0, -1, -1),
        line(3, 0, 5, 0, status=5),
        line(4, 0, 5, -1, status=5),
        line(5, 0, 5, -1),
        line(6, 0, -1, 5),
        line(7, 0, 2**62, 5),
        line(8, 0, 0, 1, user=-1),
        line(9, 0, 0, 1, cpus=-1),
        "x x x x x",
        line(11, 0, 5, 3, status=5),
        line(12, 0, 0, 0),
        line(13, 0, 0, 1, cpus=0),
    )
    chosen, skipped = choose(log), spool("log", [log], Options()).skipped
    assert skipped == {
        "unreadable": 1,
        "no_submit_time": 1,
        "never_started": 3,
        "no_runtime": 1,
        "no_start_time": 1,
        "impossible_times": 1,
        "no_user": 1,
        "no_cpus": 1,
    }
    assert set(skipped) == set(REASONS)
    assert chosen.position.tolist() == [9, 10, 11]  # cancelled while it ran; runs and requests of nothing


def test_a_job_that_started_before_it_came_is_impossible():
    log = from_records(
        [
            JobRecord(
                batch_system="pbs",
                job_id="1",
                user="a",
                total_cpus=1,
                submit_secs=9,
                start_secs=5,
                end_secs=9,
            ),
            JobRecord(
                batch_system="pbs",
                job_id="2",
                user="a",
                total_cpus=1,
                submit_secs=1,
                start_secs=5,
                end_secs=9,
            ),
        ],
        "log",
    )
    assert spool("log", [log], Options()).skipped["impossible_times"] == 1


def test_without_waits_jobs_start_when_they_arrive_if_that_is_said(read_swf):
    lines = line(1, 7, -1, 5), line(2, 8, 3, 5)
    log = read_swf(*lines)
    assert spool("log", [log], Options()).skipped["no_start_time"] == 1
    log = read_swf(*lines, meaning=Meaning(no_waits=True))
    chosen = choose(log)
    assert (chosen.start.tolist(), chosen.end.tolist()) == ([7, 11], [12, 16])
    assert spool("log", [log], Options()).skipped["no_start_time"] == 0


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "holds no jobs"),
        ([line(1, 0, 0, -1)], "no job can be counted: 1 × the runtime is unknown"),
        ([line(1, 0, 0, 1, user=-1)], "1 × the user is unknown"),
        ([line(1, 0, -1, 1)], "say --swf no-waits"),
    ],
)
def test_a_log_of_which_no_job_counts_is_told_in_words(read_swf, lines, words):
    with pytest.raises(ScheduleError, match=words):
        Whole(spool("log", [read_swf(*lines, name="log")], Options()))


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ([Filter("user", frozenset("1"))], [0, 1]),
        ([Filter("user", frozenset("13"))], [0, 1, 3]),
        ([Filter("user", frozenset("1"), is_not=True)], [2, 3]),
        ([Filter("user", frozenset("12")), Filter("queue", frozenset("8"))], [1, 2]),
        ([Filter("group", frozenset("5")), Filter("queue", frozenset("8"), is_not=True)], [0]),
        ([Filter("queue", frozenset("7"), is_not=True)], [1, 2, 3]),
    ],
)
def test_filters_all_have_to_hold_and_an_unknown_name_is_none_of_any(read_swf, filters, kept):
    log = read_swf(
        line(1, 0, 0, 1, user=1, queue=7, group=5),
        line(2, 0, 0, 1, user=1, queue=8, group=5),
        line(3, 0, 0, 1, user=2, queue=8, group=6),
        line(4, 0, 0, 1, user=3, queue=-1, group=6),
    )
    chosen = choose(log, filters=filters)
    assert chosen.position.tolist() == kept
    with pytest.raises(ScheduleError, match="none of 4 jobs passes --filter"):
        Whole(spool("log", [log], Options(filters=(Filter("user", frozenset("9")),))))


def test_eligible_times_are_arrivals_where_they_are_known(read_swf):
    def job(job_id, **fields):
        return JobRecord(
            batch_system="slurm", job_id=job_id, user="a", total_cpus=1, start_secs=50, end_secs=60, **fields
        )

    log = from_records([job("1", submit_secs=10, eligible_secs=40), job("2", submit_secs=20)], "log")
    assert choose(log).arrival.tolist() == [0, 10]
    assert choose(log, by=Arrival.ELIGIBLE).arrival.tolist() == [10, 30]
    with pytest.raises(ScheduleError, match="does not report when jobs became eligible"):
        Whole(spool("log", [read_swf(line(1, 0, 0, 1))], Options(arrival=Arrival.ELIGIBLE)))


@pytest.mark.parametrize("count", [3, 2**17])
def test_codes_are_sorted_stably_however_many_there_are(count):
    codes = np.array([2, -1, 0, 2, -1, 1, 0], dtype=np.int32)
    assert stable_order(codes, count).tolist() == [1, 4, 2, 6, 5, 0, 3]


def test_sums_beyond_64_bits_are_exact():
    values = np.array([2**62, 2**62, 2**62 + 1])
    assert total(values) == 3 * 2**62 + 1
    assert total(values.astype(object)) == 3 * 2**62 + 1
    assert summable(np.array([1, 2])).dtype == np.int64
    assert total(np.array([0.5, 1.5])) == 2.0
