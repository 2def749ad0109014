"""Records of jobs → lines of an accounting file, as PBS writes them. Streaming, pure.

What is lost is found out by reading each job's lines again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo

from jobfeatures.batch.pbsfamily.accounting import (
    DELETED,
    ENDED,
    QUEUED,
    SIGNALS_FROM,
    STARTED,
    read_records,
)
from jobfeatures.joblog import JobRecord, Lost, Number
from jobfeatures.model import JobState

SERVER = "server"

_ID = re.compile(r"[1-9][0-9]{0,11}(?:\[[0-9]{1,9}\])?\Z")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}\Z")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_EXITS = {JobState.COMPLETED: 0, JobState.FAILED: 1, JobState.TIMEOUT: -29, JobState.OUT_OF_MEMORY: -27}
_OF_LIMITS = frozenset({JobState.TIMEOUT, JobState.OUT_OF_MEMORY})  # told by their exit status alone
_FIELDS = tuple(name for name in JobRecord.__dataclass_fields__ if name not in {"batch_system", "step"})


def write_records(records: Iterable[JobRecord], lost: Lost, *, zone: tzinfo | None = None) -> Iterator[str]:
    """Return the lines, without newlines: of a job that ran its E line, of others what they got to.

    `zone` is that of the lines' own times, None: this machine's. Steps have
    no place, nor have jobs without the time that their last line is of. An
    id that is no number, with an index or without, is lost: its job is
    numbered from 10^9 on.
    """
    anew = 10**9
    for record in records:
        if record.step is not None:
            lost("step")
            continue
        if _last_time(record) is None:
            lost("job without the time of its end" if record.end_secs is None else "job without times")
            continue
        job_id = record.job_id
        if not _ID.match(job_id):
            job_id, anew = str(anew), anew + 1
        lines = list(_lines(record, f"{job_id}.{SERVER}", zone))
        for again in read_records(lines, source="", zone=zone):
            for name in _FIELDS:
                value = getattr(record, name)
                if value not in {None, ()} and getattr(again, name, None) != value:
                    lost(name)
        yield from lines


def _last_time(record: JobRecord) -> Number | None:
    """Return the time of a job's last line."""
    if record.state is JobState.PENDING:
        return record.submit_secs
    if record.state.is_on_node:
        return record.start_secs
    if _never_ran(record) and record.submit_secs is None:
        return None
    return record.end_secs


def _never_ran(record: JobRecord) -> bool:
    return record.state is JobState.CANCELLED and record.start_secs is None


def _lines(record: JobRecord, job_id: str, zone: tzinfo | None) -> Iterator[str]:
    pairs = list(_pairs(record))
    if record.state is JobState.PENDING or _never_ran(record):
        yield _line(QUEUED, job_id, record.submit_secs, pairs, zone)
    elif record.state.is_on_node:
        yield _line(STARTED, job_id, record.start_secs, pairs, zone)
    if record.state is JobState.CANCELLED:
        yield _line(DELETED, job_id, record.end_secs, [], zone)
    if record.end_secs is not None and not _never_ran(record) and not _is_open(record):
        yield _line(ENDED, job_id, record.end_secs, [*pairs, *_ending(record)], zone)


def _is_open(record: JobRecord) -> bool:
    return record.state is JobState.PENDING or record.state.is_on_node


def _line(
    kind: str, job_id: str, at_secs: Number | None, pairs: list[tuple[str, str]], zone: tzinfo | None
) -> str:
    moment = datetime.fromtimestamp(max(0, at_secs or 0), UTC).astimezone(zone)
    message = " ".join(f"{name}={value}" for name, value in pairs)
    return f"{moment:%m/%d/%Y %H:%M:%S};{kind};{job_id};{message}"


def _pairs(record: JobRecord) -> Iterator[tuple[str, str]]:
    texts = {
        "user": record.user,
        "group": record.group,
        "account": record.account,
        "jobname": record.name,
        "queue": record.queue,
        "resvID": record.reservation,
    }
    yield from ((name, _quoted(name, text)) for name, text in texts.items() if text)
    numbers = {
        "ctime": record.submit_secs,
        "qtime": record.submit_secs,
        "etime": record.eligible_secs,
        "start": record.start_secs,
    }
    yield from ((name, str(int(number))) for name, number in numbers.items() if number is not None)
    yield from _hosts(record)
    limits = {
        "ncpus": record.requested_cpus,
        "ngpus": record.requested_gpus,
        "nodect": record.requested_nodes,
        "walltime": record.wall_limit_secs,
        "cput": record.cpu_limit_secs,
    }
    yield from (
        (f"Resource_List.{name}", str(each)) for name, each in limits.items() if isinstance(each, int)
    )
    if isinstance(record.requested_memory_bytes, int):
        yield "Resource_List.mem", f"{record.requested_memory_bytes}b"
    if record.restarts is not None:
        yield "run_count", str(record.restarts + 1)


def _hosts(record: JobRecord) -> Iterator[tuple[str, str]]:
    """Yield the hosts with even parts of the CPUs, the GPUs on the first."""
    nodes, cpus = record.nodes, record.total_cpus
    if not nodes or cpus is None or not all(map(_HOST.match, nodes)):
        return
    each, more = divmod(cpus, len(nodes))
    shares = [each + (place < more) for place in range(len(nodes))]
    gpus = [f":ngpus={record.total_gpus}" if record.total_gpus is not None else "", *[""] * (len(nodes) - 1)]
    parts = list(zip(nodes, shares, gpus, strict=True))
    yield "exec_host", "+".join(f"{node}/0*{share}" for node, share, _ in parts)
    yield "exec_vnode", "+".join(f"({node}:ncpus={share}{gpu})" for node, share, gpu in parts)


def _ending(record: JobRecord) -> Iterator[tuple[str, str]]:
    yield "end", str(int(record.end_secs or 0))
    status = _EXITS.get(record.state)
    if record.state not in _OF_LIMITS:
        if record.exit_signal is not None:
            status = SIGNALS_FROM + record.exit_signal
        elif record.exit_status is not None:
            status = record.exit_status
    if status is not None:
        yield "Exit_status", str(status)
    if record.used_cpu_secs is not None:
        secs = int(record.used_cpu_secs)
        yield "resources_used.cput", f"{secs // 3600:02}:{secs // 60 % 60:02}:{secs % 60:02}"
    if record.used_memory_bytes is not None:
        yield "resources_used.mem", f"{record.used_memory_bytes}b"
    if record.total_cpus is not None:
        yield "resources_used.ncpus", str(record.total_cpus)


def _quoted(name: str, text: str) -> str:
    plain = _UNPRINTABLE.sub(" ", text)
    if '"' in plain:
        return "'{}'".format(plain.replace("'", '"'))
    return f'"{plain}"' if name == "account" or re.search(r"[\s'=]", plain) else plain
