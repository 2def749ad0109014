"""Makes the snapshot of a foreign node from a received sample. Pure.

The snapshot has no CPU seconds of jobs: Sonar only sends the sum of user and system time, for which a
snapshot has no field. The module `page` makes that metric itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jobfeatures.records.combining import grouped, sum_known
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.ingest.books import Counts
from jobfeatures_exporter.ingest.contents import ProcessRecord, ReceivedJob, SampleRecord, SysinfoRecord
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    FigureSource,
    GpuSample,
    GroupKey,
    JobGpu,
    JobSample,
    Snapshot,
    WorkKey,
)
from jobfeatures_exporter.sampling.gpu.bounds import MAX_PERCENT


def work_key(job: int, epoch: int) -> WorkKey:
    """Return the key of a job in Sonar's numbering: of a Slurm job if epoch is 0, else of a process group."""
    return JobKey("slurm", str(job)) if epoch == 0 else GroupKey(job, epoch)


def processes_by_key(jobs: tuple[ReceivedJob, ...]) -> dict[WorkKey, list[ProcessRecord]]:
    """Return the processes of each job, which may be spread over several records."""
    found: dict[WorkKey, list[ProcessRecord]] = {}
    for each in jobs:
        found.setdefault(work_key(each.job, each.epoch), []).extend(each.processes)
    return found


def compute_job_gpus(processes: list[ProcessRecord]) -> dict[str, tuple[float | None, int | None]]:
    """Return a job's use of each GPU, by UUID: utilisation in percent (at most 100) and memory in bytes.

    Both are None if unknown. `processes` are the job's.
    """
    uses = grouped((gpu.uuid, gpu) for process in processes for gpu in process.gpus)
    found = {}
    for uuid, mine in uses.items():
        util = sum_known([each.util_percent for each in mine])
        memory = sum_known([each.memory_bytes for each in mine])
        found[uuid] = None if util is None else min(MAX_PERCENT, util), memory
    return found


def count_gpu(gpu: GpuSample, before: GpuSample | None, at_secs: float, gap_secs: float) -> GpuSample:
    """Return a GPU's sample with counters of busy seconds and joules, which the agent does not send.

    The counters are those of the previous sample `before` (None: 0), plus the present load and power, each
    multiplied by `gap_secs`, the time since then. `at_secs` becomes the time of the sample.
    """
    busy, energy = (0.0, None) if before is None else (before.busy_secs or 0.0, before.energy_joules)
    if gpu.power_watts is not None:
        energy = (energy or 0.0) + gpu.power_watts * gap_secs
    busy += (gpu.ce_util_percent or 0) / 100 * gap_secs
    return replace(gpu, taken_at_secs=at_secs, busy_secs=busy, energy_joules=energy)


def compute_snapshot(
    sample: SampleRecord,
    totals: Mapping[WorkKey, Counts],
    gpus: tuple[GpuSample, ...],
    job_gpus: tuple[JobGpu, ...],
    taken_at_secs: float,
) -> Snapshot:
    """Return the snapshot of a foreign node at the Unix time `taken_at_secs`.

    `totals` are the counters of its jobs up to then; jobs without counters are left out. `gpus` and
    `job_gpus` become the snapshot's, unchanged.
    """
    processes = processes_by_key(sample.jobs)
    return Snapshot(
        taken_at_secs=taken_at_secs,
        duration_secs=0.0,
        node=sample.system,
        jobs={key: _job(key, found) for key, found in processes.items() if key in totals},
        gpus=gpus,
        job_gpus=job_gpus,
        gpu_drivers={"sonar": True} if gpus else {},
    )


def add_hardware(snapshot: Snapshot, sample: SampleRecord, sysinfo: SysinfoRecord) -> Snapshot:
    """Return a snapshot completed by the memory size and GPU models from the node's hardware description.

    `sample` is the one that the snapshot was made from.
    """
    cards = {card.uuid: card for card in sysinfo.sample.cards}
    return replace(
        snapshot,
        node=replace(sample.system, memory_bytes=_memory(sample, sysinfo.sample.memory_bytes)),
        gpus=tuple(
            replace(gpu, card=replace(cards[gpu.card.uuid], index=gpu.card.index))
            if gpu.card.uuid in cards
            else gpu
            for gpu in snapshot.gpus
        ),
    )


def _memory(sample: SampleRecord, total: int | None) -> dict[str, int]:
    if total is None:
        return {}
    if sample.used_memory_bytes is None:
        return {"MemTotal": total}
    # Agents send MemTotal - MemAvailable.
    return {"MemTotal": total, "MemAvailable": max(0, total - sample.used_memory_bytes)}


def _job(key: WorkKey, processes: list[ProcessRecord]) -> JobSample:
    return JobSample(
        key=key,
        accounting=FigureSource.PROCESSES,
        memory=MemoryBytes(anon=sum(each.resident_bytes for each in processes)),
        processes=sum(each.count for each in processes),
        threads=sum(each.threads or 0 for each in processes),
    )
