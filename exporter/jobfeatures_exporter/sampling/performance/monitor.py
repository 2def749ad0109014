"""Runs hardware performance counters for jobs that have the node to themselves.

A job may claim the counters for itself.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from struct import Struct
from typing import TYPE_CHECKING

from jobfeatures.errors import ParseError
from jobfeatures.records.model import JobKey
from jobfeatures.system.privatefile import closing
from jobfeatures_exporter.model.snapshot import JobSample, RunKey, Snapshot, WorkKey
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, read_text
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED
from jobfeatures_exporter.sampling.parsers.counterfiles import parse_cpu_list
from jobfeatures_exporter.sampling.performance.events import Count, Event, find_events, parse_cpu

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.performance import WorkSettings

log = logging.getLogger(__name__)

MOST_COUNTERS = 8192  # descriptors of one job: eight counters on each of 1,024 CPUs
_REFUSED = frozenset({errno.EACCES, errno.EPERM})
REMEDY = "CAP_PERFMON and the call perf_event_open (work.conf), or kernel.perf_event_paranoid 0"
# System call numbers by machine, see syscall(2); other machines are not supported.
_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
# Type, size, config, period, kinds of samples, format, flags, wakeup, breakpoint: PERF_ATTR_SIZE_VER0.
_ATTRIBUTES = Struct("=IIQQQQQIIQ")
_TIMES = 0x1 | 0x2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_USER_ONLY = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv
_PID_CGROUP, _CLOEXEC = 1 << 2, 1 << 3
_READING = Struct("=QQQ")
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Job:
    """The counters of one job, each with its figure, weight, descriptor and increase."""

    def __init__(self, budget: DescriptorBudget) -> None:
        self._budget = budget
        self._counters: list[tuple[str, int, int, Count]] = []

    def open(self, name: str, event: Event, cpu: int, group: int) -> None:
        if len(self._counters) >= MOST_COUNTERS or not self._budget.take():
            raise OSError(
                errno.EMFILE, "too few file descriptors are left for this job's performance counters"
            )
        try:
            descriptor = open_counter(event, cpu, group)
        except OSError:
            self._budget.give()
            raise
        self._counters.append((name, event.weight, descriptor, Count()))

    def read(self, totals: dict[str, float]) -> int:
        """Add to `totals`, by figure, what was counted since the last call; return how many were refused."""
        before = sum(count.refused for *_, count in self._counters)
        for name, weight, descriptor, count in self._counters:
            totals[name] += weight * count.grow(*read_counter(descriptor))
        return sum(count.refused for *_, count in self._counters) - before

    def close(self) -> None:
        for _name, _weight, descriptor, _count in self._counters:
            os.close(descriptor)
        self._budget.give(len(self._counters))
        self._counters = []


class WorkMonitor:
    """Counts jobs' work, such as `flops`, if the setting work.events names any. One thread calls `fill`."""

    def __init__(self, config: WorkSettings, paths: PathsSettings, budget: DescriptorBudget) -> None:
        self._config, self._paths = config, paths
        self._budget = budget
        self._events: dict[str, tuple[Event, ...]] | None = None  # available ones, None until tried
        self._cpus: list[int] = []
        self._jobs: dict[RunKey, _Job] = {}
        self._failed: set[RunKey] = set()
        self._totals: dict[RunKey, dict[str, float]] = {}
        self._refused = 0

    @property
    def is_counting(self) -> bool:
        """Return whether performance counters of any job are open."""
        return bool(self._jobs)

    def fill(
        self,
        snapshot: Snapshot,
        whole_node: Callable[[], Mapping[JobKey, bool]],
        gives_up: Callable[[JobKey], bool],
    ) -> Snapshot:
        """Return the snapshot with the counts of events added to jobs that have the node to themselves.

        `whole_node` returns whether each known job has the node to itself; `gives_up` returns whether a job
        has claimed the counters for its own use, so that it is not counted.
        """
        if not self._config.events or snapshot.node is None:
            return snapshot
        if self._events is None:
            self._events = self._try_out()
        alone = whole_node() if self._events else {}
        wanted = {
            (key, sample.run): sample.cgroup
            for key, sample in snapshot.jobs.items()
            if isinstance(key, JobKey) and alone.get(key) and sample.in_group
            if sample.cgroup is not None and not gives_up(key)
        }
        ended: dict[RunKey, dict[str, float]] = {}
        for key in self._jobs.keys() - wanted.keys():
            self._read(key)  # counters of a removed group can still be read
            if (job := self._jobs.pop(key, None)) is not None:
                job.close()
                ended[key] = self._totals[key]
        for key in wanted.keys() - self._jobs.keys() - self._failed:
            self._open(key, wanted[key])
        for key in list(self._jobs):
            self._read(key)
        final = {
            key: replace(each, work=ended.get((key, each.run), {})) for key, each in snapshot.final.items()
        }
        here = {(key, each.run): each for key, each in snapshot.jobs.items() if isinstance(key, JobKey)}
        for key in self._totals.keys() - here.keys():
            del self._totals[key]
        self._failed &= here.keys()
        counted: dict[WorkKey, JobSample] = {
            key[0]: replace(here[key], work=dict(total))
            for key, total in self._totals.items()
            if key in self._jobs or not here[key].in_group  # which may have another group later
        }
        up = {name: name in self._events for name in self._config.events}
        unreadable = {**snapshot.unreadable, **({"work_refused": self._refused} if self._refused else {})}
        return replace(
            snapshot,
            node=replace(snapshot.node, work_up=up),
            jobs={**snapshot.jobs, **counted},
            final=final,
            unreadable=unreadable,
        )

    def stop(self) -> None:
        """Close all performance counters."""
        while self._jobs:
            self._jobs.popitem()[1].close()

    def _try_out(self) -> dict[str, tuple[Event, ...]]:
        """Return the events that can be counted on this machine, by figure; log why others cannot."""
        try:
            cpu = parse_cpu(read_text(f"{self._paths.procfs}/cpuinfo"))
            online = read_text(f"{self._paths.sysfs}/devices/system/cpu/online")
            self._cpus = sorted(parse_cpu_list(online, source="online"))
        except (OSError, ParseError) as error:
            log.warning(
                "work.events: nothing is counted, because performance counters cannot be used: %s", error
            )
            return {}
        found = {}
        for name in self._config.events:
            events = find_events(name, cpu)
            try:
                for event in events:
                    os.close(open_counter(event, self._cpus[0], None))
            except OSError as error:
                why = f"{error.strerror}; it requires {REMEDY}" if error.errno in _REFUSED else error.strerror
                log.warning("work.events: %s of jobs are not counted: %s", name, why)
            else:
                if events:
                    found[name] = events
                else:
                    log.warning(
                        "work.events: %s of jobs are not counted, because this processor's events "
                        "are not known",
                        name,
                    )
        return found

    def _open(self, key: RunKey, cgroup: str) -> None:
        job = _Job(self._budget)
        try:
            group = _open_group(self._paths.cgroup, cgroup)
            with closing(group):
                for cpu in self._cpus:
                    for name, events in (self._events or {}).items():
                        for event in events:
                            job.open(name, event, cpu, group)
        except OSError as error:
            job.close()
            self._failed.add(key)
            log.warning("work.events: nothing is counted for job %s: %s", key[0].job_id, error)
        else:
            self._jobs[key] = job
            self._totals.setdefault(key, dict.fromkeys(self._events or {}, 0.0))

    def _read(self, key: RunKey) -> None:
        try:
            self._refused += self._jobs[key].read(self._totals[key])
        except OSError as error:
            log.warning("work.events: nothing is counted for job %s any longer: %s", key[0].job_id, error)
            self._jobs.pop(key).close()
            self._failed.add(key)


def _open_group(root: str, path: str) -> int:
    """Return a descriptor of a control group in v1's perf_event hierarchy, else in v2. Raises OSError."""
    tops = [f"{root}/perf_event"]
    if (unified := find_hierarchies(root).get(UNIFIED)) is not None:
        tops.append(unified)
    for top in tops:
        with suppress(FileNotFoundError):
            return os.open(top + path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    raise FileNotFoundError(errno.ENOENT, "the job has no control group in the perf_event hierarchy", path)


def open_counter(event: Event, cpu: int, cgroup: int | None) -> int:
    """Return a descriptor that counts an event in user mode on one CPU. Raises OSError if that fails.

    `cgroup` is the descriptor of the control group to count; None: all processes are counted.
    """
    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"perf_event_open is not supported on {os.uname().machine}")
    attributes = _ATTRIBUTES.pack(
        event.type, _ATTRIBUTES.size, event.config, 0, 0, _TIMES, _USER_ONLY, 0, 0, 0
    )
    flags = _CLOEXEC | (0 if cgroup is None else _PID_CGROUP)
    found = _LIBC.syscall(
        ctypes.c_long(number),
        ctypes.create_string_buffer(attributes, _ATTRIBUTES.size),
        ctypes.c_int(-1 if cgroup is None else cgroup),
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(flags),
    )
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(found)


def read_counter(descriptor: int) -> tuple[int, int, int]:
    """Return (a counter's value, nanoseconds enabled, nanoseconds running). Raises OSError if that fails."""
    data = os.read(descriptor, _READING.size)
    if len(data) != _READING.size:
        raise OSError("the kernel could not schedule the performance counter")
    value, enabled_ns, running_ns = _READING.unpack(data)
    return value, enabled_ns, running_ns
