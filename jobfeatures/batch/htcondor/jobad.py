"""Job ads, on a node and from ``condor_q -json`` → jobs. Pure.

Attributes and units: HTCondor manual, "Job ClassAd Attributes" and "Machine ClassAd Attributes". Sample:
``ClusterId = 12``, ``ProcId = 0``, ``CpusProvisioned = 8``, ``MemoryProvisioned = 16000`` (MiB),
``DiskProvisioned = 20971520`` (KiB), ``JobCurrentStartDate = 1795246000``. An attribute is unknown if it is
absent, undefined, or an expression without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from jobfeatures.batch.basics import Note
from jobfeatures.batch.htcondor.fields import KIB, MIB, NAME, Evaluate, Fields, required_job_id, schedd_of
from jobfeatures.errors import Rejected, parse_each
from jobfeatures.formats.classad.ad import ClassAd
from jobfeatures.formats.classad.jsonform import parse_json_ads
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limits, multiplied

# https://htcondor.readthedocs.io/en/latest/classad-attributes/job-classad-attributes.html, JobStatus.
# 5 is held: it may run once it is released. 6 is transferring output.
STATES: Final = MappingProxyType(
    {
        1: JobState.PENDING,
        2: JobState.RUNNING,
        3: JobState.CANCELLED,
        4: JobState.COMPLETED,
        5: JobState.PENDING,
        6: JobState.COMPLETING,
        7: JobState.SUSPENDED,
    }
)
IDLE: Final = 1
HELD: Final = 5
PARALLEL_UNIVERSE: Final = 11
LIMIT_ATTRIBUTES: Final = ("AllowedJobDuration", "AllowedExecuteDuration")
SITE_LIMITS: Final = ("BatchRuntime", "MaxRuntime")  # by HTCondor-CE, and by some sites
GPU_NAMES: Final = ("GPU-", "MIG-")  # CUDA0 is no use: CUDA's order is not the driver's
QUEUE_SOURCE = "condor_q"
EMPTY = "All queues are empty"
QUEUE_ATTRIBUTES = (
    *("ClusterId", "ProcId", "GlobalJobId", "JobStatus", "JobUniverse", "Owner", "AcctGroup"),
    *("AccountingGroup", "JobBatchName", "JobPrio", "QDate", "JobCurrentStartDate", "CompletionDate"),
    *("EnteredCurrentStatus", "ExitBySignal", "ExitCode", "RemoteHost", "LastRemoteHost", "MaxHosts"),
    *("RequestCpus", "CpusProvisioned", "RequestMemory", "MemoryProvisioned", "RequestDisk"),
    *("DiskProvisioned", "RequestGPUs", "GPUsProvisioned", "AllowedJobDuration", "AllowedExecuteDuration"),
    *("NumJobStarts", "TotalSubmitProcs"),
)


def job_from_ads(
    job_ad: ClassAd,
    machine_ad: ClassAd,
    *,
    node_name: str | None,
    site_limits: Sequence[str] = SITE_LIMITS,
    note: Note = lambda _: None,
    evaluate: Evaluate | None = None,
) -> Job:
    """Return the job in a slot; the state is RUNNING. Raises ParseError without a job id.

    NumJobStarts is incremented after the job has started, so the ad on the
    node has the number of earlier starts.
    """
    job_id = required_job_id(job_ad, source="job ad")
    job = Fields(job_ad, source=f"job ad {job_id}", note=note, evaluate=evaluate)
    slot = Fields(machine_ad, source=f"machine ad {job_id}", note=note, evaluate=evaluate)
    cpus = _first(job.count("CpusProvisioned"), slot.count("Cpus"))
    wall = wall_limit(job, site_limits)
    gpus = tuple(name.strip() for name in (slot.text("AssignedGPUs") or "").split(",") if name.strip())
    is_alone = job.integer("JobUniverse") != PARALLEL_UNIVERSE
    return Job(
        **common_fields(job),
        key=JobKey(NAME, job_id),
        schedd=schedd_of(job_id),
        slot=slot.text("Name"),
        state=JobState.RUNNING,
        start_secs=job.epoch("JobCurrentStartDate"),
        nodes=(node_name,) if node_name and is_alone else (),
        total_cpus=cpus if is_alone else None,
        total_nodes=1 if is_alone else None,
        allocated_cpus=cpus,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=multiplied(wall, cpus),
            memory_bytes=_first(job.count("MemoryProvisioned", MIB), slot.count("Memory", MIB)),
            scratch_bytes=_first(job.count("DiskProvisioned", KIB), slot.count("Disk", KIB)),
        ),
        restarts=job.count("NumJobStarts"),
        gpus=gpus if all(name.startswith(GPU_NAMES) for name in gpus) else (),
        allocated_gpus=_first(job.count("GPUsProvisioned"), slot.count("GPUs"), len(gpus) or None),
    )


def wall_limit(job: Fields, site_limits: Sequence[str]) -> int | None:
    """Return the wall limit in seconds: what HTCondor enforces, else the first of a site's own attributes.

    AllowedExecuteDuration counts from the end of the input transfer, after
    the start: the job may run longer than the limit, never shorter.
    """
    enforced = [secs for name in LIMIT_ATTRIBUTES if (secs := job.count(name)) is not None]
    if enforced:
        return min(enforced)
    return _first(*(job.count(name) for name in site_limits))


def parse_site_limits(text: str) -> tuple[str, ...]:
    """Return a site's own attributes with a wall limit, as ``htcondor.wall_limit_attributes`` names them."""
    return tuple(text.replace(",", " ").split())


def common_fields(job: Fields) -> dict[str, Any]:
    """Return the fields of jobs and of their records that are the same wherever an ad comes from.

    A job submitted as one of several is a task of an array, the cluster.
    """
    is_single = (job.count("TotalSubmitProcs") or 1) == 1
    return {
        "name": job.text("JobBatchName"),
        "user": job.text("Owner"),
        "account": job.text("AcctGroup") or job.text("AccountingGroup"),
        "priority": job.integer("JobPrio"),
        "submit_secs": job.epoch("QDate"),
        "array_job_id": None if is_single else str(job.count("ClusterId")),
        "array_task_id": None if is_single else str(job.count("ProcId")),
    }


def state_of(job: Fields) -> JobState:
    """Return the state; FAILED for a completed job with a signal or a nonzero exit code."""
    state = STATES.get(job.integer("JobStatus") or 0, JobState.UNKNOWN)
    if state is JobState.COMPLETED and (job.flag("ExitBySignal") or job.integer("ExitCode")):
        return JobState.FAILED
    return state


def end_of(job: Fields, state: JobState) -> int | None:
    """Return when a job ended; CompletionDate is 0 for a removed one."""
    if state.is_finished:
        return job.epoch("CompletionDate") or job.epoch("EnteredCurrentStatus")
    return job.epoch("CompletionDate") if state is JobState.UNKNOWN else None


def restarts_of(job: Fields, state: JobState) -> int | None:
    """Return the number of runs before this one; a pending job has had all of them."""
    starts = job.count("NumJobStarts")
    return starts if starts is None or state is JobState.PENDING else max(0, starts - 1)


def host_of(slot: str | None) -> tuple[str, ...]:
    """Return the host of ``slot1_1@host``; () without one."""
    host = (slot or "").rpartition("@")[2]
    return (host,) if host else ()


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def parse_queue(
    text: str,
    *,
    taken_at_secs: float,
    site_limits: Sequence[str] = SITE_LIMITS,
    evaluate: Evaluate | None = None,
) -> JobTable:
    """Parse ``condor_q -global -allusers -json -attributes …``. Raises ParseError if truncated.

    The table is complete unless an ad was malformed or several have the same id.
    """
    rejected: list[Rejected] = []
    ads = parse_json_ads("" if text.strip() == EMPTY else text, source=QUEUE_SOURCE)
    parse = partial(parse_queued_job, site_limits=site_limits, note=rejected.append, evaluate=evaluate)
    jobs = {job.key: job for job in parse_each(parse, ads, rejected)}
    lost = len(ads) - len(jobs)
    return JobTable(
        source=NAME, jobs=jobs, taken_at_secs=taken_at_secs, complete=not lost, rejected=tuple(rejected)
    )


def parse_queued_job(
    ad: ClassAd,
    *,
    site_limits: Sequence[str] = SITE_LIMITS,
    note: Note = lambda _: None,
    evaluate: Evaluate | None = None,
) -> Job:
    """Parse one job of the queue; raises ParseError without an id.

    CPUs, memory, disk and GPUs are requested ones of a pending job, provisioned ones of any other.
    """
    job_id = required_job_id(ad, source=QUEUE_SOURCE)
    job = Fields(ad, source=f"{QUEUE_SOURCE} {job_id}", note=note, evaluate=evaluate)
    state = state_of(job)

    def amount(what: str, requested: str, unit: int = 1) -> int | None:
        provisioned = None if state is JobState.PENDING else job.count(f"{what}Provisioned", unit)
        return job.count(requested, unit) if provisioned is None else provisioned

    cpus, gpus = amount("Cpus", "RequestCpus"), amount("GPUs", "RequestGPUs")
    nodes = job.count("MaxHosts") if job.integer("JobUniverse") == PARALLEL_UNIVERSE else 1
    total_cpus = None if cpus is None or nodes is None else cpus * nodes
    wall = wall_limit(job, site_limits)
    return Job(
        **common_fields(job),
        key=JobKey(NAME, job_id),
        schedd=schedd_of(job_id),
        state=state,
        # An idle job entered this state by its submission, its release or its eviction.
        eligible_secs=job.epoch("EnteredCurrentStatus") if job.integer("JobStatus") == IDLE else None,
        start_secs=job.epoch("JobCurrentStartDate") if state is not JobState.PENDING else None,
        end_secs=end_of(job, state),
        nodes=host_of(job.text("RemoteHost") if state.is_on_node else None),
        total_cpus=total_cpus,
        total_nodes=nodes,
        total_gpus=None if gpus is None or nodes is None else gpus * nodes,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=multiplied(wall, total_cpus),
            memory_bytes=amount("Memory", "RequestMemory", MIB),
            scratch_bytes=amount("Disk", "RequestDisk", KIB),
        ),
        restarts=restarts_of(job, state),
        reason="Held" if job.integer("JobStatus") == HELD else None,
    )
