from datetime import datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.swf.columns import read_pieces
from jobfeatures.formats.swf.header import (
    Comment,
    Header,
    Preemption,
    Size,
    format_date,
    format_header,
    parse_comment,
    parse_date,
)
from jobfeatures.formats.swf.lines import SwfReader


def header(*lines):
    read = Header("log.swf")
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(";"):
            parse_comment(line, read, number)
    return read


@pytest.mark.parametrize("line", [";MaxProcs: 8", "; MaxProcs: 8", ";    MaxProcs:8", "  ;\tmaxprocs : 8 "])
def test_a_label_may_be_indented_and_written_in_any_case(line):
    assert header(line).size("MaxProcs") == Size(8)


def test_partitions_stand_in_parentheses_or_a_remark_does():
    assert header("; MaxNodes: 184  ( 6,  171,   7)").size("MaxNodes") == Size(184, (6, 171, 7))
    assert header("; MaxNodes: 70  (dual)").size("MaxNodes") == Size(70)


@pytest.mark.parametrize("value", ["N/A", "", "-1", "unknown"])
def test_a_size_that_is_not_known_is_none(value):
    assert header(f"; MaxRuntime: {value}").size("MaxRuntime") is None


@pytest.mark.parametrize("value", ["many", "8 9", "1e3", "９"])
def test_a_size_that_is_none_names_its_line(value):
    with pytest.raises(ParseError, match=r"log\.swf:2:MaxProcs: must be a number"):
        header("; Version: 2.2", f"; MaxProcs: {value}").size("MaxProcs")


def test_what_is_indented_further_continues_the_label_before_it():
    found = header(
        "; Information: http://www.pdc.kth.se/",
        ";              http://www.cs.huji.ac.il/labs/",
        ";\tsee: http://example.org",
        ";",
        ";       not a continuation any more",
    )
    value = "http://www.pdc.kth.se/\nhttp://www.cs.huji.ac.il/labs/\nsee: http://example.org"
    assert found.comments[0] == Comment("Information", value)
    assert [each.label for each in found.comments[1:]] == ["", ""]


def test_a_log_may_have_labels_of_its_own_and_drawings():
    found = header("; Copyright: us", "; j|  s|  w|", "; see: http://example.org", "; Http://example.org")
    assert [each.label for each in found.comments] == ["Copyright", "", "", ""]


def test_the_last_of_a_repeated_label_counts():
    assert header("; MaxQueues: 3", "; MaxQueues: 4").size("MaxQueues") == Size(4)


def test_queues_and_partitions_have_numbers_and_names():
    found = header(
        "; Queue: 0 interactive",
        "; Queue:  1 - batch  the rest",
        "; Queue: 2",
        "; Partition: 1 -1",
        "; Partition: 2 test,batch both",
    )
    assert found.numbered("Queue") == {
        0: "interactive",
        1: "batch",
        2: "",
    }
    assert found.numbered("Partition") == {1: "-1", 2: "test,batch"}


def test_preemption_is_one_of_four_words():
    assert header("; Preemption: double").preemption() is Preemption.DOUBLE
    assert header().preemption() is None
    with pytest.raises(ParseError, match="must be No, Yes, Double or TS"):
        header("; Preemption: perhaps").preemption()


def test_times_are_by_the_zone_that_is_named_summer_time_included():
    """The example of the text: LPC, "Wed Aug 04 12:32:12 CEST 2004"."""
    found = header("; UnixStartTime: 1091615532", "; TimeZoneString: Europe/Paris", "; TimeZone: 3600")
    assert format_date(found.wall_clock(0)) == "Wed Aug 04 12:32:12 CEST 2004"
    assert format_date(found.wall_clock(180 * 86400)) == "Mon Jan 31 11:32:12 CET 2005"


def test_the_deprecated_zone_is_used_where_there_is_no_other():
    found = header("; UnixStartTime: 0", "; TimeZone: 3600 # DEPRECATED")
    assert found.wall_clock(0).isoformat() == "1970-01-01T01:00:00+01:00"


@pytest.mark.parametrize(
    "line",
    [
        "; TimeZoneString: Mars/Olympus",
        "; TimeZoneString: ../../etc/passwd",
        "; TimeZone: east",
        "; TimeZone: 999999",
    ],
)
def test_a_zone_that_is_none_is_an_error_of_its_line(line):
    with pytest.raises(ParseError, match=r"log\.swf:1:TimeZone"):
        header(line).zone()


def test_without_a_start_or_a_zone_there_is_no_wall_clock():
    assert header("; UnixStartTime: 5").wall_clock(0) is None
    assert header("; TimeZone: 0").wall_clock(0) is None


def test_dates_are_those_of_date_in_english():
    found = parse_date(Comment("StartTime", "Tue Feb 21 18:44:15 IST 2006"))
    assert found == (datetime.fromisoformat("2006-02-21T18:44:15"), "IST")
    for wrong in (
        "Thursday, 6 Apr 100, 15:56:52",
        "Tue Feb 31 18:44:15 IST 2006",
        "Tue Feb 21 18:44:99 IST 2006",
        "",
    ):
        with pytest.raises(ParseError, match="must be a date"):
            parse_date(Comment("StartTime", wrong))


comments = st.one_of(
    st.builds(
        Comment,
        st.sampled_from(["Version", "Queue", "Note", "Installation", "Copyright"]),
        st.lists(
            st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=20).map(str.strip)
        ).map(lambda lines: "\n".join(line for line in lines if line)),
    ),
)


@given(st.lists(comments, max_size=6))
def test_a_header_that_is_written_and_read_is_the_same(made):
    again = header(*format_header(Header("", made)))
    labels = {"version", "queue", "note", "installation"}
    for written, read in zip(made, again.comments, strict=False):
        more = written.value.split("\n")[1:]
        if written.value.startswith("//"):
            return  # like an address, whose scheme is no label
        if any(line.partition(":")[0].strip().lower() in labels or line.startswith(";") for line in more):
            return  # a line that looks like a label of its own
        assert read == written
    assert len(again.comments) == len(made)


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_text_is_taken_or_named_in_an_error(lines):
    found = header(*(f";{line}" for line in lines))
    sources = set()
    named = (partial(found.numbered, label) for label in ("Queue", "Partition"))
    for ask in (found.preemption, found.start_secs, found.zone, *named):
        try:
            ask()
        except ParseError as error:
            sources.add(error.source)
    assert sources <= {"log.swf"}


# "This can be either runtime (measured in wallclock seconds), or average CPU time per processor (also in seconds)
# -- the exact meaning is determined by a header comment."
@pytest.mark.parametrize(
    ("line", "is_cpu"),
    [
        ("; Note: requested times are average CPU times per processor", True),
        ("; Note: The requested time is the CPU time limit, not the wall time", True),
        ("; Note: requested times are wall clock times, not CPU times", False),
        ("; Note: The requested time field is in CPU seconds per processor.", True),
        ("; Note: Request time means CPU time", True),
        ("; requested times are CPU times", True),
        ("; Note: requested times are wall clock times", False),
        ("; Note: There is no information on requested times or CPU time", False),
        ("; Note: requested time is not given. CPU time is of all processors", False),
        ("; Note: requested times are not CPU times", False),
        ("; Computer: requested times are CPU times", False),
    ],
)
def test_the_exact_meaning_of_requested_times_is_determined_by_a_header_comment(line, is_cpu):
    assert header("; Version: 2.2", line).requests_cpu_time() is is_cpu


def test_a_zone_with_hundreds_of_slashes_is_none():
    with pytest.raises(ParseError, match="no such time zone"):
        header("; TimeZoneString: " + "a/" * 600 + "b").zone()


def test_a_second_log_in_one_file_is_refused_by_all_readers(tmp_path):
    job = "1 0 0 60 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1"
    log = tmp_path / "log.swf"
    for again in ("2000", "1000"):  # the latter says what is known
        log.write_text(f"; UnixStartTime: 9\n; UnixStartTime: 1000\n{job}\n; UnixStartTime: {again}\n{job}\n")
        for read in (
            lambda: [*SwfReader(log.read_text().splitlines())],
            lambda: [*read_pieces(str(log), 99)],
        ):
            if again == "1000":
                assert read()
                continue
            with pytest.raises(ParseError, match="another log begins here"):
                read()
