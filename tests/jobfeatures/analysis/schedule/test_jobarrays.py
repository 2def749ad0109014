from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.jobarrays import IMPOSSIBLE, UNKNOWN, from_records
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import UNLIMITED, JobState

TAIL = "-1 -1 -1 -1 -1"


def line(number, submit, wait, run, cpus, *, memory=-1, asked_cpus=-1, asked_memory=-1, status=1, user=1):
    return f"{number} {submit} {wait} {run} {cpus} -1 {memory} {asked_cpus} -1 {asked_memory} {status} {user} {TAIL} -1"


def names(labels):
    return [None if code < 0 else labels.names[code] for code in labels.codes.tolist()]


def test_ends_follow_from_submission_wait_and_run(read_swf):
    log = read_swf(line(1, 10, 5, 20, 4), line(2, 11, -1, 7, 4), line(3, 12, 1, -1, 4))
    assert log.submit.tolist() == [10, 11, 12]
    assert log.start.tolist() == [15, UNKNOWN, 13]
    assert log.end.tolist() == [35, UNKNOWN, UNKNOWN]
    assert log.runtime.tolist() == [20, 7, UNKNOWN]


def test_processors_are_those_allocated_else_requested(read_swf):
    log = read_swf(line(1, 0, 0, 1, 4, asked_cpus=9), line(2, 0, 0, 1, -1, asked_cpus=9), line(3, 0, 0, 1, 0))
    assert log.cpus.tolist() == [4, 9, 0]


def test_memory_is_per_processor_in_swf_and_of_the_job_here(read_swf):
    log = read_swf(
        line(1, 0, 0, 1, 4, asked_cpus=2, asked_memory=100, memory=7),
        line(2, 0, 0, 1, 4, asked_memory=100),
        line(3, 0, 0, 1, 4, memory=7),
        line(4, 0, 0, 1, 4),
        line(5, 0, 0, 1, 4, asked_memory=2**62),
    )
    assert log.memory_kib.tolist() == [200, 400, 28, UNKNOWN, UNKNOWN]
    assert read_swf(line(1, 0, 0, 1, 4)).memory_kib is None


def test_the_machine_is_what_the_header_says(read_swf):
    assert read_swf("; MaxNodes: 8", "; MaxProcs: 64").totals == {"cpu": 64}
    assert read_swf("; MaxNodes: 8 (4,4)").totals == {"cpu": 8}
    assert read_swf("; MaxProcs: many").totals == {}


def test_users_have_the_names_of_the_header_else_their_numbers(read_swf):
    log = read_swf(
        "; Note: user 7 is ann",
        *(line(number, 0, 0, 1, 1, user=user) for number, user in enumerate((7, 9, -1, 7, 0), 1)),
    )
    assert names(log.user) == ["ann", "9", None, "ann", "0"]
    assert set(names(log.queue)) == {None}


@given(st.lists(st.sampled_from([-1, 0, 1, 5, 2**22, 2**40, 2**62]), min_size=1, max_size=9))
def test_users_of_any_number_keep_it(read_swf, users):
    log = read_swf(*(line(number, 0, 0, 1, 1, user=user) for number, user in enumerate(users, 1)))
    assert names(log.user) == [None if user == -1 else str(user) for user in users]


def test_parts_of_a_job_that_was_swapped_out_are_one_job_where_the_header_says_so(read_swf):
    parts = [line(1, 0, 5, 30, 4), line(1, 0, 5, 10, 4, status=2), line(1, -1, 100, 20, 4, status=3)]
    log = read_swf("; Preemption: Double", *parts, line(2, 3, 0, 1, 4))
    assert (log.start.tolist(), log.runtime.tolist(), log.end.tolist()) == ([5, 3], [30, 1], [135, 4])
    assert len(read_swf("; Preemption: No", *parts, line(2, 3, 0, 1, 4))) == 4
    assert len(read_swf("; Preemption: perhaps", *parts)) == 3


def test_times_beyond_2_to_the_31_are_times_and_those_beyond_all_clocks_are_none(read_swf):
    log = read_swf(line(1, 2**40, 2**40, 2**40, 1), line(2, 2**62, 2**62, 2**62, 1))
    assert log.end.tolist()[0] == 3 * 2**40
    assert log.runtime.tolist() == [2**40, IMPOSSIBLE]


def test_memory_that_looks_like_bytes_is_told(read_swf):
    gib = 2**30
    told = read_swf(*(line(number, 0, 0, 1, 1, asked_memory=2 * gib) for number in range(1, 9))).warnings
    assert told == ("memory is up to 2 TiB a processor: is it in bytes, where KiB belong?",)
    fine = [line(number, 0, 0, 1, 1, asked_memory=2 * 2**20) for number in range(1, 9)]
    assert read_swf(*fine).warnings == ()
    assert len(read_swf(*fine, line(9, 0, 0, 1, 1, asked_memory=3 * 2**30)).warnings) == 0
    assert len(read_swf(*fine, line(9, 0, 0, 1, 1, asked_memory=8 * 2**30)).warnings) == 1


def test_what_had_to_be_repaired_or_skipped_is_told(read_swf):
    log = read_swf(line(1, 0, -7, 1, 1), "nothing of any use here", line(2, 1, 1, 1, 1))
    assert (len(log), log.unreadable) == (2, 1)
    assert log.warnings == ("1 × wait_secs: a negative number other than -1: it was taken as unknown",)


def test_decimals_of_seconds_stay(read_swf):
    log = read_swf(line(1, 0.5, 0.25, 2.5, 1), line(2, 1, 1, 1, 1))
    assert log.end.tolist() == [3.25, 3.0]


word = st.sampled_from([-1, -1, 0, 1, 2, 5, 30])


@given(
    st.lists(
        st.tuples(st.integers(0, 50), word, word, word, word, word, word, word, st.integers(-1, 5)),
        max_size=8,
    ),
    st.sampled_from(["No", "Yes", "Double"]),
    st.integers(1, 3),
)
def test_a_log_says_the_same_by_columns_and_by_records(
    read_swf, read_through_records, rows, preemption, lines_of_one
):
    lines = [f"; Preemption: {preemption}", "; Note: user 2 is bob"] + [
        line(
            place // lines_of_one, submit, wait, run, cpus,
            memory=memory, asked_cpus=asked, asked_memory=most, user=user, status=status,
        )
        for place, (submit, wait, run, cpus, memory, asked, most, user, status) in enumerate(rows)
    ]  # fmt: skip
    one, other = read_swf(*lines), read_through_records(*lines)
    zero = int(one.submit.min()) if len(one) else 0  # a record knows no time zero but the first submission
    ran = (one.start >= 0) & (one.runtime >= 0)
    assert (one.submit - zero).tolist() == other.submit.tolist()
    for field in ("start", "end"):
        assert (getattr(one, field)[ran] - zero).tolist() == getattr(other, field)[ran].tolist()
    assert one.runtime[ran].tolist() == other.runtime[ran].tolist()
    known = other.runtime[~ran] >= 0  # a run time is told without a start, too
    assert other.runtime[~ran][known].tolist() == one.runtime[~ran][known].tolist()
    assert one.is_cancelled.tolist() == other.is_cancelled.tolist()
    assert one.cpus.tolist() == other.cpus.tolist()
    assert names(one.user) == names(other.user)
    memory = [-1] * len(one) if one.memory_kib is None else one.memory_kib.tolist()
    assert memory == ([-1] * len(one) if other.memory_kib is None else other.memory_kib.tolist())


def record(**fields):
    return JobRecord(batch_system="slurm", job_id="1", **fields)


def test_records_tell_more_than_swf_does():
    log = from_records(
        [
            record(
                user="ann", group="staff", queue="long", partition="gpu", total_gpus=2, total_cpus=8,
                requested_memory_bytes=3 * 2**20 + 1, submit_secs=1000.5, eligible_secs=1010,
                start_secs=1020, end_secs=1090, suspended_secs=20,
            ),
            record(uid=1000, gid=4, requested_cpus=3, requested_gpus=1, used_memory_bytes=1024, submit_secs=1001,
                   requested_memory_bytes=UNLIMITED, state=JobState.CANCELLED),
        ],
        "log",
    )  # fmt: skip
    assert (log.submit.tolist(), log.eligible.tolist()) == ([0.5, 1.0], [10, UNKNOWN])
    assert (log.start.tolist(), log.end.tolist(), log.runtime.tolist()) == ([20, -1], [90, -1], [50, -1])
    assert (names(log.user), names(log.group)) == (["ann", "1000"], ["staff", "4"])
    assert (names(log.queue), names(log.partition)) == (["long", None], ["gpu", None])
    assert (log.cpus.tolist(), log.gpus.tolist(), log.memory_kib.tolist()) == ([8, 3], [2, 1], [3073, 1])
    assert log.is_cancelled.tolist() == [False, True]


def test_records_that_tell_nothing_tell_nothing():
    log = from_records([record()], "log")
    assert (log.submit.tolist(), log.cpus.tolist(), names(log.user)) == ([-1], [-1], [None])
    assert log.gpus is log.memory_kib is log.eligible is None
    assert len(from_records([], "log")) == 0


def test_records_whose_clocks_went_back_are_impossible_not_unknown():
    log = from_records(
        [
            record(submit_secs=1000, start_secs=999, end_secs=1001),
            record(submit_secs=1000, start_secs=1010, end_secs=1009),
        ],
        "log",
    )
    assert log.start.tolist() == [IMPOSSIBLE, 10]
    assert log.runtime.tolist() == [2, IMPOSSIBLE]
