"""Parses accounting from ``sacct --json`` and from slurmrestd. Pure.

slurmrestd sends it for ``/slurmdb/VERSION/jobs``; versions are v0.0.37 to v0.0.43. Jobs contain their steps.
CPU time of a step's tasks is in milliseconds, memory and file I/O in bytes; requested and allocated resources
are lists of trackable resources, with memory in MiB. Source: https://slurm.schedmd.com/rest_api.html

v0.0.37 and v0.0.38 (Slurm 21.08 to 22.05) report exit code 0 for failed jobs and CPU time for steps only, and
slurmrestd reports an end for running jobs; in v0.0.37 a job's start is the time when it became eligible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from jobfeatures.batch.slurm.basics import NAME, checked_id
from jobfeatures.batch.slurm.gpus import count_gpus
from jobfeatures.batch.slurm.json.values import MEBIBYTE, JsonRecord, exit_code_of, parse_number
from jobfeatures.batch.slurm.record import STATES
from jobfeatures.batch.slurm.sacct.requeued import state_of_requeued
from jobfeatures.batch.slurm.sacct.values import ENDED, REQUEUED
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord, Notes, Number, pairs
from jobfeatures.joblogs.nottaken import without_unreadable
from jobfeatures.records.model import JobState

_STEP = re.compile(r"(?:[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,10})?\.)?([A-Za-z0-9_+-]{1,64})\Z")
_UNFINISHED = frozenset({"PENDING", "RUNNING", "SUSPENDED", "RESIZING"})
_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+")
_OLD = frozenset({"v0.0.37", "v0.0.38"})
_WITHOUT_START = "v0.0.37"
_COUNTED = frozenset({"cpu", "mem", "node", "gres/gpu"})
NEEDED = frozenset(
    {
        *("job_id", "state.current", "time.submission", "time.eligible", "time.start", "time.end", "nodes"),
        *("tres.allocated", "step.id", "state", "nodes.range"),
    }
)


def parse_json_accounting(document: JsonRecord, *, source: str, taken_at_secs: float) -> Accounting:
    """Return an answer's jobs and steps; malformed ones are rejected. Raises ParseError without ``jobs``."""
    records: list[JobRecord] = []
    rejected: list[Rejected] = []
    version, notes = version_of(document), Notes()
    for record in document.listed("jobs", source):
        found, bad = parse_db_job(record, version=version, notes=notes)
        records += found
        rejected += [Rejected.from_error(error.at(source)) for error in bad]
    rejected += notes.faults(source)
    return Accounting(NAME, tuple(records), taken_at_secs, tuple(rejected))


def version_of(document: JsonRecord) -> str:
    """Return the API version of an answer, such as ``v0.0.40``; "" if unknown."""
    for name in ("data_parser", "type"):
        match = _VERSION.search(document.raw_text("meta", "plugin", name) or "")
        if match is not None:
            return match[0]
    return ""


def parse_db_job(
    record: JsonRecord, *, version: str, notes: Notes
) -> tuple[list[JobRecord], list[ParseError]]:
    """Return a job followed by its steps, and the errors of those that were rejected; never raises.

    One is rejected if a field in `NEEDED` is malformed; other malformed fields are None, and counted in
    `notes`. `version` is that of the API, such as ``v0.0.40``.
    """
    try:
        job = _read(partial(_parse_job, version=version), record.values, notes)
    except ParseError as error:
        return [], [error.at(about=f"job {str(record.get('job_id'))[:32]}")]
    found: list[JobRecord] = []
    bad: list[ParseError] = []
    told, untold = job.used_cpu_secs, 0.0
    steps = record.get("steps")
    for value in steps if isinstance(steps, list) else ():
        try:
            found.append(_read(partial(_parse_step, job=job, version=version), value, notes))
            untold += found[-1].used_cpu_secs or 0 if _tells_no_cpu_time(JsonRecord(value)) else 0
        except ParseError as error:
            bad.append(error.at(about=f"a step of job {job.job_id}"))
    if version == _WITHOUT_START and job.start_secs is not None:
        job = replace(job, start_secs=_real_start(job, found))
    if job.state_word == REQUEUED:
        batch_step = next((step.state.value for step in found if step.step == "batch"), None)
        has_code = job.exit_status is not None or job.exit_signal is not None
        state = state_of_requeued(has_code=has_code, batch_step=batch_step)
        job = replace(job, state=state, state_word=None if has_code else REQUEUED)
    known = version in _OLD or all(step.used_cpu_secs is not None for step in found)  # old: 0 is not told
    job = _with_cpu_time(job, found, are_all=known and not bad)
    if untold and job.used_cpu_secs is not None:
        used = job.used_cpu_secs + (untold if told else 0)
        job = replace(job, used_cpu_secs=round(used, 6), user_cpu_secs=None, system_cpu_secs=None)
    return [job, *found], bad


def _read(parse: Callable[[JsonRecord], JobRecord], values: Any, notes: Notes) -> JobRecord:
    """Return a job or step with unreadable fields None. Raises ParseError if one is in `NEEDED`."""
    unread: dict[str, str] = {}

    def make() -> JobRecord:
        record = JsonRecord(values)
        found = parse(record)
        unread.update(record.unread)
        return found

    found = without_unreadable(make, values if isinstance(values, dict) else {}, NEEDED, notes)
    for name, text in unread.items():
        notes.count_unread(name, text)
    return found


def _real_start(job: JobRecord, steps: list[JobRecord]) -> Number | None:
    """Return when a job started, where ``start`` is when it became eligible; None if unknown (epoch)."""
    starts = [step.start_secs for step in steps if step.start_secs is not None]
    if starts:
        return min(starts)
    if job.end_secs is None or not job.run_secs:
        return None
    return job.end_secs - job.run_secs - (job.suspended_secs or 0)


def _with_cpu_time(job: JobRecord, steps: list[JobRecord], *, are_all: bool) -> JobRecord:
    """Return a job with the CPU time that its steps report where its own is 0 or unknown.

    It is unknown if these are not all steps (`are_all`), or if one has no CPU time.
    """
    user = [step.user_cpu_secs for step in steps if step.user_cpu_secs is not None]
    system = [step.system_cpu_secs for step in steps if step.system_cpu_secs is not None]
    used = [step.used_cpu_secs for step in steps if step.used_cpu_secs is not None]
    if not job.user_cpu_secs and not job.system_cpu_secs:
        job = replace(
            job,
            user_cpu_secs=(sum(user) if user else job.user_cpu_secs) if are_all else None,
            system_cpu_secs=(sum(system) if system else job.system_cpu_secs) if are_all else None,
        )
    if not job.used_cpu_secs and job.state.is_finished and (used or not are_all):
        job = replace(job, used_cpu_secs=round(sum(used), 6) if are_all else None)
    return job


def _parse_job(record: JsonRecord, *, version: str) -> JobRecord:
    job_id = checked_id(str(record.count("job_id")), field="job_id")
    array = record.nonzero("array", "job_id")
    het = record.nonzero("het", "job_id")
    task = None if array is None else record.count("array", "task_id")
    minutes, reservation = record.number("time", "limit"), record.get("reservation", "name")
    requested = resources(record, "tres", "requested")
    allocated = resources(record, "tres", "allocated")
    state, common = _common_fields(record, "state", "current", allocated=allocated, version=version)
    ran = state is not JobState.PENDING and (bool(allocated.get("cpu")) or not state.is_finished)
    if not ran:
        common |= dict.fromkeys(("run_secs", "used_cpu_secs", "user_cpu_secs", "system_cpu_secs"))
    return JobRecord(
        **common,
        job_id=job_id,
        cluster=record.text("cluster"),
        name=record.raw_text("name") or "",
        user=record.text("association", "user") or record.text("user"),
        group=record.text("group"),
        account=record.text("account"),
        partition=record.text("partition"),
        qos=record.text("qos"),
        reservation=record.text("reservation", "name") if isinstance(reservation, str) else None,  # 0: none
        priority=record.count("priority"),
        submit_secs=record.epoch("time", "submission"),
        eligible_secs=record.epoch("time", "eligible"),
        start_secs=record.epoch("time", "start") if ran else None,
        restarts=record.count("restart_cnt"),
        nodes=record.nodes("nodes"),
        requested_nodes=requested.get("node"),
        requested_cpus=record.nonzero("required", "CPUs") or requested.get("cpu"),
        requested_gpus=count_gpus(requested),
        requested_memory_bytes=requested["mem"] * MEBIBYTE if requested.get("mem") else None,
        wall_limit_secs=(minutes * 60 or None) if isinstance(minutes, int) else minutes,  # 0: not recorded
        array_job_id=None if array is None else str(array),
        array_task_id=None if task is None else str(task),
        het_job_id=None if het is None else str(het),
        het_offset=None if het is None else record.count("het", "job_offset"),
        more=pairs(requested_resources=_as_text(requested), allocated_resources=_as_text(allocated)),
    )


def _parse_step(record: JsonRecord, job: JobRecord, *, version: str) -> JobRecord:
    step = record.get("step", "id")
    match = _STEP.match(step if isinstance(step, str) else str(record.count("step", "id")))
    if match is None:
        raise ParseError("not a step", field="step.id", text=str(step)[:80])
    most, least, mean, whole = (
        resources(record, "tres", "requested", each) for each in ("max", "min", "average", "total")
    )
    written = resources(record, "tres", "consumed", "average")
    allocated = resources(record, "tres", "allocated")
    _, common = _common_fields(record, "state", allocated=allocated, version=version)
    if _tells_no_cpu_time(record) and whole.get("cpu"):  # some versions (25.05) tell 0 of steps of srun
        common |= {"used_cpu_secs": whole["cpu"] / 1000, "user_cpu_secs": None, "system_cpu_secs": None}
    start = record.epoch("time", "start")
    return JobRecord(
        **common,
        job_id=job.job_id,
        cluster=job.cluster,
        step=match[1],
        name=record.raw_text("step", "name") or "",
        account=job.account,
        submit_secs=start,
        start_secs=start,
        nodes=record.nodes("nodes", "range"),
        requested_nodes=allocated.get("node"),
        requested_cpus=allocated.get("cpu"),
        used_memory_bytes=whole.get("mem") or most.get("mem") or None,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        het_job_id=job.het_job_id,
        het_offset=job.het_offset,
        more=pairs(
            distribution=record.text("task", "distribution"),
            allocated_resources=_as_text(allocated),
            min_cpu_secs=_whole_secs(least.get("cpu")),
            average_cpu_secs=_whole_secs(mean.get("cpu")),
            average_read_bytes=mean.get("fs/disk"),
            average_written_bytes=written.get("fs/disk"),
            average_resident_bytes=mean.get("mem"),
            average_virtual_bytes=mean.get("vmem"),
            max_resident_bytes=most.get("mem"),
            max_virtual_bytes=most.get("vmem"),
        ),
    )


def _tells_no_cpu_time(step: JsonRecord) -> bool:
    return {step.count("time", "total", name) for name in ("seconds", "microseconds")} == {0}


def _common_fields(
    record: JsonRecord, *path: str, allocated: dict[str, int], version: str
) -> tuple[JobState, dict[str, Any]]:
    """Return the state, and the fields that jobs and steps have in common."""
    word = db_state(record, *path)
    state = ENDED.get(word) or STATES.get(word, JobState.UNKNOWN)
    has_ended = state.is_finished or state is JobState.UNKNOWN
    status, signal = _exit(record, word, version=version)
    user, system = (_cpu_secs(record, which) for which in ("user", "system"))
    used = _cpu_secs(record, "total", user, system)
    is_used = used or (state.is_finished and allocated.get("cpu") and version not in _OLD)
    return state, {
        "batch_system": NAME,
        "state": state,
        "state_word": None if word == state.value else word,
        "end_secs": record.epoch("time", "end") if has_ended else None,
        "run_secs": record.count("time", "elapsed"),
        "suspended_secs": record.count("time", "suspended"),
        "exit_status": status,
        "exit_signal": signal,
        "total_nodes": allocated.get("node") or None,
        "total_cpus": allocated.get("cpu") or None,
        "total_gpus": count_gpus(allocated),
        "used_cpu_secs": used if is_used else None,
        "user_cpu_secs": user if is_used else None,
        "system_cpu_secs": system if is_used else None,
        "energy_joules": allocated.get("energy") or None,
    }


def _cpu_secs(record: JsonRecord, which: str, *parts: Number | None) -> Number | None:
    """Return CPU time; of the total, `parts` are user and system time, known or not.

    The total's microseconds may be above a million: Slurm adds up those of its parts (26.05.5).
    """
    secs = record.count("time", which, "seconds")
    micros = record.count("time", which, "microseconds")
    if secs is None or micros is None:
        return None
    found = round(secs + micros / 1e6, 6) if micros else secs
    if micros >= 10**6 and (not parts or None in parts or abs(found - sum(filter(None, parts))) > 1e-6):
        raise ParseError("must be below 1000000", field=f"time.{which}.microseconds", text=str(micros))
    return found


def _exit(record: JsonRecord, word: str, *, version: str) -> tuple[int | None, int | None]:
    """Return a job's or step's exit status and signal; the status is None if a signal ended it."""
    if word in _UNFINISHED or (word == REQUEUED and version in _OLD):
        return None, None
    status, signal = exit_code_of(record)
    if version in _OLD and not signal:
        status = 0 if word == "COMPLETED" else None
    if status == 0 and word in {"FAILED", REQUEUED}:  # which is no answer
        status = None
    return status, signal


def db_state(record: JsonRecord, *path: str) -> str:
    """Return the base state of a job or step: the text at `path`, or the first word of a list there.

    A run that was requeued is ``["PENDING", "REQUEUED"]`` since Slurm 23.11: this returns REQUEUED, as sacct
    prints it. The part of a run before it was resized is ``["PENDING", "RESIZING"]``: this returns RESIZING.
    Raises ParseError if there is no state.
    """
    words = record.words(*path)
    word = REQUEUED if REQUEUED in words else words[0].partition(" ")[0] if words else ""
    if word == "PENDING" and "RESIZING" in words:
        word = "RESIZING"
    if not re.fullmatch(r"[A-Z_]{1,40}", word):
        raise ParseError("not a state", field=".".join(path), text=" ".join(words))
    return word


def resources(record: JsonRecord, *path: str) -> dict[str, int]:
    """Return the amounts in the list of trackable resources at `path`, by name, such as ``gres/gpu``.

    A resource without a number is left out. So is one with a malformed number, which is noted in
    `record.unread`; but a malformed number of CPUs, memory, nodes or GPUs raises ParseError.
    """
    found = {}
    for each in record.records(*path):
        kind, detail = each.text("type"), each.text("name")
        name = f"{kind}/{detail}" if kind and detail else kind
        try:
            number = parse_number(each.get("count"), ".".join(path))
        except ParseError as error:
            if name in _COUNTED:
                raise
            record.unread[f"{error.field}.{name}"] = error.text
            continue
        if name is not None and isinstance(number, int):
            found[name] = number
    return found


def _as_text(found: Mapping[str, int]) -> str | None:
    """Format resources as sacct does: ``cpu=2,mem=200M,node=1``."""
    return (
        ",".join(f"{name}={number}{'M' if name == 'mem' else ''}" for name, number in found.items()) or None
    )


def _whole_secs(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds // 1000
