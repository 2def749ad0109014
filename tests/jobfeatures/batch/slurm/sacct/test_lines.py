"""Lines of sacct: headers, delimiters, and rows that are cut off, joined or imitated."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.sacct.lines import parse_header
from jobfeatures.batch.slurm.sacct.records import read_records, recognise
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import UNLIMITED
from tests.jobfeatures.batch.slurm.sacct.logs import COLUMNS, JOB, captured, jobs, one, read


def test_names_with_the_delimiter_and_with_newlines_are_names():
    found = jobs(read_records(captured(), source="log", zone=UTC, notes=Notes()))
    assert found["15"].name == "pipe|name|x"
    assert found["16"].name == "nl\nname"
    assert found["3"].name == "two\nlines`,`job_id`:1"
    assert found["3"].wall_limit_secs is UNLIMITED


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
    found = list(read_records([text], source="log", notes=Notes()))
    assert [each.reason for each in found] == ["first line must be sacct's header of field names"]


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
        read_records(
            [f"{COLUMNS}\n", *real.splitlines(keepends=True), "\n"], source="log", zone=UTC, notes=Notes()
        )
    )
    assert "6" not in jobs([each for each in found if isinstance(each, JobRecord)])
    assert len([each for each in found if isinstance(each, Rejected)]) == 2


def test_a_delimiter_in_one_of_two_texts_of_users_is_ambiguous():
    found = read("JobID|JobName|Comment|State", "7|a|b|c|COMPLETED", "8|a|b|COMPLETED")
    assert [type(each) for each in found] == [Rejected, JobRecord]


def test_a_log_of_two_headers_with_a_byte_order_mark_and_windows_ends_is_read():
    found = list(
        read_records(
            [f"\ufeff{COLUMNS}\r\n", f"{JOB}\r\n", f"{COLUMNS}\r\n", f"{JOB}"],
            source="log",
            zone=UTC,
            notes=Notes(),
        )
    )
    assert [each.job_id for each in found] == ["7", "7"]


def test_rows_below_a_header_with_other_columns_are_refused_until_the_log_goes_on():
    other = ("JobID|State|ReqCPUS|AllocCPUS", "8|COMPLETED|1|4", "", "9|COMPLETED|1|4")
    header = "JobID|State|AllocCPUS|UID"
    for filler in (0, 300):  # within a batch of lines and across batches
        found = read(header, *["7|COMPLETED|4|5"] * (1 + filler), *other, header, "10|COMPLETED|2|5")
        refused = [each for each in found if isinstance(each, Rejected)]
        assert [each.line - filler for each in refused] == [3, 4, 6]
        assert refused[0].reason.startswith("further header with other columns: convert it")
        assert [(each.job_id, each.total_cpus) for each in found if isinstance(each, JobRecord)] == [
            *[("7", 4)] * (1 + filler),
            ("10", 2),
        ]


@given(st.lists(st.text(st.sampled_from("|17.ab_+[]:-\nT26 \x00é"), max_size=60), max_size=6))
def test_any_lines_are_read_or_rejected(lines):
    found = list(
        read_records(
            [f"{COLUMNS}\n", *(f"{line}\n" for line in lines), f"{JOB}\n"],
            source="log",
            zone=UTC,
            notes=Notes(),
        )
    )
    assert all(isinstance(each, JobRecord | Rejected) for each in found)


@given(
    st.sampled_from(range(8)), st.text(max_size=12).filter(lambda text: "|" not in text and "\n" not in text)
)
def test_any_value_in_a_column_costs_its_line_at_most(place, value):
    fields = JOB.split("|")
    fields[place] = value
    found = list(
        read_records(
            [f"{COLUMNS}\n", f"{'|'.join(fields)}\n", f"{JOB}\n"], source="log", zone=UTC, notes=Notes()
        )
    )
    assert found[-1] == one(COLUMNS, JOB)


def test_the_header_names_the_columns():
    assert parse_header("JobIDRaw::State\n") == ("::", ["JobIDRaw", "State"])
