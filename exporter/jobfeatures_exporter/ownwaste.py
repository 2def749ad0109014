"""What each job on this node wastes, by its own figures, and what of that is possible: pure."""

from __future__ import annotations

from dataclasses import replace

from jobfeatures.model import Job, JobKey
from jobfeatures.status.waste import (
    NodeJob,
    cap_waste,
    compute_draining_waste,
    compute_expected_end,
    compute_kill_waste,
)
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.rates import cpu_secs_of


def compute_own_waste(context: Context, key: JobKey, job: Job) -> NodeJob:
    """Return a job's expected end, and what it wastes by the draft's formulas."""
    view = context.statuses.get(key)
    status = view.status if view is not None else None
    sample = context.snapshot.jobs.get(key) if context.snapshot is not None else None
    cpu_secs = context.cpu_remaining_secs(key)
    end, basis = compute_expected_end(
        status,
        limit_ends_secs=(
            context.wall_end_secs(job),
            job.deadline_secs,
            None if cpu_secs is None else context.now_secs + cpu_secs,
        ),
    )
    return NodeJob(
        allocated_cpus=job.allocated_cpus,
        end_secs=end,
        end_basis=basis,
        draining=compute_draining_waste(status, allocated_cpus=job.allocated_cpus, now_secs=context.now_secs),
        kill=compute_kill_waste(
            status,
            allocated_cpus=job.allocated_cpus,
            start_secs=job.start_secs,
            now_secs=context.now_secs,
            # Of a job that works on cards CPU time tells little.
            cpu_secs=None if sample is None or job.allocated_gpus else cpu_secs_of(sample),
        ),
    )


def cap_own_waste(context: Context, job: Job, own: NodeJob) -> NodeJob:
    """Return the same with what counts in sums: no more than the job's CPUs can waste."""
    cpus, now_secs = job.allocated_cpus, context.now_secs
    return replace(
        own,
        draining=cap_waste(own.draining, allocated_cpus=cpus, from_secs=now_secs, to_secs=own.end_secs),
        kill=cap_waste(own.kill, allocated_cpus=cpus, from_secs=job.start_secs, to_secs=now_secs),
    )
