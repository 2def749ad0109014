"""Reads accounting files of PBS and Torque: one record per job from its lines. Streaming, pure.

Source: PBS Professional Administrator's Guide, "Accounting Log"; Torque Administrator Guide, "Accounting
records". The files are ``server_priv/accounting/YYYYMMDD``.

A line is ``MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value key="a value" …``. Its leading timestamp is in the server's
local time, without a zone; ctime, start, end and the like are epoch seconds, so the zone matters only for
jobs that were deleted or aborted before they ran, and for suspensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Final

from jobfeatures.batch.basics import Note, parse_epoch
from jobfeatures.batch.keyedrecord import key, key_within
from jobfeatures.batch.pbs.jobs import SIGNALS_FROM, PbsRecord, parse_whole, state_of_exit
from jobfeatures.batch.pbs.taskrequests import FIELD as TASKS
from jobfeatures.batch.pbs.taskrequests import parse_cpus, parse_memory
from jobfeatures.batch.pbs.values import (
    array_fields,
    compute_total,
    parse_duration,
    parse_job_id,
    parse_size,
    read_shares,
)
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, compute_run_secs
from jobfeatures.joblogs.nottaken import TrackingDict, count_not_taken, count_unreadable
from jobfeatures.records.localtimes import REPEATED_HOUR, SKIPPED_HOUR, Skipped, Twice, parse_local
from jobfeatures.records.model import JobState
from jobfeatures.records.quantities import parse_count

MAX_LINE_CHARACTERS = 2**20  # a longer line without a newline is truncated

# PBS Professional Administrator's Guide, "Types of Accounting Log Records". Other types are reservations
# (B F f K k U Y), licences (L), provisioning (P p), phases (c e u s) and changes (a C).
QUEUED, STARTED, RERUN, RESTARTED, ENDED, DELETED, ABORTED, MOVED, SUSPENDED, RESUMED = "QSRTEDAMzr"
_OF_JOBS = frozenset("QSRTEDAMzr")
_OWN_TIME = {
    STARTED: "start",
    ENDED: "end",
}  # what a line of each type tells in epoch seconds of its own time
_PASSED_OVER = frozenset("BFfKkUYLPpceusaCIGX")

_LINE = re.compile(
    r"([0-9]{2})/([0-9]{2})/([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2});([A-Za-z]);([^;]{0,300});(.*)\Z",
    re.DOTALL,
)
_PAIR = re.compile(  # Torque 6 writes the groups of qsub -L unquoted: ``-L tasks=1:lprocs=2 -L tasks=4``
    r"""([A-Za-z_][\w.-]*)=("[^"]*"|'[^']*'|-L\ \S+(?:\ -L\ \S+)*|\S*)(?:\s+|\Z)|(\S+)(?:\s+|\Z)"""
)
_OF_A_RUN = re.compile(r"(?:Exit_status|end|start|session|exec_host|exec_vnode|resources_used\..*)\Z")
NEEDED = frozenset({"ctime", "qtime", "start", "end"})  # a job whose times cannot be read is rejected
_OF_TORQUE = frozenset({"owner", "unique_node_count", "total_execution_slots"})


SCALED: Final = "walltime and cput of a job that seems to have run for longer than from start to end"
AT_ANOTHER: Final = "job that was moved to another server, whose log has it"
OF_A_CRAY: Final = "nodes and use of a Cray's job (mppwidth), which are those of its script's node alone"
MAX_REMEMBERED = 100_000


@dataclass(slots=True)
class _Life:
    job_id: str
    server: str | None = None
    values: dict[str, str] = field(default_factory=dict)
    line: int = 0
    submit_secs: int | None = None
    is_running: bool = False
    deleted_secs: int | None = None
    reruns: int = 0
    suspended_since: int | None = None
    suspended_secs: int = 0
    state: JobState | None = None  # None: derived from the exit status
    end_secs: int | None = None

    def take_run(self, at_secs: int) -> _Life | None:
        """Return the run that a rerun ended, and drop it from the job; None if it had not begun."""
        run = replace(self, state=JobState.PREEMPTED, end_secs=at_secs)
        self.values = {name: value for name, value in self.values.items() if not _OF_A_RUN.match(name)}
        self.reruns += 1
        self.suspended_secs = 0
        return run if "start" in run.values else None


def recognise(head: str) -> bool:
    """Return whether `head`, the beginning of a log, starts with an accounting line."""
    return _LINE.match(head.partition("\n")[0].rstrip("\r")) is not None


def read_records(
    lines: Iterable[str], *, source: str, notes: Notes, zone: tzinfo | None = None
) -> Iterator[JobRecord | Rejected]:
    """Yield one record per job: at its last line or, if it has not ended, after all lines.

    A run that was followed by a rerun has a record of its own, in state PREEMPTED, if it had begun. `zone` is
    the server's time zone (None: this machine's). The batch system is torque if a line has keys that only
    Torque writes, else pbs. Array parents are left out: their subjobs have their own lines. `source` names
    the log in errors; `notes` counts values that could not be read.
    """
    book = _Book(zone, notes)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            life = book.take(line, number)
        except ParseError as error:
            yield Rejected.from_error(error.at(source, number))
            continue
        if life is not None:
            yield _record_or_fault(life, source, notes)
    for life in book.unfinished():
        yield _record_or_fault(life, source, notes)


def _record_or_fault(life: _Life, source: str, notes: Notes) -> JobRecord | Rejected:
    unread: list[Rejected] = []
    values = TrackingDict[str](life.values)
    record = make_record(life, values, unread.append)
    if (fault := count_unreadable(unread, NEEDED, notes)) is not None:
        return replace(fault, source=source, line=life.line)
    count_not_taken(notes, values)
    if record.start_secs and record.total_cpus is None and values.get("Resource_List.mppwidth"):
        notes.not_taken[OF_A_CRAY] += 1
    span = replace(record, run_secs=None, suspended_secs=None) if "end" in values else None
    most = None if span is None else compute_run_secs(span)
    # A little more is clocks that differ, or what pbs_mom counts until its next look.
    if most is not None and record.run_secs is not None and record.run_secs > most * 1.05 + 60:
        notes.not_taken[SCALED] += 1  # by $wallmult and $cputmult of pbs_mom, to the speed of other nodes
        record = replace(record, run_secs=None, used_cpu_secs=None)
    return record


class _Book:
    def __init__(self, zone: tzinfo | None, notes: Notes) -> None:
        self._zone, self._notes = zone, notes
        self._lives: dict[str, _Life] = {}
        self._latest_secs = 0
        self._ended: dict[str, None] = {}  # the latest; a later deletion removes only the job's history

    def take(self, line: str, number: int) -> _Life | None:
        """Apply a line; return its job if that has ended by it, or the run that has. Raises ParseError."""
        if len(line) > MAX_LINE_CHARACTERS and not line.endswith("\n"):
            raise ParseError("line is too long", text=line)
        match = _LINE.match(line.rstrip("\r\n"))
        if match is None:
            raise ParseError("line must be DATE;TYPE;ID;FIELDS", text=line)
        kind = match[7]
        if kind not in _OF_JOBS:
            if kind not in _PASSED_OVER:
                raise ParseError("unknown type of line", field=kind, text=line)
            self._notes.not_taken[f"line of type {kind}"] += 1
            return None
        stamp = parse_stamp(match, self._zone)
        job_id = parse_job_id(match[8], field="id")
        server = match[8].partition(".")[2] or None
        values = parse_message(match[9])
        at_secs = self._latest_secs = self._moment(stamp, values.get(_OWN_TIME.get(kind, ""), ""))
        key = match[8]  # includes the server, as each server numbers from 1
        is_late = kind == DELETED and key in self._ended and key not in self._lives
        if job_id.endswith("[]") or is_late:
            self._notes.not_taken[f"line of type {kind}, of {'an ended job' if is_late else 'an array'}"] += 1
            return None
        if kind == MOVED:
            self._lives.pop(key, None)
            self._notes.folded[AT_ANOTHER] += 1
            return None
        life = self._lives.setdefault(key, _Life(job_id, server))
        life.values.update(values)
        life.line = number
        if not _live(life, kind, at_secs):
            return life.take_run(at_secs) if kind == RERUN else None
        del self._lives[key]
        self._ended[key] = None
        if len(self._ended) > MAX_REMEMBERED:
            del self._ended[next(iter(self._ended))]
        return life

    def _moment(self, stamp: int, own: str) -> int:
        """Choose the meaning of a time that clocks show twice, by an epoch in the line or the line before."""
        if isinstance(stamp, Skipped):
            self._notes.doubtful[SKIPPED_HOUR] += 1
        if not isinstance(stamp, Twice):
            return int(stamp)
        if own.isdigit() and own.isascii() and len(own) < 19:
            return min(int(stamp), stamp.later, key=lambda each: abs(each - int(own)))
        if stamp < self._latest_secs <= stamp.later:  # lines are in order
            return stamp.later
        self._notes.doubtful[REPEATED_HOUR] += 1
        return int(stamp)

    def unfinished(self) -> Iterator[_Life]:
        """Yield the jobs that have not ended, in their latest state."""
        for life in self._lives.values():
            life.state = JobState.RUNNING if life.is_running else JobState.PENDING
            if life.deleted_secs is not None:
                life.state, life.end_secs = JobState.CANCELLED, life.deleted_secs
            yield life


def _live(life: _Life, kind: str, at_secs: int) -> bool:
    """Apply a line of type `kind` and time `at_secs` (epoch) to a job; return whether the job has ended."""
    if life.suspended_since is not None and kind in {RESUMED, ENDED, RERUN}:
        life.suspended_secs += max(0, at_secs - life.suspended_since)
        life.suspended_since = None
    if kind == QUEUED:
        life.submit_secs = at_secs if life.submit_secs is None else life.submit_secs
    elif kind in {STARTED, RESTARTED}:
        life.is_running = True
    elif kind == SUSPENDED:
        life.suspended_since = at_secs
    elif kind == RERUN:
        life.is_running = False
    elif kind == DELETED:
        life.deleted_secs = at_secs
        if life.submit_secs is None or life.is_running:
            return False  # its end record follows
        life.state = JobState.CANCELLED
    elif kind == ABORTED:
        life.state = JobState.CANCELLED
    if kind == ENDED or life.state is not None:
        life.end_secs = at_secs
        return True
    return False


def parse_stamp(match: re.Match[str], zone: tzinfo | None) -> int:
    """Return the epoch seconds of the time at the beginning of an accounting line.

    `match` is the match of the line with the pattern for such lines; the time is local to `zone`. Raises
    ParseError if there is no such time.
    """
    month, day, year, hour, minute, second = match.groups()[:6]
    second = min(second, "59")
    return parse_local(f"{year}-{month}-{day}T{hour}:{minute}:{second}", zone, field="time")


def parse_message(text: str) -> dict[str, str]:
    """Parse pairs such as ``user=alice account="a b" Resource_List.walltime=01:00:00`` into texts by key.

    A word without ``=`` belongs to the value before it. Raises ParseError if a key occurs twice: a user has
    forged one of the two.
    """
    values: dict[str, str] = {}
    last = ""
    for match in _PAIR.finditer(text):
        if match[3] is not None:
            if last:
                values[last] += f" {match[3]}"
            continue
        last, value = match[1], match[2]
        if last in values:
            raise ParseError("field occurs twice", field=last, text=text)
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        values[last] = value[1:-1] if quoted else value
    return values


def _known(parse: Callable[[str], int]) -> Callable[[str], int | None]:
    """Return a parser that is `parse`, but returns None for 0."""
    return lambda text: parse(text) or None


def _measured_secs(job: AccountedJob, text: str) -> int | None:
    """Return a time that was used; None for 0 of a job that pbs_mom never looked at.

    Its walltime is 0, though it ended more than a second after its start.
    """
    start, end, ran = job.start_secs, job.end, job.values.get("resources_used.walltime", "")
    is_longer = start is not None and end is not None and end - start > 1
    return parse_duration(text) or (None if is_longer and ran and not ran.strip("0:.") else 0)


class AccountedJob(PbsRecord):
    """The attributes of one job, merged from all its lines in the accounting files."""

    stated_exit_status = key(parse_whole, "Exit_status")
    runs = key(parse_count, "run_count")
    name = key(str, "jobname")
    user = key(str, "user")
    group = key(str, "group")
    account = key(str, "account")
    queue = key(str, "queue")
    reservation = key(str, "resvname", "resvID")
    stated_submit_secs = key(parse_epoch, "ctime", "qtime")
    eligible_secs = key(_known(parse_epoch), "etime")
    start_secs = key(_known(parse_epoch), "start")
    end = key(parse_epoch, "end")
    run_secs = key_within(_measured_secs, "resources_used.walltime")
    used_cpu_secs = key_within(_measured_secs, "resources_used.cput")
    used_memory_bytes = key(_known(parse_size), "resources_used.mem")  # 0: too short to be measured
    asked_memory_bytes = key(parse_size, "Resource_List.mem")
    width = key(parse_count, "Resource_List.mppwidth")  # of aprun on a Cray
    depth = key(_known(parse_count), "Resource_List.mppdepth")


def make_record(life: _Life, values: dict[str, str], note: Note) -> JobRecord:
    """Return a job's accounting record. `values` has the values in all its lines, by key.

    `life` has what the types of its lines showed: the job's state, times and reruns. A malformed value is
    reported to `note` and stays unknown. A Cray's job runs its script on a service node, to which exec_vnode
    and resources_used belong; what aprun may start elsewhere is requested (mppwidth times mppdepth).
    """
    job_id = life.job_id
    system = "pbs" if _OF_TORQUE.isdisjoint(values) else "torque"
    found = AccountedJob(values, note, about=f"job {job_id[:40]}")
    exit_status = found.stated_exit_status
    state = life.state or JobState.UNKNOWN
    if life.state is None and life.deleted_secs is not None:
        state = JobState.CANCELLED
    elif life.state is None and exit_status is not None:
        state = state_of_exit(system, exit_status, ran_secs=found.run_secs, limit=found.wall_limit_secs)
    signal = exit_status - SIGNALS_FROM if exit_status is not None and exit_status >= SIGNALS_FROM else None
    requested, cards = found.count_cpus(), found.count_gpus()
    shares = read_shares(found, "exec_host", "exec_vnode", requested)
    runs, end = found.runs, found.end
    record = JobRecord(
        batch_system=system,
        job_id=job_id,
        **found.fields(JobRecord),
        cluster=life.server,
        state=state,
        submit_secs=found.stated_submit_secs or life.submit_secs,
        end_secs=life.end_secs if end is None else end,
        suspended_secs=life.suspended_secs or None,
        restarts=life.reruns or None if runs is None else max(0, runs - 1),
        exit_status=None if signal is not None else exit_status,
        exit_signal=signal,
        nodes=tuple(shares),
        total_nodes=len(shares) or None,
        total_cpus=compute_total(share.cpus for share in shares.values())
        or found.read(parse_count, "resources_used.ncpus"),  # else it counts as not taken
        total_gpus=compute_total(share.gpus for share in shares.values())
        or (cards if shares and system == "torque" else None),
        requested_cpus=requested or found.read(parse_cpus, TASKS),
        requested_gpus=cards,
        requested_memory_bytes=found.asked_memory_bytes or found.read(parse_memory, TASKS),
        **array_fields(job_id),
    )
    elements = (found.width or 0) * (found.depth or 1)
    if elements <= (record.total_cpus or 0):
        return record
    return replace(
        record,
        nodes=(),
        total_nodes=None,
        total_cpus=None,
        requested_nodes=None,
        requested_cpus=elements,
        used_cpu_secs=None,
        used_memory_bytes=None,
    )
