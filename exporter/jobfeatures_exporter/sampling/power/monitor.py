"""Runs the power sensors, each in a thread of its own, so that no sample or scrape waits for one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.measured import BoardSample
from jobfeatures_exporter.model.snapshot import JobSample, Snapshot, WorkKey
from jobfeatures_exporter.sampling.power import SOURCES
from jobfeatures_exporter.sampling.power.energy import BoardEnergy, card_joules, used_secs_of
from jobfeatures_exporter.sampling.steadyreader import SteadyReader

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.power import PowerSettings

STALE_INTERVALS = 3  # maximum age of a reading, and maximum gap between two samples that is counted
PDU = "pdu"  # the best other source, times the configured factor for losses between it and the mains


class PowerReader(SteadyReader):
    """Reads a power sensor at intervals, in a thread; `make` finds it, and returns what tells its watts."""

    kind = "sensor of power"

    def __init__(
        self, name: str, make: Callable[[], Callable[[], float]], clock: Clock, interval_secs: float
    ):
        super().__init__(name, clock, interval_secs)
        self._make = make
        self._sensor: Callable[[], float] | None = None
        self._latest = 0.0

    @property
    def watts(self) -> float | None:
        """Return the watts of the sensor's latest reading; None if it is too old or failed."""
        return self._latest if self.answered_within(STALE_INTERVALS * self._interval_secs) else None

    def close(self) -> None:
        """Release the sensor; the next reading searches for it again."""
        self._sensor = None

    def _read(self) -> None:
        if self._sensor is None:
            self._sensor = self._make()
        self._latest = self._sensor()


class PowerMonitor:
    """Runs all configured power sensors, and divides the energy that they measure among jobs.

    Between two samples the machine is assumed to draw the power of the latest reading.
    """

    def __init__(
        self, config: PowerSettings, clock: Clock, *, sysfs: str, sample_interval_secs: float
    ) -> None:
        self._clock = clock
        self._includes_gpus = config.includes_gpus
        self._factor = None if config.pdu_factor is None else float(config.pdu_factor)
        self._max_gap_secs = STALE_INTERVALS * max(sample_interval_secs, config.interval_secs)
        self.readers = [
            PowerReader(name, partial(_make, name, config, sysfs), clock, config.interval_secs)
            for name in SOURCES
            if name in config.sources
        ]
        self._sampled_secs: float | None = None  # monotonic
        self._joules: dict[str, float] = {}
        self._energies: dict[str, BoardEnergy] = {}
        self._last: Mapping[JobKey, Mapping[str, float]] = {}

    def start(self) -> None:
        """Start the sensors' threads."""
        for reader in self.readers:
            reader.start()

    def stop(self, timeout_secs: float = 2.0) -> None:
        """Stop the sensors' threads, waiting `timeout_secs` for each; one that hangs is abandoned."""
        for reader in self.readers:
            reader.stop(timeout_secs)

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the machine's power and jobs' joules added. Only one thread calls this."""
        if not self.readers or snapshot.node is None:
            return snapshot
        watts = self._watts()
        now_secs = self._clock.monotonic_secs()
        elapsed = 0.0 if self._sampled_secs is None else now_secs - self._sampled_secs
        counted = elapsed if 0.0 < elapsed <= self._max_gap_secs else 0.0
        self._sampled_secs = now_secs
        cards, used_cards = card_joules(snapshot) if self._includes_gpus else ({}, {})
        used_secs = used_secs_of(snapshot.jobs)
        by_job: dict[JobKey, dict[str, float]] = {}
        for source, drawn in watts.items():
            self._joules[source] = self._joules.get(source, 0.0) + drawn * counted
        for source, joules in self._joules.items():
            shares = self._energies.setdefault(source, BoardEnergy()).update(
                joules=joules, cpu=snapshot.node.cpu, used_secs=used_secs, cards=cards, used_cards=used_cards
            )
            for (key, _), share in shares.items():
                by_job.setdefault(key, {})[source] = share
        final = {
            key: replace(each, board_joules=self._last.get(key, {})) for key, each in snapshot.final.items()
        }
        self._last = by_job
        jobs: dict[WorkKey, JobSample] = {
            key: replace(snapshot.jobs[key], board_joules=mine) for key, mine in by_job.items()
        }
        board = BoardSample(
            watts=watts,
            joules=dict(self._joules),
            up={reader.name: reader.watts is not None for reader in self.readers},
        )
        return replace(
            snapshot, node=replace(snapshot.node, board=board), jobs={**snapshot.jobs, **jobs}, final=final
        )

    def _watts(self) -> dict[str, float]:
        found = {reader.name: watts for reader in self.readers if (watts := reader.watts) is not None}
        if self._factor is not None and found:
            found[PDU] = next(iter(found.values())) * self._factor
        return found


def _make(name: str, config: PowerSettings, sysfs: str) -> Callable[[], float]:
    read: Callable[[], float] = importlib.import_module(f"jobfeatures_exporter.sampling.power.{name}").make(
        config, sysfs
    )
    return read
