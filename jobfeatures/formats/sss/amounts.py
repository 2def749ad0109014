"""Computes amounts of consumable resources: in base units, used over time, and bounds of growth.

Pure, and exact. Source: SSS Job Object Specification 3.1.0, section 5.1 (Consumable Resources) and appendix
A. Without units, Memory, Swap and Disk are in megabytes (2^20 bytes), a Duration is in seconds, and all
others are plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import Property
from jobfeatures.formats.sss.vocabulary import SIZE_UNITS, TIME_UNITS, UNITS

_SCALES = {**SIZE_UNITS, **TIME_UNITS}


def amount_of(each: Property) -> Fraction:
    """Return the amount of a property in bytes, in seconds, or as a plain number for all other units.

    Raises ParseError for a property that is not a number.
    """
    if isinstance(each.value, bool) or not isinstance(each.value, int | Decimal):
        raise each.error("not an amount", str(each.value))
    units = each.text("units") or UNITS.get(each.name, ({}, ""))[1]
    return Fraction(each.value) * _SCALES.get(units, 1)


def used_over_time(each: Property, job_secs: int) -> Fraction:
    """Return amount × seconds × rate of a consumable resource, a measure of what its use costs.

    The seconds are the resource's own duration if it has one, else `job_secs`, the job's. The rate is the
    resource's average utilization; 1 if it has none.
    """
    rate = each.attributes.get("consumptionRate", 1)
    share = Fraction(rate) if isinstance(rate, int | Decimal) else Fraction(1)
    return amount_of(each) * each.number("duration", job_secs) * share


def growth_bounds(
    requests: Iterable[Property], key: tuple[str, ...]
) -> tuple[Fraction | None, Fraction | None]:
    """Return the lower and the upper bound of a resource that may grow or shrink; None means no bound.

    `key` names the resource. Requests with GE and GT are lower bounds, with LE and LT upper bounds; without
    these, the request with EQ is both. Raises ParseError for a resource that is not declared dynamic.
    """
    found = [each for each in requests if each.key == key]
    if not any(each.attributes.get("dynamic") is True for each in found):
        raise ParseError('needs dynamic="true"', field=" ".join(key))
    lows = [amount_of(each) for each in found if each.text("op") in {"GE", "GT"}]
    highs = [amount_of(each) for each in found if each.text("op") in {"LE", "LT"}]
    if not lows and not highs:
        lows = highs = [amount_of(each) for each in found if each.text("op", "EQ") == "EQ"]
    return max(lows, default=None), min(highs, default=None)
