"""Values by key, and what is known of several."""

import pytest

from jobfeatures.records.combining import grouped, max_known, sum_known


def test_the_values_of_a_key_come_together_in_their_order():
    found = grouped([("b", 1), ("a", 2), ("b", 3)])
    assert list(found.items()) == [("b", [1, 3]), ("a", [2])]
    assert grouped(()) == {}


@pytest.mark.parametrize(
    ("values", "total"), [([], None), ([None], None), ([None, 0], 0), ([1, None, 2], 3), ([0.5], 0.5)]
)
def test_a_sum_of_nothing_known_is_not_known(values, total):
    assert sum_known(iter(values)) == total


@pytest.mark.parametrize(
    ("values", "largest"), [([], None), ([None], None), ([None, 0], 0), ([1, None, 2], 2), ([-0.5], -0.5)]
)
def test_the_largest_of_nothing_known_is_not_known(values, largest):
    assert max_known(*values) == largest
