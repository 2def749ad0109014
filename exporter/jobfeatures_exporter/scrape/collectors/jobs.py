"""Collector: what each job uses on this node. A failed reading has no series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from jobfeatures.records.metrics import JOB, counter, gauge
from jobfeatures_exporter.families.exposition import Family, Sample, Values
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.model.snapshot import JobSample

COMPONENTS = ("anon", "file", "shmem", "kernel", "sock", "hugetlb", "swap")
HELD = tuple(each for each in COMPONENTS if each not in {"file", "swap"})

CPU = counter("batch_job_cpu_seconds", "CPU time of the job on this node.", (*JOB, "mode"))
MEMORY = gauge(
    "batch_job_memory_bytes",
    "Memory of the job: anon, file (page cache without shmem), shmem, kernel, sock (buffers of sockets), "
    "hugetlb (huge pages of the pool), swap.",
    (*JOB, "component"),
    sums=True,
)
USED = gauge(
    "batch_job_memory_used_bytes",
    "Memory counted against the job's limit that cannot be reclaimed: charged less page cache.",
    JOB,
    sums=True,
)
CHARGED = gauge(
    "batch_job_memory_charged_bytes",
    "Memory counted against the job's limit, page cache included.",
    JOB,
    sums=True,
)
LIMIT = gauge(
    "batch_job_memory_limit_bytes",
    "The kernel's memory limit of the job: of its control group, or above if less than the job was given.",
    JOB,
)
HIGH = gauge(
    "batch_job_memory_high_bytes",
    "Memory beyond which the kernel slows the job down (memory.high), if below the limit.",
    JOB,
)
PEAK = gauge("batch_job_memory_peak_bytes", "Highest charged memory so far.", JOB)
PROCESSES = gauge("batch_job_processes", "Processes of the job.", JOB, sums=True)
THREADS = gauge("batch_job_threads", "Threads of the job.", JOB, sums=True)
CPUSET = gauge("batch_job_cpuset_cpus", "CPUs in the job's effective cpuset.", JOB, sums=True)
OOM_KILLS = counter(
    "batch_job_oom_kills",
    "Processes of the job killed by the kernel's OOM killer; on cgroup v1 a lower bound.",
    JOB,
)
LIMIT_HITS = counter(
    "batch_job_memory_limit_hits", "Times that the job's memory reached a limit of its control groups.", JOB
)
HIGH_HITS = counter(
    "batch_job_memory_high_hits", "Times that the job was slowed down at batch_job_memory_high_bytes.", JOB
)
THROTTLED = counter(
    "batch_job_cpu_throttled_seconds",
    "Time that the job was throttled at its CPU quota, summed over CPUs.",
    JOB,
)
PRESSURE = counter(
    "batch_job_pressure_seconds",
    "Time that tasks of the job were stalled for cpu, memory or io. some: at least one task; full: all "
    "non-idle tasks.",
    (*JOB, "resource", "share"),
)
_BLOCK = "block devices by the job's control group"
BLOCK_READ = counter("batch_job_block_read_bytes", f"Read from {_BLOCK}.", JOB)
BLOCK_WRITTEN = counter(
    "batch_job_block_written_bytes", f"Written to {_BLOCK}; on cgroup v1 without delayed writes.", JOB
)
BLOCK_READS = counter("batch_job_block_reads", f"Reads from {_BLOCK}.", JOB)
BLOCK_WRITES = counter(
    "batch_job_block_writes", f"Writes to {_BLOCK}; on cgroup v1 without delayed writes.", JOB
)
IO_READ = counter(
    "batch_job_io_read_bytes",
    "Read by the job through system calls, also from page cache, pipes and sockets (rchar).",
    JOB,
)
IO_WRITTEN = counter(
    "batch_job_io_written_bytes",
    "Written by the job through system calls, also to page cache, pipes and sockets (wchar).",
    JOB,
)
STORAGE_READ = counter("batch_job_io_storage_read_bytes", "Read from storage by the job (read_bytes).", JOB)
STORAGE_WRITTEN = counter(
    "batch_job_io_storage_written_bytes",
    "Written to storage by the job, counted when a page becomes dirty (write_bytes).",
    JOB,
)
STORAGE_CANCELLED = counter(
    "batch_job_io_storage_cancelled_bytes",
    "Counted as written but never written, because the file was removed or truncated "
    "(cancelled_write_bytes).",
    JOB,
)

_OF_MEMORY = {USED: "used", CHARGED: "charged", LIMIT: "limit", PEAK: "peak"}
_OF_SAMPLE = {
    PROCESSES: "processes",
    THREADS: "threads",
    CPUSET: "cpus",
    OOM_KILLS: "oom_kills",
    LIMIT_HITS: "memory_limit_hits",
    THROTTLED: "throttled_secs",
}
_OF_BLOCK_IO = {
    BLOCK_READ: "read_bytes",
    BLOCK_WRITTEN: "written_bytes",
    BLOCK_READS: "reads",
    BLOCK_WRITES: "writes",
}
_OF_PROCESS_IO = {
    IO_READ: "read_bytes",
    IO_WRITTEN: "written_bytes",
    STORAGE_READ: "data_read_bytes",
    STORAGE_WRITTEN: "data_written_bytes",
    STORAGE_CANCELLED: "data_cancelled_bytes",
}
METRICS = (
    *(CPU, MEMORY, *_OF_MEMORY, HIGH, HIGH_HITS),
    *(*_OF_SAMPLE, PRESSURE, *_OF_BLOCK_IO, *_OF_PROCESS_IO),
)


_PARTS = attrgetter(*COMPONENTS)
_MEMORY_VALUES = attrgetter(*_OF_MEMORY.values())
_SAMPLE_VALUES = attrgetter(*_OF_SAMPLE.values())
_BLOCK_VALUES = attrgetter(*_OF_BLOCK_IO.values())
_IO_VALUES = attrgetter(*_OF_PROCESS_IO.values())


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about batch jobs, and about other kinds of work that jobs.kinds names."""
    samples = [(job_labels(sample.key), sample) for sample in context.shown_samples]
    yield from context.rows.families(METRICS, samples, _row)


def _row(job: Values, sample: JobSample) -> Iterator[Sequence[Sample]]:
    cpu = (("user", sample.user_cpu_secs), ("system", sample.system_cpu_secs))
    yield [((*job, mode), secs) for mode, secs in cpu if secs is not None]
    parts = zip(COMPONENTS, _PARTS(sample.memory), strict=True)
    yield [((*job, component), size) for component, size in parts if size is not None]
    for value in (*_MEMORY_VALUES(sample.memory), *_high(sample), *_SAMPLE_VALUES(sample)):
        yield () if value is None else ((job, value),)
    yield [((*job, *kind), secs) for kind, secs in sample.pressure_secs.items()]
    for record, values, count in (
        (sample.block_io, _BLOCK_VALUES, len(_OF_BLOCK_IO)),
        (sample.process_io, _IO_VALUES, len(_OF_PROCESS_IO)),
    ):
        yield from [()] * count if record is None else [((job, value),) for value in values(record)]


def _high(sample: JobSample) -> tuple[int | None, int | None]:
    """Return memory.high (bytes) and how often it was hit; None twice if memory.max is reached before it."""
    high, limit, hits = sample.memory.high, sample.memory.limit, sample.memory_high_hits
    if high is not None and limit is not None and high >= limit:
        high = None
    return high, None if high is None and not hits else hits
