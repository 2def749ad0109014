"""Keeps a schedule's counters from falling, which Prometheus takes for a counter reset. Pure.

A job that was requeued after its end, or whose record was corrected, is subtracted from the schedule's own
figures; the shown values stay constant until other jobs make up for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from jobfeatures.records.schedulequality import Histogram, ScheduleQuality


def compute_shown(before: ScheduleQuality | None, found: ScheduleQuality) -> ScheduleQuality:
    """Return the figures to show for `found`, none lower than in `before`, which were shown last."""
    if before is None:
        return found
    return replace(
        found,
        skipped={
            reason: max(before.skipped.get(reason, 0), found.skipped.get(reason, 0))
            for reason in sorted({*before.skipped, *found.skipped})
        },
        wait_secs=_histograms(before.wait_secs, found.wait_secs),
        slowdown=_histograms(before.slowdown, found.slowdown),
    )


def _histograms(before: Mapping[str, Histogram], found: Mapping[str, Histogram]) -> dict[str, Histogram]:
    """Return the histograms to show; `found` has all partitions of `before`."""
    return {
        partition: _histogram(before[partition], each) if partition in before else each
        for partition, each in found.items()
    }


def _histogram(before: Histogram, found: Histogram) -> Histogram:
    classes = map(max, _classes(before), _classes(found))
    return Histogram(found.bounds, tuple(accumulate(classes)), max(before.sum, found.sum))


def _classes(histogram: Histogram) -> list[int]:
    """Return the count of each class, not cumulative."""
    return [count - below for below, count in zip((0, *histogram.counts), histogram.counts, strict=False)]
