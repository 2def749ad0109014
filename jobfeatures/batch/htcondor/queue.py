"""The queue as ``condor_q -json`` tells it: ads to jobs. Pure.

Manual: https://htcondor.readthedocs.io/en/latest/man-pages/condor_q.html.
Sample: ``{"ClusterId": 12, "ProcId": 0, "JobStatus": 2, "RemoteHost":
"slot1_1@wn1", "GlobalJobId": "submit#12.0#1795246000"}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from jobfeatures.batch.htcondor.basics import KIB, MIB, NAME, parse_job_id
from jobfeatures.batch.htcondor.fields import Evaluate, Fields, Note, ignore
from jobfeatures.batch.htcondor.jobad import (
    HELD,
    IDLE,
    PARALLEL_UNIVERSE,
    SITE_LIMITS,
    account_of,
    array_of,
    end_of,
    host_of,
    state_of,
    wall_limit,
)
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad.ad import ClassAd
from jobfeatures.formats.classad.jsonform import parse_json_ads
from jobfeatures.model import Job, JobKey, JobState, JobTable, Limits, multiplied

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


def parse_queue(
    text: str,
    *,
    taken_at_secs: float,
    site_limits: Sequence[str] = SITE_LIMITS,
    evaluate: Evaluate | None = None,
) -> JobTable:
    """Return the jobs of ``condor_q -global -allusers -json -attributes …``. Raises ParseError if cut off.

    The table is complete unless a record was bad. Two schedds may count to the
    same number: such jobs go by their GlobalJobId.
    """
    jobs: dict[JobKey, Job] = {}
    rejected: list[Rejected] = []
    ads = parse_json_ads("" if text.strip() == EMPTY else text, source=QUEUE_SOURCE)
    times = Counter(map(parse_job_id, ads))
    for ad in ads:
        try:
            job = parse_queued_job(ad, site_limits=site_limits, note=rejected.append, evaluate=evaluate)
        except ParseError as error:
            rejected.append(Rejected.from_error(error))
            continue
        if times[job.key.job_id] > 1 and (unique := ad.text("GlobalJobId")):
            job = replace(job, key=JobKey(NAME, unique))
        jobs[job.key] = job
    lost = len(ads) - len(jobs)
    return JobTable(
        source=NAME, jobs=jobs, taken_at_secs=taken_at_secs, complete=not lost, rejected=tuple(rejected)
    )


def parse_queued_job(
    ad: ClassAd,
    *,
    site_limits: Sequence[str] = SITE_LIMITS,
    note: Note = ignore,
    evaluate: Evaluate | None = None,
) -> Job:
    """Return one job of the queue; raises ParseError without an id.

    CPUs, memory, disk and GPUs are what a pending job asks for and any other was given.
    """
    job_id = parse_job_id(ad)
    if job_id is None:
        raise ParseError("not the ad of a job", source=QUEUE_SOURCE, field="ClusterId")
    job = Fields(ad, source=f"{QUEUE_SOURCE} {job_id}", note=note, evaluate=evaluate)
    state = state_of(job)

    def given(what: str, asked: str, unit: int = 1) -> int | None:
        amount = None if state is JobState.PENDING else job.count(f"{what}Provisioned", unit)
        return job.count(asked, unit) if amount is None else amount

    cpus, gpus = given("Cpus", "RequestCpus"), given("GPUs", "RequestGPUs")
    nodes = job.count("MaxHosts") if job.integer("JobUniverse") == PARALLEL_UNIVERSE else 1
    total_cpus = None if cpus is None or nodes is None else cpus * nodes
    wall = wall_limit(job, site_limits)
    starts = job.count("NumJobStarts")
    return Job(
        key=JobKey(NAME, job_id),
        state=state,
        name=job.text("JobBatchName"),
        user=job.text("Owner"),
        account=account_of(job),
        submit_secs=job.epoch("QDate"),
        # Since when it is idle: since its submission, its release or its eviction.
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
            memory_bytes=given("Memory", "RequestMemory", MIB),
            scratch_bytes=given("Disk", "RequestDisk", KIB),
        ),
        array_job_id=array_of(job),
        array_task_id=None if array_of(job) is None else str(job.count("ProcId")),
        restarts=None if starts is None else max(0, starts - 1),
        reason="Held" if job.integer("JobStatus") == HELD else None,
        priority=job.integer("JobPrio"),
    )
