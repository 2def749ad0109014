"""A sample in Sonar's format → the snapshot of a foreign node: pure.

Only the sum of a job's CPU seconds is known, not its modes: `page` shows it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from jobfeatures.formats.sonar.records import (
    CardRecord,
    GpuRecord,
    JobRecord,
    ProcessRecord,
    SampleRecord,
    SysinfoRecord,
)
from jobfeatures.model import JobKey
from jobfeatures_exporter.ingest.books import Counts
from jobfeatures_exporter.snapshot import (
    Accounting,
    DiskSample,
    GpuCard,
    GpuSample,
    GroupKey,
    JobGpu,
    JobSample,
    MemoryBytes,
    NodeSample,
    Snapshot,
    SysinfoSample,
    WorkKey,
)

# Members of how a node is made that are called as ours.
_OF_NODE = (
    *("os_name", "os_release", "architecture", "cpu_model", "memory_bytes"),
    *("sockets", "cores_per_socket", "threads_per_core"),
)
_OF_LOAD = ("load1", "load5", "load15", "runnable_entities", "existing_entities")
_MADE = re.compile(r"(?:dm-|md|loop|ram|zram|sr|nbd)[0-9]")  # of other devices, of memory, or of nothing


@dataclass(frozen=True, slots=True)
class GpuCounts:
    """What was integrated for a card, or for a job on a card."""

    busy_secs: float = 0.0
    energy_joules: float | None = None


def work_key(job: int, epoch: int) -> WorkKey:
    """Return whose processes they are: epoch 0 marks jobs of Slurm, all others are process groups."""
    return JobKey("slurm", str(job)) if epoch == 0 else GroupKey(job, epoch)


def processes_by_key(jobs: tuple[JobRecord, ...]) -> dict[WorkKey, list[ProcessRecord]]:
    """Return the processes of each job; several records of one job are parts of it."""
    found: dict[WorkKey, list[ProcessRecord]] = {}
    for each in jobs:
        found.setdefault(work_key(each.job, each.epoch), []).extend(each.processes)
    return found


def compute_job_gpus(processes: list[ProcessRecord]) -> dict[str, tuple[float, int]]:
    """Return percent of use and bytes of memory by card."""
    found: dict[str, tuple[float, int]] = {}
    for process in processes:
        for gpu in process.gpus:
            util, memory = found.get(gpu.uuid, (0.0, 0))
            found[gpu.uuid] = (util + gpu.util_percent, memory + gpu.memory_bytes)
    return found


def compute_snapshot(
    sample: SampleRecord,
    sysinfo: SysinfoRecord | None,
    totals: Mapping[WorkKey, Counts],
    card_counts: Mapping[str, GpuCounts],
    job_counts: Mapping[tuple[WorkKey, str], GpuCounts],
    taken_at_secs: float,
) -> Snapshot:
    """Return what a sample says, with the counters that were kept for it."""
    processes = processes_by_key(sample.jobs)
    cards = {card.uuid: card for card in sysinfo.cards} if sysinfo is not None else {}
    return Snapshot(
        taken_at_secs=taken_at_secs,
        duration_secs=0.0,
        node=_node(sample, sysinfo),
        jobs={key: _job(key, found) for key, found in processes.items() if key in totals},
        gpus=tuple(
            _gpu(gpu, cards.get(gpu.uuid), card_counts.get(gpu.uuid, GpuCounts()), taken_at_secs)
            for gpu in sample.gpus
        ),
        job_gpus=tuple(
            JobGpu(
                key=key,
                uuid=uuid,
                busy_secs=job_counts.get((key, uuid), GpuCounts()).busy_secs,
                memory_bytes=memory,
                ce_util_percent=util,
            )
            for key, found in processes.items()
            for uuid, (util, memory) in compute_job_gpus(found).items()
        ),
        gpu_drivers={"sonar": True} if sample.gpus else {},
    )


def _node(sample: SampleRecord, sysinfo: SysinfoRecord | None) -> NodeSample:
    memory: dict[str, int] = {}
    names = {each.name for each in sample.disks}
    total = sysinfo.memory_bytes if sysinfo is not None else None
    if total is not None:
        memory["MemTotal"] = total
        if sample.used_memory_bytes is not None:  # agents send MemTotal - MemAvailable
            memory["MemAvailable"] = max(0, total - sample.used_memory_bytes)
    return NodeSample(
        boot_time_secs=sample.boot_secs,
        memory_bytes=memory,
        **{name: getattr(sample, name) for name in _OF_LOAD},
        disks={
            each.name: DiskSample(
                major=each.major, minor=each.minor, stats=each.stats, whole=is_whole(each.name, names)
            )
            for each in sample.disks
        },
    )


def is_whole(name: str, names: Collection[str]) -> bool | None:
    """Tell by its name whether a device is a disk; None for a part of another one, as sda1 and nvme0n1p2."""
    if _MADE.match(name):
        return False
    stem = name.rstrip("0123456789")
    return None if stem != name and (stem in names or stem.removesuffix("p") in names) else True


def _job(key: WorkKey, processes: list[ProcessRecord]) -> JobSample:
    return JobSample(
        key=key,
        accounting=Accounting.PROCESSES,
        memory=MemoryBytes(anon=sum(each.resident_bytes for each in processes)),
        processes=sum(each.count for each in processes),
        threads=sum(each.threads or 0 for each in processes),
    )


def _gpu(gpu: GpuRecord, card: CardRecord | None, counts: GpuCounts, taken_at_secs: float) -> GpuSample:
    state = _members(gpu)
    which = {name: state.pop(name) for name in ("uuid", "index")}
    return GpuSample(
        card=GpuCard(**{**({} if card is None else _members(card)), **which}),
        taken_at_secs=taken_at_secs,
        busy_secs=counts.busy_secs,
        energy_joules=counts.energy_joules,
        **state,
    )


def sysinfo_sample(record: SysinfoRecord, taken_at_secs: float) -> SysinfoSample:
    """Return how a foreign node is made."""
    return SysinfoSample(taken_at_secs=taken_at_secs, **{name: getattr(record, name) for name in _OF_NODE})


def _members(record: GpuRecord | CardRecord) -> dict[str, Any]:
    """Return the members of a record, which are called as ours."""
    return {each.name: getattr(record, each.name) for each in fields(record)}
