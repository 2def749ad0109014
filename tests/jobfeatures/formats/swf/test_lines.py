from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.swf.fields import IS_TIME, SwfJob
from jobfeatures.formats.swf.lines import (
    LARGEST,
    MAX_LINE_CHARACTERS,
    NEGATIVE,
    NOT_WHOLE,
    TOO_FEW,
    TOO_MANY,
    SwfReader,
    format_job,
    parse_job,
)

LINE = "15 599850 192180 3477 4 -1 -1 4 53940 -1 1 12 12 -1 -1 -1 -1 -1"
JOB = SwfJob(15, 599850, 192180, 3477, 4, -1, -1, 4, 53940, -1, 1, 12, 12, -1, -1, -1, -1, -1)


def read(*lines, strict=False):
    reader = SwfReader(lines, source="log.swf", strict=strict)
    return list(reader), reader


def test_a_line_is_eighteen_numbers():
    assert read(LINE)[0] == [JOB]


def test_comments_may_stand_anywhere_and_lines_may_be_empty_or_end_in_crlf():
    jobs, reader = read("; Version: 2.2\r\n", "\r\n", f"{LINE}\r\n", "; Note: late\n", "   \n", f"  {LINE}")
    assert jobs == [JOB, JOB]
    assert [each.value for each in reader.header.comments] == ["2.2", "late"]


def test_the_header_is_there_before_the_first_job():
    reader = SwfReader(["; MaxProcs: 8\n", LINE, "; Note: later"])
    assert reader.header.size("MaxProcs").total == 8
    assert reader.header.values("Note") == []


def test_times_may_have_decimals():
    jobs, reader = read("1 0.5 -0.0 265.8 2 18.00 -1 2 399.0 -1 1 -1 -1 -1 -1 -1 -1 -1")
    assert (jobs[0].submit_secs, jobs[0].run_secs, jobs[0].cpu_secs) == (0.5, 265.8, 18.0)
    assert reader.repaired == {}


@pytest.mark.parametrize(
    ("line", "repair", "field", "value"),
    [
        (f"{LINE} 7 8 9", TOO_MANY, "think_secs", -1),
        ("15 599850 192180 3477 4", TOO_FEW, "user", -1),
        (LINE.replace(" 4 ", " 4.6 ", 1), f"processors: {NOT_WHOLE}", "processors", 5),
        (LINE.replace("3477", "-3477"), f"run_secs: {NEGATIVE}", "run_secs", -1),
        (LINE.replace(" 1 12", " -2 12"), f"status: {NEGATIVE}", "status", -1),
        (LINE.replace("1 12", "1 -x"), "user is no number: it was taken as unknown", "user", -1),
    ],
)
def test_a_tolerant_reader_repairs_and_counts_a_strict_one_refuses(line, repair, field, value):
    jobs, reader = read(line)
    assert getattr(jobs[0], field) == value
    assert reader.repaired == {repair: 1}
    with pytest.raises(ParseError, match=r"log\.swf:2"):
        read("; Version: 2", line, strict=True)


def test_a_status_that_is_an_exit_code_stays():
    assert read(LINE.replace(" 1 12", " 265 12"))[0][0].status == 265


@pytest.mark.parametrize(
    "line",
    ["1 2 3 4", "hello", LINE.replace("3477", "34x"), LINE.replace("3477", "nan"), LINE.replace("3477", "inf"),
     LINE.replace("3477", "1_0"), LINE.replace("3477", "١٢"), LINE.replace("3477", str(2**63)),
     LINE.replace("3477", "1e400"), "\x00\x01binary", LINE + " " * 5000 + "1"],
)  # fmt: skip
def test_what_is_no_job_is_skipped_and_named_and_the_others_live(line):
    jobs, reader = read(LINE, line, LINE)
    assert jobs == [JOB, JOB]
    assert reader.skipped == 1
    assert reader.rejected[0].line == 2
    with pytest.raises(ParseError, match=r"log\.swf:2"):
        read(LINE, line, LINE, strict=True)


def test_the_line_of_each_job_is_known():
    reader = SwfReader(["; x\n", LINE, "", "oops", LINE + " 1"])
    assert [(job.number, reader.line) for job in reader] == [(15, 2), (15, 5)]


def test_only_so_many_rejected_lines_are_kept():
    _, reader = read(*["oops"] * 1500)
    assert (reader.skipped, len(reader.rejected)) == (1500, 1000)


whole = st.integers(-1, LARGEST)
times = st.one_of(whole, st.floats(0, 1e15), st.just(-1))
jobs = st.tuples(*(times if is_time else whole for is_time in IS_TIME)).map(SwfJob._make)


@given(st.lists(jobs, max_size=5))
def test_jobs_that_are_written_and_read_are_the_same(made):
    again, reader = read(*(format_job(job) for job in made), strict=True)
    assert again == made
    assert not reader.repaired


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(["1", "-1", "0.5", "x", "-2", "1e9", ";"])).map(" ".join))
)
def test_any_text_is_a_job_or_an_error(text):
    try:
        job, _ = parse_job(text)
    except ParseError:
        return
    assert min(job) >= -1
    assert all(isinstance(value, int) for value, is_time in zip(job, IS_TIME, strict=True) if not is_time)


WORDS = st.one_of(
    st.integers(-3, 3).map(str),
    st.floats(-2, 2, allow_nan=False).map(str),
    st.sampled_from(
        ["-0.0", "-1.0", "2.5", "-.5", "1.e400", "9223372036854775808.0", "nan.", "1_0.5", "٣.5", ".", "+1.5"]
    ),
    st.integers(1, 60).map(lambda count: "0." + "3" * count),
    st.integers(2**63 - 2, 2**63 + 1).map(str),
)


@given(
    st.lists(WORDS, min_size=18, max_size=18),
    WORDS,
    st.sampled_from([" ", "  ", " " * 300]),
    st.lists(st.integers(0, 17), max_size=2),
)
def test_plain_lines_are_read_as_all_others_are(words, cpu, blanks, odd):
    """Only the processor time has decimals in plain lines."""
    words = [word if place in odd else "7" for place, word in enumerate(words)]
    words[5] = cpu
    line = blanks.join(words)
    jobs, reader = read(line)
    if len(line) > MAX_LINE_CHARACTERS and "." not in line:
        return  # whole numbers with blanks between them are read however long the line is
    try:
        job, repairs = parse_job(line)
    except ParseError:
        assert (jobs, reader.skipped) == ([], 1)
    else:
        assert repr(jobs) == repr([job])
        assert reader.repaired == Counter(repairs)
