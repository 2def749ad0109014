"""Logs of sacct: a captured one, and constructed ones in the forms of other versions and sites."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.sacct.lines import BATCH, parse_header
from jobfeatures.batch.slurm.sacct.reader import SacctReader
from jobfeatures.batch.slurm.sacct.records import read_records, recognise
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
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import UNLIMITED, JobState

FIXTURES = Path(__file__).parents[4] / "fixtures" / "slurm"
COLUMNS = "JobID|JobName|State|Submit|Start|End|NCPUS|NodeList"
JOB = "7|a|COMPLETED|2026-11-21T07:00:00|2026-11-21T07:00:10|2026-11-21T07:01:10|2|n1"


def captured() -> list[str]:
    return (FIXTURES / "json" / "accounting.txt").read_text().splitlines(keepends=True)


def read(*lines: str, zone=UTC) -> list[JobRecord | Rejected]:
    return list(read_records([f"{line}\n" for line in lines], source="log", zone=zone))


def records(*lines: str, zone=UTC) -> list[JobRecord]:
    found = read(*lines, zone=zone)
    assert not [each for each in found if isinstance(each, Rejected)]
    return found


def jobs(found) -> dict[str, JobRecord]:
    return {each.job_id: each for each in found if each.step is None}


def one(header: str, line: str, **options) -> JobRecord:
    (found,) = records(header, line, **options)
    return found


def test_a_captured_log_is_read_whole():
    found = list(read_records(captured(), source="log", zone=UTC))
    assert not [each for each in found if isinstance(each, Rejected)]
    assert len([each for each in found if each.step is None]) == 15
    job = jobs(found)["12"]
    assert job == JobRecord(
        batch_system="slurm",
        job_id="12",
        run_secs=5,
        more=(("allocated_resources", "billing=2,cpu=2,mem=200M,node=1"),),
        state=JobState.COMPLETED,
        name="steps",
        user="alice",
        uid=6001,
        group="alice",
        account="physics",
        partition="batch",
        submit_secs=1795268193,
        eligible_secs=1795268193,
        start_secs=1795268196,
        end_secs=1795268201,
        exit_status=0,
        nodes=("labE2",),
        total_nodes=1,
        total_cpus=2,
        requested_cpus=2,
        requested_memory_bytes=200 * 2**20,
        wall_limit_secs=600,
        used_cpu_secs=5.92,
        used_memory_bytes=67008 * 1024,  # of step 0, both tasks
    )


def test_names_with_the_delimiter_and_with_newlines_are_names():
    found = jobs(read_records(captured(), source="log", zone=UTC))
    assert found["15"].name == "pipe|name|x"
    assert found["16"].name == "nl\nname"
    assert found["3"].name == "two\nlines`,`job_id`:1"
    assert found["3"].wall_limit_secs is UNLIMITED


def test_arrays_heterogeneous_jobs_and_signals():
    found = jobs(read_records(captured(), source="log", zone=UTC))
    assert (found["9"].array_job_id, found["9"].array_task_id) == ("2", "1")
    assert (found["6"].het_job_id, found["6"].het_offset) == ("5", 1)
    assert (found["11"].exit_status, found["11"].exit_signal) == (None, 9)
    assert (found["8"].exit_status, found["8"].exit_signal) == (3, None)
    assert found["1"].state is JobState.CANCELLED  # "CANCELLED by 0"


def test_a_requeued_job_comes_twice_and_the_later_run_counts_the_earlier():
    found = [
        each
        for each in read_records(captured(), source="log", zone=UTC)
        if each.job_id == "14" and not each.step
    ]
    assert [(each.state, each.restarts) for each in found] == [
        (JobState.PREEMPTED, None),
        (JobState.COMPLETED, 1),
    ]
    assert found[0].end_secs == 1795268205


def test_steps_count_the_runs_before_their_own():
    log = [
        *("JobID|State|Start|End", "7|REQUEUED|1|2", "7.batch|CANCELLED|1|2"),
        *("7|COMPLETED|3|4", "7.batch|COMPLETED|3|4"),
    ]
    assert [each.restarts for each in records(*log)] == [None, None, 1, 1]


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


def test_of_a_job_that_runs_end_and_cpu_time_are_not_known():
    job = jobs(read_records(captured(), source="log", zone=UTC))["2"]
    assert (job.state, job.end_secs, job.used_cpu_secs, job.exit_status) == (
        JobState.RUNNING,
        None,
        None,
        None,
    )


def test_steps_come_behind_their_job_where_they_are_wanted():
    found = [each for each in read_records(captured(), source="log", zone=UTC) if each.job_id == "12"]
    assert [each.step for each in found] == [None, "batch", "extern", "0", "1"]
    assert found[3].used_memory_bytes == 67008 * 1024


def test_the_memory_of_steps_is_folded_into_their_job_also_across_batches():
    fold = {
        row.job_id: row.used_memory_bytes for row in SacctReader(captured(), zone=UTC) if row.step is None
    }
    assert fold["12"] == 67008 * 1024
    header = "JobID|State|MaxRSS"
    lines = [header]
    for number in range(1, BATCH):  # at each position of a batch
        lines += [f"{number}|COMPLETED|", f"{number}.batch|COMPLETED|{number}K", f"{number}.0|COMPLETED|1K"]
    rows = list(SacctReader([f"{line}\n" for line in lines], zone=UTC))
    assert [(row.job_id, row.step, row.used_memory_bytes) for row in rows if row.step is None] == [
        (str(number), None, number * 1024) for number in range(1, BATCH)
    ]


def test_a_step_whose_job_is_not_there_stays_a_step():
    rows = list(
        SacctReader(
            ["JobID|State|MaxRSS\n", "3.0|FAILED|5K\n", "4|FAILED|\n", "5.0|FAILED|6K\n", "5.1|FAILED|\n"]
        )
    )
    assert [(row.job_id, row.step) for row in rows] == [("3", "0"), ("4", None), ("5", "0"), ("5", "1")]
    assert rows[1].used_memory_bytes is None


@pytest.mark.parametrize("delimiter", ["|", "\x1f", ";", ",", "::", "\t"])
def test_the_delimiter_is_found(delimiter):
    header, line = COLUMNS.replace("|", delimiter), JOB.replace("|", delimiter)
    assert recognise(f"{header}\n{line}\n")
    job = one(header, line)
    assert (job.job_id, job.name, job.nodes) == ("7", "a", ("n1",))


def test_columns_come_in_any_order_and_may_end_with_the_delimiter():
    header, line = (delimited.split("|") for delimited in (COLUMNS, JOB))
    job = one("|".join(reversed(header)) + "|", "|".join(reversed(line)) + "|")
    assert job == one(COLUMNS, JOB)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "1|2|3\n",
        "JobID JobName State\n",
        "; Version: 2.2\n",
        '{"jobs": []}',
        "Name|Other\n",
        "\x00\x01",
    ],
)
def test_what_is_no_log_of_sacct_is_not_taken_for_one(text):
    assert not recognise(text)
    found = list(read_records([text], source="log"))
    assert [each.reason for each in found] == ["not a header of sacct"]


def test_times_are_by_the_clock_of_a_zone():
    berlin = ZoneInfo("Europe/Berlin")
    assert one(COLUMNS, JOB, zone=berlin).submit_secs == one(COLUMNS, JOB).submit_secs - 3600
    twice = JOB.replace("2026-11-21T07:00:00", "2026-10-25T02:30:00")  # the clock is set back at 3
    assert one(COLUMNS, twice, zone=berlin).submit_secs == 1792888200
    assert one(COLUMNS, JOB.replace("2026-11-21T07:00:00", "1795267713")).submit_secs == 1795267713


@pytest.mark.parametrize("word", ["Unknown", "None", "N/A", "", "NONE"])
def test_times_that_have_not_come_are_not_known(word):
    job = one(COLUMNS, JOB.replace("2026-11-21T07:01:10", word).replace("COMPLETED", "RUNNING"))
    assert job.end_secs is None
    assert job.start_secs is not None


def test_a_job_that_was_cancelled_before_it_started_has_no_start():
    header = "JobID|State|Submit|Start|End|ElapsedRaw|AllocCPUS|NodeList"
    line = "7|CANCELLED by 1234|{0}|{1}|{1}|0|0|None assigned".format(
        "2026-11-21T07:00:00", "2026-11-21T08:00:00"
    )
    job = one(header, line)
    assert (job.state, job.start_secs, job.total_cpus, job.nodes) == (JobState.CANCELLED, None, None, ())
    assert job.end_secs == 1795248000


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


def test_what_a_job_can_do_without_is_unknown_and_named_where_it_cannot_be_read():
    notes = Notes()
    lines = ["JobID|State|ReqMem|Start|UserCPU\n", "7|COMPLETED|4Q?|2026-11-21T07:00:00|x\n",
             "8|COMPLETED|4G|2026-11-21T07:00:00|00:01:00\n", "9|COMPLETED|5Q?|never|00:01:00\n"]  # fmt: skip
    found = list(read_records(lines, source="log", zone=UTC, notes=notes))
    [nine] = [each for each in found if isinstance(each, Rejected)]
    seven, eight = (each for each in found if each is not nine)
    assert (seven.job_id, seven.requested_memory_bytes, seven.user_cpu_secs) == ("7", None, None)
    assert (eight.requested_memory_bytes, eight.user_cpu_secs) == (4 * 2**30, 60)
    assert (nine.line, nine.field, nine.text) == (4, "Start", "never")
    assert notes.unread == {"ReqMem, such as '4Q?'": 1, "UserCPU, such as 'x'": 1}


def test_the_part_of_a_job_before_its_size_changed_has_ended():
    job = one("JobID|State|Start|End", "7|RESIZING|2026-11-21T07:00:00|2026-11-21T08:00:00")
    assert (job.state, job.state_word, job.end_secs) == (JobState.UNKNOWN, "RESIZING", 1795248000)


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
        ("CANCELLED+", JobState.CANCELLED),
        ("NODE_FAIL", JobState.NODE_FAIL),
        ("REQUEUED", JobState.PREEMPTED),
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


def test_a_bad_line_costs_itself_only_and_is_named():
    found = read(
        COLUMNS,
        JOB,
        JOB.replace("2026-11-21T07:01:10", "tomorrow"),
        JOB.replace("7|", "x|", 1),
        JOB.replace("|2|", "|two|"),
        JOB.replace("n1", "n[2-1]"),
        COLUMNS,
        "",
        JOB.replace("7|", "8|", 1),
    )
    assert [each.job_id for each in found if isinstance(each, JobRecord)] == ["7", "8"]
    bad = {each.line: each.field for each in found if isinstance(each, Rejected)}
    assert bad == {3: "End", 4: "JobID", 5: "NCPUS", 6: "node list"}


def test_a_line_that_is_cut_off_is_rejected_and_the_next_one_lives():
    found = read(COLUMNS, "6|a|COMPLETED|2026-11-21T07:00", JOB)
    assert [type(each) for each in found] == [Rejected, JobRecord]
    assert found[0].line == 2


def test_a_row_that_somebody_imitates_in_a_name_is_not_joined():
    real = "6|x\n" + JOB.replace("7|a", "666|forged") + "\ny|FAILED|" + JOB.split("|", 3)[3]
    found = list(
        read_records([f"{COLUMNS}\n", *real.splitlines(keepends=True), "\n"], source="log", zone=UTC)
    )
    assert "6" not in jobs([each for each in found if isinstance(each, JobRecord)])
    assert len([each for each in found if isinstance(each, Rejected)]) == 2


def test_a_delimiter_in_one_of_two_texts_of_users_is_ambiguous():
    found = read("JobID|JobName|Comment|State", "7|a|b|c|COMPLETED", "8|a|b|COMPLETED")
    assert [type(each) for each in found] == [Rejected, JobRecord]


def test_a_log_of_two_headers_with_a_byte_order_mark_and_windows_ends_is_read():
    found = list(
        read_records(
            [f"\ufeff{COLUMNS}\r\n", f"{JOB}\r\n", f"{COLUMNS}\r\n", f"{JOB}"], source="log", zone=UTC
        )
    )
    assert [each.job_id for each in found] == ["7", "7"]


def test_a_log_without_raw_numbers_has_the_ids_that_it_tells():
    header = "JobID|State"
    assert [
        (each.job_id, each.step, each.array_task_id) for each in records(header, "7_3|FAILED", "7_3.0|FAILED")
    ] == [
        ("7_3", None, "3"),
        ("7_3", "0", "3"),
    ]
    assert one(header, "7_[4-9%2]|PENDING").array_task_id == "4-9%2"


@given(st.text(max_size=30))
def test_any_text_is_a_job_id_or_refused(text):
    try:
        assert parse_job_id(text).number == text
    except ParseError:
        pass


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_as_a_value(text):
    for parse in (parse_state, parse_duration, parse_exit_code, parse_requested_memory):
        try:
            parse(text)
        except ParseError:
            continue


@given(st.lists(st.text(st.sampled_from("|17.ab_+[]:-\nT26 \x00é"), max_size=60), max_size=6))
def test_any_lines_are_read_or_rejected(lines):
    found = list(
        read_records([f"{COLUMNS}\n", *(f"{line}\n" for line in lines), f"{JOB}\n"], source="log", zone=UTC)
    )
    assert all(isinstance(each, JobRecord | Rejected) for each in found)


@given(
    st.sampled_from(range(8)), st.text(max_size=12).filter(lambda text: "|" not in text and "\n" not in text)
)
def test_any_value_in_a_column_costs_its_line_at_most(place, value):
    fields = JOB.split("|")
    fields[place] = value
    found = list(read_records([f"{COLUMNS}\n", f"{'|'.join(fields)}\n", f"{JOB}\n"], source="log", zone=UTC))
    assert found[-1] == one(COLUMNS, JOB)


@given(st.integers(1, 2**31), st.integers(0, 2**31), st.integers(0, 10**6))
def test_what_is_written_is_read(number, start, run):
    line = f"{number}|x|COMPLETED|{start}|{start}|{start + run}|1|n1"
    job = one(COLUMNS, line)
    assert (job.job_id, job.start_secs, job.end_secs) == (str(number), start, start + run)


def test_the_header_names_the_columns():
    assert parse_header("JobIDRaw::State\n") == ("::", ["JobIDRaw", "State"])


@pytest.mark.parametrize("nodes", ["c1", "c[1-", "c[2-4]"])
def test_steps_that_are_only_folded_leave_the_same_jobs_and_the_same_rejected(nodes):
    lines = [
        "JobID|State|Submit|Start|End|AllocCPUS|NodeList|MaxRSS\n",
        "7|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:00:20|4|c1|\n",
        f"7.batch|COMPLETED|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:20|4|{nodes}|5K\n",
        "7.0|FAILED|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:20|4|c1|9K\n",
        "8.0|COMPLETED|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:20|4|c1|1K\n",
    ]
    found = []
    for folds_steps in (False, True):
        notes = Notes()
        records = notes.accepted_with_passages(
            read_records(lines, source="x", notes=notes, folds_steps=folds_steps)
        )
        found.append((list(fold_jobs(records, notes.fold)), notes.folded, notes.read, notes.shown))
    assert found[0] == found[1]
    assert found[0][0][0].used_memory_bytes == 9 * 1024
    assert found[0][1]["step"] == (1 if nodes == "c[1-" else 2)


LOG_LINES = st.builds(
    "|".join,
    st.tuples(
        st.sampled_from(
            ["7", "7.0", "7.batch", "8", "8.0", "12_3", "12_3.0", "0", "0.1", "x", "07.0", "9.", "", ".1"]
        ),
        st.sampled_from(["7", "7.0", "8_1", "8_1.0", "0.0", "x"]),
        st.sampled_from(["COMPLETED", "RUNNING", "PREEMPTED", "done"]),
        st.sampled_from(["2026-03-29T01:59:59", "2026-03-29T03:00:00", "1790000000", "Unknown", "soon"]),
        st.sampled_from(["00:00:05", "1-02:03:04.5", "00:75:00", "", "never"]),
        st.sampled_from(["5", "", "1K", "x"]),
        st.sampled_from(["c1", "c[1-2]", "c[1-", "None assigned", ""]),
        st.sampled_from(["5K", "9K", "0", "1M", "", "K"]),
        st.sampled_from(["a", ""]),
    ),
)


@given(st.lists(st.lists(LOG_LINES, max_size=6), max_size=3), st.integers(1, 4))
def test_any_log_has_the_same_jobs_and_rejected_lines_whether_steps_are_only_folded(parts, at_once):
    lines = [f"{line}\n" for part in parts for line in part]
    header = "JobIDRaw|JobID|State|Start|TotalCPU|ElapsedRaw|NodeList|MaxRSS|Cluster\n"
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jobfeatures.batch.slurm.sacct.lines.BATCH", at_once)
        for folds_steps in (False, True):
            notes = Notes()
            records = read_records(
                [header, *lines],
                source="x",
                zone=ZoneInfo("Europe/Berlin"),
                notes=notes,
                folds_steps=folds_steps,
            )
            jobs = list(fold_jobs(notes.accepted_with_passages(records), notes.fold))
            found.append((jobs, notes))
    assert found[0] == found[1]


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
def test_times_read_by_the_hour_are_those_of_their_minutes(zone, texts):
    minutes = [datetime.fromisoformat(f"{text[:16]}:00Z").replace(tzinfo=zone) for text in texts]
    expected = [int(each.timestamp()) + int(text[17:]) for each, text in zip(minutes, texts, strict=True)]
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
