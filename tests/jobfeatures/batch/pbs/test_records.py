"""What qstat and pbsnodes print, as text, JSON and XML. The fixtures are constructed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.pbs.records import parse_json, parse_text, parse_xml
from jobfeatures.errors import ParseError

FIXTURES = Path(__file__).parents[3] / "fixtures"
PBS, TORQUE = FIXTURES / "pbs", FIXTURES / "torque"


def jobs_json(body: str) -> str:
    return f'{{\n    "timestamp":1795250000,\n    "pbs_version":"20.0",\n    "Jobs":{{\n{body}\n    }}\n}}\n'


def job_json(name: str, value: str, job_id: str = "1.head") -> str:
    return (
        f'        "{job_id}":{{\n            "Job_Name":{name},\n            "job_state":"R",\n'
        f'            "Resource_List":{{\n                "walltime":{value}\n            }}\n        }}'
    )


def read_jobs(text: str):
    return parse_json(text, member="Jobs", source="qstat")


# ---------------------------------------------------------------- text


def test_text_has_continued_lines_and_equal_signs_in_values() -> None:
    records = parse_text((PBS / "qstat-jobs.txt").read_text(), kind="job", source="qstat")
    job = records.found["123.head"].attributes
    assert job["Job_Name"] == "a = b"
    assert job["exec_vnode"] == "(n1:ncpus=4:mem=8388608kb)+(n2:ncpus=2:mem=4194304kb)"
    assert job["Variable_List"].endswith("/bin/bash,PBS_O_WORKDIR=/home/alice")
    assert job["run_count"] == "1"
    assert list(records.found) == ["123.head", "125.head"]
    assert records.rejected == ()


def test_a_banner_before_the_first_record_is_passed_over() -> None:
    text = "*** maintenance on Monday ***\n" + (PBS / "qstat-jobs.txt").read_text()
    assert len(parse_text(text, kind="job", source="qstat").found) == 2


@pytest.mark.parametrize("text", ["Request ID  Name\n", "command not found\n", "\x00\x01"])
def test_text_without_a_record_is_an_error(text: str) -> None:
    with pytest.raises(ParseError, match="no records"):
        parse_text(text, kind="job", source="qstat")
    assert parse_text("", kind="job", source="qstat").found == {}


def test_a_variable_that_imitates_attributes_costs_its_job_only() -> None:
    text = (
        "Job Id: 1.head\n    Job_Name = a\n    job_state = R\n    Variable_List = X=1\n"
        "    Resource_List.walltime = 999:00:00\n\nJob Id: 2.head\n    job_state = Q\n"
    )
    records = parse_text(text, kind="job", source="qstat")
    assert list(records.found) == ["2.head"]
    assert [(each.reason, each.field) for each in records.rejected] == [
        ("field is out of its place (1.head)", "Resource_List.walltime")
    ]


def test_a_field_that_stands_twice_costs_its_job() -> None:
    text = (
        "Job Id: 1.head\n    job_state = R\n    Variable_List = X=1\n    run_count = 9\n    run_count = 1\n"
    )
    records = parse_text(text, kind="job", source="qstat")
    assert (records.found, records.unsure) == ({}, {"1.head"})


def test_a_job_that_is_imitated_whole_is_believed_neither_time() -> None:
    text = "Job Id: 1.head\n    job_state = R\n    Variable_List = X=1\n\nJob Id: 2.head\n    job_state = Q\n"
    records = parse_text(text + "\nJob Id: 2.head\n    job_state = R\n", kind="job", source="qstat")
    assert list(records.found) == ["1.head"]
    assert records.unsure == {"2.head"}


def test_nodes_as_text() -> None:
    nodes = parse_text((PBS / "pbsnodes.txt").read_text(), kind="node", source="pbsnodes").found
    assert nodes["n1"].attributes["resources_available.ncpus"] == "8"
    assert nodes["n2"].attributes["state"] == "offline"


def test_queues_as_text() -> None:
    queues = parse_text((TORQUE / "qstat-queues.txt").read_text(), kind="queue", source="qstat").found
    assert queues["fast"].attributes["resources_default.neednodes"] == "fast"


# ---------------------------------------------------------------- JSON


def test_json() -> None:
    records = read_jobs((PBS / "qstat-jobs.json").read_text())
    assert list(records.found) == ["123.head", "124[7].head", "125.head"]
    assert records.found["123.head"].attributes["Resource_List.walltime"] == "03:00:00"
    assert records.found["123.head"].attributes["session_id"] == "4711"
    assert records.rejected == ()


def test_json_about_unknown_jobs_only_has_no_records() -> None:
    assert read_jobs('{"timestamp":1, "pbs_version":"23", "pbs_server":"head"}').found == {}


def test_a_banner_before_json_is_passed_over() -> None:
    text = "Welcome\n" + jobs_json(job_json('"a"', '"01:00:00"'))
    assert list(read_jobs(text).found) == ["1.head"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (r'"a\xb"', r"a\xb"),
        ("007", "007"),
        ("1e999", "1e999"),
        ("NaN", "NaN"),
        ("nan", "nan"),
        ("0x10", "0x10"),
        ("1" * 5000, "1" * 5000),
        ('"a\tb\x01"', "a\tb\x01"),
        ("1.", "1."),
    ],
)
def test_what_is_nearly_json_is_read(name: str, expected: str) -> None:
    records = read_jobs(
        jobs_json(",\n".join([job_json('"good"', '"01:00:00"', "2.head"), job_json(name, '"9"')]))
    )
    assert records.found["2.head"].attributes["Job_Name"] == "good"
    assert records.found["1.head"].attributes["Job_Name"] == expected


def test_a_repaired_fault_is_named() -> None:
    records = read_jobs(jobs_json(job_json(r'"C:\xdir"', '"01:00:00"')))
    assert [each.reason for each in records.rejected] == ["not JSON, repaired: Invalid \\escape"]
    assert records.found["1.head"].attributes["Resource_List.walltime"] == "01:00:00"


def test_a_job_whose_name_ends_in_a_backslash_costs_itself_only() -> None:
    good = job_json('"good"', '"01:00:00"', "2.head")
    for order in ([job_json('"bad\\"', '"9"'), good], [good, job_json('"bad\\"', '"9"')]):
        records = read_jobs(jobs_json(",\n".join(order)))
        assert "2.head" in records.found
        assert "1.head" in records.unsure
        assert "1.head" not in records.found


def test_half_an_answer_gives_the_whole_records_in_it() -> None:
    text = (PBS / "qstat-jobs.json").read_text()
    records = read_jobs(text[: text.index('"125.head"') + 60])
    assert list(records.found) == ["123.head", "124[7].head"]
    assert "125.head" in records.unsure


@pytest.mark.timeout(60)  # looked through anew from each quote, it took a day
def test_an_answer_cut_off_inside_a_string_is_read_once() -> None:
    with pytest.raises(ParseError, match="no records"):
        parse_json('{"Jobs":{"1.s":{"Job_Name":"' + '\\"' * 500_000, member="Jobs", source="qstat")


def test_a_name_that_comes_twice_in_a_job_costs_it() -> None:
    body = '"1.head":{"Job_Name":"a","job_state":"Q","job_state":"R"},"2.head":{"job_state":"R"}'
    records = read_jobs(jobs_json(body))
    assert (list(records.found), records.unsure) == (["2.head"], {"1.head"})


def test_a_variable_that_comes_twice_costs_nothing() -> None:
    records = read_jobs(jobs_json('"1.head":{"job_state":"R","Variable_List":{"A":"1","A":"2"}}'))
    assert list(records.found) == ["1.head"]


@pytest.mark.parametrize("text", ["no", "[1]", "{", '{"Jobs":[', '{"Jobs":3}', "{" * 100_000, "\x00{\xff"])
def test_what_is_no_answer_is_an_error(text: str) -> None:
    with pytest.raises(ParseError):
        read_jobs(text)


@given(
    st.dictionaries(
        st.from_regex(r"[1-9][0-9]{0,5}\.head", fullmatch=True),
        st.dictionaries(
            st.sampled_from(["Job_Name", "job_state", "queue"]), st.text(max_size=20), max_size=3
        ),
        max_size=5,
    )
)
def test_every_text_survives_json(jobs: dict[str, dict[str, str]]) -> None:
    found = read_jobs(json.dumps({"Jobs": jobs})).found
    assert {name: dict(record.attributes) for name, record in found.items()} == jobs


@given(st.text(), st.binary())
def test_any_text_is_read_or_refused(text: str, data: bytes) -> None:
    for given_text in (text, "{" + text, jobs_json(text), "Job Id: 1.h\n" + text):
        with contextlib.suppress(ParseError):
            read_jobs(given_text)
        with contextlib.suppress(ParseError):
            parse_text(given_text, kind="job", source="qstat")
    for given_data in (data, b"<Data>" + data):
        with contextlib.suppress(ParseError):
            parse_xml(given_data, kind="Job", source="qstat")


@given(st.integers(0, 4000), st.integers(0, 4000), st.sampled_from(['"', "\\", "{", "}", "\n", "", "é"]))
def test_a_damaged_answer_is_read_or_refused(start: int, length: int, put: str) -> None:
    text = (PBS / "qstat-jobs.json").read_text()
    damaged = text[:start] + put + text[start + length % 40 :]
    with contextlib.suppress(ParseError):
        read_jobs(damaged)


# ---------------------------------------------------------------- XML


def test_xml() -> None:
    records = parse_xml((TORQUE / "qstat.xml").read_bytes(), kind="Job", source="qstat")
    job = records.found["123.batch.example.org"].attributes
    assert job["Job_Name"] == "a & b"
    assert job["Resource_List.walltime"] == "01:00:00"
    assert job["Variable_List"].endswith("EVIL=x</Variable_List>")
    assert len(records.found) == 2


def test_a_banner_before_xml_is_passed_over_and_nothing_is_nothing() -> None:
    data = b"maintenance on Monday\n" + (TORQUE / "qstat.xml").read_bytes()
    assert len(parse_xml(data, kind="Job", source="qstat").found) == 2
    assert parse_xml(b"\n", kind="Job", source="qstat").found == {}


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b"no",
        b"<Data><Job>",
        (TORQUE / "qstat.xml").read_bytes()[:400],
        b"<Data>&x;</Data>",
    ],
)
def test_what_is_no_xml_is_an_error(data: bytes) -> None:
    with pytest.raises(ParseError):
        parse_xml(data, kind="Job", source="qstat")


def test_a_record_without_a_name_or_with_a_field_twice_costs_itself() -> None:
    data = (
        b"<Data><Job><queue>q</queue></Job><Job><Job_Id>1.s</Job_Id><queue>a</queue><queue>b</queue></Job>"
        b"<Job><Job_Id>2.s</Job_Id></Job></Data>"
    )
    records = parse_xml(data, kind="Job", source="qstat")
    assert list(records.found) == ["2.s"]
    assert len(records.rejected) == 2


# ---------------------------------------------------------------- faults that cost no other record


def test_a_record_that_cannot_be_repaired_costs_no_other_its_repair() -> None:
    """53 has a bare number, which is repaired; 54 a quote within a value, which cannot be."""
    broken = '        "54.srv":{"job_state":"R","Variable_List":{"Q":"say "hi""}}'
    bare = '        "53.srv":{"job_state":"R","Variable_List":{"foo":005}}'
    records = read_jobs(jobs_json(f"{bare},\n{broken}"))
    assert list(records.found) == ["53.srv"]
    assert records.unsure == {"54.srv"}
    assert records.found["53.srv"].attributes["Variable_List.foo"] == "005"


LIMITS = '"max_queued":"[o:PBS_ALL=10]","max_queued":"[u:PBS_GENERIC=2]"'


@pytest.mark.parametrize(
    ("more", "is_there"),
    [
        (LIMITS, True),
        ('"enabled":"True"', True),
        ('"enabled":"False"', False),
        ('"resources_max":{"ncpus":1,"ncpus":2}', False),
    ],
)
def test_a_queue_with_a_name_twice_is_lost_only_if_that_is_read_and_differs(
    more: str, is_there: bool
) -> None:
    queue = f'"QueueA":{{"queue_type":"Execution","enabled":"True","started":"True",{more}}}'
    text = f'{{"timestamp":1,"Queue":{{{queue},"QueueB":{{"queue_type":"Execution"}}}}}}'
    records = parse_json(text, member="Queue", source="qstat")
    assert list(records.found) == (["QueueA", "QueueB"] if is_there else ["QueueB"])
    if is_there:
        assert records.found["QueueA"].attributes["enabled"] == "True"
        assert "max_queued" not in records.found["QueueA"].attributes


@pytest.mark.parametrize(
    ("again", "is_there"), [("max_run = [u:PBS_GENERIC=2]", True), ("enabled = False", False)]
)
def test_a_queue_with_a_name_twice_as_text(again: str, is_there: bool) -> None:
    told = ("queue_type = Execution", "enabled = True", "max_run = [o:PBS_ALL=10]", again)
    text = "\n    ".join(("Queue: a", *told)) + "\n"
    records = parse_text(text, kind="queue", source="qstat")
    assert list(records.found) == (["a"] if is_there else [])
    assert parse_text(text.replace("Queue: a", "Job Id: 1.s"), kind="job", source="qstat").found == {}
