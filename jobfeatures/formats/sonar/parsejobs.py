"""Parses Sonar's envelopes into records of jobs, and of a cluster's partitions and nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jobfeatures.errors import Rejected
from jobfeatures.formats.sonar.reader import KIB, Json, Reader, secs_of, short
from jobfeatures.records.model import (
    UNLIMITED,
    Cluster,
    ClusterNode,
    Job,
    JobKey,
    JobState,
    Limit,
    Limits,
    Partition,
)

MAX_RESOURCES: Final = 100
_STATES: Final = {
    "DEADLINE": JobState.TIMEOUT,
    "BOOT_FAIL": JobState.NODE_FAIL,
    "REQUEUED": JobState.PENDING,
    "CONFIGURING": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "STOPPED": JobState.SUSPENDED,
    "REVOKED": JobState.CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobRecord:
    """One element of an envelope, which describes a job, or one of its steps if `step` is not empty.

    `allocated` and `requested` are amounts of resources as texts, by name.
    """

    job: Job
    step: str
    node_count: int | None
    requested_memory_bytes: int | None  # of the whole job
    allocated: Mapping[str, str]  # trackable resources by name, as Slurm writes them
    requested: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """The partitions and nodes of a cluster, and the elements that were rejected.

    `state.taken_at_secs` is the time of the data in epoch seconds; it is 0 in an empty record.
    """

    cluster: str
    state: Cluster
    rejected: tuple[Rejected, ...] = ()


def parse_state(text: str) -> JobState:
    """Parse a job's state; further words, as in ``CANCELLED by 1234``, are ignored."""
    word = text.split(maxsplit=1)[0].rstrip("+").upper() if text.strip() else ""
    return _STATES.get(word) or (JobState(word) if word in JobState.__members__ else JobState.UNKNOWN)


def parse_limit(value: int) -> Limit:
    """Decode a limit: 0 means unset, 1 means infinite, any other number is the limit + 2."""
    if value == 0:
        return None
    return UNLIMITED if value == 1 else value - 2


def parse_resources(text: str) -> dict[str, str]:
    """Parse resources such as ``cpu=128,mem=472.50G,node=1`` into amounts by name.

    Parts that are not NAME=AMOUNT are left out.
    """
    pairs = (each.partition("=") for each in text[: 64 * MAX_RESOURCES].split(",")[:MAX_RESOURCES])
    return {name: value for name, equals, value in pairs if name and equals}


def parse_slurm_job(job: Json, reader: Reader) -> SlurmJobRecord:
    """Return the record of `job`, an element that describes a job or a job step, of the envelope of `reader`.

    Raises ParseError if the envelope names too many nodes.
    """
    sacct: Json = job.get("sacct") or {}
    allocated = parse_resources(job.get("allocated_resources") or sacct.get("AllocTRES") or "")
    requested = parse_resources(job.get("requested_resources") or "")
    nodes = reader.nodes(job.get("nodes"))
    cpus = count_of(allocated, "cpu") or job.get("requested_cpus") or None
    # Of the whole job, whatever its name says: it is sacct's ReqMem, and Sonar writes that undivided.
    memory_bytes = (job.get("requested_memory_per_node") or 0) * KIB or None
    node_count = job.get("requested_node_count") or None
    state = parse_state(job.get("job_state") or "")
    array, het = job.get("array_job_id") or 0, job.get("het_job_id") or 0
    gpus = count_of(allocated, "gres/gpu")
    wall = parse_limit(job.get("time_limit") or 0)
    priority = parse_limit(job.get("priority") or 0)
    return SlurmJobRecord(
        job=Job(
            key=JobKey("slurm", str(job["job_id"])),
            state=state,
            name=short(job.get("job_name") or "") or None,
            user=short(job.get("user_name") or "") or None,
            account=short(job.get("account") or "") or None,
            partition=short(job.get("partition") or "") or None,
            submit_secs=secs_of(job, "submit_time"),
            start_secs=secs_of(job, "start_time"),
            end_secs=secs_of(job, "end_time") if state.is_finished else None,
            nodes=nodes,
            total_cpus=cpus,
            total_nodes=len(nodes) or node_count,
            total_gpus=gpus,
            limits=Limits(
                wall_secs=wall * reader.limit_unit_secs if isinstance(wall, int) else wall,
                memory_bytes=None
                if memory_bytes is None
                else memory_bytes // (node_count or len(nodes) or 1),
            ),
            array_job_id=str(array) if array else None,
            array_task_id=str(job.get("array_task_id") or 0) if array else None,
            het_job_id=str(het) if het else None,
            het_offset=job.get("het_job_offset") or 0 if het else None,
            priority=priority if isinstance(priority, int) else None,
            reservation=short(job.get("reservation") or "") or None,
        ),
        step=short(job.get("job_step") or ""),
        node_count=node_count,
        requested_memory_bytes=memory_bytes,
        allocated=allocated,
        requested=requested,
    )


def parse_cluster_record(attributes: Json, reader: Reader) -> ClusterRecord:
    """Return the partitions of a cluster, and its nodes with all their states.

    `attributes` are those of the envelope of `reader`. Raises ParseError for too many node names.
    """
    path = "data.attributes"
    states: dict[str, dict[str, None]] = {}
    for group, _ in reader.items(attributes, "nodes", path):
        words = dict.fromkeys(short(word).upper() for word in group.get("states") or ())
        for name in reader.nodes(group["names"]):
            states.setdefault(name, {}).update(words)
    cluster = Cluster(
        source="slurm" if attributes.get("slurm") else "sonar",
        taken_at_secs=secs_of(attributes, "time") or 0,
        partitions=tuple(
            Partition(name=short(each["name"]), nodes=reader.nodes(each.get("nodes")))
            for each, _ in reader.items(attributes, "partitions", path)
        ),
        nodes=tuple(ClusterNode(name=name, states=tuple(words)) for name, words in states.items()),
        rejected=reader.rejected,
    )
    return ClusterRecord(cluster=attributes["cluster"], state=cluster, rejected=reader.rejected)


def count_of(resources: Mapping[str, str], name: str) -> int | None:
    """Return the amount of a trackable resource as a whole number; None if it is absent or not one."""
    text = resources.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
