"""Values by key, and sums of what is known."""

import pytest

from jobfeatures.records.combining import grouped, sum_known


def test_the_values_of_a_key_come_together_in_their_order():
    found = grouped([("b", 1), ("a", 2), ("b", 3)])
    assert list(found.items()) == [("b", [1, 3]), ("a", [2])]
    assert grouped(()) == {}


@pytest.mark.parametrize(
    ("values", "total"), [([], None), ([None], None), ([None, 0], 0), ([1, None, 2], 3), ([0.5], 0.5)]
)
def test_a_sum_of_nothing_known_is_not_known(values, total):
    assert sum_known(iter(values)) == total
