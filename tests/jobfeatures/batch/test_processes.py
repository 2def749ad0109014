import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.processes import parse_real_uid
from jobfeatures.errors import ParseError


def test_the_real_user_is_the_first():
    assert parse_real_uid(b"Name:\tx\nUid:\t6001\t0\t0\t0\n") == 6001


def test_a_name_says_nothing_about_the_user():
    with pytest.raises(ParseError):
        parse_real_uid(b"Name:\tUid:\t0\t0\t0\t0\n")
    assert parse_real_uid(b"Uid:\t0\t0\t0\t0\nUid:\t7\t0\t0\t0\n") == 7


@given(st.binary() | st.text(alphabet="Uid:\t \n0123456789", max_size=200).map(str.encode))
def test_any_bytes_give_a_user_or_the_error(data):
    try:
        assert parse_real_uid(data) >= 0
    except ParseError:
        pass
