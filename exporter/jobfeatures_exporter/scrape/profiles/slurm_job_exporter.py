"""Names of guilbaults/slurm-job-exporter: Slurm's jobs only.

Source: slurm-job-exporter.py there. Memory is in bytes, although names lack the unit, and power in
milliwatts. `gpu` is the card's number, or a MIG instance's UUID.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.scrape.exposition import Values
from jobfeatures_exporter.scrape.profiles.common import Reading, View, counter, gauge, known, page_cache
from jobfeatures_exporter.snapshot import GpuSample, JobSample

JOB = ("user", "account", "slurmjobid")
GPU = (*JOB, "gpu", "gpu_type")

USAGE = gauge("slurm_job_memory_usage", "Memory held against the limit, in bytes.", JOB)
MAX = gauge("slurm_job_memory_max", "Highest usage so far, in bytes.", JOB)
LIMIT = gauge("slurm_job_memory_limit", "Memory limit in bytes.", JOB)
CACHE = gauge("slurm_job_memory_cache", "Page cache in bytes, shmem included.", JOB)
RSS = gauge("slurm_job_memory_rss", "Anonymous memory in bytes.", JOB)
PROCESSES = gauge("slurm_job_process_count", "Processes but for slurmstepd and the batch script.", JOB)
THREADS = gauge("slurm_job_threads_count", "Their threads by state of the process.", (*JOB, "state"))

CORE = counter(
    "slurm_job_core_usage_total", "Nanoseconds of a core; on v2 of cores of one job alone.", (*JOB, "core")
)
COMMAND = counter(
    "slurm_job_process_usage_total",
    "CPU seconds by command, with collector.processes; from a minute on.",
    (*JOB, "exe"),
)

GPU_MEMORY = gauge("slurm_job_memory_total_gpu", "Memory of the card in bytes.", GPU)
GPU_USAGE = gauge("slurm_job_memory_usage_gpu", "Memory of the card in use, in bytes.", GPU)
GPU_POWER = gauge("slurm_job_power_gpu", "Power of the card in mW.", GPU)
GPU_UTIL = gauge("slurm_job_utilization_gpu", "Utilisation of the card in percent.", GPU)
GPU_MEMORY_UTIL = gauge("slurm_job_utilization_gpu_memory", "Memory utilisation in percent.", GPU)

METRICS = (
    USAGE, MAX, LIMIT, CACHE, RSS, PROCESSES, THREADS, CORE, COMMAND,
    GPU_MEMORY, GPU_USAGE, GPU_POWER, GPU_UTIL, GPU_MEMORY_UTIL,
)  # fmt: skip

MIN_COMMAND_SECS = 60.0
_NO_COMMANDS = frozenset({"ssh", "sshd", "bash", "srun"})
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


def of_job(view: View, sample: JobSample) -> Iterator[Reading]:
    """Yield the readings of one Slurm job."""
    if not isinstance(sample.key, JobKey) or sample.key.batch_system != "slurm":
        return
    job = view.job(sample.key)
    account = "" if job is None or job.account is None else job.account
    values = view.user(sample), account, sample.key.job_id
    memory = sample.memory
    yield from known(
        values,
        (USAGE, memory.charged),
        (MAX, memory.peak),
        (LIMIT, memory.limit),
        (CACHE, page_cache(memory)),
        (RSS, memory.anon),
    )
    for core, nanosecs in view.core_nanosecs(sample).items():
        yield CORE, (*values, str(core)), nanosecs
    for each in view.snapshot.commands.get(sample.key, ()):
        if each.cpu_secs >= MIN_COMMAND_SECS and each.command not in _NO_COMMANDS:
            yield COMMAND, (*values, each.command), each.cpu_secs
    processes = [each for each in view.processes_of.get(sample.key, ()) if each.command not in _NOT_COUNTED]
    yield PROCESSES, values, len(processes)
    threads: Counter[str] = Counter()
    for process in processes:
        threads[_STATES.get(process.state, "unknown")] += process.threads
    for state, count in sorted(threads.items()):
        yield THREADS, (*values, state), count
    for card in view.cards_of(sample.key):
        yield from _of_card(card, values)


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
        (GPU_MEMORY_UTIL, card.memory_percent(sample.memory_used_bytes)),
    )
