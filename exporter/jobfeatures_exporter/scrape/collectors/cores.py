"""Collector: the CPU time of each job on each core, as cgroup v1 counts it, else of its exclusive cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobfeatures.records.metrics import JOB, counter
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.model.snapshot import JobSample, Kind, Snapshot, WorkKey, kind_of
from jobfeatures_exporter.state.cpurates import busy_secs_of

CPU = counter(
    "batch_job_core_cpu_seconds",
    "CPU time of the job on a core of its cpuset; on cgroup v2 all work since boot on a core that no other "
    "job may use.",
    (*JOB, "core"),
)
METRICS = (CPU,)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric family of CPU time by job and core.

    On cgroup v2, cores that several jobs may use are left out.
    """
    snapshot = context.snapshot
    if snapshot is None:
        return
    own = find_own_cores(snapshot)
    found = ((job_labels(each.key), core_nanosecs(snapshot, own, each)) for each in context.shown_samples)
    yield Family(
        CPU, [((*job, str(core)), used / 1e9) for job, cores in found for core, used in cores.items()]
    )


def find_own_cores(snapshot: Snapshot) -> dict[WorkKey, list[int]]:
    """Return for each batch job the numbers of the cores that no other batch job's cpuset has.

    Empty if the cpuset of any batch job is unknown.
    """
    once: set[int] = set()
    several: set[int] = set()
    jobs: dict[WorkKey, frozenset[int]] = {}
    for key, each in snapshot.jobs.items():
        if kind_of(key) is Kind.BATCH:
            if each.cpu_numbers is None:
                return {}
            jobs[key] = cores = each.cpu_numbers
            if not cores <= several:
                several |= once & cores
                once |= cores
    return {key: sorted(cores - several) for key, cores in jobs.items()}


def core_nanosecs(
    snapshot: Snapshot, own: Mapping[WorkKey, list[int]], sample: JobSample
) -> Mapping[int, int]:
    """Return a job's CPU time in nanoseconds by core.

    On cgroup v1 it is what the kernel counts for the job. On v2 it is all busy time of the job's exclusive
    cores (`own`) since boot.
    """
    if sample.core_nanosecs or snapshot.node is None or sample.cgroup_version != 2:
        return sample.core_nanosecs
    cores = snapshot.node.cores
    alone = own.get(sample.key, ())
    return {core: round(busy_secs_of(cores[core]) * 1e9) for core in alone if core in cores}
