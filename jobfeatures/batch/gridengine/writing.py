"""Records as lines of Grid Engine's accounting file, accounting(5). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jobfeatures.batch.gridengine.basics import number_of
from jobfeatures.joblog import JobRecord, Lost, Number
from jobfeatures.model import JobState

FIELDS = (
    *("qname", "hostname", "group", "owner", "job_name", "job_number", "account", "priority"),
    *("submission_time", "start_time", "end_time", "failed", "exit_status", "ru_wallclock", "ru_utime"),
    *("ru_stime", "ru_maxrss", "ru_ixrss", "ru_ismrss", "ru_idrss", "ru_isrss", "ru_minflt", "ru_majflt"),
    *("ru_nswap", "ru_inblock", "ru_oublock", "ru_msgsnd", "ru_msgrcv", "ru_nsignals", "ru_nvcsw"),
    *("ru_nivcsw", "project", "department", "granted_pe", "slots", "task_number", "cpu", "mem", "io"),
    *("category", "iow", "pe_taskid", "maxvmem", "arid", "ar_sub_time"),
)

_LEADING_NUMBER = re.compile(r"[1-9][0-9]{0,9}(?![0-9])", re.ASCII)

# What a line has no field for, or none that says the same.
_HOMELESS = (
    *("uid", "gid", "partition", "executable", "priority", "eligible_secs", "suspended_secs", "total_gpus"),
    *("requested_nodes", "requested_gpus", "het_job_id", "het_offset", "preceding_job_id", "think_secs"),
)


def write_records(records: Iterable[JobRecord], lost: Lost) -> Iterator[str]:
    """Return the lines of an accounting file, without newlines, 45 fields each, in the order of the records.

    Of an id that is no number the digits that it begins with are kept, a job
    without any has no place. Of several nodes only the first is told, and of a
    state only what `failed` and `exit_status` can say.
    """
    for record in records:
        found = _LEADING_NUMBER.match(record.array_job_id or record.job_id)
        if found is None:
            lost("job whose id has no number")
            continue
        if number_of(record.job_id) is None:
            lost("job_id")
        for name in _HOMELESS:
            if getattr(record, name) not in {None, ()}:
                lost(name)
        if len(record.nodes) > 1:
            lost("nodes")
        task = record.array_task_id or "0"
        if record.array_task_id is not None and number_of(task) != task:
            lost("array_task_id")
            task = "0"
        yield ":".join(_make_fields(record, found[0], task, lost))


def _make_fields(record: JobRecord, number: str, task: str, lost: Lost) -> list[str]:
    def text(value: str | None, name: str, absent: str = "NONE") -> str:
        if value is None:
            return absent
        plain = re.sub(r"[:\s]", "_", value)
        if plain != value:
            lost(name)
        return plain or absent

    def secs(value: Number | None, name: str) -> str:
        if value is not None and value != int(value):
            lost(name)
        return str(int(value or 0))

    failed, status = _codes_of(record, lost)
    start, end = int(record.start_secs or 0), int(record.end_secs or 0)
    memory = (record.used_memory_bytes or 0) / 1024
    slots = record.total_cpus or record.requested_cpus or 1
    return [
        text(record.queue or record.partition, "queue"),
        text(record.nodes[0] if record.nodes else None, "nodes"),
        text(record.group, "group"),
        text(record.user, "user"),
        text(record.name, "name", ""),
        number,
        text(record.account, "account", "sge"),
        "0",
        secs(record.submit_secs, "submit_secs"),
        secs(record.start_secs, "start_secs"),
        secs(record.end_secs, "end_secs"),
        str(failed),
        str(status),
        str(max(0, end - start) if start and end else 0),
        *("0.000000", "0.000000", f"{memory:.6f}"),
        *("0" for _ in range(FIELDS.index("ru_nivcsw") - FIELDS.index("ru_maxrss"))),
        "NONE",
        "NONE",
        "smp" if slots > 1 else "NONE",
        str(slots),
        task,
        f"{record.used_cpu_secs or 0:.6f}",
        "0.000000",
        "0.000000",
        _category_of(record, slots),
        "0.000000",
        text(record.step, "step"),
        "0.000000",
        text(record.reservation, "reservation", "0"),
        "0",
    ]


def _codes_of(record: JobRecord, lost: Lost) -> tuple[int, int]:
    """Return `failed` and `exit_status`."""
    status = record.exit_status
    if record.exit_signal and (status is None or status < 128):
        status = 128 + record.exit_signal
    match record.state:
        case JobState.COMPLETED:
            return 0, status or 0
        case JobState.PREEMPTED:
            return 25, status or 0
        case JobState.NODE_FAIL:
            return 19, status or 0
        case JobState.FAILED if record.start_secs is not None and not (status and status > 128):
            return 0, status or 1
        case JobState.FAILED | JobState.TIMEOUT:
            return (100, status or 137) if record.start_secs is not None else (1, 0)
        case _:
            lost("state")
            return 100, status or 137


def _category_of(record: JobRecord, slots: int) -> str:
    asked: list[str] = []
    for name, limit, per in (
        ("h_cpu", record.cpu_limit_secs, slots),
        ("h_rss", record.requested_memory_bytes, 1),
        ("h_rt", record.wall_limit_secs, 1),
    ):
        if isinstance(limit, int):
            asked.append(f"{name}={limit // per}")
        elif limit is not None:
            asked.append(f"{name}=INFINITY")
    parts = [f"-l {','.join(asked)}"] if asked else []
    if slots > 1:
        parts.append(f"-pe smp {slots}")
    return " ".join(parts) or "NONE"
