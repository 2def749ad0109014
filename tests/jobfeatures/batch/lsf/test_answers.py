"""The JSON that LSF's commands print, and what they say beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.lsf.answers import complaints, is_nothing_found, parse_records, unknown_jobs
from jobfeatures.errors import ParseError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "lsf"
ANSWER = (FIXTURES / "bjobs-node.json").read_text()


def test_names_are_in_capitals_and_slashes_are_no_longer_escaped() -> None:
    records = parse_records(ANSWER, source="bjobs")
    assert len(records) == 5
    assert records[0]["JOB_NAME"] == 'fit "a\\b" /x'
    assert parse_records((FIXTURES / "lshosts.json").read_text(), source="lshosts")[0]["CPUF"] == "2.5"


def test_an_answer_without_records_is_an_answer() -> None:
    assert parse_records('{"COMMAND":"bjobs","JOBS":0,"RECORDS":[]}', source="bjobs") == []


def test_a_banner_before_the_answer_is_passed_over() -> None:
    banner = "*** Downtime on Tuesday {see the wiki} ***\n\n"
    assert parse_records(banner + ANSWER, source="bjobs") == parse_records(ANSWER, source="bjobs")


def test_the_count_may_be_a_text() -> None:
    assert parse_records('{"COMMAND":"bjobs","JOBS":"1","RECORDS":[{"JOBID":"7"}]}', source="bjobs")


def test_newlines_in_a_name_do_no_harm() -> None:
    text = '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7","JOB_NAME":"a\nb\tc"}]}'
    assert parse_records(text, source="bjobs")[0]["JOB_NAME"] == "a\nb\tc"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON"),
        ("No job found\n", "no JSON"),
        ("[]", "no JSON"),
        ("{}", "not a JSON answer"),
        ('{"COMMAND":"bhosts","HOSTS":0,"RECORDS":[]}', "not a JSON answer"),
        ('{"COMMAND":"bjobs","JOBS":0,"RECORDS":{}}', "not a JSON answer"),
        ('{"COMMAND":"bjobs","JOBS":2,"RECORDS":[{"JOBID":"7"}]}', "differs from the stated number"),
        ('{"COMMAND":"bjobs","RECORDS":[]}', "differs from the stated number"),
        ('{"COMMAND":"bjobs","JOBS":1,"RECORDS":[7]}', "must be an object"),
        ('{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":["7"]}]}', "not a text"),
        ('{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7","JOBID":"8"}]}', "occurs twice"),
        ('{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7"}]}\nmore', "text after"),
        ('{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOB_NAME":"a" "b"}]}', "broken JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"a":' * 100_000, "broken JSON"),
    ],
)
def test_what_is_no_whole_answer_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_records(text, source="bjobs")


def test_a_name_that_imitates_a_field_where_quotes_are_not_escaped_is_noticed() -> None:
    hostile = 'x","STAT":"DONE'
    text = '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7","STAT":"RUN","JOB_NAME":"HOSTILE"}]}'.replace(
        "HOSTILE", hostile
    )
    with pytest.raises(ParseError, match="occurs twice"):
        parse_records(text, source="bjobs")


def test_a_name_that_imitates_a_record_where_quotes_are_not_escaped_is_noticed() -> None:
    hostile = 'x"},{"JOBID":"8","STAT":"RUN","JOB_NAME":"y'
    text = '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7","STAT":"RUN","JOB_NAME":"HOSTILE"}]}'.replace(
        "HOSTILE", hostile
    )
    with pytest.raises(ParseError, match="differs from the stated number"):
        parse_records(text, source="bjobs")


@given(st.integers(0, len(ANSWER) - 3))
def test_half_of_an_answer_is_never_taken_for_a_whole_one(length: int) -> None:
    with pytest.raises(ParseError):
        parse_records(ANSWER[:length], source="bjobs")


@given(st.text(max_size=200))
def test_any_text_is_an_answer_or_a_parse_error(text: str) -> None:
    for each in (text, "{" + text, json.dumps({"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [{"A": text}]})):
        try:
            records = parse_records(each, source="bjobs")
        except ParseError:
            continue
        assert isinstance(records, list)


# ---------------------------------------------------------------- standard error


def test_waiting_for_a_daemon_is_no_complaint() -> None:
    said = "Cannot connect to LSF. Please wait ...\nLSF is processing your request. Please wait ...\nbad\n"
    assert complaints(said) == ["bad"]


@pytest.mark.parametrize(
    "said",
    [
        "No unfinished job found",
        "No running job found",
        "No job found",
        "No unfinished job found on host/group <n1>",
        "No matching job found",
    ],
)
def test_no_job_is_an_answer(said: str) -> None:
    assert is_nothing_found("", [said])
    assert is_nothing_found(f"{said}\n", [])


def test_no_job_and_something_else_is_none() -> None:
    assert not is_nothing_found("", [])
    assert not is_nothing_found("", ["No unfinished job found", "n1: Bad host name"])
    assert not is_nothing_found("banner", ["No unfinished job found"])
    assert not is_nothing_found("", ["Kein Job gefunden"])


def test_jobs_that_are_forgotten_are_named() -> None:
    assert unknown_jobs(["Job <7> is not found", "Job <8[3]> is not found"]) == {"7", "8[3]"}
    assert unknown_jobs([]) == frozenset()
    assert unknown_jobs(["Job <7> is not found", "Failed in an LSF library call"]) is None
