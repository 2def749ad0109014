"""Collector: how processes are measured, and figures of jobs that only the kernel's sums (eBPF) have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobfeatures.records.metrics import JOB, counter, gauge
from jobfeatures_exporter.families.exposition import Family, Sample, Values
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.model.snapshot import Scheduling

WAITING = counter(
    "batch_job_cpu_waiting_seconds",
    "Time that runnable threads of the job waited for a CPU, summed over threads.",
    JOB,
)
FAULTS = counter("batch_job_major_page_faults", "Page faults of the job that read from storage.", JOB)
SWITCHES = counter(
    "batch_job_context_switches",
    "Context switches of the job: voluntary (it waited) or nonvoluntary (preempted).",
    (*JOB, "type"),
)
RUNNING = gauge("batch_job_threads_running", "Threads of the job that run or wait for a CPU.", JOB, sums=True)
BLOCKED = gauge(
    "batch_job_threads_blocked",
    "Threads of the job in uninterruptible sleep, usually waiting for storage.",
    JOB,
    sums=True,
)
RECEIVED = counter(
    "batch_job_network_received_bytes", "What sockets of the job received by IP; needs jobs.network.", JOB
)
RECEIVED_PACKETS = counter(
    "batch_job_network_received_packets", "Packets that sockets of the job received by IP.", JOB
)
SENT = counter("batch_job_network_sent_bytes", "What sockets of the job sent by IP; needs jobs.network.", JOB)
SENT_PACKETS = counter("batch_job_network_sent_packets", "Packets that sockets of the job sent by IP.", JOB)
NETWORK = gauge(
    "batch_exporter_job_network",
    "With jobs.network: 1 if bytes and packets of jobs are counted, 0 if not, and why.",
    ("reason",),
)
READER = gauge(
    "batch_exporter_process_reader",
    "Always 1; how processes are read, bpf (eBPF: sums in the kernel) or procfs, and why not bpf.",
    ("reader", "reason"),
)
LOST = counter("batch_exporter_kernel_sums_incomplete", "Events missing from the kernel's sums.")
LOST_BY_REASON = counter(
    "batch_exporter_kernel_sums_incomplete_by_reason",
    "Those of batch_exporter_kernel_sums_incomplete_total, by reasons that there were: room (for another"
    " control group), storage (a thread was counted late), tail (a thread's last moment), missed (an event).",
    ("reason",),
)
THREADS = gauge(
    "batch_exporter_kernel_sums_threads", "Threads of the node in the kernel's sums; see batch_node_threads."
)

OF_JOBS = (WAITING, FAULTS, SWITCHES, RUNNING, BLOCKED)
OF_SOCKETS = (RECEIVED, RECEIVED_PACKETS, SENT, SENT_PACKETS)
METRICS = (*OF_JOBS, *OF_SOCKETS, NETWORK, READER, LOST, LOST_BY_REASON, THREADS)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about measuring processes; those of jobs only if eBPF programs sum by job."""
    found = [(job_labels(each.key), each.scheduling) for each in context.shown_samples if each.scheduling]
    yield from context.rows.families(OF_JOBS, found, _row)
    counted = [(job_labels(each.key), each.network) for each in context.shown_samples if each.network]
    yield from context.rows.families(OF_SOCKETS, counted, _packets)
    snapshot = context.snapshot
    if snapshot is None:
        return
    reason = snapshot.no_network
    yield Family(NETWORK, [] if reason is None else [((reason,), int(not reason))])
    yield Family(READER, [] if snapshot.reader is None else [(tuple(snapshot.reader), 1)])
    checks = snapshot.kernel_checks
    if checks is None:
        return
    lost = {
        "room": checks.full,
        "storage": checks.without_storage,
        "tail": checks.tails,
        "missed": checks.misses,
    }
    yield Family.single(LOST, sum(lost.values()))
    yield Family.counted(LOST_BY_REASON, [((reason,), count) for reason, count in lost.items()])
    yield Family.single(THREADS, checks.threads)


def _row(job: Values, of: Scheduling) -> Iterator[Sequence[Sample]]:
    yield ((job, of.waiting_secs),)
    yield ((job, of.major_faults),)
    yield ((*job, "voluntary"), of.voluntary_switches), ((*job, "nonvoluntary"), of.involuntary_switches)
    yield ((job, of.running),)
    yield ((job, of.blocked),)


def _packets(job: Values, of: Sequence[int]) -> Iterator[Sequence[Sample]]:
    for value in of:
        yield ((job, value),)
