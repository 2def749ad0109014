"""Runs each GPU driver in a thread of its own: a driver that hangs affects only its own metrics."""

from __future__ import annotations

import importlib
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from jobfeatures.errors import shown
from jobfeatures.records.model import Job, JobKey
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.snapshot import GpuCard, GpuSample, JobGpu, Snapshot
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu import DRIVERS, NO_GPUS, Driver, Paths
from jobfeatures_exporter.sampling.gpu.jobmap import JobMap, map_jobs
from jobfeatures_exporter.sampling.gpu.meter import CardMeter
from jobfeatures_exporter.sampling.steadyreader import SteadyReader

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.gpu.jobuse import GpuBook

log = logging.getLogger(__name__)

AUTO = "auto"
DEADLINE_SECS = 5.0  # a driver without a reading for its interval and this time is reported as down
ABSENT_INTERVALS = 6  # a card that was not read for so many intervals is omitted, but not before
ABSENT_SECS = 60.0
GAP_INTERVALS = 3  # nothing is counted in a longer gap between two readings of a card
MAX_READINGS = 4096  # waiting for attribution


class DriverReader(SteadyReader):
    """Reads the cards of one driver in a thread; any thread may read `latest`, which has samples by UUID.

    `make` creates the driver, and creates it again after a failure.
    """

    kind = "driver"

    def __init__(
        self, name: str, make: Callable[[Unreadable], Driver], clock: Clock, interval_secs: float
    ) -> None:
        super().__init__(name, clock, interval_secs)
        self.latest: Mapping[str, GpuSample] = {}  # by UUID
        self.fresh: deque[GpuSample] = deque(maxlen=MAX_READINGS)  # not attributed yet
        self.unreadable = Unreadable()
        self._make = make
        self._driver: Driver | None = None
        self._meters: dict[str, CardMeter] = {}
        self._answered: set[str] = set()  # cards that have answered once
        self._missing: set[str] = set()  # cards that have never, or are no longer there

    @property
    def is_up(self) -> bool:
        """Return whether the driver's latest reading is recent enough and no card was missing in it."""
        return not self._missing and self.answered_within(self._interval_secs + DEADLINE_SECS)

    def close(self) -> None:
        """Close the driver; the next reading creates it again."""
        driver, self._driver = self._driver, None
        if driver is None:
            return
        try:
            driver.close()
        except Exception:  # supervised, like reading
            log.exception("cannot close the GPU driver", extra={"source": self.name})

    def _read(self) -> None:
        if self._driver is None:
            self._driver = self._make(self.unreadable)
            self._answered.clear()  # it may have been loaded anew, without some of the cards
        read: dict[str, GpuSample] = {}
        for reading in self._driver.read():
            uuid = reading.card.uuid
            meter = self._meters.get(uuid)
            if meter is None:
                meter = self._meters[uuid] = CardMeter(
                    self._interval_secs * GAP_INTERVALS, self.unreadable.count
                )
            sample = meter.update(reading, self._clock.monotonic_secs())
            read[uuid] = sample
            self.latest = {**self.latest, uuid: sample}
            self.fresh.append(sample)
        self.latest = read
        cards = {uuid for uuid, sample in read.items() if sample.card.parent_uuid is None}
        self._answered |= {uuid for uuid in cards if not read[uuid].failing}
        missing = self._answered ^ cards
        if missing - self._missing:
            log.warning(
                "GPUs that answered before are no longer found: %s",
                shown(", ".join(sorted(missing)), 240),
                extra={"source": self.name},
            )
        self._missing = missing


class GpuMonitor:
    """Reads all GPU drivers of this node, and attributes the use of their cards to jobs.

    `names` has names of drivers, ``auto`` (all whose kernel module is loaded) or ``none``. Modules and
    threads of other drivers are neither imported nor started.
    """

    def __init__(
        self,
        names: Collection[str],
        clock: Clock,
        *,
        interval_secs: float,
        paths: Paths | None = None,
        job_map: str | None = None,
        detail: bool = False,
    ) -> None:
        self._paths = paths or Paths()
        self._job_map = None if job_map is None else JobMap(job_map)
        self._clock = clock
        self._interval_secs = interval_secs
        self._detail = detail
        self._unreadable = Unreadable()
        self.readers = [self._reader(name) for name in chosen_drivers(names, self._paths)]

    def start(self) -> None:
        """Start the drivers' threads."""
        for reader in self.readers:
            reader.start()

    def stop(self, timeout_secs: float = 2.0) -> None:
        """Stop the drivers' threads, waiting `timeout_secs` for each; one that hangs is abandoned."""
        for reader in self.readers:
            reader.stop(timeout_secs)
        if self._job_map is not None:
            self._job_map.write({})  # from now on nothing would remove jobs that end

    def fill(self, snapshot: Snapshot, jobs: Mapping[JobKey, Job]) -> Snapshot:
        """Return the snapshot with the cards' latest readings and each job's use of them.

        Only one thread may call this.
        """
        if not self.readers:
            self._write_job_map((), ())
            return snapshot
        from jobfeatures_exporter.sampling.gpu.allocated import compute_allocations, read_gpustat

        now_secs = self._clock.now_secs()
        oldest_secs = now_secs - max(ABSENT_SECS, ABSENT_INTERVALS * self._interval_secs)
        latest = [
            sample
            for reader in self.readers
            for sample in reader.latest.values()
            if sample.taken_at_secs >= oldest_secs
        ]
        fresh: list[GpuSample] = []
        for reader in self.readers:
            while reader.fresh:
                fresh.append(reader.fresh.popleft())
        allocations = compute_allocations(
            jobs, [sample.card for sample in latest], read_gpustat(self._paths.gpustat, self._unreadable)
        )
        job_gpus, unattributed = self._book.update(
            fresh,
            latest,
            key_of=snapshot.key_of,
            allocations=allocations,
            runs={key: each.run for key, each in snapshot.jobs.items()},
        )
        self._write_job_map([sample.card for sample in latest], job_gpus)
        unreadable = Counter(snapshot.unreadable)
        for source in (self._unreadable, *(reader.unreadable for reader in self.readers)):
            unreadable.update(dict(source.counts))
        return replace(
            snapshot,
            gpus=tuple(latest),
            job_gpus=job_gpus,
            gpu_unattributed=unattributed,
            gpu_drivers={reader.name: reader.is_up for reader in self.readers},
            unreadable=unreadable,
        )

    @cached_property
    def _book(self) -> GpuBook:
        from jobfeatures_exporter.sampling.gpu.jobuse import GpuBook

        return GpuBook(self._interval_secs * GAP_INTERVALS)

    def _write_job_map(self, cards: Sequence[GpuCard], uses: Sequence[JobGpu]) -> None:
        if self._job_map is not None:
            self._job_map.write(map_jobs(cards, uses))

    def _reader(self, name: str) -> DriverReader:
        def make(unreadable: Unreadable) -> Driver:
            module = importlib.import_module(f"jobfeatures_exporter.sampling.gpu.{name}")
            driver: Driver = module.make_driver(self._paths, self._clock, unreadable, detail=self._detail)
            return driver

        return DriverReader(name, make, self._clock, self._interval_secs)


def chosen_drivers(names: Collection[str], paths: Paths) -> list[str]:
    """Return the drivers that `names` selects, in the order of `DRIVERS`; see `GpuMonitor`."""
    if NO_GPUS in names:
        return []
    return [name for name in DRIVERS if name in names or (AUTO in names and is_loaded(name, paths))]


def is_loaded(name: str, paths: Paths) -> bool:
    """Return whether the kernel module of this driver, one of `DRIVERS`, is loaded."""
    return any(os.path.exists(path.format(**paths._asdict())) for path in DRIVERS[name])
