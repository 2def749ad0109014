"""What each job uses on this node. A reading that could not be made has no series."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.context import JOB, Context, job_labels, job_labels_with
from exporter.exposition import Family, Metric, Sample
from exporter.snapshot import JobSample

COMPONENTS = ("anon", "file", "shmem", "kernel", "swap")

CPU = Metric(
    "batch_job_cpu_seconds",
    "counter",
    "CPU time of the job on this node; never falls.",
    (*JOB, "mode"),
    "seconds",
)
MEMORY = Metric(
    "batch_job_memory_bytes",
    "gauge",
    "Memory of the job by component: anon, file (page cache without shmem), shmem, kernel, swap.",
    (*JOB, "component"),
    "bytes",
)
CHARGED = Metric(
    "batch_job_memory_charged_bytes",
    "gauge",
    "Memory that the kernel counts against the job's limit.",
    JOB,
    "bytes",
)
LIMIT = Metric("batch_job_memory_limit_bytes", "gauge", "The kernel's memory limit of the job.", JOB, "bytes")
PEAK = Metric("batch_job_memory_peak_bytes", "gauge", "Highest charged memory so far.", JOB, "bytes")
PROCESSES = Metric("batch_job_processes", "gauge", "Processes of the job.", JOB)
THREADS = Metric("batch_job_threads", "gauge", "Threads of the job.", JOB)

METRICS = (CPU, MEMORY, CHARGED, LIMIT, PEAK, PROCESSES, THREADS)

_OF_MEMORY = {CHARGED: "charged", LIMIT: "limit", PEAK: "peak"}


def families(context: Context) -> Iterator[Family]:
    """Yield the jobs' families; other kinds only where they are asked for."""
    samples = context.shown_samples()
    yield Family(CPU, [each for sample in samples for each in _cpu(sample)])
    yield Family(MEMORY, [each for sample in samples for each in _memory(sample)])
    for metric, name in _OF_MEMORY.items():
        values = [(sample.key, getattr(sample.memory, name)) for sample in samples]
        yield Family(metric, [(job_labels(key), value) for key, value in values if value is not None])
    yield Family(PROCESSES, [(job_labels(sample.key), sample.processes) for sample in samples])
    yield Family(THREADS, [(job_labels(sample.key), sample.threads) for sample in samples])


def _cpu(sample: JobSample) -> Iterator[Sample]:
    if sample.user_cpu_secs is not None:
        yield job_labels_with(sample.key, "mode", "user"), sample.user_cpu_secs
    if sample.system_cpu_secs is not None:
        yield job_labels_with(sample.key, "mode", "system"), sample.system_cpu_secs


def _memory(sample: JobSample) -> Iterator[Sample]:
    for component in COMPONENTS:
        value = getattr(sample.memory, component)
        if value is not None:
            yield job_labels_with(sample.key, "component", component), value
