"""Records of ``qstat -f`` → jobs. Pure.

Attributes: PBS Professional Reference Guide, "Job Attributes",
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf;
Torque: qstat(1B), pbs_job_attributes(7B).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from jobfeatures.batch.basics import Note, Texts, parse_epoch
from jobfeatures.batch.pbs.records import Record
from jobfeatures.batch.pbs.taskrequests import count_asked
from jobfeatures.batch.pbs.values import (
    Share,
    array_fields,
    compute_total,
    memory_limit,
    parse_duration,
    parse_job_id,
    read_shares,
    share_of,
)
from jobfeatures.errors import ParseError
from jobfeatures.records.model import Job, JobKey, JobState, Limits, multiplied
from jobfeatures.records.nodelist import is_same_host
from jobfeatures.records.quantities import parse_count

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CTIME = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +([0-9]{1,2}) ([0-9]{2}):([0-9]{2}):([0-5][0-9]|60) "
    r"(19[7-9][0-9]|[2-9][0-9]{3})\Z"
)
_GPU = re.compile(r"([A-Za-z0-9._-]{1,255})-gpu/([0-9]{1,4})\Z")
_NODES_PART = re.compile(r"([0-9]{1,7}|[A-Za-z][A-Za-z0-9._-]{0,254})(?::.*)?\Z")

# PBS Professional Administrator's Guide, "Job Exit Status Codes"; Torque Administrator Guide,
# "Job exit status". The batch system sets negative codes; those for limits differ between the two.
_EXITS = {
    "pbs": {
        -26: JobState.OUT_OF_MEMORY,  # virtual memory
        -27: JobState.OUT_OF_MEMORY,
        -28: JobState.TIMEOUT,  # CPU time
        -29: JobState.TIMEOUT,
    },
    "torque": {-10: JobState.OUT_OF_MEMORY, -11: JobState.TIMEOUT, -12: JobState.TIMEOUT},
}
_REASONS = {"H": "JobHeld", "W": "BeginTime", "T": "Transit"}  # comments are free text, and not used
_EXIT_STATUS = ("Exit_status", "exit_status")
# Reference Guide, "Job Substates": 91 terminated by request, 93 failed, 94 moved to another server.
SUBSTATES = {"91": JobState.CANCELLED, "93": JobState.FAILED, "94": JobState.CANCELLED}


def state_of_exit(batch_system: str, exit_status: int | None, substate: str | None = None) -> JobState:
    """Return how a job ended. Without an exit status, it was deleted before it ran."""
    if substate in SUBSTATES:
        return SUBSTATES[substate]
    if exit_status is None:
        return JobState.CANCELLED
    known = _EXITS[batch_system].get(exit_status)
    return known or (JobState.FAILED if exit_status else JobState.COMPLETED)


def make_job(
    record: Record,
    *,
    batch_system: str,
    states: Mapping[str, JobState | None],
    node_name: str | None,
    note: Note,
    source: str,
) -> Job:
    """Return a job. `states` maps job_state letters; None: ended, the state follows from the exit status.

    CPUs, memory and GPUs are those on the node `node_name`; None: those of a single-node job. A malformed
    value is reported to `note` and stays unknown. Times are epoch seconds or, in UTC, ``Wed Apr 26
    13:40:10 2023``. Raises ParseError if the id or the state is missing.
    """
    job_id = parse_job_id(record.name)
    fields = PbsFields(record, note, source)
    letter = fields.text("job_state")
    if letter is None:
        raise ParseError(f"field is missing (job {job_id})", source=source, field="job_state")
    state = states.get(letter, JobState.UNKNOWN)
    if has_ended := state is None:
        exit_status, substate = fields.read(parse_whole, *_EXIT_STATUS), fields.text("substate")
        state = state_of_exit(batch_system, exit_status, substate)
        if exit_status is None and substate not in SUBSTATES and fields.text(*_EXIT_STATUS) is not None:
            state = JobState.UNKNOWN  # it is told, and cannot be read
    has_ended |= state.is_finished
    started = state.is_on_node or has_ended
    requested = requested_cpus(fields)
    shares = read_shares(fields, "exec_host", "exec_vnode", requested) if started else {}
    cpus = compute_total(share.cpus for share in shares.values())
    mine = share_of(shares, node_name)
    runs = fields.read(parse_count, "run_count", "start_count")
    wall = fields.read(parse_duration, "Resource_List.walltime")
    cpu_limit = fields.read(parse_duration, "Resource_List.cput")
    cards = fields.cards() if started else ()
    gpus = tuple(str(card) for host, card in cards if node_name and is_same_host(host, node_name))
    total_cpus = cpus or (None if started else requested)
    return Job(
        key=JobKey(batch_system, job_id),
        state=state,
        name=fields.text("Job_Name"),
        user=fields.user(),
        account=fields.text("Account_Name"),
        partition=fields.text("queue"),
        submit_secs=fields.read(parse_time, "qtime", "ctime"),
        start_secs=fields.read(parse_time, "stime", "start_time") if started else None,
        end_secs=fields.read(parse_time, "obittime", "comp_time") if has_ended else None,
        nodes=tuple(shares),
        total_cpus=total_cpus,
        allocated_cpus=mine.cpus or None,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=multiplied(wall, cpus or requested) if cpu_limit is None else cpu_limit,
            memory_bytes=memory_limit(fields, mine, len(shares), "Resource_List.mem", "Resource_List.pmem"),
        ),
        **array_fields(job_id),
        restarts=None if runs is None else max(0, runs - 1),
        allocated_gpus=mine.gpus or len(gpus) or None,
        gpus=gpus,
        total_nodes=len(shares) or fields.read(parse_count, "Resource_List.nodect"),
        total_gpus=compute_total(share.gpus for share in shares.values())
        or len(cards)
        or requested_gpus(fields),
        reason=_REASONS.get(letter, "Queued") if state is JobState.PENDING else None,
        eligible_secs=fields.read(parse_time, "etime") if state is JobState.PENDING else None,
        priority=fields.read(parse_whole, "Priority"),
        sessions=_sessions(fields, shares, node_name) if state.is_on_node else frozenset(),
    )


class PbsFields(Texts):
    """The attributes of one record; a malformed one is reported and stays unknown."""

    def __init__(self, record: Record, note: Note, source: str) -> None:
        super().__init__(record.attributes, note, source=source, about=f"job {record.name[:40]}")

    def cards(self) -> tuple[tuple[str, int], ...]:
        """Return host and index of the job's GPUs, from Torque's exec_gpus: ``n1-gpu/0+n1-gpu/1``."""
        found: dict[tuple[str, int], None] = {}
        for part in filter(None, (self.text("exec_gpus") or "").split("+")):
            match = _GPU.match(part)
            if match is None:
                self.reject(ParseError("not HOST-gpu/NUMBER"), "exec_gpus", part)
                return ()
            found[match[1], int(match[2])] = None
        return tuple(found)

    def user(self) -> str | None:
        """Return the user that the job runs as.

        Only managers see euser; otherwise it is Job_Owner, up to ``@``,
        unless there is a User_List, which may name other users.
        """
        owner = None if self.text("User_List") else self.text("Job_Owner")
        return self.text("euser") or (owner or "").partition("@")[0] or None


def count_cards(records: Iterable[Record]) -> Counter[str]:
    """Return how many GPUs of each host Torque's jobs have, without ended jobs."""
    found: Counter[str] = Counter()
    for each in records:
        if each.attributes.get("job_state") != "C":
            found.update(host for host, _ in PbsFields(each, lambda _: None, "").cards())
    return found


def parse_time(text: str) -> int:
    """Parse epoch seconds, or a UTC time as ctime(3) prints it, to epoch seconds. Raises ParseError.

    A site's qstat prints both: ``1649348639 (Thu Apr 07 12:23:59 EDT 2022)``.
    """
    match = _CTIME.match(text)
    if match is None:
        secs, bracket, _ = text.partition(" (")
        return parse_epoch(secs if bracket and text.endswith(")") else text)
    day, hour, minute, second, year = map(int, match.groups()[1:])
    try:
        begun = datetime(year, _MONTHS.index(match[1]) + 1, day, hour, minute, tzinfo=UTC).timestamp()
    except ValueError as error:
        raise ParseError("not a time", text=text) from error
    return int(begun) + second


def parse_whole(text: str) -> int:
    """Parse an integer, which may be negative. Raises ParseError."""
    return -parse_count(text[1:]) if text.startswith("-") else parse_count(text)


def requested_cpus(fields: PbsFields) -> int | None:
    """Return the CPUs that a job requests: ncpus, procs, or the total of ``nodes=2:ppn=4+n7:ppn=1``.

    Of Torque 6, also those of its groups of tasks.
    """
    nodes = fields.text("Resource_List.nodes")
    if nodes is not None and "ppn=" in nodes:
        return fields.read(count_ppn, "Resource_List.nodes")
    asked = fields.read(parse_count, "Resource_List.ncpus", "Resource_List.procs")
    return count_asked(fields, "lprocs", each=1) if asked is None else asked


def requested_gpus(fields: PbsFields) -> int | None:
    """Return the GPUs that a job requests: ngpus, or the total of Torque's ``nodes=2:ppn=4:gpus=2``."""
    nodes = fields.text("Resource_List.nodes")
    if nodes is not None and ":gpus=" in nodes:
        return fields.read(count_gpus, "Resource_List.nodes")
    asked = fields.read(parse_count, "Resource_List.ngpus")
    return count_asked(fields, "gpus", each=0) if asked is None else asked


def count_ppn(text: str) -> int:
    """Return the total CPUs of ``2:ppn=4+n7:ppn=1``. Raises ParseError."""
    return _total_of(text, "ppn", "CPUs", without="1")


def count_gpus(text: str) -> int:
    """Return the total GPUs of ``2:ppn=4:gpus=2+n7:ppn=1``. Raises ParseError."""
    return _total_of(text, "gpus", "GPUs", without="0")


def _total_of(text: str, name: str, what: str, *, without: str) -> int:
    total = 0
    for part in text.split("+"):
        match = _NODES_PART.match(part)
        if match is None:
            raise ParseError("not a request for nodes", text=text)
        nodes = int(match[1]) if match[1].isdigit() else 1
        each = [word.partition("=")[2] for word in part.split(":") if word.startswith(f"{name}=")] or [
            without
        ]
        if len(each) > 1 or not (each[0].isascii() and each[0].isdigit() and len(each[0]) <= 7):
            raise ParseError(f"not numbers of {what}", text=text)
        total += nodes * int(each[0])
    return total


def _sessions(fields: PbsFields, shares: Mapping[str, Share], node_name: str | None) -> frozenset[int]:
    """Return the job's session id, which is on its first node; empty on other nodes."""
    session = fields.read(parse_count, "session_id")
    first = next(iter(shares), None)
    if not session or first is None or (node_name is not None and not is_same_host(first, node_name)):
        return frozenset()
    return frozenset({session})
