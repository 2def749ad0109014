"""What has been counted of a schedule does not fall: Prometheus takes a fall for a restart of counting. Pure.

Then it would take all that was counted before for new. A job that ended and
was queued anew, or whose record was corrected, is taken back in the schedule's
own figures; what is shown stands still until other jobs have made up for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from jobfeatures.schedule.quality import Histogram, ScheduleQuality


def compute_shown(before: ScheduleQuality | None, found: ScheduleQuality) -> ScheduleQuality:
    """Return what is shown of what was found, after `before` has been shown."""
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
    """Return those of `found`, which has all partitions that `before` has."""
    return {
        partition: _histogram(before[partition], each) if partition in before else each
        for partition, each in found.items()
    }


def _histogram(before: Histogram, found: Histogram) -> Histogram:
    classes = map(max, _classes(before), _classes(found))
    return Histogram(found.bounds, tuple(accumulate(classes)), max(before.sum, found.sum))


def _classes(histogram: Histogram) -> list[int]:
    """Return how many values are in each class alone."""
    return [count - below for below, count in zip((0, *histogram.counts), histogram.counts, strict=False)]
