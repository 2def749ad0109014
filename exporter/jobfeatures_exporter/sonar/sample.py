"""Makes Sonar's `sample` document: the node and its processes at one time. Pure.

Where the specification and Sonar differ, this follows Sonar, because that
is what consumers know: see docs/sonar.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jobfeatures.formats.sonar import CURRENT
from jobfeatures.formats.sonar.envelopes import (
    SAMPLE,
    Document,
    Origin,
    data_envelope,
    error,
    error_envelope,
    extended,
    timestamp,
    unicode_text,
    without_defaults,
)
from jobfeatures.joblogs.jobnumbers import parse_job_number
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import GpuSample, NodeSample, Snapshot
from jobfeatures_exporter.privacy.hiding import UNKNOWN_USER
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.process import (
    ProcessFigures,
    SampleInput,
    measure_processes,
    roll_up,
    rounded,
)

FIRST_USER_UID = 1000  # lower ones belong to the system
# Members of the format named like our own fields.
_OF_NODE = ("load1", "load5", "load15", "runnable_entities", "existing_entities")


def attributes_of(config: SonarSettings) -> dict[str, str]:
    """Return the settings that decide which processes are reported, to put them into the document."""
    flags = {
        "rollup": config.rollup,
        "exclude_system_jobs": config.exclude_system_jobs,
        "batch_only": config.batch_only,
    }
    found = {name: "true" for name, value in flags.items() if value}
    if config.min_cpu_time_secs:
        found["min_cpu_time"] = f"{config.min_cpu_time_secs:g}"
    return found


STALE_SECS = 60.0


def sample_envelope(
    origin: Origin, given: SampleInput | None, config: SonarSettings, *, now_secs: float
) -> Document:
    """Return the `sample` document, or one that reports an error if the node was not read (`given` None).

    The document of a node without jobs has an empty list of jobs, which shows that the node is alive.
    `origin` says which node and cluster it is about.
    """
    if given is None or _is_empty(given.snapshot):
        return error_envelope(origin, "the node could not be read", now_secs)
    snapshot = given.snapshot
    troubles = []
    if (age_secs := given.now_secs - snapshot.taken_at_secs) > STALE_SECS:
        troubles.append(f"the node could not be read for {age_secs:.0f} s: these figures are old")
    if snapshot.epoch is None:
        troubles.append("the boot time is unknown: processes without a batch job are left out")
    attributes: Document = {
        "time": timestamp(snapshot.taken_at_secs, origin.zone),
        "cluster": origin.cluster,
        "node": origin.node,
        "system": _system(origin, snapshot),
        "jobs": _jobs(given, config, origin.profile),
    }
    if troubles:
        attributes["errors"] = [error(origin, each, now_secs) for each in troubles]
    return data_envelope(origin, SAMPLE, attributes)


def _is_empty(snapshot: Snapshot) -> bool:
    node = snapshot.node
    return not snapshot.processes and (node is None or not (node.cores or node.memory_bytes))


def compute_used_memory(memory_bytes: Mapping[str, int]) -> int | None:
    """Return the KiB in use, MemTotal − MemAvailable, at least 0; None if either is unknown.

    `memory_bytes` are the values of /proc/meminfo by name, in bytes.
    """
    total, available = memory_bytes.get("MemTotal"), memory_bytes.get("MemAvailable")
    return None if total is None or available is None else max(0, total - available) // 1024


def compute_core_secs(node: NodeSample) -> list[int]:
    """Return the seconds each core was busy since boot, by core number; a core that is offline has 0."""
    secs = [0] * (max(node.cores, default=-1) + 1)
    for number, core in node.cores.items():
        secs[number] = int(core.user + core.nice + core.system + core.irq + core.softirq)
    return secs


def _system(origin: Origin, snapshot: Snapshot) -> Document:
    node = snapshot.node or NodeSample()
    fields: Document = {
        "cpus": compute_core_secs(node),
        "gpus": [_gpu(each) for each in snapshot.gpus],
        "used_memory": compute_used_memory(node.memory_bytes),
    }
    if origin.profile == CURRENT:
        boot = node.boot_time_secs
        fields |= {
            "boot": "" if boot is None else timestamp(boot, origin.zone),
            "disks": [
                {
                    "name": unicode_text(name),
                    "major": disk.major,
                    "minor": disk.minor,
                    "stats": list(disk.stats),
                }
                for name, disk in node.disks.items()
            ],
            **{name: getattr(node, name) for name in _OF_NODE},
        }
    return without_defaults(fields)


def _gpu(gpu: GpuSample) -> Document:
    fields = without_defaults(
        {
            "uuid": unicode_text(gpu.card.uuid),
            "failing": gpu.failing,
            "fan": rounded(gpu.fan_percent),
            "compute_mode": unicode_text(gpu.compute_mode),
            "performance_state": extended(gpu.performance_state),
            "memory": (gpu.memory_used_bytes or 0) // 1024,
            "ce_util": _share(gpu.ce_util_percent),
            "memory_util": _share(gpu.card.memory_percent(gpu.memory_used_bytes)),
            "temperature": rounded(gpu.temperature_celsius),
            "power": rounded(gpu.power_watts),
            "power_limit": rounded(gpu.power_limit_watts),
            "ce_clock": gpu.ce_clock_mhz,
            "memory_clock": gpu.memory_clock_mhz,
        }
    )
    index = gpu.card.index
    return fields if index is None else {"index": index, **fields}  # the first card has index 0


def _share(value: float | None) -> int | None:
    return None if value is None else min(100, round(value))


def _jobs(given: SampleInput, config: SonarSettings, profile: str) -> list[Document]:
    works: dict[tuple[SonarJobId, str], list[ProcessFigures]] = {}
    names = _names(given)
    measured = measure_processes(given)
    for pid, work_id in identify(given.snapshot).items():
        detail = given.details.get(pid)
        if detail is None or pid not in measured:  # it has ended or is about to
            continue
        is_system = detail.uid is not None and detail.uid < FIRST_USER_UID
        if (config.exclude_system_jobs and is_system) or (config.batch_only and not work_id.is_batch):
            continue
        works.setdefault((work_id, names.get(pid, UNKNOWN_USER)), []).append(measured[pid])
    jobs = []
    for (work_id, user), processes in works.items():
        if sum(each.cpu_secs for each in processes) < config.min_cpu_time_secs:
            continue
        reported = processes
        if config.rollup and work_id.is_batch:
            reported = roll_up(processes, job=work_id.job, current=profile == CURRENT)
        # Sonar sends a separate record for each process of group 0, the kernel's.
        for each in [reported] if work_id.job else [[one] for one in reported]:
            jobs.append(_job(work_id, user, each, profile))
    return jobs


def _job(work_id: SonarJobId, user: str, processes: Iterable[ProcessFigures], profile: str) -> Document:
    job: Document = {"job": work_id.job, "user": unicode_text(user)}
    if work_id.epoch:
        job["epoch"] = work_id.epoch
    job["processes"] = [each.document(current=profile == CURRENT) for each in processes]
    return job


def _names(given: SampleInput) -> dict[int, str]:
    uids = {pid: detail.uid for pid, detail in given.details.items() if detail.uid is not None}
    return {pid: given.users.get(uid) or f"_user_{uid}" for pid, uid in uids.items()}


class SonarJobId(NamedTuple):
    """The number and epoch by which Sonar's format identifies the job of a process.

    Epoch 0 marks batch jobs: records with the same number from several nodes belong to one job. Anything
    else, such as a process group, has the node's boot time as epoch, so that it is never merged with another
    node's.
    """

    job: int
    epoch: int
    is_batch: bool


def identify(snapshot: Snapshot) -> dict[int, SonarJobId]:
    """Return the number of each process's job in Sonar's format, by pid in ascending order.

    If a batch job's id is not a number, its number is the process group of its oldest process. This number
    stays the same as long as that process lives. A process outside batch jobs, also in a container or
    service, has the number of its process group, as in Sonar. If the boot time is unknown, only jobs whose id
    is a number can be reported.
    """
    ids: dict[int, SonarJobId] = {}
    leaders: dict[JobKey, int] = {}
    processes = sorted(snapshot.processes.values(), key=lambda each: (each.start_ticks, each.pid))
    for process in processes:
        key = snapshot.keys.get(process.pid)
        number = parse_job_number(key.job_id) if isinstance(key, JobKey) else None
        if number is not None:
            ids[process.pid] = SonarJobId(number, 0, is_batch=True)
        elif snapshot.epoch:
            group = leaders.setdefault(key, process.pgid) if isinstance(key, JobKey) else process.pgid
            ids[process.pid] = SonarJobId(group, snapshot.epoch, is_batch=isinstance(key, JobKey))
    return dict(sorted(ids.items()))
