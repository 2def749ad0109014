"""Counts and sums that do not depend on the order of values: pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from jobfeatures.joblogs.loggedjob import Number
from jobfeatures.records.schedulequality import QUANTILES, Histogram


class Tally:
    """A histogram with an exact running sum, whatever the order of values."""

    __slots__ = ("_bounds", "_counts", "_sum", "_unit")

    def __init__(self, bounds: tuple[Number, ...], unit: int = 1) -> None:
        """Sum values in whole parts, of which `unit` make 1."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0
        self._unit = unit

    def add(self, value: Number, times: int) -> None:
        """Count a value `times` times; −1 takes it back."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += round(value * self._unit) * times

    def histogram(self) -> Histogram:
        """Return the histogram."""
        total = self._sum if self._unit == 1 else self._sum / self._unit
        return Histogram(self._bounds, tuple(accumulate(self._counts)), total)


def compute_quantiles(values: Iterable[float]) -> dict[float, float]:
    """Return `QUANTILES` of values, interpolated between neighbours; empty without values."""
    ordered = sorted(values)
    found = {}
    for at in QUANTILES if ordered else ():
        place = (len(ordered) - 1) * at
        below = int(place)
        low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
        found[at] = low + (high - low) * (place - below)
    return found


def compute_sum(values: Iterable[Number]) -> Number:
    """Return a sum that does not depend on the order."""
    found = list(values)
    return sum(found) if all(isinstance(each, int) for each in found) else math.fsum(found)
