"""Profile: names of treydock/cgroup_exporter, for jobs that have a control group, by its path.

Source: its collector/collector.go, cgroupv1.go and cgroupv2.go. CPU seconds are counters without a suffix.
Memory differs between the two versions of control groups, as it does in the original.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures_exporter.model.snapshot import JobSample
from jobfeatures_exporter.scrape.profiles.common import (
    ContextView,
    Reading,
    counter,
    cpu_readings,
    gauge,
    job_id_of,
    known,
    memory_failures,
    number_text,
    page_cache,
    swap_used,
)

CGROUP = ("cgroup",)

USER = counter("cgroup_cpu_user_seconds", "User CPU time of the control group.", CGROUP)
SYSTEM = counter("cgroup_cpu_system_seconds", "System CPU time of the control group.", CGROUP)
TOTAL = counter("cgroup_cpu_total_seconds", "CPU time of the control group.", CGROUP)
CPUS = gauge("cgroup_cpus", "CPUs that the control group may use.", CGROUP)
RSS = gauge("cgroup_memory_rss_bytes", "Anonymous memory; on v2 with the page cache.", CGROUP)
CACHE = gauge("cgroup_memory_cache_bytes", "Page cache, shmem included.", CGROUP)
USED = gauge("cgroup_memory_used_bytes", "Memory held against the limit.", CGROUP)
LIMIT = gauge("cgroup_memory_total_bytes", "Memory limit.", CGROUP)
FAILURES = gauge("cgroup_memory_fail_count", "Hits of the limit; on v2, times without memory.", CGROUP)
SWAP = gauge("cgroup_memsw_used_bytes", "Swap; on v1 memory and swap.", CGROUP)
PRESSURE = {
    resource: counter(
        f"cgroup_{resource}_pressure_seconds_total", f"Time stalled for {resource}.", (*CGROUP, "type")
    )
    for resource in ("cpu", "memory", "io")
}
INFO = gauge("cgroup_info", "Whose job it is.", (*CGROUP, "username", "uid", "jobid"))

METRICS = (USER, SYSTEM, TOTAL, CPUS, RSS, CACHE, USED, LIMIT, FAILURES, SWAP, *PRESSURE.values(), INFO)


def of_job(view: ContextView, sample: JobSample) -> Iterator[Reading]:
    """Yield the readings of one job under treydock's names; none for a job without a control group."""
    if sample.cgroup is None:
        return
    values = (sample.cgroup,)
    memory = sample.memory
    cache = page_cache(memory)
    rss = memory.anon
    if sample.cgroup_version == 2:
        rss = None if rss is None or cache is None else rss + cache
    yield from cpu_readings(USER, SYSTEM, TOTAL, values, sample)
    yield from known(
        values,
        (CPUS, sample.cpus),
        (RSS, rss),
        (CACHE, cache),
        (USED, memory.charged),
        (LIMIT, memory.limit),
        (FAILURES, memory_failures(sample)),
        (SWAP, swap_used(sample)),
    )
    for (resource, share), secs in sample.pressure_secs.items():
        if resource in PRESSURE:
            yield PRESSURE[resource], (*values, share), secs
    job_id = job_id_of(sample)
    if job_id is not None:
        yield INFO, (*values, view.user(sample), number_text(view.uid(sample)), job_id), 1
