"""Ends by job number, beside a dictionary."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.swf.endtimes import MAX_GAP, EndTimes
from tests.held import things_held

NUMBERS = st.integers(-3, 12) | st.sampled_from([MAX_GAP, MAX_GAP + 20, 10**12, 2**64])
ENDS = st.none() | st.integers(-(2**64), 2**64) | st.sampled_from([-(2**63), 1 - 2**63, 2.5, 7.0])


@given(st.lists(st.tuples(NUMBERS, ENDS), max_size=20))
def test_it_holds_what_a_dictionary_does(given_ends):
    ends, expected = EndTimes(), {}
    for number, end in given_ends:
        ends[number] = expected[number] = end
        assert (len(ends), ends[number], type(ends[number])) == (len(expected), end, type(end))
    for number in {*range(-3, 13), MAX_GAP, MAX_GAP + 20, 10**12, 2**64}:
        assert (number in ends) == (number in expected)
        if number in expected:
            assert ends[number] == expected[number]
        else:
            with pytest.raises(KeyError):
                ends[number]


def test_numbers_that_count_on_take_eight_bytes_each_gaps_aside():
    ends = EndTimes()
    for number in range(1, 100_000, 2):
        ends[number] = 10**9 + number
    assert sum(map(sys.getsizeof, things_held(ends))) < 9.5 * 100_000 + 1000
