"""Drains of the node and of jobs: until when, who asks, and what they would waste now."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.context import JOB, Context, job_labels_with
from exporter.exposition import Family, Metric, labels
from jobfeatures.drains.drain import OPERATOR, machine_shutdowns
from jobfeatures.status.waste import (
    NodeJob,
    Waste,
    compute_draining_waste,
    compute_expected_end,
    compute_kill_waste,
    compute_node_draining_waste,
    compute_node_kill_waste,
)

SHUTDOWN = Metric(
    "batch_node_shutdown_time_seconds",
    "gauge",
    "When the node goes away, since the epoch, by who asks for it: operator or a batch system.",
    ("source",),
    "seconds",
)
JOB_SHUTDOWN = Metric(
    "batch_job_shutdown_time_seconds",
    "gauge",
    "When the job has to have finished, since the epoch, by who asks for it; not by a shutdown of its node.",
    (*JOB, "source"),
    "seconds",
)
NODE_DRAINING = Metric(
    "batch_node_draining",
    "gauge",
    "1 if the node drains: the operator has set a shutdown time, or the batch system starts no more jobs.",
    ("source",),
)
BASIS = (
    "; basis reported: by the JOBSTATUS of all jobs, estimated: by the batch system's data, mixed: by both. "
    "Absent where a job's share is not known."
)
DRAINING_WASTE = Metric(
    "batch_node_draining_waste_core_seconds",
    "gauge",
    "CPU time that would stay idle if the node drained from now to the end of its last job" + BASIS,
    ("basis",),
    "core_seconds",
)
KILL_WASTE = Metric(
    "batch_node_kill_waste_core_seconds",
    "gauge",
    "CPU time that would be lost if all jobs of the node were killed now" + BASIS,
    ("basis",),
    "core_seconds",
)

METRICS = (SHUTDOWN, JOB_SHUTDOWN, NODE_DRAINING, DRAINING_WASTE, KILL_WASTE)


def families(context: Context) -> Iterator[Family]:
    """Yield the families."""
    view = context.drains
    if view is not None:
        shutdowns = machine_shutdowns(view.drains, view.announced)
        draining = {OPERATOR: view.drains.machine is not None, **view.announced.draining}
        yield Family(SHUTDOWN, [(labels(source=name), at) for name, at in sorted(shutdowns.items())])
        yield Family(
            NODE_DRAINING, [(labels(source=name), int(flag)) for name, flag in sorted(draining.items())]
        )
        times = ((key, view.job_shutdown(job)) for key, job in context.jobs_here().items())
        yield Family(
            JOB_SHUTDOWN,
            [(job_labels_with(key, "source", OPERATOR), at) for key, at in times if at is not None],
        )
    if context.snapshot is None:
        return  # jobs that nobody reported yet could be there
    jobs = _node_jobs(context)
    total = context.machine.total_cpus
    draining_waste = compute_node_draining_waste(jobs, total_cpus=total, now_secs=context.now_secs)
    yield Family(DRAINING_WASTE, _sample(draining_waste))
    yield Family(KILL_WASTE, _sample(compute_node_kill_waste(jobs)))


def _sample(waste: Waste | None) -> list[tuple[str, float]]:
    return [] if waste is None else [(labels(basis=waste.basis), waste.core_secs)]


def _node_jobs(context: Context) -> list[NodeJob]:
    found = []
    for key, job in context.jobs_here().items():
        seen = context.statuses.get(key)
        status = seen.status if seen is not None else None
        cpu_secs = context.cpu_remaining_secs(key)
        end, basis = compute_expected_end(
            status,
            limit_ends_secs=(job.end_limit_secs, None if cpu_secs is None else context.now_secs + cpu_secs),
        )
        found.append(
            NodeJob(
                allocated_cpus=job.allocated_cpus,
                end_secs=end,
                end_basis=basis,
                draining=compute_draining_waste(
                    status, allocated_cpus=job.allocated_cpus, now_secs=context.now_secs
                ),
                kill=compute_kill_waste(
                    status,
                    allocated_cpus=job.allocated_cpus,
                    start_secs=job.start_secs,
                    now_secs=context.now_secs,
                ),
            )
        )
    return found
