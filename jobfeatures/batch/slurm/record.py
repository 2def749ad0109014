"""One record of ``scontrol -o -d show job``: text to Job, as a whole and on each of its nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

from jobfeatures.batch.basics import count_ranges, parse_epoch
from jobfeatures.batch.slurm.basics import NAME, NOTHING, SOURCE
from jobfeatures.batch.slurm.fields import SlurmRecord
from jobfeatures.batch.slurm.gpus import is_shared, parse_gres, parse_tres_gpus
from jobfeatures.batch.slurm.groups import SLUID
from jobfeatures.errors import ParseError, matched
from jobfeatures.records.localtimes import parse_local
from jobfeatures.records.model import Job, JobKey, JobState, Limit, Limits, multiplied
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures.records.quantities import parse_binary_size, parse_count

STATES: Mapping[str, JobState] = {
    **{state.value: state for state in JobState if state is not JobState.UNKNOWN},
    "BOOT_FAIL": JobState.NODE_FAIL,
    "CONFIGURING": JobState.RUNNING,  # has nodes, which boot or run the Prolog
    "DEADLINE": JobState.TIMEOUT,
    "LAUNCH_FAILED": JobState.FAILED,
    "RECONFIG_FAIL": JobState.NODE_FAIL,
    "REQUEUED": JobState.COMPLETING,  # "completing job is being requeued"
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RESIZING": JobState.RUNNING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "REVOKED": JobState.CANCELLED,  # another cluster of the federation took it
    "SIGNALING": JobState.RUNNING,
    "SPECIAL_EXIT": JobState.PENDING,  # "requeued in a special state"
    "STAGE_OUT": JobState.COMPLETING,
    "STOPPED": JobState.SUSPENDED,  # keeps its CPUs
}

_HEAD = ("ArrayJobId", "ArrayTaskId", "HetJobId", "HetJobOffset")  # before the name
_BODY = (  # after UserId, before any text that users write
    *("Account", "JobState", "Restarts", "TimeLimit", "SubmitTime", "StartTime", "EndTime"),
    *("PreemptTime", "SecsPreSuspend", "Partition"),
    *("NodeList", "NumCPUs", "MinMemoryNode", "MinMemoryCPU", "MinTmpDiskNode"),
)
_FIELD = re.compile(rf" ({'|'.join((*_HEAD, 'JobName', 'UserId', *_BODY))})=")
_BODY_END = re.compile(r" (?:Features|Licenses|Network|Command|WorkDir|Comment|StdErr)=")
_JOB_ID = re.compile(r"JobId=([0-9]{1,10}) ")
_USER = re.compile(r"(.*)\(([0-9]{1,10})\)\Z", re.DOTALL)
_HET_SET = re.compile(r" HetJobIdSet=[0-9,-]*\Z")
_SLUID = re.compile(rf" SLUID=({SLUID})\Z", re.ASCII)  # from 26.05 on, also behind a name that ends so itself
_LATER = "LicensesAlloc"
_TRES = re.compile(r" (?:Alloc)?TRES=(\S*)")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\Z")

_NODE_DETAIL = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\S+)(?: GRES=(\S*))?")  # memory is in MiB


@dataclass(frozen=True, slots=True)
class SlurmShare:
    """What one node allocates to a job; 0 and () where not reported."""

    cpus: int = 0
    memory_bytes: int = 0
    cards: tuple[str, ...] = ()
    has_shared_cards: bool = False


_NOTHING = SlurmShare()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedJob:
    """A job, and what is needed to compute each node's share of it."""

    job: Job
    shares: Mapping[str, SlurmShare]
    memory_per_cpu_bytes: int | None = None
    memory_per_node_bytes: int | None = None
    total_gpus: int | None = None

    def on(self, node_name: str | None) -> Job:
        """Return the job with the node's share; with None only a job on a single node has one.

        Where the details have no CPUs or GPUs, a job on a single node gets its
        totals. `allocated_gpus` is None where GPUs are shared (shard, mps).
        """
        job = self.job
        if node_name is None and len(job.nodes) == 1:
            node_name = job.nodes[0]
        share = _NOTHING if node_name is None else self.shares.get(node_name, _NOTHING)
        is_alone = job.nodes == (node_name,)
        cpus = share.cpus or (is_alone and job.total_cpus) or None
        memory_bytes = share.memory_bytes or self.memory_per_node_bytes
        if not share.memory_bytes and self.memory_per_cpu_bytes is not None:
            memory_bytes = None if cpus is None else self.memory_per_cpu_bytes * cpus
        gpus: int | None = len(share.cards) or (self.total_gpus if is_alone else None)
        return replace(
            job,
            allocated_cpus=cpus,
            limits=replace(job.limits, memory_bytes=memory_bytes),
            gpus=share.cards,
            allocated_gpus=None if share.has_shared_cards else gpus,
        )


def parse_shares(details: str) -> dict[str, SlurmShare]:
    """Return the shares by node name. Raises ParseError."""
    found: dict[str, SlurmShare] = {}
    for match in _NODE_DETAIL.finditer(details):
        share = SlurmShare(
            count_ranges(match[2], "numbers of CPUs", field="CPU_IDs"),
            parse_binary_size(match[3], field="Mem", bare_unit="M"),
            parse_gres(match[4] or ""),
            is_shared(match[4] or ""),
        )
        for name in expand_nodes(match[1]):
            known = found.get(name)
            found[name] = share if known is None else _sum(known, share)
    return found


def _sum(one: SlurmShare, other: SlurmShare) -> SlurmShare:
    return SlurmShare(
        one.cpus + other.cpus,
        one.memory_bytes + other.memory_bytes,
        tuple(dict.fromkeys((*one.cards, *other.cards))),
        one.has_shared_cards or other.has_shared_cards,
    )


def parse_scontrol_job(line: str, *, node_name: str | None, tz: tzinfo | None = None) -> Job:
    """Return one job of ``scontrol -a -o -d show job ID``.

    Sample, shortened; it is one line unless a name or a comment contains a newline::

        JobId=15 ArrayJobId=6 ArrayTaskId=1 JobName=a b SLUID=sA79M8D1923R00 UserId=alice(6001) …
        Account=physics … JobState=RUNNING … Restarts=0 … TimeLimit=00:10:00 …
        SubmitTime=2026-11-21T07:29:19 … StartTime=… EndTime=… Partition=batch … NodeList=n1 … NumCPUs=2 …
        Nodes=n1 CPU_IDs=0-1 Mem=100 GRES= MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0 Features=(null) …

    Times are local to `tz` (None: this machine's zone), or epoch seconds where ``SLURM_TIME_FORMAT=%s``;
    TimeLimit is [days-]hours:minutes:seconds; Mem and bare sizes are MiB, letters powers of 1024 (``1.50G``).
    ``Unknown``, ``None``, ``N/A``, ``(null)`` and a size of 0 mean unknown. Start and end times in the future
    are the scheduler's estimates, and left out. EndTime of a running job is when it reaches its limit: later
    by the time it was suspended, earlier in a grace time. SecsPreSuspend of a suspended job is the time it
    ran before.

    `node_name` is this node's NodeName: CPUs and memory are its share. With
    None they are only known for a job on a single node.

    Raises ParseError, also where a field occurs twice or out of place: then
    a name or a comment contains text that looks like that field.
    """
    return parse_shared_job(line, tz=tz).on(node_name)


def parse_shared_job(line: str, *, tz: tzinfo | None = None) -> SharedJob:
    """Parse a record as `parse_scontrol_job` does, for all nodes of the job."""
    identity = matched(_JOB_ID, line, "does not start with JobId=", source=SOURCE)
    try:
        return _parse_fields(identity[1], *_split_record(line), tz=tz)
    except ParseError as error:
        raise error.at(SOURCE, field=error.field or "JobId", about=f"job {identity[1]}") from error


def _split_record(line: str) -> tuple[dict[str, str], str]:
    """Return the fields we use, and the text with the details per node."""
    spots: dict[str, re.Match[str]] = {}
    for match in _FIELD.finditer(line):
        if match[1] in spots:
            raise ParseError("field occurs twice", field=match[1], text=line[match.start() :])
        spots[match[1]] = match
    for required in ("JobName", "UserId", "JobState", "NumCPUs"):
        if required not in spots:
            raise ParseError("field is missing", field=required, text=line)
    name, user = spots["JobName"], spots["UserId"]
    free_text = _BODY_END.search(line, user.end())
    end = free_text.start() if free_text else len(line)
    for field, match in spots.items():
        if not (
            match.start() <= name.start()
            if field in _HEAD or field == "JobName"
            else user.start() <= match.start() < end
        ):
            raise ParseError("field is out of its place", field=field, text=line[match.start() :])
    if name.end() > user.start():
        raise ParseError("field is out of its place", field="UserId", text=line[user.start() :])
    values = {field: line[match.end() :].split(" ", 1)[0] for field, match in spots.items()}
    values["JobName"] = line[name.end() : user.start()]
    if f" {_LATER}=" in line[end:]:
        values[_LATER] = ""
    return values, line[spots["NumCPUs"].end() : end]


def _parse_fields(job_id: str, values: Mapping[str, str], details: str, *, tz: tzinfo | None) -> SharedJob:
    record = SlurmRecord(values)

    def digits(field: str) -> str | None:
        value = record.text(field)
        return value if value is not None and value.isascii() and value.isdigit() else None

    user = matched(_USER, values["UserId"], "not NAME(NUMBER)", field="UserId")
    state = STATES.get(values["JobState"], JobState.UNKNOWN)
    nodes = record.nodes("NodeList")
    total_cpus = _parse_cpu_total(values["NumCPUs"])
    if "MinMemoryNode" in values and "MinMemoryCPU" in values:
        raise ParseError(
            "occurs together with MinMemoryCPU", field="MinMemoryNode", text=values["MinMemoryNode"]
        )
    tres = _TRES.search(details)
    wall = record.time_limit("TimeLimit")
    started = state.is_on_node or state.is_finished
    name, sluid = _split_name(values)
    het_offset = digits("HetJobOffset")
    restarts = digits("Restarts")
    start_secs = _parse_epoch(values, "StartTime", tz) if started else None
    end_secs, preempt_secs = (_parse_epoch(values, each, tz) for each in ("EndTime", "PreemptTime"))
    limit_end_secs, deadline_secs = job_ends(
        state, start_secs, wall, end_secs, is_preempted=preempt_secs is not None
    )
    job = Job(
        key=JobKey(NAME, job_id),
        state=state,
        name=name,
        user=None if user[1] in NOTHING else user[1],
        uid=int(user[2]),
        account=record.text("Account"),
        partition=record.text("Partition"),
        submit_secs=_parse_epoch(values, "SubmitTime", tz),
        start_secs=start_secs,
        end_secs=end_secs if state.is_finished else None,
        limit_end_secs=limit_end_secs,
        deadline_secs=deadline_secs,
        ran_secs=record.count("SecsPreSuspend") if state is JobState.SUSPENDED else None,
        nodes=nodes,
        total_cpus=total_cpus,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=multiplied(wall, total_cpus),
            scratch_bytes=_parse_size(values, "MinTmpDiskNode"),
        ),
        sluid=sluid,
        array_job_id=digits("ArrayJobId"),
        array_task_id=digits("ArrayTaskId"),  # "4-5%2" means tasks not yet split off
        het_job_id=digits("HetJobId"),
        het_offset=None if het_offset is None else parse_count(het_offset, field="HetJobOffset"),
        restarts=None if restarts is None else parse_count(restarts, field="Restarts"),
    )
    return SharedJob(
        job=job,
        shares=parse_shares(details),
        memory_per_cpu_bytes=_parse_size(values, "MinMemoryCPU"),
        memory_per_node_bytes=_parse_size(values, "MinMemoryNode"),
        total_gpus=None if tres is None else parse_tres_gpus(tres[1]),
    )


def job_ends(
    state: JobState, start_secs: int | None, wall: Limit, end_secs: int | None, *, is_preempted: bool
) -> tuple[int | None, int | None]:
    """Return when a running job's limit ends it, and when its grace time does: Slurm shows the earlier one.

    For a job that was suspended before it was preempted it may be either.
    """
    if state is not JobState.RUNNING:
        return None, None
    limit_end_secs = start_secs + wall if isinstance(wall, int) and start_secs is not None else None
    if is_preempted and end_secs is not None and end_secs != limit_end_secs:
        return (end_secs if limit_end_secs is not None and limit_end_secs < end_secs else None), end_secs
    return end_secs if isinstance(wall, int) else None, None


def _split_name(values: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the job's name and its SLUID, which stands behind it, before or after ``HetJobIdSet=``.

    Versions that print one print LicensesAlloc too: a name of 24.11 may end so by itself.
    """
    name, sluid = values["JobName"], None
    if "HetJobId" in values:
        name = _HET_SET.sub("", name)
    if _LATER in values and (match := _SLUID.search(name)):
        name, sluid = name[: match.start()], match[1]
    return _HET_SET.sub("", name) if sluid and "HetJobId" in values else name, sluid


def _parse_epoch(values: Mapping[str, str], field: str, tz: tzinfo | None) -> int | None:
    text = values.get(field, "")
    if text in NOTHING:
        return None
    if not _TIME.match(text):
        return parse_epoch(text, field=field) or None
    return int(parse_local(text, tz, field=field))


def _parse_cpu_total(text: str) -> int | None:
    """Parse ``2``, ``2K``; a pending job's range ``2-4`` is unknown unless both ends agree."""
    low, _, high = text.partition("-")
    if (high or low) != low:
        return None
    return parse_binary_size(low, field="NumCPUs") or None


def _parse_size(values: Mapping[str, str], field: str) -> int | None:
    text = values.get(field, "")
    return None if text in NOTHING else parse_binary_size(text, field=field, bare_unit="M") or None
