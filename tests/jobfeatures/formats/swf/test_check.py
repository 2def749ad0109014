import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.cli import main
from jobfeatures.formats.swf.check import ERROR, NOTE, RULES, WARNING, check_log

GOOD_HEADER = (
    "; Version: 2.2",
    "; MaxJobs: 2",
    "; MaxRecords: 2",
    "; Preemption: No",
    "; UnixStartTime: 843480031",
    "; TimeZoneString: Europe/Stockholm",
    "; StartTime: Mon Sep 23 14:00:31 CEST 1996",
    "; EndTime:   Mon Sep 23 14:02:46 CEST 1996",
    "; MaxProcs: 100",
    "; MaxRuntime: 3600",
    "; MaxMemory: 1000",
    "; AllowOveruse: No",
    "; MaxQueues: 1",
    "; Queue: 1 batch",
)
FIRST = "1 0 10 20 4 -1 500 4 60 -1 1 1 1 -1 1 -1 -1 -1"
SECOND = "2 40 15 80 4 -1 500 4 80 -1 0 1 1 -1 1 -1 1 10"


def faults(*lines, header=GOOD_HEADER):
    return [(each.level, each.rule, each.line) for each in check_log([*header, *lines])]


def test_a_good_log_has_no_faults():
    assert faults(FIRST, SECOND) == []


LINE = len(GOOD_HEADER) + 2  # of the second job


def test_a_word_where_a_number_belongs_is_an_error():
    assert faults(FIRST, SECOND.replace("500", "-x")) == [(ERROR, "fields", LINE)]


@pytest.mark.parametrize(
    ("second", "level", "rule"),
    [
        ("2 40 15", ERROR, "not a job"),
        ("2 40 15 oops 4 -1 500 4 80 -1 0 1 1 -1 1 -1 1 10", ERROR, "not a job"),
        (SECOND + " 9", ERROR, "fields"),
        (SECOND.replace(" 80 ", " -80 ", 1), ERROR, "negative value"),
        (SECOND.replace("2 40 15", "2 40 -15", 1), ERROR, "negative value"),
        (SECOND.replace("500", "-500"), WARNING, "negative value"),
        (SECOND.replace(" 0 1 1", " 7 1 1"), WARNING, "status"),
        ("1" + SECOND[1:], ERROR, "number repeated"),
        ("4" + SECOND[1:], WARNING, "number sequence"),
        ("0" + SECOND[1:], ERROR, "number"),
        (SECOND.replace("2 40 15", "2 -1 15"), ERROR, "no submit time"),
        (SECOND.replace(" 4 -1", " 101 -1", 1), ERROR, "processors"),
        (SECOND.replace(" 4 -1", " 0 -1", 1), WARNING, "no processors"),
        (SECOND.replace("500", "1001"), WARNING, "MaxMemory"),
        (SECOND.replace("4 80 -1", "4 79 -1"), WARNING, "AllowOveruse"),
        (SECOND.replace("-1 1 -1 1 10", "-1 2 -1 1 10"), WARNING, "unknown queue"),
        (SECOND.replace(" 1 10", " 3 10"), WARNING, "preceding job"),
    ],
)
def test_a_fault_of_a_line_is_told_with_its_number(second, level, rule):
    assert (level, rule, LINE) in faults(FIRST, second)


def test_jobs_have_to_stand_in_the_order_of_their_submission():
    late = FIRST.replace("1 0 10", "1 50 10")
    assert (ERROR, "order", LINE) in faults(late, SECOND)


def test_parts_of_a_job_repeat_its_number_where_preemption_says_so():
    parts = [FIRST, FIRST.replace("1 0 10", "1 0 10"), FIRST.replace("1 0 10", "1 -1 10")]
    parts = [
        parts[0],
        *(
            part.replace(" -1 1 1 1", f" -1 {status} 1 1")
            for part, status in zip(parts[1:], (2, 3), strict=True)
        ),
    ]
    header = [line.replace("Preemption: No", "Preemption: Double") for line in GOOD_HEADER]
    errors = [each for each in faults(*parts, header=header) if each[0] == ERROR]
    assert errors == []
    assert (ERROR, "number repeated", LINE) in faults(*parts)


@pytest.mark.parametrize(
    ("line", "instead", "rule"),
    [
        ("; Version: 2.2", ";", "header"),
        ("; UnixStartTime: 843480031", ";", "header"),
        ("; MaxJobs: 2", "; MaxJobs: 3", "header count"),
        ("; MaxRecords: 2", "; MaxRecords: 3", "header count"),
        ("; MaxQueues: 1", "; MaxQueues: 2", "header count"),
        ("; MaxProcs: 100", "; MaxProcs: many", "header value"),
        ("; Preemption: No", "; Preemption: maybe", "header value"),
        ("; Version: 2.2", "; Version: 2.2\n; TimeZone: 3600", "header"),
        ("; Version: 2.2", "; Version: 2.2\n; Colour: red", "header label"),
        ("; TimeZoneString: Europe/Stockholm", "; TimeZoneString: Atlantis", "header value"),
        ("; StartTime: Mon Sep 23 14:00:31 CEST 1996", "; StartTime: Thursday, 6 Apr 100, 15:56:52", "header value"),
        ("; StartTime: Mon Sep 23 14:00:31 CEST 1996", "; StartTime: Mon Sep 23 15:00:31 CEST 1996", "header time"),
        ("; EndTime:   Mon Sep 23 14:02:46 CEST 1996", "; EndTime: Mon Sep 23 14:02:47 CEST 1996", "header time"),
    ],
)  # fmt: skip
def test_a_header_that_is_not_its_log_is_a_warning(line, instead, rule):
    assert line in GOOD_HEADER
    header = "\n".join(GOOD_HEADER).replace(line, instead).split("\n")
    found = faults(FIRST, SECOND, header=header)
    assert {level for level, _, _ in found} == {WARNING}
    assert rule in {each for _, each, _ in found}


@given(st.lists(st.text(max_size=80), max_size=8))
def test_any_text_is_checked_to_its_end(lines):
    for each in check_log(lines):
        assert each.level in {ERROR, WARNING, NOTE}
        assert each.rule in RULES
        assert 0 <= each.line <= len(lines)


def test_a_log_without_jobs_says_so(tmp_path, capsys):
    empty = tmp_path / "empty.swf"
    empty.write_text("\n".join(GOOD_HEADER))
    assert main(["check", "--as", "swf", str(empty)]) == 0
    assert "warning: header count: the log has no jobs\n" in (out := capsys.readouterr().out)
    assert out.endswith("0 errors, 3 warnings\n")


def test_the_command_names_file_and_line_and_exits_by_what_it_found(tmp_path, capsys):
    good, bad = tmp_path / "good.swf", tmp_path / "bad.swf"
    good.write_text("\n".join([*GOOD_HEADER, FIRST, SECOND]))
    bad.write_text("\n".join([*GOOD_HEADER, FIRST, *["oops"] * 12]))
    assert main(["check", "--as", "swf", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: 0 errors, 0 warnings\n"
    assert main(["check", "--as", "swf", str(bad), str(good)]) == 1
    printed = capsys.readouterr().out
    assert f"{bad}:16: error: not a job: line has 1 fields, not 18\n" in printed
    assert f"{bad}: error: not a job: 2 more\n" in printed
    assert main(["check", "--as", "swf", str(bad), str(tmp_path / "none.swf")]) == 2
    assert "none.swf: cannot read: No such file" in capsys.readouterr().err
    assert main(["check", "--as", "swf", "--format", "json", str(bad)]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == {
        "file": str(bad), "level": "error", "rule": "not a job", "line": 16, "message": "line has 1 fields, not 18",
    }  # fmt: skip
    assert len([row for row in rows if row["rule"] == "not a job"]) == 12


@pytest.mark.parametrize(
    ("stated", "is_right"),
    [
        ("Sun Oct 31 02:59:50 CET 2004", True),
        ("Sun Oct 31 02:59:50 CEST 2004", False),  # an hour earlier
        ("Sun Oct 31 01:59:50 UTC 2004", True),
        ("Sun Oct 31 02:59:50 MEZ 2004", True),  # a name that the zone does not have says nothing
        ("Sun Oct 31 02:59:50 UTC 2004", False),
    ],
)
def test_the_zone_of_a_time_in_the_header_is_read(stated, is_right):
    job = "1 0 0 10 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n"
    start = "; Version: 2.2\n; UnixStartTime: 1099187980\n; TimeZoneString: Europe/Paris\n"
    found = [
        each.rule for each in check_log([*start.splitlines(True), f"; EndTime: {stated}\n", job], source="x")
    ]
    assert ("header time" not in found) is is_right
