"""One record of ``scontrol -o -d show job``: text to Job. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo

from jobfeatures.batch.slurm.basics import NAME, NOTHING, SOURCE, times_cpus
from jobfeatures.batch.slurm.gpus import is_shared, parse_gres, parse_tres_gpus
from jobfeatures.errors import ParseError
from jobfeatures.model import UNLIMITED, Job, JobKey, JobState, Limit, Limits
from jobfeatures.nodelist import expand_nodes
from jobfeatures.quantities import parse_binary_size, parse_count, parse_slurm_duration

STATES: Mapping[str, JobState] = {
    **{state.value: state for state in JobState if state is not JobState.UNKNOWN},
    "BOOT_FAIL": JobState.NODE_FAIL,
    "CONFIGURING": JobState.RUNNING,  # has its nodes: booting, or in the Prolog
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
_BODY = (  # behind UserId, before anything that users write
    *("Account", "JobState", "Restarts", "TimeLimit", "SubmitTime", "StartTime", "EndTime", "Partition"),
    *("NodeList", "NumCPUs", "MinMemoryNode", "MinMemoryCPU", "MinTmpDiskNode"),
)
_FIELD = re.compile(rf" ({'|'.join((*_HEAD, 'JobName', 'UserId', *_BODY))})=")
_BODY_END = re.compile(r" (?:Features|Licenses|Network|Command|WorkDir|Comment|StdErr)=")
_JOB_ID = re.compile(r"JobId=([0-9]{1,10}) ")
_USER = re.compile(r"(.*)\(([0-9]{1,10})\)\Z", re.DOTALL)
_HET_SET = re.compile(r" HetJobIdSet=[0-9,-]*\Z")
_NODE_DETAIL = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\S+)(?: GRES=(\S*))?")
_TRES = re.compile(r" (?:Alloc)?TRES=(\S*)")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\Z")


def parse_scontrol_job(line: str, *, node_name: str | None, tz: tzinfo | None = None) -> Job:
    """Return one job of ``scontrol -a -o -d show job ID``.

    Sample, shortened; it is one line unless a name or a comment holds a newline::

        JobId=15 ArrayJobId=6 ArrayTaskId=1 JobName=a b UserId=alice(6001) … Account=physics …
        JobState=RUNNING … Restarts=0 … TimeLimit=00:10:00 … SubmitTime=2026-11-21T07:29:19 …
        StartTime=… EndTime=… Partition=batch … NodeList=n1 … NumCPUs=2 …   Nodes=n1 CPU_IDs=0-1
        Mem=100 GRES= MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0 Features=(null) …

    Times are local to `tz` (None: this machine's zone), or epoch seconds where
    ``SLURM_TIME_FORMAT=%s``; TimeLimit is [days-]hours:minutes:seconds; Mem and
    bare sizes are MiB, letters powers of 1024 (``1.50G``). ``Unknown``,
    ``None``, ``N/A``, ``(null)`` and a size of 0 say that nothing is known.
    Start and end times of jobs that have not got that far are the scheduler's
    guesses, and left out.

    `node_name` is this node's NodeName: CPUs and memory are its share. With
    None they are only known for a job of one node.

    Raises ParseError, also where a field occurs twice or out of its place:
    then a name or a comment imitates it.
    """
    identity = _JOB_ID.match(line)
    if identity is None:
        raise ParseError("does not start with JobId=", source=SOURCE, text=line)
    try:
        return _parse_fields(identity[1], *_split_record(line), node_name=node_name, tz=tz)
    except ParseError as error:
        field = error.field or "JobId"
        raise ParseError(
            f"{error.reason} (job {identity[1]})", source=SOURCE, field=field, text=error.text
        ) from error


def _split_record(line: str) -> tuple[dict[str, str], str]:
    """Return the fields we use and the text that holds the details per node."""
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
    return values, line[spots["NumCPUs"].end() : end]


def _parse_fields(
    job_id: str, values: Mapping[str, str], details: str, *, node_name: str | None, tz: tzinfo | None
) -> Job:
    def known(field: str) -> str | None:
        return None if values.get(field, "") in NOTHING else values[field]

    def digits(field: str) -> str | None:
        value = known(field)
        return value if value is not None and value.isascii() and value.isdigit() else None

    user = _USER.match(values["UserId"])
    if user is None:
        raise ParseError("not NAME(NUMBER)", field="UserId", text=values["UserId"])
    state = STATES.get(values["JobState"], JobState.UNKNOWN)
    nodes = expand_nodes(known("NodeList") or "")
    total_cpus = _parse_cpu_total(values["NumCPUs"])
    cpus, memory_bytes = _share(details, nodes, node_name, total_cpus)
    gpus, allocated_gpus = _share_of_gpus(details, nodes, node_name)
    wall = _parse_time_limit(values.get("TimeLimit", ""))
    started = state.is_on_node or state.is_finished
    name = _HET_SET.sub("", values["JobName"]) if "HetJobId" in values else values["JobName"]
    het_offset = digits("HetJobOffset")
    restarts = digits("Restarts")
    return Job(
        key=JobKey(NAME, job_id),
        state=state,
        name=name,
        user=None if user[1] in NOTHING else user[1],
        uid=int(user[2]),
        account=known("Account"),
        partition=known("Partition"),
        submit_secs=_parse_epoch(values, "SubmitTime", tz),
        start_secs=_parse_epoch(values, "StartTime", tz) if started else None,
        end_secs=_parse_epoch(values, "EndTime", tz) if state.is_finished else None,
        nodes=nodes,
        total_cpus=total_cpus,
        allocated_cpus=cpus,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=times_cpus(wall, total_cpus),
            memory_bytes=memory_bytes or _parse_memory(values, cpus),
            scratch_bytes=_parse_size(values, "MinTmpDiskNode"),
        ),
        array_job_id=digits("ArrayJobId"),
        array_task_id=digits("ArrayTaskId"),  # "4-5%2" stands for tasks that have not been split off
        het_job_id=digits("HetJobId"),
        het_offset=None if het_offset is None else parse_count(het_offset, field="HetJobOffset"),
        restarts=None if restarts is None else parse_count(restarts, field="Restarts"),
        gpus=gpus,
        allocated_gpus=allocated_gpus,
    )


def _parse_epoch(values: Mapping[str, str], field: str, tz: tzinfo | None) -> int | None:
    text = values.get(field, "")
    if text in NOTHING:
        return None
    if not _TIME.match(text):
        return parse_count(text, field=field)
    try:
        local = datetime.fromisoformat(text)
        return int((local.replace(tzinfo=tz) if tz else local).timestamp())
    except (ValueError, OverflowError, OSError) as error:
        raise ParseError("not a time", field=field, text=text) from error


def _parse_time_limit(text: str) -> Limit:
    if text == "UNLIMITED":
        return UNLIMITED
    if text in NOTHING or text in {"Partition_Limit", "INVALID", "NONE"}:
        return None
    return parse_slurm_duration(text, field="TimeLimit")


def _parse_cpu_total(text: str) -> int | None:
    """Read ``2``, ``2K``; a pending job's range ``2-4`` is not known yet, unless both ends agree."""
    low, _, high = text.partition("-")
    if (high or low) != low:
        return None
    return parse_binary_size(low, field="NumCPUs") or None


def _parse_size(values: Mapping[str, str], field: str) -> int | None:
    text = values.get(field, "")
    return None if text in NOTHING else parse_binary_size(text, field=field, bare_unit="M") or None


def _parse_memory(values: Mapping[str, str], cpus: int | None) -> int | None:
    if "MinMemoryNode" in values and "MinMemoryCPU" in values:
        raise ParseError("stands beside MinMemoryCPU", field="MinMemoryNode", text=values["MinMemoryNode"])
    per_cpu = _parse_size(values, "MinMemoryCPU")
    if per_cpu is not None:
        return None if cpus is None else per_cpu * cpus
    return _parse_size(values, "MinMemoryNode")


def _share(
    details: str, nodes: Sequence[str], node_name: str | None, total_cpus: int | None
) -> tuple[int | None, int | None]:
    """Return CPUs and memory in bytes that a job has on this node, None where it is not known."""
    if node_name is None:
        if len(nodes) != 1:
            return None, None
        node_name = nodes[0]
    cpus, memory = 0, 0
    for match in _NODE_DETAIL.finditer(details):
        if match[1] == node_name or node_name in expand_nodes(match[1]):
            cpus += _count_ids(match[2])
            memory += parse_binary_size(match[3], field="Mem", bare_unit="M")
    if not cpus and tuple(nodes) == (node_name,):
        cpus = total_cpus or 0
    return cpus or None, memory or None


def _share_of_gpus(
    details: str, nodes: Sequence[str], node_name: str | None
) -> tuple[tuple[str, ...], int | None]:
    """Return the cards that a job has on this node, by Slurm's numbers, and how many whole ones.

    The numbers are in the details of a node; where these tell none, the
    count of a job of one node is all that is known. Of cards that are shared
    no number of whole ones is told.
    """
    if node_name is None and len(nodes) == 1:
        node_name = nodes[0]
    found: dict[str, None] = {}
    shared = False
    for match in _NODE_DETAIL.finditer(details):
        if node_name is not None and (match[1] == node_name or node_name in expand_nodes(match[1])):
            found.update(dict.fromkeys(parse_gres(match[4] or "")))
            shared = shared or is_shared(match[4] or "")
    if shared:
        return tuple(found), None
    if not found and tuple(nodes) == (node_name,):
        total = _TRES.search(details)
        return (), None if total is None else parse_tres_gpus(total[1])
    return tuple(found), len(found) or None


def _count_ids(text: str) -> int:
    """Count ``0-1,4``."""
    count = 0
    for part in text.split(","):
        low, dash, high = part.partition("-")
        first = parse_count(low, field="CPU_IDs")
        last = parse_count(high, field="CPU_IDs") if dash else first
        if last < first:
            raise ParseError("range runs backwards", field="CPU_IDs", text=text)
        count += last - first + 1
    return count
