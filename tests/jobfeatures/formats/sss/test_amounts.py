"""Units, use over time, room to grow. Expected values are counted by hand."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.amounts import amount_of, growth_bounds, used_over_time
from jobfeatures.formats.sss.objects import Property


@pytest.mark.parametrize(
    ("each", "amount"),
    [
        (Property("Memory", Decimal(2)), 2 * 2**20),
        (Property("Swap", Decimal("0.5"), {"units": "GB"}), 2**29),
        (Property("Disk", Decimal(3), {"units": "DB"}), 3 * 2**100),
        (Property("Duration", 90), 90),
        (Property("Duration", 2, {"units": "hours"}), 7200),
        (Property("Processors", 8), 8),
        (Property("Network", Decimal("1.5")), Fraction(3, 2)),
        (Property("Network", Decimal("1.5"), {"units": "KB"}), 1536),
        (Property("Resource", Decimal(1), {"name": "Tape", "units": "TB"}), 2**40),
        (Property("Resource", Decimal(1), {"name": "License", "units": "seats"}), 1),
    ],
)
def test_amounts_are_bytes_seconds_or_numbers(each, amount):
    assert amount_of(each) == amount


@pytest.mark.parametrize("value", ["8", True, ("a",)])
def test_what_is_no_number_has_no_amount(value):
    with pytest.raises(ParseError, match="not an amount"):
        amount_of(Property("Processors", value))


def test_use_over_time_is_amount_times_seconds_times_rate():
    each = Property("Processors", 4, {"duration": 1234, "consumptionRate": Decimal("0.63")})
    assert used_over_time(each, 9999) == Fraction(310968, 100)
    assert used_over_time(Property("Processors", 4), 100) == 400


def test_a_dynamic_resource_has_room_between_its_bounds():
    def requests(*said: tuple[str, int]):
        return [Property("Processors", number, {"op": op, "dynamic": True}) for op, number in said]

    key = ("Processors",)
    assert growth_bounds(requests(("GE", 8), ("LE", 16)), key) == (8, 16)
    assert growth_bounds(requests(("GE", 8)), key) == (8, None)
    assert growth_bounds(requests(("LT", 8), ("LE", 6)), key) == (None, 6)
    assert growth_bounds(requests(("EQ", 8)), key) == (8, 8)
    with pytest.raises(ParseError, match="needs dynamic"):
        growth_bounds([Property("Processors", 8)], key)
