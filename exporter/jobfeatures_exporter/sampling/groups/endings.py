"""Makes the final records of jobs whose control groups have been removed. No I/O."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobfeatures.batch import SYSTEMS
from jobfeatures.records.combining import max_known
from jobfeatures_exporter.model.measured import DYING, MemoryBytes
from jobfeatures_exporter.model.snapshot import JobSample, ProcessSample

SUPERVISOR_COMMANDS = frozenset(each.supervisor for each in SYSTEMS.values() if each.supervisor is not None)


def find_first_processes(
    key: Hashable,
    members: Sequence[ProcessSample],
    processes: Mapping[int, ProcessSample],
    keys: Mapping[int, Hashable],
) -> Iterable[int]:
    """Yield the pids of a job's first processes: those whose parent is not a process of the job itself.

    The batch system's own process in the job is not one of them, as it lives until the job's control groups
    are removed, but its children are. `members` are the job's processes, `processes` all of the node by pid.
    `keys` has the key of the job or other work of each process, by pid; `key` is this job's.
    """
    for process in members:
        if process.command in SUPERVISOR_COMMANDS:
            continue
        parent = processes.get(process.ppid)
        of_daemon = parent is not None and parent.command in SUPERVISOR_COMMANDS
        if (of_daemon or keys.get(process.ppid) != key) and process.state not in DYING:
            yield process.pid


def complete(last: JobSample, now: JobSample) -> JobSample:
    """Return an ended job's record `last` with the counters of `now`, a later reading of its groups."""
    counts = _counts(now, last)
    return replace(last, memory=last.memory._replace(peak=counts.pop("peak")), **counts)


def keep_counts(now: JobSample, last: JobSample) -> JobSample:
    """Return a record `now` of a job that has lost its control groups, with the counters of record `last`."""
    counts = _counts(now, last)
    return replace(
        now,
        accounting=last.accounting,
        memory=now.memory._replace(peak=counts.pop("peak")),
        cgroup=last.cgroup,
        cgroup_version=last.cgroup_version,
        node=last.node,
        alias=last.alias,
        core_nanosecs=last.core_nanosecs,
        **counts,
    )


def emptied(last: JobSample, *, processes: int | None = 0) -> JobSample:
    """Return a job's record `last` as of its end: without current values, such as memory in use.

    Counters and the peak of memory are kept. `processes` is the number of processes left; None: unknown.
    """
    scheduling = last.scheduling and last.scheduling._replace(running=0, blocked=0)
    steps = tuple(replace(each, memory=MemoryBytes(peak=each.memory.peak)) for each in last.steps)
    return replace(
        last,
        processes=processes,
        threads=processes,
        memory=MemoryBytes(peak=last.memory.peak),
        cpus=None,
        cpu_numbers=frozenset(),
        scheduling=scheduling,
        steps=steps,
        in_group=False,
        is_frozen=False,
    )


def _counts(now: JobSample, last: JobSample) -> dict[str, Any]:
    """Return the fields that never decrease, each the greater of both records where they are comparable."""
    return {
        "user_cpu_secs": max_known(now.user_cpu_secs, last.user_cpu_secs),
        "system_cpu_secs": max_known(now.system_cpu_secs, last.system_cpu_secs),
        "peak": max_known(now.memory.peak, last.memory.peak),
        "oom_kills": max_known(now.oom_kills, last.oom_kills),
        "memory_limit_hits": max_known(now.memory_limit_hits, last.memory_limit_hits),
        "memory_ooms": max_known(now.memory_ooms, last.memory_ooms),
        "memory_high_hits": max_known(now.memory_high_hits, last.memory_high_hits),
        "throttled_secs": max_known(now.throttled_secs, last.throttled_secs),
        "block_io": now.block_io or last.block_io,
        "process_io": now.process_io or last.process_io,
        "scheduling": now.scheduling or last.scheduling,
        "network": now.network or last.network,
        "pressure_secs": {**last.pressure_secs, **now.pressure_secs},
    }
