import dataclasses
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.status.jobstatus import (
    MAX_EPOCH_SECS,
    MAX_INTEGER,
    STATUS_KEYS,
    JobStatus,
    StatusReason,
    StatusViolation,
    is_unwritten,
    parse_job_status,
)

FULL = {
    "used_CPU": b"5\n",
    "last_job_start": b"1700000000\n",
    "first_exp_job_end": b"1700003600\n",
    "last_exp_job_end": b"1700007200\n",
    "last_max_job_end": b"1700010000\n",
    "add_uncom_time": b"500\n",
    "add_final_exp_waste": b"1200\n",
    "can_postpone_last_job": b"False\n",
    "priority_factor": b"-3\n",
}


def reason_of(values: Mapping[str, bytes], allocated_cpus: int | None = 8) -> StatusReason:
    with pytest.raises(StatusViolation) as raised:
        parse_job_status(values, allocated_cpus=allocated_cpus)
    return raised.value.reason_code


def test_a_full_set_is_read_whole() -> None:
    assert parse_job_status(FULL, allocated_cpus=8) == JobStatus(
        used_cpu=5,
        last_job_start=1700000000,
        first_exp_job_end=1700003600,
        last_exp_job_end=1700007200,
        last_max_job_end=1700010000,
        add_uncom_time=500,
        add_final_exp_waste=1200,
        can_postpone_last_job=False,
        priority_factor=-3,
    )


def test_absent_files_are_unknown_not_zero() -> None:
    status = parse_job_status({"used_CPU": b"0"}, allocated_cpus=8)
    assert dataclasses.asdict(status).pop("used_cpu") == 0
    assert all(
        getattr(status, each.name) is None for each in dataclasses.fields(status) if each.name != "used_cpu"
    )


def test_the_table_and_the_record_have_the_same_fields() -> None:
    assert [key.field for key in STATUS_KEYS] == [each.name for each in dataclasses.fields(JobStatus)]
    assert [key.section for key in STATUS_KEYS] == [f"3.{number}" for number in range(1, 10)]


@pytest.mark.parametrize("content", [b"5", b"5\n", b" 5\n", b"5 \n", b"\t5", b"005\n"])
def test_a_number_is_one_word_on_one_line(content: bytes) -> None:
    assert parse_job_status({"used_CPU": content}, allocated_cpus=8).used_cpu == 5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"5\n\n",
        b"5\n6\n",
        b"5\r\n",
        b"5 6",
        b"5.0",
        b"5e0",
        b"0x5",
        b"+5",
        b"five",
        b"5\x00",
        b"\xff",
        b"True",
        b"1_0",
        "٥".encode(),
        b"- 5",
    ],
)
def test_what_is_not_an_integer_is_refused(content: bytes) -> None:
    assert reason_of({"used_CPU": content}) is StatusReason.NOT_AN_INTEGER


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("used_CPU", b"-1"),
        ("add_uncom_time", b"-5"),
        ("add_final_exp_waste", b"9223372036854775808"),
        ("add_uncom_time", b"9" * 60),
        ("priority_factor", b"-" + b"9" * 19),
        ("last_job_start", b"-1"),
        ("last_max_job_end", b"1700000000000"),  # milliseconds
    ],
)
def test_numbers_out_of_range_are_refused(name: str, content: bytes) -> None:
    assert reason_of({"used_CPU": b"1", name: content}) is StatusReason.OUT_OF_RANGE


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("priority_factor", b"+7\n"),
        ("priority_factor", f"-{MAX_INTEGER}".encode()),
        ("add_uncom_time", str(MAX_INTEGER).encode()),
        ("last_max_job_end", str(MAX_EPOCH_SECS).encode()),
        ("last_job_start", b"0"),
    ],
)
def test_numbers_at_the_edges_are_taken(name: str, content: bytes) -> None:
    status = parse_job_status({"used_CPU": b"1", name: content}, allocated_cpus=None)
    assert getattr(status, name) == int(content)


@pytest.mark.parametrize("content", [b"true", b"TRUE", b"1", b"0", b"yes", b"", b"True False", b"False\n\n"])
def test_only_true_and_false_spelt_as_in_the_draft_are_booleans(content: bytes) -> None:
    assert reason_of({"used_CPU": b"1", "can_postpone_last_job": content}) is StatusReason.NOT_A_BOOLEAN


def test_one_bad_value_costs_the_whole_set() -> None:
    assert reason_of({**FULL, "priority_factor": b"high"}) is StatusReason.NOT_AN_INTEGER


def test_a_set_without_used_cpu_is_refused() -> None:
    assert reason_of({"last_job_start": b"1"}) is StatusReason.MISSING_USED_CPU


def test_more_cpus_than_allocated_are_refused_where_the_allocation_is_known() -> None:
    values = {"used_CPU": b"9"}
    assert reason_of(values, allocated_cpus=8) is StatusReason.USED_EXCEEDS_ALLOCATED
    assert parse_job_status(values, allocated_cpus=9).used_cpu == 9
    assert parse_job_status(values, allocated_cpus=None).used_cpu == 9


def test_the_first_expected_end_is_not_after_the_last() -> None:
    values = {"used_CPU": b"1", "first_exp_job_end": b"200", "last_exp_job_end": b"100"}
    assert reason_of(values) is StatusReason.ENDS_OUT_OF_ORDER
    assert parse_job_status({**values, "last_exp_job_end": b"200"}, allocated_cpus=1).last_exp_job_end == 200


def test_an_estimate_beyond_the_enforced_end_is_the_pilots_business() -> None:
    values = {"used_CPU": b"1", "last_exp_job_end": b"200", "last_max_job_end": b"100"}
    assert parse_job_status(values, allocated_cpus=1).last_max_job_end == 100


def test_the_error_names_the_key_and_shows_the_text_escaped() -> None:
    with pytest.raises(ParseError, match=re.escape("JOBSTATUS:used_CPU: not an integer: 'a\\nb\\\\xff'")):
        parse_job_status({"used_CPU": b"a\nb\xff"}, allocated_cpus=1)


def test_an_empty_directory_and_a_file_made_to_be_locked_are_not_yet_a_status() -> None:
    assert is_unwritten({})
    assert is_unwritten({"used_CPU": b""})
    assert not is_unwritten({"used_CPU": b"\n"})
    assert not is_unwritten({"used_CPU": b"", "last_job_start": b"1"})
    assert not is_unwritten({"last_job_start": b""})


PLAUSIBLE = st.one_of(
    st.binary(max_size=24),
    st.integers(-(2**65), 2**65).map(lambda number: str(number).encode()),
    st.sampled_from([b"True", b"False", b"5\n", b"1700000000\n"]),
)
NAMES = st.sampled_from([*(key.name for key in STATUS_KEYS), "other"])


@given(st.dictionaries(NAMES, PLAUSIBLE), st.none() | st.integers(0, 10))
def test_any_bytes_give_a_record_or_a_violation(values: dict[str, bytes], allocated_cpus: int | None) -> None:
    violation = None
    try:
        status = parse_job_status(values, allocated_cpus=allocated_cpus)
    except StatusViolation as error:
        violation = error
    if violation is not None:
        assert violation.reason_code in StatusReason
        assert str(violation).isprintable()
        return
    assert status.used_cpu >= 0
    assert allocated_cpus is None or status.used_cpu <= allocated_cpus


@given(st.data())
def test_what_is_written_is_what_is_read(data: st.DataObject) -> None:
    values: dict[str, bytes] = {}
    expected: dict[str, int | bool] = {}
    for key in STATUS_KEYS:
        if key.name == "first_exp_job_end":  # its order with last_exp_job_end has its own test
            continue
        kind = st.booleans() if key.value_type == "boolean" else st.integers(key.lowest, key.highest)
        if key.name == "used_CPU" or data.draw(st.booleans()):
            expected[key.field] = data.draw(kind)
            values[key.name] = f"{expected[key.field]}\n".encode()
    status = parse_job_status(values, allocated_cpus=None)
    known = {name: value for name, value in dataclasses.asdict(status).items() if value is not None}
    assert known == expected
