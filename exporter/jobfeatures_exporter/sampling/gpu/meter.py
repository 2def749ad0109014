"""Computes the counters of one GPU card from its successive readings. No I/O, but it keeps state."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from jobfeatures_exporter.model.snapshot import GpuCount, GpuSample
from jobfeatures_exporter.sampling.gpu import CLOCK_REASON
from jobfeatures_exporter.sampling.gpu.bounds import COUNTER_SECS, Count, bounded, most_watts


class CardMeter:
    """Turns what a driver reports about one card into counters, which start at 0 at the first reading.

    Busy seconds are utilisation times the seconds since the previous reading; the seconds for which each
    reason has throttled the clock are counted likewise. Joules are the increase of the driver's counter if
    the first reading had one, else power times seconds. Nothing is counted for a gap longer than three
    intervals, as what happened then is unknown. An increase in joules that no card can draw is refused, and
    not added.

    `max_gap_secs` is the longest gap, and `count` is called with the name of each refused figure.
    """

    def __init__(self, max_gap_secs: float, count: Count = lambda name: None) -> None:
        self._max_gap_secs = max_gap_secs
        self._count = count
        self._read_secs: float | None = None
        self._counters: list[_Counter] = []  # the driver's, when it was last read, and before that
        self._has_counter: bool | None = None
        self._busy_secs: float | None = None
        self._joules: float | None = None
        self._reason_secs: dict[GpuCount, float] = {}

    def update(self, sample: GpuSample, monotonic_secs: float) -> GpuSample:
        """Return a new reading with the counters up to now; a counter that cannot be updated now is None."""
        sample = bounded(sample, self._count)
        elapsed = 0.0 if self._read_secs is None else monotonic_secs - self._read_secs
        self._read_secs = monotonic_secs
        counted = elapsed if 0.0 < elapsed <= self._max_gap_secs else 0.0
        if sample.ce_util_percent is not None:
            self._busy_secs = (self._busy_secs or 0.0) + sample.ce_util_percent / 100 * counted
        power = sample.power_watts
        if self._has_counter is None and (sample.energy_joules is not None or power is not None):
            self._has_counter = sample.energy_joules is not None
        if self._has_counter:
            grown = self._growth(sample, monotonic_secs)
            if power is None and grown is not None and 0.0 < grown[1] <= self._max_gap_secs:
                power = grown[0] / grown[1]
        elif power is not None:
            self._joules = (self._joules or 0.0) + power * counted
        reasons: dict[GpuCount, float] = {
            (CLOCK_REASON, reason): self._reason_secs.get((CLOCK_REASON, reason), 0.0) + counted * holds
            for reason, holds in sample.clock_reasons.items()
        }
        self._reason_secs.update(reasons)
        has_energy = sample.energy_joules is not None if self._has_counter else power is not None
        return replace(
            sample,
            power_watts=power,
            busy_secs=None if sample.ce_util_percent is None else self._busy_secs,
            energy_joules=self._joules if has_energy else None,
            counts={**sample.counts, **reasons} if reasons else sample.counts,
        )

    def _growth(self, sample: GpuSample, now_secs: float) -> tuple[float, float] | None:
        """Return the joules since an earlier reading, and the seconds; None if they cannot be known.

        A counter that decreased was reset, nobody knows when: its joules count, but give no power. An
        impossible reading is skipped.
        """
        counter = sample.energy_joules
        if counter is None:
            return None
        now = _Counter(counter, now_secs, self._joules or 0.0)
        most, found = most_watts(sample), None
        for before in self._counters:
            found = _fits(counter - before.joules, now_secs - before.read_secs, most)
            if found is not None:
                now = now._replace(total=max(now.total, before.total + found[0]))
                break
        if found is None and self._counters:
            last = self._counters[0]
            anew = _fits(counter, now_secs - last.read_secs, most) if counter < last.joules else None
            if anew is None:
                self._count("gpu_refused_energy_joules")
            else:
                now = now._replace(total=now.total + anew[0])
        self._joules, self._counters = now.total, [now, *self._counters[:1]]
        return found


class _Counter(NamedTuple):
    """A reading of the driver's counter, and our own total then."""

    joules: float
    read_secs: float
    total: float


def _fits(grown: float, secs: float, most_watts: float) -> tuple[float, float] | None:
    possible = 0 <= grown <= most_watts * (max(0.0, secs) + COUNTER_SECS)
    return (grown, secs) if possible else None
