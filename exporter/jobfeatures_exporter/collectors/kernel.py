"""How processes are read; and what only the kernel reports about jobs, where it sums what they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobfeatures.metrics import JOB, counter, gauge
from jobfeatures_exporter.context import Context, job_labels
from jobfeatures_exporter.exposition import Family, Sample, Values
from jobfeatures_exporter.snapshot import Scheduling

WAITING = counter(
    "batch_job_cpu_waiting_seconds",
    "Time that runnable threads of the job waited for a CPU, summed over threads.",
    JOB,
)
FAULTS = counter(
    "batch_job_major_page_faults",
    "Page faults of the job that read from storage.",
    JOB,
)
SWITCHES = counter(
    "batch_job_context_switches",
    "Context switches of the job: voluntary (it waited) or nonvoluntary (preempted).",
    (*JOB, "type"),
)
RUNNING = gauge(
    "batch_job_threads_running",
    "Threads of the job that run or wait for a CPU.",
    JOB,
    sums=True,
)
BLOCKED = gauge(
    "batch_job_threads_blocked",
    "Threads of the job in uninterruptible sleep, usually waiting for storage.",
    JOB,
    sums=True,
)
READER = gauge(
    "batch_exporter_process_reader",
    "Always 1; how processes are read, bpf (sums in the kernel) or procfs, and why not bpf.",
    ("reader", "reason"),
)
LOST = counter(
    "batch_exporter_kernel_sums_incomplete",
    "Events missing from the kernel's sums: room (no room for another control group), storage (a thread was"
    " counted late), tail (a thread's last moment), missed (an event).",
    ("what",),
)
THREADS = gauge(
    "batch_exporter_threads", "Threads of the node, by kernel_sums and by loadavg of /proc.", ("source",)
)

OF_JOBS = (WAITING, FAULTS, SWITCHES, RUNNING, BLOCKED)
METRICS = (*OF_JOBS, READER, LOST, THREADS)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; of jobs only where the kernel sums."""
    found = [(job_labels(each.key), each.scheduling) for each in context.shown_samples if each.scheduling]
    yield from context.rows.families(OF_JOBS, found, _row)
    snapshot = context.snapshot
    if snapshot is None:
        return
    yield Family(READER, [] if snapshot.reader is None else [(tuple(snapshot.reader), 1)])
    checks = snapshot.kernel_checks
    if checks is None:
        return
    lost = {"room": checks.full, "storage": checks.without_storage, "tail": checks.tails}
    yield Family.by_word(LOST, {**lost, "missed": checks.misses})
    existing = None if snapshot.node is None else snapshot.node.existing_entities
    yield Family.known(THREADS, [(("kernel_sums",), checks.threads), (("loadavg",), existing)])


def _row(job: Values, of: Scheduling) -> Iterator[Sequence[Sample]]:
    yield ((job, of.waiting_secs),)
    yield ((job, of.major_faults),)
    yield ((*job, "voluntary"), of.voluntary_switches), ((*job, "nonvoluntary"), of.involuntary_switches)
    yield ((job, of.running),)
    yield ((job, of.blocked),)
