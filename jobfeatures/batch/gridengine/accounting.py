"""Reads Grid Engine's accounting file as a log of jobs: colon-separated lines, or lines of JSON. Pure.

Fields: accounting(5) (45 fields; Univa Grid Engine adds to them and counts times in milliseconds), and
sge_accounting(5) of Open Cluster Scheduler 9 (JSON, times in microseconds). Codes of ``failed``:
sge_status(5), "Failed states". Other units: ``ru_maxrss`` KiB, ``maxrss`` and ``maxvmem`` bytes, ``cpu``
seconds.

Each run of a job adds a line when it ends. A job that was rescheduled, an array, and a parallel job whose
tasks are accounted for separately have several lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

from jobfeatures.batch.gridengine.basics import (
    NAME,
    checked_number,
    known,
    least_limit,
    make_key,
    parse_limit_bytes,
    parse_limit_secs,
)
from jobfeatures.batch.gridengine.colonlines import MAX_LINE_CHARACTERS, parse_line
from jobfeatures.batch.gridengine.parallel import ParallelJobs
from jobfeatures.batch.gridengine.record import account_of, scale_epoch
from jobfeatures.errors import ParseError, Rejected, matched
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, Number
from jobfeatures.joblogs.nottaken import TrackingDict, count_not_taken, without_unreadable
from jobfeatures.records.jsontext import parse_object
from jobfeatures.records.model import JobState, Limit, multiplied
from jobfeatures.records.quantities import parse_count

T = TypeVar("T")

RESCHEDULED = frozenset({24, 25})  # "migrating", "rescheduling": the job starts again
LOST_HOST = frozenset({19, 21})  # the shepherd or the execution daemon lost track of the job
KILLED = frozenset({37, 100})  # by a limit, by qdel, or by itself

RESERVED: Final = "cpu, as it is what was reserved (ACCT_RESERVED_USAGE)"
LATE_TASK: Final = "a parallel job without the use of a task whose line follows its own"

_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?\Z", re.ASCII)
_REQUESTS = re.compile(r"(?<!-soft)(?:\A| )-l ([^ ]+)")  # soft requests limit nothing
_LIMITS = frozenset({"h_rt", "s_rt", "h_cpu", "h_rss", "h_vmem"})
# Without these a job is rejected; any other value may be unknown.
NEEDED = frozenset(
    {"job_number", "task_number", "pe_taskid", "submission_time", "start_time", "end_time", "failed", "slots"}
)
_START = re.compile(r"(?:[^:\n]*:){5}[1-9][0-9]{0,9}:[^:\n]*:[^:\n]*:[0-9]+:[0-9]+:[0-9]+:[0-9]+:[0-9]+:")


def recognise(head: str) -> bool:
    """Return whether `head`, the beginning of a log, is that of an accounting file, in fields or in JSON."""
    for line in head.split("\n"):
        if line.startswith("#") or len(line.strip()) < 2:
            continue
        if line.startswith("{"):
            return all(f'"{name}"' in line for name in ("job_number", "qname", "hostname", "failed"))
        return _START.match(line) is not None
    return False


def read_records(lines: Iterable[str], *, source: str, notes: Notes) -> Iterator[JobRecord | Rejected]:
    """Yield one record per line, or a Rejected for a malformed line; comments and empty lines are skipped.

    A record's `restarts` is the number of the job's rescheduled runs in earlier lines. A line with
    ``pe_taskid``, a task of a parallel job, becomes a record with that id as its `step`. `source` names the
    log in errors; `notes` counts values that could not be read.
    """
    numbered = (
        (number, line)
        for number, line in enumerate(lines, 1)
        if not line.startswith("#") and len(line.strip()) > 1  # qacct(1) skips these as well
    )
    return make_records(numbered, _parse, source=source, notes=notes)


def _parse(line: str) -> Mapping[str, str]:
    return _parse_json(line) if line.startswith("{") else parse_line(line)


def make_records(
    numbered: Iterable[tuple[int, T]], parse: Callable[[T], Mapping[str, str]], *, source: str, notes: Notes
) -> Iterator[JobRecord | Rejected]:
    """Yield one record for each pair of a line number and an item in `numbered`, or a Rejected if malformed.

    `parse` turns an item into its fields by name, named as in accounting(5). `source` names the log in
    errors; `notes` counts values that could not be read. The record of a parallel job includes the CPU time
    and memory of its tasks: see `ParallelJobs`.
    """
    reruns: dict[str, int] = {}
    parallel = ParallelJobs()
    for number, each in numbered:
        try:
            values = TrackingDict[str](parse(each))
            values.update(parse_requests(values.get("category", "")))
            record = without_unreadable(partial(make_record, values, reruns), values, NEEDED, notes)
        except ParseError as error:
            yield Rejected.from_error(error.at(source, number))
            continue
        count_not_taken(notes, values)
        if record.used_cpu_secs is None and known(values.get("cpu", "")) is not None:
            notes.not_taken[RESERVED] += 1
        yield parallel.complete(record, values.get("hostname", ""), names_tasks="pe_taskid" in values)
    if late := parallel.count_late():
        notes.doubtful[LATE_TASK] += late


def _parse_json(line: str) -> Mapping[str, str]:
    """Return the values of an object and of its nested objects, as text."""
    if len(line) > MAX_LINE_CHARACTERS:
        raise ParseError("line is too long", text=line)
    values: dict[str, str] = {}
    waiting = [parse_object(line)]
    while waiting:
        place = waiting.pop()
        for name, value in place.items():
            if isinstance(value, dict):
                waiting.append(value)
            elif value is not None:
                values.setdefault(name, _plain(value))
    if "pe_task_id" in values:
        values["pe_taskid"] = values["pe_task_id"]
    for name in ("task_number", "granted_pe", "project", "pe_taskid", "category", "arid"):
        values.setdefault(name, "0" if name in {"task_number", "arid"} else "NONE")
    return values


def _plain(value: object) -> str:
    """Return a value as text: a number as the colon-separated format writes it, without an exponent."""
    if isinstance(value, float):
        return f"{value:f}" if abs(value) < 1e18 else repr(value)
    return str(value)


def make_record(values: Mapping[str, str], reruns: dict[str, int]) -> JobRecord:
    """Return the record made of `values`, the fields of one line. Raises ParseError if one is malformed.

    `reruns` has the number of rescheduled runs in earlier lines, by job id; if this run was rescheduled too,
    it is added. A time of ``0`` means that the event never happened. The field ``category`` holds the
    requests (``-l h_rt=60,h_vmem=500M -pe smp 2``).
    """
    number = checked_number(values.get("job_number", ""), field="job_number")
    task_number = _count(values, "task_number") or 0
    task = str(task_number) if task_number else None
    key = make_key(number, task)
    step = known(values.get("pe_taskid"))
    slots = _count(values, "slots") or None
    failed, status = _count(values, "failed") or 0, _count(values, "exit_status")
    start, end = _time(values, "start_time"), _time(values, "end_time")
    limits = _limits(values, slots)
    elapsed = None if start is None or end is None else max(0, end - start)
    state = compute_state(
        failed, status, elapsed, limits["wall"], deleted=known(values.get("qdel_info")) is not None
    )
    restarts = reruns.get(key.job_id, 0)
    parallel = known(values.get("granted_pe")) is not None and slots != 1
    host = known(values.get("hostname"))
    record = JobRecord(
        batch_system=NAME,
        job_id=key.job_id,
        step=step,
        state=state,
        name=values.get("job_name") or None,
        user=known(values.get("owner")),
        group=known(values.get("group")),
        account=account_of(values.get("project"), values.get("account")),
        queue=known(values.get("qname")),
        reservation=None if values.get("arid", "0") == "0" else known(values["arid"]),
        submit_secs=_time(values, "submission_time"),
        start_secs=start,
        end_secs=end,
        restarts=restarts,
        exit_status=status if start is not None else None,
        exit_signal=status - 128 if status is not None and 128 < status <= 192 else None,
        nodes=(host,) if host is not None and not parallel else (),
        total_nodes=None if parallel else 1,
        total_cpus=slots,
        requested_cpus=slots,
        requested_memory_bytes=limits["memory"],
        wall_limit_secs=limits["wall"],
        cpu_limit_secs=limits["cpu"],
        run_secs=None if start is None else _run_secs(values, elapsed),
        used_cpu_secs=_used_cpu_secs(values, elapsed, slots),
        user_cpu_secs=_number(values, "ru_utime"),
        system_cpu_secs=_number(values, "ru_stime"),
        used_memory_bytes=_used_memory(values),
        array_job_id=number if task else None,
        array_task_id=task,
    )
    if failed in RESCHEDULED and step is None:
        reruns[key.job_id] = restarts + 1
    return record


def compute_state(
    failed: int, status: int | None, elapsed: Number | None, wall: Limit, *, deleted: bool = False
) -> JobState:
    """Return how a run ended, by its code in ``failed`` and its exit `status`.

    `elapsed` and `wall` are its run time and its wall limit in seconds. Code 100 says only that the job was
    killed: if its wall limit had passed, that is taken as the reason. Without an exit status nobody knows
    whether the job failed. Only Univa's file records that somebody deleted a job (`deleted`).
    """
    if failed in RESCHEDULED:
        return JobState.PREEMPTED
    if failed in LOST_HOST:
        return JobState.NODE_FAIL
    if deleted:
        return JobState.CANCELLED
    if failed in KILLED and isinstance(wall, int) and elapsed is not None and elapsed >= wall:
        return JobState.TIMEOUT
    if failed or status:
        return JobState.FAILED
    return JobState.UNKNOWN if status is None else JobState.COMPLETED


def parse_requests(category: str) -> dict[str, str]:
    """Return the limits that a job requested, as texts by name such as ``h_rt``, from its field ``category``.

    A category is, for example, ``-l h_rt=60,h_vmem=500M -pe smp 2``. Univa (8.6.2) writes the byte 255, which
    is read as U+FFFD, for a colon in it.
    """
    category = category.replace("\ufffd", ":")
    asked = (
        part.partition("=")[::2] for match in _REQUESTS.finditer(category) for part in match[1].split(",")
    )
    return {f"-l {name}": text for name, text in asked if name in _LIMITS}


def _limits(values: Mapping[str, str], slots: int | None) -> dict[str, Limit]:
    """Return the limits that the job requested. Raises ParseError."""

    def limit(name: str) -> Limit:
        parse = parse_limit_secs if name.endswith(("_rt", "_cpu")) else parse_limit_bytes
        return parse(values.get(name, ""), field=name)

    resident = limit("-l h_rss")
    return {
        "wall": least_limit(*(limit(name) for name in ("-l h_rt", "-l s_rt") if name in values)),
        "cpu": multiplied(limit("-l h_cpu"), slots),
        "memory": resident if isinstance(resident, int) else multiplied(limit("-l h_vmem"), slots),
    }


def _run_secs(values: Mapping[str, str], elapsed: Number | None) -> Number | None:
    """Return how long a run was; None for 0 of one that took longer, as of a host that was lost."""
    ran = _number(values, "ru_wallclock")
    return None if not ran and (elapsed or 0) > 1 else ran


def _used_cpu_secs(values: Mapping[str, str], elapsed: Number | None, slots: int | None) -> Number | None:
    """Return a run's CPU time; None if what is told is what was reserved (ACCT_RESERVED_USAGE of execd).

    That is `elapsed` seconds of each of the `slots`; what was used is at least ru_utime + ru_stime. Source:
    build_derived_final_usage in Grid Engine's reaper_execd.c.
    """
    used, parts = _number(values, "cpu"), [_number(values, name) or 0 for name in ("ru_utime", "ru_stime")]
    if used and elapsed and slots and abs(used - elapsed * slots) < 0.001 < used - sum(parts):
        return None
    return used


def _used_memory(values: Mapping[str, str]) -> int | None:
    """Return the job's peak resident memory if reported, else that of its largest process."""
    whole = _number(values, "maxrss")
    if whole:
        return int(whole)
    largest = _number(values, "ru_maxrss")
    return int(largest * 1024) if largest else None


def _count(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name, "")
    return None if known(text) is None else parse_count(text, field=name)


def _number(values: Mapping[str, str], name: str) -> Number | None:
    text = values.get(name, "")
    if known(text) is None:
        return None
    return float(matched(_NUMBER, text, "not a number", field=name)[0])


def _time(values: Mapping[str, str], name: str) -> Number | None:
    """Return epoch seconds, as an integer where possible; None for 0."""
    stamp = _count(values, name)
    if not stamp:
        return None
    secs, micros = scale_epoch(stamp)
    return secs + micros / 10**6 if micros else secs


def whole_secs(secs: Number | None) -> int | None:
    """Return a time without its fraction of a second, as qstat prints times; None if it is None."""
    return None if secs is None else int(secs)
