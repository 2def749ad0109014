"""One card's counters, integrated over its readings. Does no I/O, but keeps state."""

from __future__ import annotations

from dataclasses import replace

from jobfeatures_exporter.sampling.gpu import CLOCK_REASON
from jobfeatures_exporter.snapshot import GpuCount, GpuSample


class CardMeter:
    """Turns what a driver reports about one card into counters, which start at our first reading.

    Busy seconds are utilisation times the time since the previous reading; so are the seconds of each clock
    reason. Joules are the increase of the driver's counter if it had one at the first reading, else power
    times time. Nothing is integrated over a gap longer than three intervals, as what happened in it is
    unknown.
    """

    def __init__(self, max_gap_secs: float) -> None:
        self._max_gap_secs = max_gap_secs
        self._read_secs: float | None = None
        self._counter: float | None = None  # the driver's, at the latest reading that had it
        self._has_counter: bool | None = None
        self._busy_secs: float | None = None
        self._joules: float | None = None
        self._reason_secs: dict[GpuCount, float] = {}

    def update(self, sample: GpuSample, monotonic_secs: float) -> GpuSample:
        """Return a reading with its counters; one that is unavailable now is None and continues later."""
        elapsed = 0.0 if self._read_secs is None else monotonic_secs - self._read_secs
        self._read_secs = monotonic_secs
        counted = elapsed if 0.0 < elapsed <= self._max_gap_secs else 0.0
        if sample.ce_util_percent is not None:
            self._busy_secs = (self._busy_secs or 0.0) + sample.ce_util_percent / 100 * counted
        power = sample.power_watts
        if self._has_counter is None and (sample.energy_joules is not None or power is not None):
            self._has_counter = sample.energy_joules is not None
        if self._has_counter:
            grown = self._growth(sample.energy_joules)
            if power is None and grown is not None and counted:
                power = grown / counted
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

    def _growth(self, counter: float | None) -> float | None:
        """Return the joules since the previous reading; a counter that decreased was reset."""
        if counter is None:
            return None
        before, self._counter = self._counter, counter
        grown = None if before is None else (counter - before if counter >= before else counter)
        self._joules = (self._joules or 0.0) + (grown or 0.0)
        return grown
