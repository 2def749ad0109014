"""Collector: drains of the node and of jobs, who requested them, and what a drain now would waste."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.drains.drain import OPERATOR, machine_shutdowns
from jobfeatures.records.metrics import JOB, NODE_SHUTDOWN, Metric, gauge
from jobfeatures.status.waste import NodeJob, Waste, compute_node_draining_waste, compute_node_kill_waste
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

JOB_SHUTDOWN = gauge(
    "batch_job_shutdown_time_seconds", "Shutdown of the job, without those of its node.", (*JOB, "source")
)
NODE_DRAINING = gauge(
    "batch_node_draining",
    "1 if the node drains: a shutdown is set, or the batch system starts no more jobs.",
    ("source",),
)
BASIS = "; basis as for jobs, or mixed. Jobs of unknown waste are left out, see {}."
DRAINING_WASTE = gauge(
    "batch_node_draining_waste_core_seconds",
    "CPU time that would stay idle if the node drained from now to the end of its last job"
    + BASIS.format("batch_node_draining_waste_jobs"),
    ("basis",),
)
KILL_WASTE = gauge(
    "batch_node_kill_waste_core_seconds",
    "CPU time that would be lost if all jobs of the node were killed now"
    + BASIS.format("batch_node_kill_waste_jobs"),
    ("basis",),
)

_COVERED = "Jobs of the node by whether {} counts them."
DRAINING_JOBS = gauge("batch_node_draining_waste_jobs", _COVERED.format(DRAINING_WASTE.name), ("counted",))
KILL_JOBS = gauge("batch_node_kill_waste_jobs", _COVERED.format(KILL_WASTE.name), ("counted",))

METRICS = (NODE_SHUTDOWN, JOB_SHUTDOWN, NODE_DRAINING, DRAINING_WASTE, DRAINING_JOBS, KILL_WASTE, KILL_JOBS)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about drains, and about what draining or killing the jobs now would waste."""
    view = context.drains
    if view is not None:
        shutdowns = machine_shutdowns(view.drains, view.announced)
        draining = {OPERATOR: view.drains.machine is not None, **view.announced.draining}
        yield Family.by_label(NODE_SHUTDOWN, dict(sorted(shutdowns.items())))
        yield Family.by_label(NODE_DRAINING, {name: int(flag) for name, flag in sorted(draining.items())})
        here = context.jobs_here.items()
        times = [((*key, OPERATOR), view.job_shutdown(job)) for key, job in here]
        times += [((*key, key.batch_system), job.deadline_secs) for key, job in here]
        yield Family.known(JOB_SHUTDOWN, times)
    if context.snapshot is None or not (context.jobs_are_known or context.jobs_here):
        return  # there may be jobs not reported yet
    jobs = [each.counted for each in context.own_wastes.values()]
    drained = [each for each in jobs if _drains_as_known(each)]
    killed = [each for each in jobs if each.kill is not None]
    yield from _sum(DRAINING_WASTE, DRAINING_JOBS, jobs, drained, _draining(context, jobs, drained))
    yield from _sum(KILL_WASTE, KILL_JOBS, jobs, killed, compute_node_kill_waste(killed))


def _drains_as_known(job: NodeJob) -> bool:
    return job.end_secs is not None and job.allocated_cpus is not None and job.draining is not None


def _draining(context: Context, jobs: list[NodeJob], known: list[NodeJob]) -> Waste | None:
    """Return the waste of the known jobs, and of the CPUs that certainly no other job holds."""
    total = context.allocatable_cpus
    if len(known) < len(jobs) and total is not None:
        given = [each.allocated_cpus for each in jobs]
        held = sum(each.allocated_cpus or 0 for each in jobs if not _drains_as_known(each))
        mine = sum(each.allocated_cpus or 0 for each in known)
        total = min(total, mine) if None in given else total - held
    return compute_node_draining_waste(known, total_cpus=total, now_secs=context.now_secs)


def _sum(
    metric: Metric, counted: Metric, jobs: list[NodeJob], known: list[NodeJob], waste: Waste | None
) -> Iterator[Family]:
    if jobs and not known:
        waste = None
    yield Family.by_label(metric, {} if waste is None else {waste.basis: waste.core_secs})
    yield Family.by_label(counted, {"yes": len(known), "no": len(jobs) - len(known)})
