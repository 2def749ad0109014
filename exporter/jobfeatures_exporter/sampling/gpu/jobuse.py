"""Attributes the busy time, energy and memory of GPU cards to jobs. No I/O, but it keeps state."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from jobfeatures.records.combining import grouped
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import GpuCount, GpuProcess, GpuSample, JobGpu, WorkKey
from jobfeatures_exporter.sampling.gpu import LIFETIME_ECC, REMAPPED, XID

FOR_LIFE = frozenset({LIFETIME_ECC, REMAPPED})  # counts that a card keeps, which never begin anew

KeyOf = Callable[[int], WorkKey | None]
Account = tuple[tuple[JobGpu, ...], dict[str, int]]  # usage by job and card; unattributed processes by card


def compute_shares(
    processes: Collection[GpuProcess], key_of: KeyOf, allocated: Collection[JobKey]
) -> dict[WorkKey | None, float]:
    """Divide the use of one card among jobs, units and process groups; return the share of each (0 to 1).

    Shares are proportional to the utilisation of processes if the driver reports any. Otherwise all with
    processes on the card get equal shares. If there are no processes, the job that has the card allocated
    gets all; if there is no such job or several, the result is empty.

    `key_of` returns the job, unit or process group of a pid; None, for an unknown process, gets a share too.
    """
    weights: dict[WorkKey | None, float] = {}
    for process in processes:
        key = key_of(process.pid)
        weights[key] = weights.get(key, 0.0) + (process.ce_util_percent or 0.0)
    total = sum(weights.values())
    if total > 0:
        return {key: weight / total for key, weight in weights.items()}
    if weights:
        return dict.fromkeys(weights, 1 / len(weights))
    return dict.fromkeys(allocated, 1.0) if len(allocated) == 1 else {}


def find_holder(
    processes: Collection[GpuProcess], key_of: KeyOf, allocated: Collection[JobKey]
) -> WorkKey | None:
    """Return the only job, unit or process group with the card allocated or with processes on it.

    None if there is none, if there are several, or if a process is unknown.
    """
    holders = {*allocated, *(key_of(process.pid) for process in processes)}
    return holders.pop() if len(holders) == 1 else None


@dataclass(slots=True)
class _Meter:
    busy_secs: float | None = None
    joules: float | None = None
    seen_secs: float = 0.0  # when a card reported joules
    counts: dict[GpuCount, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Held:
    """A card's counts when it was last read, and the key that held it alone then."""

    holder: WorkKey | None = None
    counts: dict[GpuCount, float] = field(default_factory=dict)


class GpuBook:
    """Keeps what each job has used of each card: busy seconds, joules and the driver's optional counters."""

    def __init__(self, max_gap_secs: float = math.inf) -> None:
        """Start empty. After a gap longer than `max_gap_secs`, its joules go to no job that began in it."""
        self._max_gap_secs = max_gap_secs
        self._meters: dict[tuple[WorkKey, str], _Meter] = {}
        self._runs: Mapping[WorkKey, int] = {}
        self._before: dict[str, _Meter] = {}  # the latest counters that each card reported
        self._held: dict[str, _Held] = {}  # by card
        self._keys: dict[int, WorkKey] = {}  # of processes on cards

    def update(
        self,
        readings: Collection[GpuSample],
        latest: Collection[GpuSample],
        *,
        key_of: KeyOf,
        allocations: Mapping[JobKey, Collection[str]],
        runs: Mapping[WorkKey, int],
    ) -> Account:
        """Add cards' new `readings`, oldest first; return what each job has used of each card.

        `latest` has each card's current reading, `allocations` the UUIDs of each job's cards. `runs` has a
        number for each key that differs for each execution of a requeued job: counters restart at 0 when it
        changes. They are kept for the keys in `allocations` and `runs`. A process that has ended since it was
        seen on a card still belongs to its job. The second item of the result is how many processes on each
        card belong to nothing known.
        """
        self._begin(runs)
        whose = self._remembering(key_of, [*readings, *latest])
        owners = grouped((uuid, key) for key, uuids in allocations.items() for uuid in uuids)
        divided = {each.card.parent_uuid for each in [*readings, *latest]}
        for reading in readings:
            given = owners.get(reading.card.uuid, ())
            self._count(reading, whose, given)
            if reading.counts or reading.card.uuid in self._held:
                whole = reading.card.uuid not in divided
                self._count_alone(reading, find_holder(reading.processes, whose, given) if whole else None)
        known = {*runs, *allocations}
        self._meters = {place: meter for place, meter in self._meters.items() if place[0] in known}
        return self._account(latest, whose, allocations, known)

    def _begin(self, runs: Mapping[WorkKey, int]) -> None:
        """Forget what an earlier run of a key has used, had on cards, and held."""
        before, self._runs = self._runs, runs
        begun = {key for key, run in runs.items() if before.get(key, run) != run}
        if begun:
            self._meters = {place: meter for place, meter in self._meters.items() if place[0] not in begun}
            self._keys = {pid: key for pid, key in self._keys.items() if key not in begun}
            self._held = {u: _Held() if held.holder in begun else held for u, held in self._held.items()}

    def _remembering(self, key_of: KeyOf, readings: Collection[GpuSample]) -> KeyOf:
        pids = {process.pid for reading in readings for process in reading.processes}
        known: dict[int, WorkKey] = {}
        for pid in pids:
            key = key_of(pid)
            if key is None:
                key = self._keys.get(pid)
            if key is not None:
                known[pid] = key
        self._keys = known
        return known.get

    def _count(self, reading: GpuSample, whose: KeyOf, owners: Collection[JobKey]) -> None:
        uuid = reading.card.uuid
        before = self._before.setdefault(uuid, _Meter())
        busy = _growth(before.busy_secs, reading.busy_secs)
        joules = _growth(before.joules, reading.energy_joules)
        before.busy_secs = before.busy_secs if busy is None else reading.busy_secs
        is_gap = reading.taken_at_secs - before.seen_secs > self._max_gap_secs
        if joules is not None:
            before.joules, before.seen_secs = reading.energy_joules, reading.taken_at_secs
        for key, share in compute_shares(reading.processes, whose, owners).items():
            if key is None:
                continue
            known = self._meters.get((key, uuid))
            meter = self._meters.setdefault((key, uuid), _Meter())
            meter.joules = _sum(meter.joules, joules, 0.0 if is_gap and known is None else share)
            if reading.processes or busy:  # else the card was only allocated, not used
                meter.busy_secs = _sum(meter.busy_secs, busy, share)

    def _count_alone(self, reading: GpuSample, holder: WorkKey | None) -> None:
        """Attribute counts to the key that alone held the card at this and the previous reading, if any."""
        uuid = reading.card.uuid
        before = self._held.get(uuid, _Held())
        if holder is None or holder != before.holder:
            self._held[uuid] = _Held(holder, dict(reading.counts))
            return
        counts = self._meters[holder, uuid].counts
        for count, now in reading.counts.items():
            # XID codes have no counter until their first event.
            earlier = before.counts.get(count, 0 if count[0] == XID else now)
            grown = now - earlier
            if grown < 0:  # it began anew, unless it is a step back
                grown = 0 if count[0] in FOR_LIFE or now > earlier / 2 else now
            counts[count] = counts.get(count, 0) + grown
            before.counts[count] = max(now, earlier) if count[0] in FOR_LIFE else now

    def _account(
        self,
        latest: Collection[GpuSample],
        whose: KeyOf,
        allocations: Mapping[JobKey, Collection[str]],
        alive: Collection[WorkKey],
    ) -> Account:
        unattributed: dict[str, int] = {}
        memory: dict[tuple[WorkKey, str], int | None] = {}
        percents: dict[tuple[WorkKey, str], float | None] = {}
        for sample in latest:
            uuid = sample.card.uuid
            unattributed[uuid] = sum(whose(process.pid) is None for process in sample.processes)
            shares = compute_shares(
                sample.processes, whose, [key for key, uuids in allocations.items() if uuid in uuids]
            )
            for key, share in shares.items():
                if key is not None:
                    percents[key, uuid] = (
                        None if sample.ce_util_percent is None else share * sample.ce_util_percent
                    )
            for process in sample.processes:
                key = whose(process.pid)
                if key is not None:
                    known = memory.get((key, uuid))
                    used = process.memory_bytes
                    memory[key, uuid] = known if used is None else used + (known or 0)
        given = {(key, uuid) for key, uuids in allocations.items() for uuid in uuids}
        places = dict.fromkeys([*given, *memory, *self._meters])
        nothing = _Meter()
        job_gpus = [
            JobGpu(
                key=key,
                uuid=uuid,
                allocated=(key, uuid) in given,
                busy_secs=self._meters.get((key, uuid), nothing).busy_secs,
                energy_joules=self._meters.get((key, uuid), nothing).joules,
                memory_bytes=memory.get((key, uuid)),
                ce_util_percent=percents.get((key, uuid)),
                counts=dict(self._meters.get((key, uuid), nothing).counts),
            )
            for key, uuid in places
            if key in alive
        ]
        job_gpus.sort(key=lambda each: (type(each.key).__name__, str(each.key), each.uuid))
        return tuple(job_gpus), unattributed


def _growth(before: float | None, now: float | None) -> float | None:
    """Return the increase of a counter; None if it is not reported, 0 at its first reading."""
    if now is None:
        return None
    return 0.0 if before is None else max(0.0, now - before)


def _sum(counter: float | None, grown: float | None, share: float) -> float | None:
    return counter if grown is None else (counter or 0.0) + grown * share
