"""The records that all log formats share → the lines that ``sacct -P`` would print: pure.

Times are epoch seconds, as ``SLURM_TIME_FORMAT=%s`` makes them, so that no zone
has to be known. CPU time, time limits and suspensions are durations; the memory
that was used stands in TRESUsageInTot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from jobfeatures.batch.slurm.fields import UNKNOWN
from jobfeatures.errors import ParseError
from jobfeatures.joblog import JobRecord, Lost, Number
from jobfeatures.jobnumbers import JobNumbers, is_number
from jobfeatures.model import UNLIMITED, JobState, Limit
from jobfeatures.nodelist import fold_ranges

KIB: Final = 1024
COLUMNS: Final = (
    *("JobIDRaw", "JobID", "JobName", "User", "UID", "Group", "GID", "Account", "Partition", "Reservation"),
    *("Priority", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "Restarts"),
    *("ExitCode", "NodeList", "AllocNodes", "AllocCPUS", "AllocTRES", "ReqNodes", "ReqCPUS", "ReqTRES"),
    *("ReqMem", "Timelimit", "TotalCPU", "TRESUsageInTot"),
)
_HOMELESS: Final = ("executable", "cpu_limit_secs", "preceding_job_id", "think_secs")
_TASK = re.compile(r"[0-9]{1,10}\Z")
_STEP = re.compile(r"[A-Za-z0-9_+-]{1,64}\Z")
_BREAKS = re.compile(r"[|\r\n]")


def write_records(records: Iterable[JobRecord], lost: Lost) -> Iterator[str]:
    """Return a header and one line a job or step, without newlines.

    A job whose id is no number gets one beyond Slurm's, and its id is lost.
    """
    numbers = JobNumbers()
    yield "|".join(COLUMNS)
    for record in records:
        yield "|".join(_fields(record, numbers, lost))


def _fields(record: JobRecord, numbers: JobNumbers, lost: Lost) -> Iterator[str]:
    """Yield the texts of the columns, in their order."""
    for name in _HOMELESS:
        if getattr(record, name) is not None:
            lost(name)
    number, kept = numbers.number(record.job_id)
    if not kept:
        lost("job_id")
    step = ""
    if record.step is not None:
        if not _STEP.match(record.step):
            lost("step")
        step = "." + (re.sub(r"[^A-Za-z0-9_+-]", "_", record.step)[:64] or "_")
    if record.queue is not None and record.partition is not None:
        lost("queue")
    yield f"{number}{step}"
    yield _shown_id(record, number, lost) + step
    yield _text(record.name, "name", lost)
    yield _text(record.user, "user", lost)
    yield _count(record, "uid", lost)
    yield _text(record.group, "group", lost)
    yield _count(record, "gid", lost)
    yield _text(record.account, "account", lost)
    yield _text(record.partition or record.queue, "partition", lost)
    yield _text(record.reservation, "reservation", lost)
    yield _count(record, "priority", lost)
    yield record.state.value
    yield from _times(record, lost)
    yield _duration(record.suspended_secs, "suspended_secs", lost)
    yield _count(record, "restarts", lost)
    yield _exit_code(record, lost)
    yield _nodes(record, lost)
    yield _count(record, "total_nodes", lost)
    yield _count(record, "total_cpus", lost)
    yield _resources(record.total_cpus, record.total_nodes, record.total_gpus)
    yield _count(record, "requested_nodes", lost)
    yield _count(record, "requested_cpus", lost)
    yield _resources(record.requested_cpus, record.requested_nodes, record.requested_gpus)
    yield _memory(record.requested_memory_bytes, lost)
    yield "UNLIMITED" if record.wall_limit_secs is UNLIMITED else _limit(record.wall_limit_secs, lost)
    yield _duration(record.used_cpu_secs, "used_cpu_secs", lost)
    used = _count(record, "used_memory_bytes", lost)
    yield f"mem={used}" if used else ""


def _shown_id(record: JobRecord, number: int, lost: Lost) -> str:
    """Return JobID: the number, or what it is in an array or a heterogeneous job."""
    array, task = record.array_job_id, record.array_task_id
    het, offset = record.het_job_id, record.het_offset
    is_array = array is not None and task is not None and is_number(array) and bool(_TASK.match(task))
    is_het = not is_array and het is not None and offset is not None and is_number(het) and offset >= 0
    told = {"array_job_id": is_array, "array_task_id": is_array, "het_job_id": is_het, "het_offset": is_het}
    for name, is_told in told.items():
        if getattr(record, name) is not None and not is_told:
            lost(name)
    if is_array:
        return f"{array}_{task}"
    return f"{het}+{offset}" if is_het else str(number)


def _text(text: str | None, name: str, lost: Lost) -> str:
    """Return a text as it can stand in a column; one that would read as nothing is left out."""
    if not text:
        return ""
    if text in UNKNOWN:
        lost(name)
        return ""
    plain = _BREAKS.sub("_", text)
    if plain != text:
        lost(name)
    return plain


def _count(record: JobRecord, name: str, lost: Lost) -> str:
    value: int | None = getattr(record, name)
    if value is None:
        return ""
    if value < 0:
        lost(name)
        return ""
    return str(value)


def _times(record: JobRecord, lost: Lost) -> Iterator[str]:
    """Yield Submit, Eligible, Start, End and ElapsedRaw; what has not come is Unknown."""
    for name in ("submit_secs", "eligible_secs", "start_secs", "end_secs"):
        value: Number | None = getattr(record, name)
        if value is not None and value != int(value):
            lost(f"{name}: fractions")
        if value is not None and value < 0:
            lost(name)
        yield "Unknown" if value is None or value < 0 else str(int(value))
    start, end = record.start_secs, record.end_secs
    ran = 0 if start is None or end is None else end - start - (record.suspended_secs or 0)
    yield str(max(0, int(ran)))
    # A finished job without time, CPUs and nodes is read as one that never ran.
    empty = ran <= 0 and not record.total_cpus and (record.total_cpus == 0 or not record.nodes)
    if record.state is JobState.PENDING or (empty and record.state.is_finished):
        for name in ("start_secs", "used_cpu_secs"):
            if getattr(record, name) is not None:
                lost(name)
    if end is not None and not record.state.is_finished and record.state is not JobState.UNKNOWN:
        lost("end_secs")


def _exit_code(record: JobRecord, lost: Lost) -> str:
    """Return status and signal; what a signal ended has no status there."""
    status, signal = record.exit_status, record.exit_signal
    if status is None and signal is None:
        return ""
    if not record.state.is_finished or (status == 0 and signal) or (status or 0) < 0:
        lost("exit_status" if status is not None else "exit_signal")
    return f"{max(0, status or 0)}:{max(0, signal or 0)}"


def _nodes(record: JobRecord, lost: Lost) -> str:
    try:
        return ",".join(fold_ranges(record.nodes))
    except ParseError:  # no host's names
        lost("nodes")
        return ""


def _resources(cpus: int | None, nodes: int | None, gpus: int | None) -> str:
    amounts = (("cpu", cpus), ("node", nodes), ("gres/gpu", gpus))
    return ",".join(f"{name}={amount}" for name, amount in amounts if amount is not None and amount >= 0)


def _memory(size: Limit, lost: Lost) -> str:
    """Return what was asked for, of the whole job."""
    if size is None:
        return ""
    if not isinstance(size, int) or size <= 0:
        lost("requested_memory_bytes")
        return ""
    return f"{size // KIB}K" if size % KIB == 0 else f"{size}B"


def _limit(limit: Limit, lost: Lost) -> str:
    return _duration(limit if isinstance(limit, int) else None, "wall_limit_secs", lost)


def _duration(secs: Number | None, name: str, lost: Lost) -> str:
    """Return ``[days-]hours:minutes:seconds``, with three decimals where there are parts."""
    if secs is None:
        return ""
    if secs < 0:
        lost(name)
        return ""
    whole = int(secs)
    parts = f"{secs - whole:.3f}"[1:] if secs != whole and secs - whole < 0.9995 else ""
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{parts}"
    return f"{days}-{clock}" if days else clock
