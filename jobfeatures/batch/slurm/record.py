"""Makes a job, with its share of one or of all of its nodes, from a record of ``scontrol show job``. Pure.

The record is printed with the options ``-o -d``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

from jobfeatures.batch.basics import count_ranges, parse_epoch
from jobfeatures.batch.keyedrecord import KeyedRecord, RecordKey, key, key_within, required_key
from jobfeatures.batch.slurm.basics import NAME, NOTHING, SOURCE
from jobfeatures.batch.slurm.fields import UNKNOWN, expand_kept, parse_time_limit
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

_BODY_END = re.compile(r" (?:Features|Licenses|Network|Command|WorkDir|Comment|StdErr)=")
_JOB_ID = re.compile(r"JobId=([0-9]{1,10}) ")
_USER = re.compile(r"(.*)\(([0-9]{1,10})\)\Z", re.DOTALL)
_HET_SET = re.compile(r" HetJobIdSet=[0-9,-]*\Z")
_SLUID = re.compile(rf" SLUID=({SLUID})\Z", re.ASCII)  # from 26.05 on, also behind a name that ends so itself
_LATER = "LicensesAlloc"
_TRES = re.compile(r" (?:Alloc)?TRES=(\S*)")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\Z")

_NODE_DETAIL = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\S+)(?: GRES=(\S*))?")  # memory is in MiB


def parse_state(text: str) -> JobState:
    """Return the state that one of Slurm's words means; UNKNOWN for a word that is not in `STATES`."""
    return STATES.get(text, JobState.UNKNOWN)


def _parse_user(text: str) -> tuple[str | None, int]:
    user = matched(_USER, text, "not NAME(NUMBER)")
    return None if user[1] in NOTHING else user[1], int(user[2])


def _parse_cpu_total(text: str) -> int | None:
    """Parse ``2``, ``2K``; a pending job's range ``2-4`` is unknown unless both ends agree."""
    low, _, high = text.partition("-")
    return None if (high or low) != low else parse_binary_size(low) or None


def _parse_digits(text: str) -> str | None:
    return text if text.isascii() and text.isdigit() else None


def _parse_number(text: str) -> int | None:
    return parse_count(text) if text.isascii() and text.isdigit() else None


def _parse_mebibytes(text: str) -> int | None:
    return parse_binary_size(text, bare_unit="M") or None


def _parse_time(record: ScontrolJob, text: str) -> int | None:
    return int(parse_local(text, record.tz, field="")) if _TIME.match(text) else parse_epoch(text) or None


def _parse_start(record: ScontrolJob, text: str) -> int | None:
    has_started = record.state.is_on_node or record.state.is_finished
    return _parse_time(record, text) if has_started else None


class ScontrolJob(KeyedRecord):
    """The fields of scontrol's job record that are used.

    Those that precede JobName in the record are declared first.
    """

    source = SOURCE
    nothing = UNKNOWN

    array_job_id = key(_parse_digits, "ArrayJobId")
    array_task_id = key(_parse_digits, "ArrayTaskId")  # "4-5%2" means tasks not yet split off
    het_job_id = key(_parse_digits, "HetJobId")
    het_offset = key(_parse_number, "HetJobOffset")
    full_name = required_key(str, "JobName")
    user_and_uid = required_key(_parse_user, "UserId")
    account = key(str, "Account")
    state = required_key(parse_state, "JobState")
    restarts = key(_parse_number, "Restarts")
    time_limit: RecordKey[Limit] = RecordKey(parse_time_limit, "TimeLimit")
    submit_secs = key_within(_parse_time, "SubmitTime")
    start_secs = key_within(_parse_start, "StartTime")  # of a job that waits an estimate
    end_time = key_within(_parse_time, "EndTime")
    preempt_time = key_within(_parse_time, "PreemptTime")
    ran_secs = key(parse_count, "SecsPreSuspend", when=lambda job: job.state is JobState.SUSPENDED)
    partition = key(str, "Partition")
    node_list = key(expand_kept, "NodeList")
    total_cpus = required_key(_parse_cpu_total, "NumCPUs")
    memory_per_node_bytes = key(_parse_mebibytes, "MinMemoryNode")
    memory_per_cpu_bytes = key(_parse_mebibytes, "MinMemoryCPU")
    scratch_bytes = key(_parse_mebibytes, "MinTmpDiskNode")

    def __init__(self, values: Mapping[str, str], tz: tzinfo | None) -> None:
        self.tz = tz
        super().__init__(values)


_NAMES = ScontrolJob.names
_HEAD = frozenset(_NAMES[: _NAMES.index("JobName") + 1])
_FIELD = re.compile(rf" ({'|'.join(_NAMES)})=")


@dataclass(frozen=True, slots=True)
class SlurmShare:
    """A job's CPUs, memory and GPUs on one node; 0 and () if not reported.

    `cards` are the indices of its GPUs. `has_shared_cards`: the job has parts of GPUs (shard, mps), whose
    other parts may belong to other jobs.
    """

    cpus: int = 0
    memory_bytes: int = 0
    cards: tuple[str, ...] = ()
    has_shared_cards: bool = False


_NOTHING = SlurmShare()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedJob:
    """A job with what is needed to compute its CPUs, memory and GPUs on each of its nodes.

    `shares` are by node name; `total_gpus` are those on all nodes.
    """

    job: Job
    shares: Mapping[str, SlurmShare]
    memory_per_cpu_bytes: int | None = None
    memory_per_node_bytes: int | None = None
    total_gpus: int | None = None

    def on(self, node_name: str | None) -> Job:
        """Return the job with its CPUs, memory and GPUs on the node `node_name` (None: on its only node).

        If the details of the record have no CPUs or GPUs, a job on a single node gets its totals; for a job
        on several nodes they are unknown. `allocated_gpus` is None if GPUs are shared (shard, mps).
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
    """Return a job's CPUs, memory and GPUs on each node, by node, from its record's details.

    Raises ParseError if malformed.
    """
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
    """Return the job in one record of ``scontrol -a -o -d show job ID``.

    Sample, shortened; it is one line unless a name or a comment contains a newline::

        JobId=15 ArrayJobId=6 ArrayTaskId=1 JobName=a b SLUID=sA79M8D1923R00 UserId=alice(6001) …
        Account=physics … JobState=RUNNING … Restarts=0 … TimeLimit=00:10:00 …
        SubmitTime=2026-11-21T07:29:19 … StartTime=… EndTime=… Partition=batch … NodeList=n1 … NumCPUs=2 …
        Nodes=n1 CPU_IDs=0-1 Mem=100 GRES= MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0 Features=(null) …

    Times are local to `tz` (None: this machine's zone), or epoch seconds where ``SLURM_TIME_FORMAT=%s``;
    TimeLimit is [days-]hours:minutes:seconds; Mem and bare sizes are MiB, letters powers of 1024 (``1.50G``).
    ``Unknown``, ``None``, ``N/A``, ``(null)`` and a size of 0 mean unknown. Start and end times in the future
    are the scheduler's estimates, and left out. EndTime of a running job is when it reaches its limit: later
    by the time for which it was suspended, earlier in a grace time. SecsPreSuspend of a suspended job is the
    time for which it ran before.

    `node_name` is this node's NodeName: CPUs and memory are the job's share of this node. With None they are
    only known for a job on a single node.

    Raises ParseError, also where a field occurs twice or out of place: then a name or a comment contains text
    that looks like that field.
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
        if not (match.start() <= name.start() if field in _HEAD else user.start() <= match.start() < end):
            raise ParseError("field is not where scontrol prints it", field=field, text=line[match.start() :])
    if name.end() > user.start():
        raise ParseError("field is not where scontrol prints it", field="UserId", text=line[user.start() :])
    values = {field: line[match.end() :].split(" ", 1)[0] for field, match in spots.items()}
    values["JobName"] = line[name.end() : user.start()]
    if f" {_LATER}=" in line[end:]:
        values[_LATER] = ""
    return values, line[spots["NumCPUs"].end() : end]


def _parse_fields(job_id: str, values: Mapping[str, str], details: str, *, tz: tzinfo | None) -> SharedJob:
    record = ScontrolJob(values, tz)
    user, uid = record.user_and_uid
    state, wall, total_cpus = record.state, record.time_limit, record.total_cpus
    if "MinMemoryNode" in values and "MinMemoryCPU" in values:
        raise ParseError(
            "cannot occur together with MinMemoryCPU", field="MinMemoryNode", text=values["MinMemoryNode"]
        )
    tres = _TRES.search(details)
    name, sluid = _split_name(values)
    end_secs, preempt_secs = record.end_time, record.preempt_time
    limit_end_secs, deadline_secs = job_ends(
        state, record.start_secs, wall, end_secs, is_preempted=preempt_secs is not None
    )
    job = Job(
        key=JobKey(NAME, job_id),
        **record.fields(Job),
        name=name,
        user=user,
        uid=uid,
        end_secs=end_secs if state.is_finished else None,
        limit_end_secs=limit_end_secs,
        deadline_secs=deadline_secs,
        nodes=record.node_list or (),
        limits=Limits(
            wall_secs=wall,
            cpu_secs=multiplied(wall, total_cpus),
            scratch_bytes=record.scratch_bytes,
        ),
        sluid=sluid,
    )
    return SharedJob(
        job=job,
        shares=parse_shares(details),
        memory_per_cpu_bytes=record.memory_per_cpu_bytes,
        memory_per_node_bytes=record.memory_per_node_bytes,
        total_gpus=None if tres is None else parse_tres_gpus(tres[1]),
    )


def job_ends(
    state: JobState, start_secs: int | None, wall: Limit, end_secs: int | None, *, is_preempted: bool
) -> tuple[int | None, int | None]:
    """Return when a running job's wall limit ends it, and when its grace time does (epoch); each may be None.

    Slurm shows only one time, `end_secs`: the earlier of the two. For a job that was suspended and then
    preempted, it may be either.
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
