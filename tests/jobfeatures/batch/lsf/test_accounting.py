"""lsb.acct, constructed after lsb.acct(5) of LSF 10.1."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.lsf.accounting import parse_line, read_records, recognise, split_fields
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import JobState

FIXTURE = Path(__file__).parents[3] / "fixtures" / "lsf" / "lsb.acct"
LINES = FIXTURE.read_text().splitlines()


def records() -> list[JobRecord | Rejected]:
    return list(read_records(LINES, source="lsb.acct", notes=Notes()))


def test_a_parallel_job_is_read_whole() -> None:
    assert records()[0] == JobRecord(
        batch_system="lsf",
        job_id="123",
        state=JobState.COMPLETED,
        name='fit "a"',
        user="alice",
        uid=6001,
        account="physics",
        queue="normal",
        submit_secs=1795264200,
        start_secs=1795264260,
        end_secs=1795264361,
        suspended_secs=11,  # 101 s since the start, 90 s of them running
        exit_status=0,
        nodes=("n1", "n2"),
        total_nodes=2,
        total_cpus=6,
        requested_cpus=6,
        wall_limit_secs=86400,
        run_secs=90,
        used_cpu_secs=510.75,
        user_cpu_secs=500.25,
        system_cpu_secs=10.5,
        used_memory_bytes=2097152 * 1024,
    )


def test_a_job_of_an_array_that_was_killed_has_its_index_signal_and_reason() -> None:
    record = records()[1]
    assert isinstance(record, JobRecord)
    assert (record.job_id, record.array_job_id, record.array_task_id) == ("124[7]", "124", "7")
    assert record.state is JobState.OUT_OF_MEMORY
    assert (record.exit_status, record.exit_signal) == (137, None)
    assert record.used_cpu_secs is None  # -1: not available
    assert record.wall_limit_secs is None  # -1: none was asked for
    assert record.eligible_secs == 1795264350
    assert record.suspended_secs is None


def test_a_job_that_ended_before_it_started_was_cancelled() -> None:
    record = records()[2]
    assert isinstance(record, JobRecord)
    assert record.state is JobState.CANCELLED
    assert (record.start_secs, record.total_cpus, record.nodes) == (None, None, ())
    assert record.reservation == "user2#0"


def test_a_record_with_a_wrong_count_is_rejected_with_its_line_and_the_others_live() -> None:
    notes = Notes()
    found = list(read_records(LINES, source="lsb.acct", notes=notes))
    assert len(found) == 5
    assert notes.not_taken["record JOB_RESIZE"] == 1
    rejected = found[3]
    assert isinstance(rejected, Rejected)
    assert (rejected.source, rejected.line) == ("lsb.acct", 5)


def test_a_job_that_a_signal_ended_has_no_exit_status() -> None:
    [record] = parse_line(LINES[1].replace(" 35072 ", " 9 "), notes=Notes())
    assert record is not None
    assert (record.exit_status, record.exit_signal) == (None, 9)


def test_an_older_version_is_read_up_to_the_memory_used() -> None:
    record = records()[4]
    assert isinstance(record, JobRecord)
    assert (record.job_id, record.used_cpu_secs, record.used_memory_bytes) == ("128", 91.0, 2048 * 1024)
    assert record.wall_limit_secs is None


def test_the_manual_s_usage_of_hosts_without_pairs_is_read_too() -> None:
    line = LINES[0].replace(
        '2 "n1" 1306 0 300 6 0 "n2" 791 0 200 4 1 "key" "value"', '2 "n1" 1306 0 300 6 "n2" 791 0 200 4'
    )
    [record] = parse_line(line, notes=Notes())
    assert record is not None
    assert (record.wall_limit_secs, record.total_cpus) == (86400, 6)


def test_hosts_may_be_repeated_instead_of_counted() -> None:
    line = LINES[0].replace('2 "4*n1" "2*n2" 64', '6 "n1" "n1" "n1" "n1" "n2" "n2" 64')
    assert line != LINES[0]
    [record] = parse_line(line, notes=Notes())
    assert record is not None
    assert (record.total_cpus, record.nodes) == (6, ("n1", "n2"))


def test_what_newer_versions_add_at_the_end_is_left_out() -> None:
    assert parse_line(LINES[0] + ' 7 "new" 1.5', notes=Notes()) == parse_line(LINES[0], notes=Notes())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"10.1"', '"ten"'),
        (" 123 6001 ", " x 6001 "),
        (" 123 6001 ", ' "123" 6001 '),
        (" 123 6001 ", " -3 6001 "),
        ("500.250000", '"fast"'),
        ('2 "n1" "n2" 2 "4*n1"', '9999999 "n1" "n2" 2 "4*n1"'),
        ('2 "n1" "n2" 2 "4*n1"', '-1 "n1" "n2" 2 "4*n1"'),
        ('"4*n1" "2*n2" 64', '"4*n1" "2 n2" 64'),
        ("2 1032", "3 1032"),
        ('2 "n1" 1306', '3 "n1" 1306'),
        ('"fit ""a"""', '"fit ""a""'),
        ('"JOB_FINISH"', '"JOB_START"'),
    ],
)
def test_a_damaged_record_is_refused(old: str, new: str) -> None:
    damaged = LINES[0].replace(old, new, 1)
    assert damaged != LINES[0]
    with pytest.raises(ParseError):
        parse_line(damaged, notes=Notes())


def test_fields_are_texts_in_quotes_or_words() -> None:
    assert split_fields('"a" 1  "" "b ""c"" d" -1.5') == [
        *(("a", True), ("1", False), ("", True), ('b "c" d', True), ("-1.5", False))
    ]


@pytest.mark.parametrize("text", ['"a', '"a"b', 'a"b"', '"a""', "\x00" * 3 + '"'])
def test_quotes_that_do_not_match_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        split_fields(text)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"])) | st.just("a b") | st.just('"'),
        max_size=9,
    )
)
def test_quoted_fields_come_back(texts: list[str]) -> None:
    line = " ".join('"' + text.replace('"', '""') + '"' for text in texts)
    assert split_fields(line) == [(text, True) for text in texts]


@given(st.integers(0, len(LINES[0]) - 1))
def test_a_line_that_is_cut_off_is_refused_or_has_lost_only_what_is_not_read(length: int) -> None:
    try:
        [record] = parse_line(LINES[0][:length].strip() or '"', notes=Notes())
    except ParseError:
        return
    assert [record] == parse_line(LINES[0], notes=Notes())


@given(st.text())
def test_any_text_is_records_or_rejected(text: str) -> None:
    for each in (text, LINES[0][:60] + text, LINES[0].replace("physics", text)):
        for record in read_records(each.splitlines(), source="x", notes=Notes()):
            assert isinstance(record, JobRecord | Rejected)


def test_the_file_is_recognised_and_others_are_not() -> None:
    assert recognise(FIXTURE.read_text()[:4096])
    assert recognise('"EVENT_ADRSV_FINISH" "10.1" 1795264361 1')
    for other in ("", "{}", '"JOB_NEW" "10.1" 1', "; Version: 2.2", "JOB_FINISH 10.1 1", "7|alice|RUN"):
        assert not recognise(other)


def test_a_line_for_many_tasks_of_an_array_is_a_record_of_each() -> None:
    """An array that is killed while it waits has the index -1, and its ranges behind the slots."""
    line = LINES[1].replace('"" 7 2048', '"" -1 2048')
    text, slots, rest = line.rpartition('1 "n1" -1 0 0 0')
    assert (slots, rest) == ('1 "n1" -1 0 0 0', "")
    found = list(parse_line(f'{text}1 "n1" -1 2 678 1000 1 2001 2009 4 0 0 0', notes=Notes()))
    assert len(found) == 323 + 3
    assert (found[0].job_id, found[0].array_job_id, found[0].array_task_id) == ("124[678]", "124", "678")
    assert found[-1].array_task_id == "2009"


@pytest.mark.parametrize("ranges", ["0", "1 5 4 1", "1 0 4 1", "1 1 2147483646 1", "1 1 9 0", "2 1 5 1"])
def test_an_index_without_tasks_is_refused_by_its_name(ranges: str) -> None:
    line = LINES[1].replace('"" 7 2048', '"" -1 2048').replace('"n1" -1 0 0 0', f'"n1" -1 {ranges}')
    with pytest.raises(ParseError) as caught:
        list(parse_line(line, notes=Notes()))
    assert caught.value.field == "idx" or caught.value.field.startswith("indexRange")
