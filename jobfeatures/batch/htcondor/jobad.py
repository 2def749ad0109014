"""Makes jobs from job ads, as found on a node or printed by ``condor_q -json``. Pure.

Attributes and units: HTCondor manual, "Job ClassAd Attributes" and "Machine ClassAd Attributes". Sample:
``ClusterId = 12``, ``ProcId = 0``, ``CpusProvisioned = 8``, ``MemoryProvisioned = 16000`` (MiB),
``DiskProvisioned = 20971520`` (KiB), ``JobCurrentStartDate = 1795246000``. An attribute is unknown if it is
absent, undefined, or an expression without a value.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from jobfeatures.batch.htcondor.fields import (
    KIB,
    MIB,
    NAME,
    PLAINLY,
    AdReadingOptions,
    Fields,
    required_job_id,
    schedd_of,
)
from jobfeatures.errors import Rejected, parse_each
from jobfeatures.formats.classad.ad import ClassAd, Special
from jobfeatures.formats.classad.jsonform import parse_json_ads
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limit, Limits, multiplied

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
ENDED: Final = 4
HELD: Final = 5
PARALLEL_UNIVERSE: Final = 11
# Scheduler (such as DAGMan) and local universe: the schedd runs the job. Grid: another system does.
WITHOUT_SLOT: Final = frozenset({7, 9, 12})
LIMIT_ATTRIBUTES: Final = ("AllowedJobDuration", "AllowedExecuteDuration")
GPU_NAMES: Final = ("GPU-", "MIG-")  # CUDA0 is no use: CUDA's order is not the driver's
QUEUE_SOURCE = "condor_q"
EMPTY = "All queues are empty"
QUEUE_ATTRIBUTES = (
    *("ClusterId", "ProcId", "GlobalJobId", "JobStatus", "JobUniverse", "Owner", "AcctGroup"),
    *("AccountingGroup", "JobBatchName", "JobPrio", "QDate", "JobCurrentStartDate", "CompletionDate"),
    *("EnteredCurrentStatus", "ExitBySignal", "ExitCode", "JobSuccessExitCode"),
    *("RemoteHost", "LastRemoteHost", "MaxHosts"),
    *("RequestCpus", "CpusProvisioned", "RequestMemory", "MemoryProvisioned", "RequestDisk"),
    *("DiskProvisioned", "RequestGPUs", "GPUsProvisioned", "AllowedJobDuration", "AllowedExecuteDuration"),
    *("NumJobStarts", "TotalSubmitProcs"),
)


class VacateTime(NamedTuple):
    """How many seconds a job has to end after it is told to leave its slot (vacated), before it is killed.

    `machine_secs` is the most that the machine grants, `wanted_secs` what the job asks for; None means
    unknown. Source: condor_submit(1), ``job_max_vacate_time``.
    """

    machine_secs: int | None = None
    wanted_secs: int | None = None

    @property
    def least_secs(self) -> int | None:
        """Return the seconds that a vacated job has to end even without retirement time; None if unknown."""
        return self.after_retirement(0)

    def after_retirement(self, left_secs: int) -> int | None:
        """Return the seconds that a vacated job has to end if `left_secs` of its retirement time are left.

        None if the machine's or the job's vacate time is unknown.
        """
        if self.machine_secs is None or self.wanted_secs is None:
            return None
        return min(self.wanted_secs, max(self.machine_secs, left_secs))


def vacate_time(job: Fields, slot: Fields) -> VacateTime:
    """Return how long a job has to end once it is told to leave its slot, from its ad and the slot's."""
    machine = slot.count("MachineMaxVacateTime")
    for name in ("JobMaxVacateTime", "KillSigTimeout"):  # the latter from before 7.9
        if job.ad.value(name) is not Special.UNDEFINED:
            return VacateTime(machine, job.count(name))
    return VacateTime(machine, machine)


def job_from_ads(
    job_ad: ClassAd, machine_ad: ClassAd, options: AdReadingOptions = PLAINLY, *, node_name: str | None
) -> Job:
    """Return the running job in a slot, from the job's ad and the slot's. Raises ParseError without a job id.

    `options` has the options for reading; `node_name` is this node's name. NumJobStarts is incremented after
    the job has started, so the ad on the node has the number of earlier starts.
    """
    job_id = required_job_id(job_ad, source="job ad")
    job = Fields(job_ad, f"job ad {job_id}", options)
    slot = Fields(machine_ad, f"machine ad {job_id}", options)
    cpus = _first(job.count("CpusProvisioned"), slot.count("Cpus"))
    wall = wall_limit(job)
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
        grace_secs=vacate_time(job, slot).least_secs,
        gpus=gpus if all(name.startswith(GPU_NAMES) for name in gpus) else (),
        allocated_gpus=_first(job.count("GPUsProvisioned"), slot.count("GPUs"), len(gpus) or None),
    )


def with_slot_of(job: Job, other: Job) -> Job:
    """Return a parallel job that has several slots on this node, with those of `other` added.

    `other` is the same job in another slot: its CPUs, GPUs and limits are added to those of `job`.
    """
    limits, added = job.limits, other.limits
    return replace(
        job,
        allocated_cpus=_sum(job.allocated_cpus, other.allocated_cpus),
        allocated_gpus=_sum(job.allocated_gpus, other.allocated_gpus),
        gpus=tuple(dict.fromkeys(job.gpus + other.gpus)),
        limits=replace(
            limits,
            cpu_secs=_sum(limits.cpu_secs, added.cpu_secs),
            memory_bytes=_sum(limits.memory_bytes, added.memory_bytes),
            scratch_bytes=_sum(limits.scratch_bytes, added.scratch_bytes),
        ),
        deadline_secs=min(filter(None, (job.deadline_secs, other.deadline_secs)), default=None),
        processes=job.processes | other.processes,
        starters=job.starters | other.starters,
    )


def _sum(one: Limit, other: Limit) -> int | None:
    return one + other if isinstance(one, int) and isinstance(other, int) else None


def wall_limit(job: Fields) -> int | None:
    """Return a job's wall limit in seconds; None if it has none.

    It is the lowest that HTCondor enforces, else the first of the site's own attributes that is set.
    AllowedExecuteDuration counts from the end of the input transfer, after the start: the job may run longer
    than the limit, never shorter.
    """
    enforced = [secs for name in LIMIT_ATTRIBUTES if (secs := job.count(name)) is not None]
    if enforced:
        return min(enforced)
    return _first(*(job.count(name) for name in job.site_limits))


def parse_site_limits(text: str) -> tuple[str, ...]:
    """Return the names of attributes with wall limits in the setting ``htcondor.wall_limit_attributes``."""
    return tuple(text.replace(",", " ").split())


def common_fields(job: Fields) -> dict[str, Any]:
    """Return the arguments that `Job` and `JobRecord` have in common, by name, from any ad of a job.

    A job that was submitted together with others is a task of an array, whose id is ClusterId.
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
    """Return a job's state; FAILED if a signal ended it, or its exit code does not mean success.

    Success is code 0 unless JobSuccessExitCode names another. The state is UNKNOWN if an attribute about the
    end is malformed, such as an exit code of ``"3"`` or 3.7.
    """
    state = STATES.get(job.whole("JobStatus") or 0, JobState.UNKNOWN)
    if state is not JobState.COMPLETED:
        return state
    by_signal, code, success = (
        job.flag("ExitBySignal"),
        job.whole("ExitCode"),
        job.whole("JobSuccessExitCode"),
    )
    if by_signal:
        return JobState.FAILED
    stated = {"ExitBySignal": by_signal, "ExitCode": code, "JobSuccessExitCode": success}
    if any(value is None and job.has(name) for name, value in stated.items()):
        return JobState.UNKNOWN
    return state if code in {None, success or 0} else JobState.FAILED


def end_of(job: Fields, state: JobState) -> int | None:
    """Return when a job's last run ended, or when a job that never ran was removed (epoch); None if unknown.

    CompletionDate is 0 for a removed job. If it was held or idle until then (LastJobStatus), its
    last run ended earlier: at its start plus the time for which it had a machine, if that is known.
    """
    if not state.is_finished and job.whole("JobStatus") != ENDED:
        return job.epoch("CompletionDate") if state is JobState.UNKNOWN else None
    start = job.epoch("JobCurrentStartDate")
    if state is JobState.CANCELLED and start is not None and job.integer("LastJobStatus") in {IDLE, HELD}:
        held_secs = machine_secs_of(job)
        return None if held_secs is None else start + round(held_secs)
    return job.epoch("CompletionDate") or job.epoch("EnteredCurrentStatus")


def machine_secs_of(job: Fields) -> int | float | None:
    """Return how many seconds a job's last run had a machine, suspensions included; None if unknown."""
    last = job.seconds("LastRemoteWallClockTime")
    if last is None and had_one_machine(job):
        return job.seconds("RemoteWallClockTime")  # it adds up all runs
    return last


def had_one_machine(job: Fields) -> bool:
    """Return whether a job had a machine once: NumJobStarts lacks those where its input did not arrive."""
    return job.count("NumJobStarts") == 1 and job.count("NumShadowStarts") in {None, 1}


def slots_of(job: Fields) -> int | None:
    """Return how many slots a job has or requests; None if it needs none, or the number is unknown."""
    universe = job.integer("JobUniverse")
    if universe == PARALLEL_UNIVERSE:
        return job.count("MaxHosts")
    return None if universe in WITHOUT_SLOT else 1


def restarts_of(job: Fields, state: JobState) -> int | None:
    """Return how often a job ran before its current or last run; for a pending job, how often it ran."""
    starts = job.count("NumJobStarts")
    return starts if starts is None or state is JobState.PENDING else max(0, starts - 1)


def host_of(slot: str | None) -> tuple[str, ...]:
    """Return the host in a slot's name such as ``slot1_1@host``, as a tuple of one; () without a host."""
    host = (slot or "").rpartition("@")[2]
    return (host,) if host else ()


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def parse_queue(text: str, options: AdReadingOptions = PLAINLY, *, taken_at_secs: float) -> JobTable:
    """Parse the output of ``condor_q -global -allusers -json -attributes …``. Raises ParseError if truncated.

    `options` has the options for reading ads. The table is complete unless an ad was malformed or several
    have the same id.
    """
    rejected: list[Rejected] = []
    ads = parse_json_ads("" if text.strip() == EMPTY else text, source=QUEUE_SOURCE)
    parse = partial(parse_queued_job, options=options._replace(note=rejected.append))
    jobs = {job.key: job for job in parse_each(parse, ads, rejected)}
    lost = len(ads) - len(jobs)
    return JobTable(
        source=NAME, jobs=jobs, taken_at_secs=taken_at_secs, complete=not lost, rejected=tuple(rejected)
    )


def parse_queued_job(ad: ClassAd, options: AdReadingOptions = PLAINLY) -> Job:
    """Return the job of one ad in the queue. Raises ParseError without an id.

    A pending job has the CPUs, memory, disk and GPUs that it requests, any other job those that it was given.
    A job that needs no slot of the pool has no CPUs, GPUs and nodes. `options` has the options for reading
    the ad.
    """
    job_id = required_job_id(ad, source=QUEUE_SOURCE)
    job = Fields(ad, f"{QUEUE_SOURCE} {job_id}", options)
    state = state_of(job)

    def amount(what: str, requested: str, unit: int = 1) -> int | None:
        provisioned = None if state is JobState.PENDING else job.count(f"{what}Provisioned", unit)
        return job.count(requested, unit) if provisioned is None else provisioned

    cpus, gpus = amount("Cpus", "RequestCpus"), amount("GPUs", "RequestGPUs")
    nodes = slots_of(job)
    total_cpus = None if cpus is None or nodes is None else cpus * nodes
    wall = wall_limit(job)
    return Job(
        **common_fields(job),
        key=JobKey(NAME, job_id),
        schedd=schedd_of(job_id),
        state=state,
        # An idle job entered this state by its submission, its release or its eviction.
        eligible_secs=job.epoch("EnteredCurrentStatus") if job.whole("JobStatus") == IDLE else None,
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
        reason="Held" if job.whole("JobStatus") == HELD else None,
    )
