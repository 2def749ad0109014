"""Keeps the last hour of the node and of each job, a point a minute.

It is for the HTML page; longer histories are left to Prometheus. A point is the mean over its minute for CPU
time, and the state at its end for memory and GPUs. Each job has one array of single-precision floats, so
2,000 jobs take less than 2 MiB.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.snapshot import CpuSecs, Snapshot, cpu_secs_of
from jobfeatures_exporter.state.cpurates import compute_busy_share, compute_rate

POINTS = 60
EVERY_SECS = 60.0
HOUR_SECS = POINTS * EVERY_SECS
MAX_JOBS = 2_000  # ended jobs are forgotten first; further jobs are not recorded
MAX_PAST = 200  # latest ended jobs that are stored with more than their points
_NAN = math.nan


class UsageHistory(NamedTuple):
    """What a job or the node used at each of `times_secs` (Unix time), oldest first; NaN: unknown."""

    times_secs: tuple[float, ...] = ()
    cpus: tuple[float, ...] = ()
    memory_bytes: tuple[float, ...] = ()
    gpus: tuple[float, ...] = ()  # busy GPUs, in cards; empty without any


class Span(NamedTuple):
    """When a job began and ended, in seconds since the epoch. `end_secs` is None while it runs."""

    key: JobKey
    start_secs: float
    end_secs: float | None


class _Ring:
    __slots__ = ("cpu_secs", "end_secs", "points", "run", "start_secs")

    def __init__(self, start_secs: float) -> None:
        self.points = array("f", [_NAN]) * (2 * POINTS)
        self.cpu_secs: float | None = None  # at the latest point, of this run
        self.run = 0
        self.start_secs = start_secs
        self.end_secs: float | None = None

    def put(self, at: int, cpus: float, memory_bytes: float, gpus: float) -> None:
        if len(self.points) == 2 * POINTS and not math.isnan(gpus):
            self.points = self.points + array("f", [_NAN]) * POINTS  # allocates no spare room, unlike extend
        self.points[at] = cpus
        self.points[POINTS + at] = memory_bytes
        if len(self.points) > 2 * POINTS:
            self.points[2 * POINTS + at] = gpus

    def course(self, order: list[int], times: tuple[float, ...]) -> UsageHistory:
        rows = [
            tuple(self.points[first + at] for at in order) for first in range(0, len(self.points), POINTS)
        ]
        return UsageHistory(times, *rows)


class History:
    """Records a point of the node and each job once a minute. Other threads may read during an update."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute: int | None = None
        self._at = -1  # of the latest point
        self._times: deque[float] = deque(maxlen=POINTS)  # since the epoch
        self._read_at_secs = 0.0  # monotonic
        self._node = _Ring(0.0)
        self._node_cpu: CpuSecs | None = None
        self._jobs: dict[JobKey, _Ring] = {}
        self._past: dict[JobKey, EndedJob] = {}  # in the order of their ends

    def update(
        self, snapshot: Snapshot, jobs: Mapping[JobKey, Job], ended: Mapping[JobKey, EndedJob]
    ) -> None:
        """Record a point from the first snapshot of each minute, and which jobs have ended on this node.

        `jobs` are the jobs that batch systems report, `ended` those that have ended on this node.
        """
        minute = int(snapshot.read_at_secs // EVERY_SECS)
        if minute == self._minute and not ended:
            return
        with self._lock:
            for key, last in ended.items():
                if key not in snapshot.jobs:
                    self._end(key, last)
            if minute != self._minute:
                self._minute = minute
                self._take(snapshot, jobs)

    def job(self, key: JobKey) -> UsageHistory | None:
        """Return what a job used in the last hour; None for an unknown job."""
        with self._lock:
            ring = self._jobs.get(key)
            return None if ring is None else ring.course(self._order(), tuple(self._times))

    def node(self) -> UsageHistory:
        """Return what the node used in the last hour."""
        with self._lock:
            return self._node.course(self._order(), tuple(self._times))

    def spans(self) -> list[Span]:
        """Return when the jobs of the last hour began and ended."""
        with self._lock:
            return [Span(key, ring.start_secs, ring.end_secs) for key, ring in self._jobs.items()]

    def ended(self, job_id: str, system: str = "") -> tuple[Span, EndedJob | None] | None:
        """Return when an ended job ran, and its last figures (None: no longer kept); None for an unknown job.

        `system` is its batch system; if empty, any.
        """
        with self._lock:
            for key, ring in self._jobs.items():
                if key.job_id == job_id and system in {"", key.batch_system} and ring.end_secs is not None:
                    return Span(key, ring.start_secs, ring.end_secs), self._past.get(key)
        return None

    def _order(self) -> list[int]:
        count = len(self._times)
        return [(self._at - back) % POINTS for back in range(count - 1, -1, -1)]

    def _end(self, key: JobKey, last: EndedJob) -> None:
        ring = self._jobs.get(key)
        if ring is None:  # it was shorter than a minute
            start = last.job.start_secs
            ring = self._add(key, last.ended_at_secs if start is None else float(start))
        if ring is not None:
            ring.end_secs = last.ended_at_secs
            lean = replace(last.sample, cpu_numbers=None, core_nanosecs={}, steps=())
            self._past[key] = replace(last, sample=lean)
            if len(self._past) > MAX_PAST:
                del self._past[next(iter(self._past))]

    def _add(self, key: JobKey, start_secs: float) -> _Ring | None:
        if len(self._jobs) >= MAX_JOBS:
            gone = next((each for each, ring in self._jobs.items() if ring.end_secs is not None), None)
            if gone is None:
                return None
            del self._jobs[gone]
            self._past.pop(gone, None)
        ring = self._jobs[key] = _Ring(start_secs)
        return ring

    def _take(self, snapshot: Snapshot, jobs: Mapping[JobKey, Job]) -> None:
        now_secs, elapsed = snapshot.taken_at_secs, snapshot.read_at_secs - self._read_at_secs
        self._at = at = (self._at + 1) % POINTS
        self._times.append(now_secs)
        while self._times[0] <= now_secs - HOUR_SECS:  # points may be more than a minute apart
            self._times.popleft()
        self._read_at_secs = snapshot.read_at_secs
        busy: dict[JobKey, float] = {}
        for use in snapshot.job_gpus:
            if isinstance(use.key, JobKey) and use.ce_util_percent is not None:
                busy[use.key] = busy.get(use.key, 0.0) + use.ce_util_percent / 100
        for key, ring in list(self._jobs.items()):
            if key in snapshot.jobs:
                ring.end_secs = None
                continue
            ring.put(at, _NAN, _NAN, _NAN)
            ring.cpu_secs = None
            ring.end_secs = now_secs if ring.end_secs is None else ring.end_secs
            if ring.end_secs < now_secs - HOUR_SECS:
                del self._jobs[key]
                self._past.pop(key, None)
        for owner, sample in snapshot.jobs.items():
            if not isinstance(owner, JobKey):
                continue
            start = jobs[owner].start_secs if owner in jobs else None
            known = self._jobs.get(owner) or self._add(owner, now_secs if start is None else float(start))
            if known is None:
                continue
            if start is not None:
                known.start_secs = float(start)  # it may be reported late
            used = cpu_secs_of(sample)
            before = known.cpu_secs if known.run == sample.run else None
            cpus = compute_rate(before, used, elapsed, 0)
            known.cpu_secs, known.run = used, sample.run
            known.put(at, _point(cpus), _point(sample.memory.used), busy.get(owner, _NAN))
        self._take_node(snapshot, at)

    def _take_node(self, snapshot: Snapshot, at: int) -> None:
        node, cpus, memory = snapshot.node, _NAN, _NAN
        if node is not None:
            share = compute_busy_share(self._node_cpu, node.cpu)
            cpus = _NAN if share is None else share * len(node.cores)
            total, free = (node.memory_bytes.get(name) for name in ("MemTotal", "MemAvailable"))
            memory = _NAN if total is None or free is None else total - free
            self._node_cpu = node.cpu
        reported = [each.ce_util_percent for each in snapshot.gpus if each.ce_util_percent is not None]
        self._node.put(at, cpus, memory, sum(reported) / 100 if reported else _NAN)


def _point(value: float | None) -> float:
    return _NAN if value is None else value
