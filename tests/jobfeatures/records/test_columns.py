"""Columns come back from bytes as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.columns import are_same, pack, unpack

SAME_BUT_FOR_TYPES = st.sampled_from([0, 0.0, False, 1, 1.0, True, None, "a", (), ("a",), (1,), (1.0,)])


@given(st.lists(st.lists(SAME_BUT_FOR_TYPES, min_size=3, max_size=3), max_size=4))
def test_columns_keep_their_values_and_the_types_of_these(columns):
    named = {str(place): column for place, column in enumerate(columns)}
    assert repr(unpack(pack(named), 3)) == repr(named)


def test_equal_values_take_the_room_of_one():
    assert len(pack({"x": [10**9] * 1000})) < 100 < len(pack({"x": [*range(1000)]}))


@pytest.mark.parametrize(
    ("column", "expected"), [([1, 1], True), ([1, 1.0], False), ([1, True], False), ([1, 2], False)]
)
def test_values_are_the_same_only_with_their_types(column, expected):
    assert are_same(column) is expected
