"""Profile: names of guilbaults/slurm-job-exporter, for Slurm's jobs only.

Source: its slurm-job-exporter.py. Memory is in bytes, although names lack the unit, and power in milliwatts.
`gpu` is the card's number, or a MIG instance's UUID.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.families.exposition import Values
from jobfeatures_exporter.model.snapshot import GpuSample, JobSample, cpu_secs_of
from jobfeatures_exporter.scrape.profiles.common import (
    ContextView,
    Reading,
    counter,
    gauge,
    is_unlimited,
    known,
    page_cache,
)

JOB = ("user", "account", "slurmjobid")
GPU = (*JOB, "gpu", "gpu_type")

USAGE = gauge("slurm_job_memory_usage", "Memory held against the limit, in bytes.", JOB)
MAX = gauge("slurm_job_memory_max", "Highest usage so far, in bytes.", JOB)
LIMIT = gauge("slurm_job_memory_limit", "Memory limit in bytes; without one, the allocated memory.", JOB)
CACHE = gauge("slurm_job_memory_cache", "Page cache in bytes, shmem included.", JOB)
RSS = gauge("slurm_job_memory_rss", "Anonymous memory in bytes.", JOB)
PROCESSES = gauge("slurm_job_process_count", "Processes but for slurmstepd and the batch script.", JOB)
THREADS = gauge("slurm_job_threads_count", "Their threads by state.", (*JOB, "state"))

CORE = counter(
    "slurm_job_core_usage_total", "Nanoseconds of a core; on v2 an equal part of the job's.", (*JOB, "core")
)
PROGRAM = counter(
    "slurm_job_process_usage_total",
    "CPU seconds by program, with collector.processes; from a minute on.",
    (*JOB, "exe"),
)

GPU_MEMORY = gauge("slurm_job_memory_total_gpu", "Memory of the card in bytes.", GPU)
GPU_USAGE = gauge("slurm_job_memory_usage_gpu", "Memory of the card in use, in bytes.", GPU)
GPU_POWER = gauge("slurm_job_power_gpu", "Power of the card in mW.", GPU)
GPU_UTIL = gauge("slurm_job_utilization_gpu", "Utilisation of the card in percent.", GPU)
GPU_MEMORY_UTIL = gauge(
    "slurm_job_utilization_gpu_memory", "Time in which its memory was read or written, in percent.", GPU
)

METRICS = (
    USAGE, MAX, LIMIT, CACHE, RSS, PROCESSES, THREADS, CORE, PROGRAM,
    GPU_MEMORY, GPU_USAGE, GPU_POWER, GPU_UTIL, GPU_MEMORY_UTIL,
)  # fmt: skip

MIN_PROGRAM_SECS = 60.0
_NO_PROGRAMS = frozenset({"ssh", "sshd", "bash", "srun"})
_NOT_COUNTED = frozenset({"slurmstepd", "slurm_script"})
# psutil's words for the letters of proc_pid_stat(5).
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "disk-sleep",
    "T": "stopped",
    "t": "tracing-stop",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
}


def of_job(view: ContextView, sample: JobSample) -> Iterator[Reading]:
    """Yield the readings of one Slurm job under slurm-job-exporter's names; none for other jobs."""
    if not isinstance(sample.key, JobKey) or sample.key.batch_system != "slurm":
        return
    job = view.job(sample.key)
    account = "" if job is None or job.account is None else job.account
    values = view.user(sample), account, sample.key.job_id
    memory = sample.memory
    limit = view.allocated_memory_bytes(sample.key) if is_unlimited(memory) else memory.limit
    yield from known(
        values,
        (USAGE, memory.charged),
        (MAX, memory.peak),
        (LIMIT, limit),
        (CACHE, page_cache(memory)),
        (RSS, memory.anon),
    )
    for core, nanosecs in _core_nanosecs(sample).items():
        yield CORE, (*values, str(core)), nanosecs
    for program, used_secs in view.snapshot.programs.get(sample.key, {}).items():
        if used_secs >= MIN_PROGRAM_SECS and program.rpartition("/")[2] not in _NO_PROGRAMS:
            yield PROGRAM, (*values, program), used_secs
    processes = [each for each in view.processes_of.get(sample.key, ()) if each.command not in _NOT_COUNTED]
    yield PROCESSES, values, len(processes)
    threads: Counter[str] = Counter()
    for letter, count in view.thread_states(processes).items():
        threads[_STATES.get(letter, "unknown")] += count
    for state, count in sorted(threads.items()):
        yield THREADS, (*values, state), count
    for card in view.cards_of(sample.key):
        yield from _of_card(card, values)


def _core_nanosecs(sample: JobSample) -> Mapping[int, float]:
    """Return CPU time by core: v1 counts it; on v2 dashboards need its sum and the number of cores."""
    used = cpu_secs_of(sample)
    if sample.cgroup_version != 2 or not sample.cpu_numbers or used is None:
        return sample.core_nanosecs
    return dict.fromkeys(sorted(sample.cpu_numbers), used * 1e9 / len(sample.cpu_numbers))


def _of_card(sample: GpuSample, job: Values) -> list[Reading]:
    card = sample.card
    number = card.uuid if card.parent_uuid is not None or card.index is None else str(card.index)
    watts = sample.power_watts
    return known(
        (*job, number, card.model),
        (GPU_MEMORY, card.memory_bytes),
        (GPU_USAGE, sample.memory_used_bytes),
        (GPU_POWER, None if watts is None else watts * 1000),
        (GPU_UTIL, sample.ce_util_percent),
        (GPU_MEMORY_UTIL, sample.memory_busy_percent),
    )
