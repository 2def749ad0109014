"""Single values of sacct: times, sizes, counts and states, as versions and sites write them."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.record import STATES
from jobfeatures.batch.slurm.sacct.records import read_records
from jobfeatures.batch.slurm.sacct.values import (
    Times,
    parse_duration,
    parse_durations,
    parse_exit_code,
    parse_job_id,
    parse_number,
    parse_numbers,
    parse_requested_memory,
    parse_size,
    parse_sizes,
    parse_state,
)
from jobfeatures.errors import ParseError
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.records.localtimes import REPEATED_HOUR
from jobfeatures.records.model import JobState
from tests.jobfeatures.batch.slurm.sacct.logs import COLUMNS, JOB, one, read, records


@pytest.mark.parametrize(
    ("text", "joules"),
    [
        *(("1.20K", 1200), ("34.5M", 34_500_000), ("512", 512), ("0", None), ("", None)),
        *(("18446744073709551614", None), ("18.45?", None)),  # NO_VAL64
    ],
)
@pytest.mark.parametrize("column", ["ConsumedEnergy", "ConsumedEnergyRaw"])
def test_energy_counts_in_powers_of_1000(column, text, joules):
    """Source: sacct/print.c, PRINT_CONSUMED_ENERGY."""
    assert one(f"JobID|State|{column}", f"7|COMPLETED|{text}").energy_joules == joules


def test_an_energy_that_is_none_is_unknown():
    assert one("JobID|State|ConsumedEnergy", "7|COMPLETED|much").energy_joules is None


def test_times_are_by_the_clock_of_a_zone():
    berlin = ZoneInfo("Europe/Berlin")
    assert one(COLUMNS, JOB, zone=berlin).submit_secs == one(COLUMNS, JOB).submit_secs - 3600
    twice = JOB.replace("2026-11-21T07:00:00", "2026-10-25T02:30:00")  # the clock is set back at 3
    assert one(COLUMNS, twice, zone=berlin).submit_secs == 1792891800
    assert one(COLUMNS, JOB.replace("2026-11-21T07:00:00", "1795267713")).submit_secs == 1795267713


@pytest.mark.parametrize("word", ["Unknown", "None", "N/A", "", "NONE"])
def test_times_that_have_not_come_are_not_known(word):
    job = one(COLUMNS, JOB.replace("2026-11-21T07:01:10", word).replace("COMPLETED", "RUNNING"))
    assert job.end_secs is None
    assert job.start_secs is not None


@pytest.mark.parametrize(
    ("text", "cpus", "nodes", "size"),
    [
        ("4Gn", 4, 2, 8 * 2**30),
        ("2000Mc", 4, 2, 4 * 2000 * 2**20),
        ("4G", 4, 2, 4 * 2**30),
        ("1.50G", 1, 1, 3 * 2**29),
        ("200", 1, 1, 200 * 2**20),
        ("0", 1, 1, None),
        ("0n", 1, 1, None),
        ("", 1, 1, None),
        ("16?", 1, 1, None),  # seen in 22.05
    ],
)
def test_requested_memory_is_of_the_whole_job(text, cpus, nodes, size):
    job = one("JobID|State|ReqMem|ReqCPUS|ReqNodes", f"7|COMPLETED|{text}|{cpus}|{nodes}")
    assert job.requested_memory_bytes == size


def test_memory_by_a_count_that_is_not_told_is_not_known():
    assert one("JobID|State|ReqMem", "7|COMPLETED|2000Mc").requested_memory_bytes is None


@pytest.mark.parametrize(
    ("text", "secs"),
    [
        ("00:00:00", 0),
        ("01:02:03", 3723),
        ("1-01:02:03", 90123),
        ("00:05.920", 5.92),
        ("12:34.000", 754.0),
        ("100:00:00", 360000),
        ("2-00:00:00.5", 172800.5),
        ("", None),
        ("INVALID", None),
    ],
)
def test_durations(text, secs):
    assert parse_duration(text) == secs


def test_cpu_time_is_told_by_one_column_or_two():
    assert one("JobID|State|TotalCPU", "7|FAILED|1-00:00:01").used_cpu_secs == 86401
    assert one("JobID|State|UserCPU|SystemCPU", "7|FAILED|00:01.500|00:00.500").used_cpu_secs == 2.0


def test_cards_and_cpus_are_in_the_lists_of_resources():
    header = "JobID|State|ReqTRES|AllocTRES"
    job = one(
        header, "7|RUNNING|billing=8,cpu=4,gres/gpu=2,mem=8G,node=1|cpu=4,gres/gpu:a100=2,mem=8G,node=1"
    )
    assert (job.requested_gpus, job.total_gpus, job.total_cpus, job.total_nodes) == (2, 2, 4, 1)
    assert job.requested_memory_bytes == 8 * 2**30


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 1234", JobState.CANCELLED),
        ("CANCELLED", JobState.CANCELLED),  # after a reconfiguration of slurmctld
        ("CANCELLED+", JobState.CANCELLED),
        ("NODE_FAIL", JobState.NODE_FAIL),
        ("REQUEUED", JobState.PREEMPTED),
        ("REQUEUED by 1234", JobState.PREEMPTED),
        ("REQUEUED FAILED", JobState.FAILED),  # what it means by its exit code
        ("DEADLINE", JobState.TIMEOUT),
        ("NEW_STATE", JobState.UNKNOWN),
    ],
)
def test_states(text, state):
    assert parse_state(text) is state


@pytest.mark.parametrize("text", ["", "completed", "7", "A B|"[3:], "CANC ELLED2"[5:]])
def test_what_is_no_state_is_told(text):
    with pytest.raises(ParseError):
        parse_state(text)


def test_exit_codes():
    assert parse_exit_code("0:9") == (None, 9)
    assert parse_exit_code("3:0") == (3, None)
    assert parse_exit_code("0:0") == (0, None)
    assert parse_exit_code("") == (None, None)
    with pytest.raises(ParseError):
        parse_exit_code("1")


@given(st.text(max_size=30))
def test_any_text_is_a_job_id_or_refused(text):
    try:
        assert parse_job_id(text).number == text
    except ParseError:
        pass


@given(st.text(max_size=20) | st.builds("{} {}".format, st.sampled_from(sorted(STATES)), st.text(max_size=9)))
def test_any_text_is_read_or_refused_as_a_value(text):
    for parse in (parse_state, parse_duration, parse_exit_code, parse_requested_memory):
        try:
            parse(text)
        except ParseError:
            continue


# Clocks there change by half an hour, or at a minute past midnight; or once changed at odd seconds.
ODD_ZONES = [
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Europe/Berlin",
    "Asia/Kathmandu",
    "Africa/Monrovia",
    "UTC",
]


CHANGES = [
    *("2026-04-05T01:30:00", "2026-10-04T02:00:00", "2010-03-14T00:01:00", "2010-11-07T00:01:00"),
    *("2026-03-29T02:00:00", "2026-10-25T03:00:00", "1972-01-07T00:44:30", "1986-01-01T00:00:00"),
]


NEAR_CHANGES = st.builds(
    lambda text, secs: (datetime.fromisoformat(f"{text}Z") + timedelta(seconds=secs)).isoformat()[:19],
    st.sampled_from(CHANGES),
    st.integers(-7200, 7200) | st.integers(-(10**8), 10**8),
)


@given(st.sampled_from(ODD_ZONES).map(ZoneInfo), st.lists(NEAR_CHANGES, min_size=1, max_size=5))
def test_times_read_by_the_hour_are_those_that_they_say(zone, texts):
    expected = [int(datetime.fromisoformat(f"{each}Z").replace(tzinfo=zone).timestamp()) for each in texts]
    assert Times(zone).column(texts) == expected


def outcome(parse, text):
    try:
        return parse(text)
    except ParseError as error:
        return str(error)


@given(
    st.lists(
        st.sampled_from(["00:00:05", "99:59:59", "00:60:00", "00:00:99", "1-02:03:04", "01:02", "", "x"])
    )
)
def test_durations_together_are_those_of_each(texts):
    expected = [outcome(parse_duration, text) for text in texts]
    assert outcome(parse_durations, texts) == next(
        (each for each in expected if isinstance(each, str)), expected
    )


@given(st.lists(st.sampled_from(["0", "7", "0012", "9" * 18, "9" * 19, "2K", "", "Unknown", "٣", "x"])))
def test_numbers_together_are_those_of_each(texts):
    expected = [outcome(parse_number, text) for text in texts]
    assert outcome(parse_numbers, texts) == next(
        (each for each in expected if isinstance(each, str)), expected
    )


@given(
    st.lists(
        st.sampled_from(
            ["0K", "7K", "012K", "9" * 15 + "K", "9" * 16 + "K", "2M", "5", "", "K", "KK", "1K2K", "٣K", "x"]
        )
    )
)
def test_sizes_together_are_those_of_each(texts):
    expected = [outcome(parse_size, text) for text in texts]
    assert outcome(parse_sizes, texts) == next((each for each in expected if isinstance(each, str)), expected)


NIGHT = "JobID|State|Submit|Start|End|ElapsedRaw|NCPUS"
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("submit", "start", "end", "ran", "waited"),
    [
        ("01:50", "02:10", "02:20", 4200, 1200),
        ("01:00", "02:50", "02:10", 1200, 6600),
        ("02:40", "02:45", "04:45", 7200, 300),
        ("02:30", "02:10", "03:10", 3600, 2400),
    ],
)
def test_in_the_night_in_which_summer_time_ends_a_job_ran_as_long_as_sacct_says(
    submit, start, end, ran, waited
):
    times = (f"2025-10-26T{each}:00" for each in (submit, start, end))
    job = one(NIGHT, "|".join(("100", "COMPLETED", *times, str(ran), "2")), zone=BERLIN)
    assert (job.end_secs - job.start_secs, job.run_secs) == (ran, ran)
    assert job.start_secs - job.submit_secs == waited


def test_a_moment_that_nothing_tells_is_doubtful():
    notes = Notes()
    row = "7|COMPLETED|2025-10-25T12:00:00|2025-10-26T02:10:00|2025-10-26T12:00:00||2"
    (job,) = read_records([f"{NIGHT}\n", f"{row}\n"], source="log", zone=BERLIN, notes=notes)
    assert job.start_secs == 1761437400
    assert notes.doubtful == {REPEATED_HOUR: 1}


@pytest.mark.parametrize("offset", ["+0200", "+02:00", "Z"])
def test_an_offset_of_sacct_counts_and_not_the_zone(offset):
    """Source: ``SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S%z``."""
    times = (f"2025-10-26T02:{minute}:00{offset}" for minute in ("05", "10", "20"))
    job = one(NIGHT, "|".join(("200", "COMPLETED", *times, "600", "2")), zone=ZoneInfo("Asia/Tokyo"))
    assert job.start_secs == 1761444600 - 7200 * (offset != "Z")


def test_a_text_that_is_no_time_is_told_so():
    (found,) = read(NIGHT, "7|COMPLETED|2025-10-26T02:05:00 CET||||2")
    assert (found.field, found.reason) == ("Submit", "not a time")


def test_a_row_without_times_stands_beside_one_of_that_night():
    found = records(NIGHT, "7|COMPLETED|2025-10-26T02:10:00||||2", "8|COMPLETED|||||2", zone=BERLIN)
    assert [each.submit_secs for each in found] == [1761437400, None]


@pytest.mark.parametrize("text", ["0", "007", "12345678901"])
@pytest.mark.parametrize("beside", ["8", "8_1", "8.batch"])
def test_what_is_no_job_id_is_refused_whatever_stands_beside_it(text, beside):
    rest = JOB.partition("|")[2]
    bad, good = read(COLUMNS, f"{text}|{rest}", f"{beside}|{rest}")
    assert (bad.reason, bad.field) == ("not a job id", "JobID")
    assert good.job_id == beside.partition(".")[0]
