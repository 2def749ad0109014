"""Parses jobs from ``squeue --json``, ``scontrol --json show job`` and slurmrestd. Pure.

slurmrestd sends them for ``/job/ID`` and ``/jobs``. The keys have kept their names from v0.0.37 to v0.0.43,
except in ``job_resources``, which has a job's share of each of its nodes:

v0.0.37            ``allocated_nodes``: an object by the node's place in ``nodes``; ``cpus``, ``memory``
v0.0.38 – v0.0.40  ``allocated_nodes``: a list; ``nodename``, ``memory_allocated``, cores by socket
from v0.0.41       ``nodes.allocation``: a list; ``name``, ``cpus.count``, ``memory.allocated``

In JSON a name is a separate value, so no name can forge a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobfeatures.batch.slurm.basics import NAME, checked_id
from jobfeatures.batch.slurm.fields import count_tasks, whole_part
from jobfeatures.batch.slurm.gpus import is_shared, parse_gres, parse_tres_gpus
from jobfeatures.batch.slurm.groups import checked_sluid
from jobfeatures.batch.slurm.json.values import MEBIBYTE, JsonRecord, parse_number, state_word
from jobfeatures.batch.slurm.record import STATES, job_ends
from jobfeatures.errors import ParseError, Rejected, parse_each
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, JobTable, Limit, Limits, multiplied
from jobfeatures.records.nodelist import expand_nodes

UNLIMITED_RUN_SECS = 365 * 86400  # v0.0.37, v0.0.38: from start to reported end of a job without a limit

_BITS = re.compile(r"0x([0-9A-Fa-f]{1,1000001})(?:%[0-9]{1,10})?\Z")  # slurm.conf(5): MaxArraySize, 4000001


def parse_json_jobs(
    document: JsonRecord, *, source: str, taken_at_secs: float, node_name: str | None = None
) -> JobTable:
    """Return the jobs of an answer; malformed ones are rejected. Raises ParseError if the list is missing.

    slurmrestd cuts a list of array tasks after 64 characters: then fewer are counted, which is reported.
    """
    rejected: list[Rejected] = []
    made = parse_each(
        lambda record: parse_json_job(record, node_name=node_name),
        document.listed("jobs", source),
        rejected,
        source,
        lambda record: f"job {str(record.get('job_id'))[:32]}",
    )
    jobs = {job.key: job for job in made}
    cut = (
        job for job in jobs.values() if job.state is JobState.PENDING and "..." in (job.array_task_id or "")
    )
    remarks = [_cut(job, source) for job in cut]
    return replace(JobTable.listed(NAME, jobs, taken_at_secs, rejected), rejected=(*rejected, *remarks))


def _cut(job: Job, source: str) -> Rejected:
    reason = (
        f"the list of array tasks is cut off: {job.tasks} are counted, there are more (job {job.key.job_id})"
    )
    return Rejected(source, reason, field="array_task_string", text=job.array_task_id or "")


def parse_json_job(record: JsonRecord, *, node_name: str | None = None) -> Job:
    """Return the job in a JSON object. Raises ParseError if a field is malformed.

    Times are epoch seconds, ``time_limit`` minutes, sizes MiB. The estimated start of a pending job becomes
    `planned_secs`; its estimated end is left out. `node_name` is this node's NodeName: CPUs, memory and GPUs
    are the job's share of this node. With None they are only known for a job on a single node.
    """
    job_id = checked_id(str(record.count("job_id")), field="job_id")
    words = record.words("job_state")
    if not words:
        raise ParseError("the job has no state", field="job_state")
    state = STATES.get(state_word(words), JobState.UNKNOWN)
    started = state.is_on_node or state.is_finished
    nodes = record.nodes("nodes")
    if node_name is None and len(nodes) == 1:
        node_name = nodes[0]
    total_cpus = record.nonzero("cpus")
    cpus, memory_bytes = _share(record, nodes, node_name, total_cpus)
    gpus, allocated_gpus = _gpus(record, nodes, node_name)
    wall = _wall_limit(record, started=started)
    task, het = _task(record), record.nonzero("het_job_id")
    start_secs = record.epoch("start_time") if started else None
    end_secs, preempt_secs = record.epoch("end_time"), record.epoch("preempt_time")
    limit_end_secs, deadline_secs = job_ends(
        state, start_secs, wall, end_secs, is_preempted=preempt_secs is not None
    )
    sluid = record.text("step_id", "sluid")  # from v0.0.44 on
    priority = record.count("priority")
    return Job(
        key=JobKey(NAME, job_id),
        state=state,
        name=record.raw_text("name"),
        user=record.text("user_name"),
        uid=record.count("user_id"),
        account=record.text("account"),
        partition=record.text("partition"),
        submit_secs=record.epoch("submit_time"),
        eligible_secs=record.epoch("eligible_time"),
        start_secs=start_secs,
        planned_secs=record.epoch("start_time") if state is JobState.PENDING else None,
        end_secs=end_secs if state.is_finished else None,
        limit_end_secs=limit_end_secs,
        deadline_secs=deadline_secs,
        ran_secs=record.count("pre_sus_time") if state is JobState.SUSPENDED else None,
        nodes=nodes,
        total_cpus=total_cpus,
        total_nodes=record.nonzero("node_count"),
        total_gpus=parse_tres_gpus(record.text("tres_alloc_str") or ""),
        allocated_cpus=cpus,
        allocated_gpus=allocated_gpus,
        gpus=gpus,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=multiplied(wall, total_cpus),
            memory_bytes=memory_bytes or _requested_memory(record, cpus),
            scratch_bytes=record.mebibytes("minimum_tmp_disk_per_node"),
        ),
        sluid=None if sluid is None else checked_sluid(sluid, field="step_id.sluid"),
        array_job_id=str(record.nonzero("array_job_id")) if task is not None else None,
        array_task_id=task,
        het_job_id=None if het is None else str(het),
        het_offset=None if het is None else record.count("het_job_offset"),
        restarts=record.count("restart_cnt"),
        tasks=_count(task) if task is not None and state is JobState.PENDING else 1,
        reason=record.text("state_reason"),
        is_held=state is JobState.PENDING and priority == 0,
        priority=priority,
        reservation=record.text("resv_name"),
        gres_detail=tuple(record.words("gres_detail")) if record.get("gres_detail") else (),
        min_cpus_per_node=record.count("minimum_cpus_per_node"),
    )


def _wall_limit(record: JsonRecord, *, started: bool) -> Limit:
    """Return the wall limit in seconds. For null, unknown or unlimited, the reported end shows which."""
    minutes = record.number("time_limit")
    if isinstance(minutes, int):
        return minutes * 60
    if minutes is None and started:
        start, end = record.epoch("start_time"), record.epoch("end_time")
        if start is not None and end is not None and end - start >= UNLIMITED_RUN_SECS:
            return UNLIMITED
    return minutes


def _task(record: JsonRecord) -> str | None:
    """Return the index of an array's task, or the list of tasks not yet split off."""
    if record.nonzero("array_job_id") is None:
        return None
    task = record.count("array_task_id")
    return str(task) if task is not None else record.text("array_task_string")


def _count(tasks: str) -> int:
    """Return the number of tasks in ``1-5,9%2`` or the bits ``0x3E``; of a cut list, those shown whole."""
    bits = _BITS.match(tasks)
    if bits is not None:
        return int(bits[1], 16).bit_count()
    whole = whole_part(tasks)
    return count_tasks(whole) if whole else 1


def _requested_memory(record: JsonRecord, cpus: int | None) -> int | None:
    per_cpu = record.mebibytes("memory_per_cpu")
    if per_cpu is not None:
        return None if cpus is None else per_cpu * cpus
    return record.mebibytes("memory_per_node")


def _share(
    record: JsonRecord, nodes: Sequence[str], node_name: str | None, total_cpus: int | None
) -> tuple[int | None, int | None]:
    """Return a job's CPUs and memory (bytes) on a node, None where unknown."""
    if node_name is None:
        return None, None
    shares = list(_shares(record, nodes))
    cpus = memory = None
    for name, share in shares:
        if name == node_name:
            cpus = _cpus_of(share, [each for _, each in shares], total_cpus)
            memory = _first(share, ("memory", "allocated"), ("memory_allocated",), ("memory",))
    if not cpus and tuple(nodes) == (node_name,):
        cpus = total_cpus
    return cpus or None, memory * MEBIBYTE if memory else None


def _shares(record: JsonRecord, nodes: Sequence[str]) -> Iterator[tuple[str, JsonRecord]]:
    """Yield a job's nodes, each with the job's share of it."""
    resources = record.get("job_resources")
    if not isinstance(resources, Mapping):
        return
    of_nodes = resources.get("nodes")
    if isinstance(of_nodes, Mapping):
        for each in JsonRecord(of_nodes).records("allocation"):
            yield each.raw_text("name") or "", each
        return
    allocated = resources.get("allocated_nodes")
    if isinstance(allocated, Mapping):
        names = expand_nodes(of_nodes) if isinstance(of_nodes, str) and of_nodes else tuple(nodes)
        for place, share in allocated.items():
            if place.isascii() and place.isdigit() and len(place) < 7 and isinstance(share, Mapping):
                yield names[int(place)] if int(place) < len(names) else "", JsonRecord(share)
        return
    for each in JsonRecord(resources).records("allocated_nodes"):
        yield each.raw_text("nodename") or "", each


def _cpus_of(share: JsonRecord, shares: Sequence[JsonRecord], total_cpus: int | None) -> int | None:
    """Return the CPUs of a share. If only cores are reported, the job's total CPUs give the CPUs per core."""
    reported = _first(share, ("cpus", "count"), ("cpus",))
    if reported:
        return reported
    everywhere = sum(_cores(each) for each in shares)
    if not everywhere or total_cpus is None or total_cpus % everywhere:
        return None
    return _cores(share) * (total_cpus // everywhere)


def _cores(share: JsonRecord) -> int:
    """Count the allocated cores of a share; sockets and cores are objects or lists, depending on version."""
    count = 0
    for socket in _members(share.get("sockets")):
        for core in _members(socket.get("cores") if isinstance(socket, Mapping) else None):
            status = core.get("status") if isinstance(core, Mapping) else core
            words = {str(each).upper() for each in (status if isinstance(status, list) else [status])}
            count += bool(words & {"ALLOCATED", "IN_USE", "ALLOCATED_AND_IN_USE"})
    return count


def _members(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def _first(record: JsonRecord, *paths: tuple[str, ...]) -> int | None:
    for path in paths:
        value = record.get(*path)
        if value is not None and not (isinstance(value, Mapping) and "number" not in value):
            found = parse_number(value, ".".join(path))
            return found if isinstance(found, int) else None
    return None


def _gpus(
    record: JsonRecord, nodes: Sequence[str], node_name: str | None
) -> tuple[tuple[str, ...], int | None]:
    """Return the indices of a job's GPUs on a node, and their number.

    ``gres_detail`` has one text per node, in the order of the nodes. The
    number is None where GPUs are shared (shard, mps).
    """
    details = record.words("gres_detail") if record.get("gres_detail") else ()
    detail = ""
    if node_name is not None and node_name in nodes and len(details) == len(nodes):
        detail = details[list(nodes).index(node_name)]
    found = parse_gres(detail)
    if is_shared(detail):
        return found, None
    if not found and tuple(nodes) == (node_name,):
        return (), parse_tres_gpus(record.text("tres_alloc_str") or "")
    return found, len(found) or None
