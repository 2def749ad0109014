"""Records of jobs → lines of an accounting file, as PBS writes them. Streaming, pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo

from jobfeatures.batch.pbsfamily.accounting import DELETED, ENDED, QUEUED, SIGNALS_FROM, STARTED
from jobfeatures.joblog import JobRecord, Lost, Number
from jobfeatures.model import JobState

SERVER = "server"

_ID = re.compile(r"[1-9][0-9]{0,11}(?:\[[0-9]{1,9}\])?\Z")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}\Z")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_EXITS = {JobState.COMPLETED: 0, JobState.FAILED: 1, JobState.TIMEOUT: -29, JobState.OUT_OF_MEMORY: -27}
# What a record may hold and these files have no place for.
_HOMELESS = (
    *("uid", "gid", "partition", "executable", "priority", "suspended_secs", "het_job_id", "het_offset"),
    *("preceding_job_id", "think_secs"),
)


def write_records(records: Iterable[JobRecord], lost: Lost, *, zone: tzinfo | None = None) -> Iterator[str]:
    """Return the lines, without newlines: of a job that ran its E line, of others what they got to.

    `zone` is that of the lines' own times, None: this machine's. Steps have
    no place. An id that is no number, with an index or without, is lost: its
    job is numbered from 10^9 on.
    """
    anew = 10**9
    for record in records:
        if record.step is not None:
            lost("step")
            continue
        job_id = record.job_id
        if not _ID.match(job_id):
            lost("job_id")
            job_id, anew = str(anew), anew + 1
        for name in _HOMELESS:
            if getattr(record, name) is not None:
                lost(name)
        yield from _lines(record, f"{job_id}.{SERVER}", lost, zone)


def _lines(record: JobRecord, job_id: str, lost: Lost, zone: tzinfo | None) -> Iterator[str]:
    pairs = list(_pairs(record, lost))
    deleted = record.state is JobState.CANCELLED
    if record.state is JobState.PENDING or (deleted and record.start_secs is None):
        yield _line(QUEUED, job_id, record.submit_secs, pairs, zone)
        if deleted:
            yield _line(DELETED, job_id, record.end_secs, [], zone)
    elif record.state.is_on_node:
        if record.state is not JobState.RUNNING:
            lost("state")
        yield _line(STARTED, job_id, record.start_secs, pairs, zone)
    else:
        if deleted:
            yield _line(DELETED, job_id, record.end_secs, [], zone)
        yield _line(ENDED, job_id, record.end_secs, [*pairs, *_ending(record, lost)], zone)


def _line(
    kind: str, job_id: str, at_secs: Number | None, pairs: list[tuple[str, str]], zone: tzinfo | None
) -> str:
    moment = datetime.fromtimestamp(max(0, at_secs or 0), UTC).astimezone(zone)
    message = " ".join(f"{name}={value}" for name, value in pairs)
    return f"{moment:%m/%d/%Y %H:%M:%S};{kind};{job_id};{message}"


def _pairs(record: JobRecord, lost: Lost) -> Iterator[tuple[str, str]]:
    texts = {
        "user": record.user,
        "group": record.group,
        "account": record.account,
        "jobname": record.name,
        "queue": record.queue,
        "resvID": record.reservation,
    }
    for name, text in texts.items():
        if text:
            yield name, _quoted(name, text, lost)
    numbers = {
        "ctime": record.submit_secs,
        "qtime": record.submit_secs,
        "etime": record.eligible_secs,
        "start": record.start_secs,
    }
    for name, number in numbers.items():
        if number is not None:
            yield name, _whole(name, number, lost)
    yield from _hosts(record, lost)
    limits = {
        "mem": _size(record.requested_memory_bytes),
        "ncpus": record.requested_cpus,
        "ngpus": record.requested_gpus,
        "nodect": record.requested_nodes,
        "walltime": record.wall_limit_secs,
        "cput": record.cpu_limit_secs,
    }
    for name, limit in limits.items():
        if isinstance(limit, int | str):
            yield f"Resource_List.{name}", str(limit)
        elif limit is not None:
            lost(f"Resource_List.{name} without limit")
    if record.restarts is not None:
        yield "run_count", str(record.restarts + 1)


def _hosts(record: JobRecord, lost: Lost) -> Iterator[tuple[str, str]]:
    """Yield the hosts with even parts of the CPUs, the GPUs on the first."""
    nodes, cpus = record.nodes, record.total_cpus
    if not all(map(_HOST.match, nodes)):
        lost("nodes")
        nodes = ()
    if not nodes:
        for name, value in (("total_nodes", record.total_nodes), ("total_gpus", record.total_gpus)):
            if value is not None:
                lost(name)
        return
    if cpus is None:
        lost("nodes without total_cpus")
        return
    each, more = divmod(cpus, len(nodes))
    shares = [each + (place < more) for place in range(len(nodes))]
    yield "exec_host", "+".join(f"{node}/0*{share}" for node, share in zip(nodes, shares, strict=True))
    gpus = f":ngpus={record.total_gpus}" if record.total_gpus is not None else ""
    yield (
        "exec_vnode",
        "+".join(
            f"({node}:ncpus={share}{gpus if place == 0 else ''})"
            for place, (node, share) in enumerate(zip(nodes, shares, strict=True))
        ),
    )


def _ending(record: JobRecord, lost: Lost) -> Iterator[tuple[str, str]]:
    if record.end_secs is not None:
        yield "end", _whole("end", record.end_secs, lost)
    status = _EXITS.get(record.state)
    if record.exit_signal is not None:
        status = SIGNALS_FROM + record.exit_signal
    elif record.exit_status is not None and record.state in {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.UNKNOWN,
    }:
        status = record.exit_status
    elif record.exit_status not in {None, status}:
        lost("exit_status")
    if record.state in {JobState.NODE_FAIL, JobState.PREEMPTED}:
        lost("state")
    if status is not None:
        yield "Exit_status", str(status)
    if record.used_cpu_secs is not None:
        yield "resources_used.cput", _duration(record.used_cpu_secs, lost)
    if record.used_memory_bytes is not None:
        yield "resources_used.mem", f"{record.used_memory_bytes}b"
    if record.total_cpus is not None:
        yield "resources_used.ncpus", str(record.total_cpus)


def _quoted(name: str, text: str, lost: Lost) -> str:
    plain = _UNPRINTABLE.sub(" ", text)
    if '"' in plain and "'" in plain:
        plain = plain.replace('"', "'")
    if plain != text:
        lost(name)
    if '"' in plain:
        return f"'{plain}'"
    return f'"{plain}"' if name == "account" or re.search(r"[\s'=]", plain) else plain


def _whole(name: str, number: Number, lost: Lost) -> str:
    if number != int(number):
        lost(f"fraction of {name}")
    return str(int(number))


def _duration(secs: Number, lost: Lost) -> str:
    whole = int(_whole("used_cpu_secs", secs, lost))
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def _size(limit: object) -> object:
    return f"{limit}b" if isinstance(limit, int) else limit
