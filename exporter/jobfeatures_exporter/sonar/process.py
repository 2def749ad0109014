"""Measures processes, and writes them as Sonar's format has them. Pure.

Similar processes are rolled up: several of one parent and command become one entry with summed figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from zlib import crc32

from jobfeatures.formats.sonar.envelopes import Document, unicode_text, without_defaults
from jobfeatures.formats.sonar.fields import PID_MAX
from jobfeatures.records.combining import grouped, sum_known
from jobfeatures_exporter.model.snapshot import (
    GpuCard,
    GpuProcess,
    Kind,
    ProcessDetail,
    ProcessIo,
    ProcessSample,
    Snapshot,
    UnitKey,
)
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC

DEFUNCT = " <defunct>"
DEAD, ZOMBIE = "X", "Z"
UINT32_MAX: Final = 2**32 - 1

GpuWork = tuple[GpuCard, GpuProcess]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """The figures of one process, or the sums of several that are rolled up. None: unknown.

    `cpu_secs` includes child processes that it has waited for. The average is over its lifetime, the
    utilisation since the previous sample. `anon_bytes` is private resident memory, `data_bytes` data and
    stack. `rolled_up` is how many processes are included besides the first.
    """

    pid: int  # rolled up: 0, or in the newer profile a number above all pids
    ppid: int
    command: str
    has_children: bool = False
    is_in_container: bool = False
    threads: int = 1
    anon_bytes: int | None = None
    data_bytes: int | None = None
    cpu_secs: float = 0.0  # including children that it has waited for
    cpu_avg_percent: float = 0.0  # over its lifetime, without children
    cpu_util_percent: float | None = None  # since the previous sample, with children
    io: ProcessIo | None = None
    gpus: tuple[GpuWork, ...] = ()  # its use of GPUs
    rolled_up: int = 0  # further processes

    def document(self, *, current: bool) -> Document:
        """Return the process as an object of Sonar's format.

        If `current`, it includes the fields that Sonar's older versions do not send, such as I/O.
        """
        fields: Document = {
            "resident_memory": (self.anon_bytes or 0) // 1024,
            "virtual_memory": (self.data_bytes or 0) // 1024,
            "cmd": unicode_text(self.command),
            "pid": self.pid,
            "ppid": self.ppid,
            "cpu_avg": round(self.cpu_avg_percent, 1),
            "cpu_util": None if self.cpu_util_percent is None else round(self.cpu_util_percent, 1),
            "cpu_time": int(self.cpu_secs + 0.5),
            "rolledup": self.rolled_up,
            "gpus": [_gpu_document(*each) for each in self.gpus],
        }
        if current:
            fields["in_container"] = self.is_in_container
            fields["num_threads"] = self.threads - 1 - self.rolled_up  # main threads do not count
            if self.io is not None:
                fields["data_read"] = _kib_up(self.io.data_read_bytes)
                fields["data_written"] = _kib_up(self.io.data_written_bytes)
                fields["data_cancelled"] = _kib_up(self.io.data_cancelled_bytes)
        return without_defaults(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleInput:
    """What a `sample` document is made of: a snapshot of the node, the previous one, and process details.

    `elapsed_secs` is the time between both snapshots. Processes without `details` (by pid) are not reported.
    `users` are names by uid.
    """

    snapshot: Snapshot
    now_secs: float
    previous: Snapshot | None = None  # for `cpu_util`
    elapsed_secs: float | None = None  # between the two, by the monotonic clock
    details: Mapping[int, ProcessDetail] = field(default_factory=dict)  # by pid; others are not reported
    users: Mapping[int, str] = field(default_factory=dict)  # names by uid


def measure_processes(given: SampleInput) -> dict[int, ProcessFigures]:
    """Return the figures of a snapshot's processes by pid, zombies included, without dead ones (state X)."""
    snapshot = given.snapshot
    parents = {process.ppid for process in snapshot.processes.values()}
    gpus = grouped((use.pid, (gpu.card, use)) for gpu in snapshot.gpus for use in gpu.processes)
    found = {}
    for pid, process in snapshot.processes.items():
        if process.state == DEAD:
            continue
        detail = given.details.get(pid) or ProcessDetail()
        found[pid] = ProcessFigures(
            pid=pid,
            ppid=process.ppid,
            command=process.command + (DEFUNCT if process.state == ZOMBIE else ""),
            has_children=pid in parents,
            is_in_container=_is_in_container(snapshot, pid),
            threads=max(1, process.threads),
            anon_bytes=detail.anon_bytes,
            data_bytes=detail.data_bytes,
            cpu_secs=_family_ticks(process) / TICKS_PER_SEC,
            cpu_avg_percent=_average(process, given),
            cpu_util_percent=_utilisation(process, given),
            io=detail.io,
            gpus=tuple(gpus.get(pid, ())),
        )
    return found


def roll_up(
    processes: Iterable[ProcessFigures], *, job: int = 0, current: bool = False
) -> list[ProcessFigures]:
    """Return the processes, with childless ones of the same parent and command summed into one entry.

    The pid of such an entry is 0. If `current`, it is instead a number above all pids, unique within the job,
    and the same for a job, parent and command while processes come and go. `job` is the job's number.
    """
    kept: list[ProcessFigures] = []
    alike: dict[tuple[int, str], list[ProcessFigures]] = {}
    for each in processes:
        if each.has_children:
            kept.append(each)
        else:
            alike.setdefault((each.ppid, each.command), []).append(each)
    taken: set[int] = set()
    for (ppid, command), group in alike.items():
        if len(group) == 1:
            kept.append(group[0])
        else:
            kept.append(_sum(group, _pid_of_group(job, ppid, command, taken) if current else 0))
    return kept


def _pid_of_group(job: int, ppid: int, command: str, taken: set[int]) -> int:
    span = UINT32_MAX - PID_MAX  # a reader may keep 32 bits
    place = crc32(f"{job} {ppid} {command}".encode("utf-8", "surrogateescape"))
    while (pid := PID_MAX + 1 + place % span) in taken:
        place += 1
    taken.add(pid)
    return pid


def _sum(group: list[ProcessFigures], pid: int) -> ProcessFigures:
    gpus: dict[str, GpuWork] = {}
    for card, use in (each for work in group for each in work.gpus):
        before = gpus.get(card.uuid)
        gpus[card.uuid] = card, use if before is None else _sum_uses(before[1], use)
    ios = [work.io for work in group if work.io is not None]
    return replace(
        group[0],
        pid=pid,
        is_in_container=any(work.is_in_container for work in group),
        threads=sum(work.threads for work in group),
        anon_bytes=sum_known([work.anon_bytes for work in group]),
        data_bytes=sum_known([work.data_bytes for work in group]),
        cpu_secs=sum(work.cpu_secs for work in group),
        cpu_avg_percent=sum(work.cpu_avg_percent for work in group),
        cpu_util_percent=sum_known([work.cpu_util_percent for work in group]),
        io=ProcessIo(*map(sum, zip(*ios, strict=True))) if ios else None,
        gpus=tuple(gpus.values()),
        rolled_up=len(group) - 1,
    )


def _sum_uses(one: GpuProcess, other: GpuProcess) -> GpuProcess:
    return one._replace(
        memory_bytes=sum_known([one.memory_bytes, other.memory_bytes]),
        ce_util_percent=sum_known([one.ce_util_percent, other.ce_util_percent]),
    )


def _gpu_document(card: GpuCard, use: GpuProcess) -> Document:
    figures = without_defaults(
        {
            "gpu_util": use.ce_util_percent,
            "gpu_memory": (use.memory_bytes or 0) // 1024,
            "gpu_memory_util": card.memory_percent(use.memory_bytes),
        }
    )
    return {"index": card.index or 0, "uuid": unicode_text(card.uuid), **figures}


def _family_ticks(process: ProcessSample) -> int:
    return (
        process.user_ticks
        + process.system_ticks
        + process.children_user_ticks
        + process.children_system_ticks
    )


def _life_secs(process: ProcessSample, given: SampleInput) -> float | None:
    """Return the age of a process, at least one tick."""
    node = given.snapshot.node
    if node is None or node.boot_time_secs is None:
        return None
    started_secs = node.boot_time_secs + process.start_ticks / TICKS_PER_SEC
    return max(1 / TICKS_PER_SEC, given.snapshot.taken_at_secs - started_secs)


def _average(process: ProcessSample, given: SampleInput) -> float:
    life_secs = _life_secs(process, given)
    if life_secs is None:
        return 0.0
    return 100.0 * (process.user_ticks + process.system_ticks) / TICKS_PER_SEC / life_secs


def _utilisation(process: ProcessSample, given: SampleInput) -> float | None:
    """Return the CPU use since the previous sample, or the process's start if later, in percent of a core."""
    if given.previous is None or given.elapsed_secs is None or given.elapsed_secs <= 0:
        return None
    before = given.previous.processes.get(process.pid)
    ticks, secs = _family_ticks(process), given.elapsed_secs
    if before is not None and before.start_ticks == process.start_ticks:
        ticks = max(0, ticks - _family_ticks(before))
    else:
        secs = min(secs, _life_secs(process, given) or secs)
    return 100.0 * ticks / TICKS_PER_SEC / secs


def _is_in_container(snapshot: Snapshot, pid: int) -> bool:
    """Return whether its control group is a container's, or an ancestor is a container daemon below init."""
    key = snapshot.keys.get(pid)
    if isinstance(key, UnitKey) and key.kind is Kind.CONTAINER:
        return True
    seen: set[int] = set()
    parent = snapshot.processes.get(snapshot.processes[pid].ppid)
    while parent is not None and parent.pid not in seen:  # reused pids may form a cycle
        if parent.ppid == 1 and parent.command.startswith("containerd"):
            return True
        seen.add(parent.pid)
        parent = snapshot.processes.get(parent.ppid)
    return False


def rounded(value: float | None) -> int | None:
    """Return a figure rounded to an integer, as Sonar's format has it; None if unknown."""
    return None if value is None else round(value)


def _kib_up(size_bytes: int) -> int:
    return -(-size_bytes // 1024)
