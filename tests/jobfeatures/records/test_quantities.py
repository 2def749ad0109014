import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import counted, parse_binary_size, parse_count, parse_slurm_duration


@pytest.mark.parametrize(
    ("text", "secs"),
    [
        ("30", 1800),
        ("30:00", 1800),
        ("03:00:00", 10800),
        ("4-03", 356400),
        ("4-03:00", 356400),
        ("4-03:00:00", 356400),
        ("0", 0),
        ("00:00.012", 0),
        ("1-02:04:00", 93840),
    ],
)
def test_every_form_of_a_slurm_duration_is_read(text, secs):
    assert parse_slurm_duration(text) == secs


def test_a_bare_number_counts_in_the_unit_of_its_place():
    assert parse_slurm_duration("90", bare_unit_secs=1) == 90


@pytest.mark.parametrize(
    "text", ["", "UNLIMITED", "-1", "1:2:3:4", "1-", "٣", "1 ", "99999999999-0", "INVALID"]
)
def test_what_is_not_a_duration_is_refused_with_its_text(text):
    with pytest.raises(ParseError) as caught:
        parse_slurm_duration(text, field="TimeLimit")
    assert "TimeLimit" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("100M", 100 * 2**20), ("1.5G", 3 * 2**29), ("4GB", 2**32), ("7", 7), ("2k", 2048), ("9B", 9)],
)
def test_sizes_with_binary_letters_are_bytes(text, number):
    assert parse_binary_size(text) == number


def test_a_bare_size_counts_in_the_unit_of_its_place():
    assert parse_binary_size("100", bare_unit="M") == 100 * 2**20


@given(st.text(max_size=20))
def test_any_text_is_a_value_or_a_parse_error(text):
    for parse in (parse_count, parse_slurm_duration, parse_binary_size):
        try:
            assert parse(text) >= 0
        except ParseError:
            pass


@given(st.integers(0, 2**63 - 1))
def test_counts_come_back(number):
    assert parse_count(str(number)) == number


@pytest.mark.parametrize("text", ["+1", "-1", " 1", "1_000", "٣", "", "9223372036854775808", "1" * 30])
def test_counts_are_plain_ascii_digits_of_63_bits(text):
    with pytest.raises(ParseError):
        parse_count(text)


def test_a_count_has_its_noun_in_the_right_number():
    assert [counted(number, "job") for number in (0, 1, 2000)] == ["0 jobs", "1 job", "2,000 jobs"]
