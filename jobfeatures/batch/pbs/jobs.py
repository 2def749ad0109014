"""Makes jobs from the records of ``qstat -f``. Pure.

Attributes: PBS Professional Reference Guide, "Job Attributes",
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf; Torque: qstat(1B),
pbs_job_attributes(7B).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from jobfeatures.batch.basics import Note, limit_end_of_resumed, parse_epoch
from jobfeatures.batch.keyedrecord import KeyedRecord, key
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
from jobfeatures.errors import ParseError, matched, parse_each
from jobfeatures.records.model import Job, JobKey, JobState, Limit, Limits, multiplied
from jobfeatures.records.nodelist import is_same_host
from jobfeatures.records.quantities import parse_count

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CTIME = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +([0-9]{1,2}) ([0-9]{2}):([0-9]{2}):([0-5][0-9]|60) "
    r"(19[7-9][0-9]|[2-9][0-9]{3})\Z"
)
_GPU = re.compile(r"([A-Za-z0-9._-]{1,255})-gpu/([0-9]{1,4})\Z")
_NODES_PART = re.compile(
    r"([0-9]{1,7}|[A-Za-z][A-Za-z0-9._-]{0,254})(?::[\w.#-]+(?:=[\w.,#-]+)?)*\Z", re.ASCII
)

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
SIGNALS_FROM = 256  # an Exit_status from this on means a signal
_ENDED_BY = frozenset({9, 15})  # signals that pbs_mom sends at a limit: KILL and TERM
_REASONS = {"H": "JobHeld", "W": "BeginTime", "T": "Transit"}  # comments are free text, and not used
# Reference Guide, "Job Substates": 91 terminated by request, 93 failed, 94 moved to another server.
SUBSTATES = {"91": JobState.CANCELLED, "93": JobState.FAILED, "94": JobState.CANCELLED}


def state_of_exit(
    batch_system: str,
    exit_status: int | None,
    substate: str | None = None,
    *,
    ran_secs: int | None = None,
    limit: Limit = None,
) -> JobState:
    """Return how a job ended: by PBS's substate if it says so, else by the exit status.

    A job without either never ran: CANCELLED. One that was killed after `ran_secs` seconds, at its wall time
    `limit` or later, has run into it: TIMEOUT.
    """
    if substate not in SUBSTATES and exit_status is None:
        return JobState.CANCELLED
    known = SUBSTATES.get(substate or "") or _EXITS[batch_system].get(exit_status or 0)
    state = known or (JobState.FAILED if exit_status else JobState.COMPLETED)
    was_killed = exit_status is not None and exit_status - SIGNALS_FROM in _ENDED_BY
    is_over = isinstance(limit, int) and (ran_secs or 0) >= limit > 0
    # "PBS: job killed: walltime 152 exceeded limit 120" is status 271.
    return JobState.TIMEOUT if state is JobState.FAILED and was_killed and is_over else state


def parse_time(text: str) -> int:
    """Parse epoch seconds, or UTC as ctime(3) prints it, to epoch seconds. Raises ParseError if malformed.

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
        raise ParseError("must be a time such as Wed Apr 26 13:40:10 2023", text=text) from error
    return int(begun) + second


def parse_whole(text: str) -> int:
    """Parse an integer, which may be negative. Raises ParseError if malformed."""
    return -parse_count(text[1:]) if text.startswith("-") else parse_count(text)


def count_ppn(text: str) -> int:
    """Return the total CPUs of a request such as ``2:ppn=4+n7:ppn=1`` (9). Raises ParseError if malformed."""
    return _total_of(text, "ppn", "CPUs", without="1")


def count_gpus(text: str) -> int:
    """Return the GPUs of a request such as ``2:ppn=4:gpus=2+n7:ppn=1`` (4).

    Raises ParseError if malformed.
    """
    return _total_of(text, "gpus", "GPUs", without="0")


def _total_of(text: str, name: str, what: str, *, without: str) -> int:
    total = 0
    for part in text.split("+"):
        match = _NODES_PART.match(part)
        if match is None:
            raise ParseError("must be a request for nodes, such as 2:ppn=4", text=text)
        nodes = int(match[1]) if match[1].isdigit() else 1
        each = [word.partition("=")[2] for word in part.split(":") if word.startswith(f"{name}=")] or [
            without
        ]
        if len(each) > 1:
            raise ParseError(f"{name}= occurs twice in one part of the request for nodes", text=text)
        if not (each[0].isascii() and each[0].isdigit() and len(each[0]) <= 7):
            raise ParseError(f"{name}= must be a number of {what} with at most 7 digits", text=text)
        total += nodes * int(each[0])
    return total


def parse_cards(text: str) -> tuple[tuple[str, int], ...]:
    """Return host and index of each GPU in Torque's exec_gpus: ``n1-gpu/0+n1-gpu/1``.

    Raises ParseError for other text.
    """
    matches = [matched(_GPU, part, "not HOST-gpu/NUMBER") for part in text.split("+") if part]
    return tuple(dict.fromkeys((match[1], int(match[2])) for match in matches))


class PbsRecord(KeyedRecord):
    """The attributes of a job that have the same names in qstat's output and in accounting files.

    A malformed attribute is reported, and None.
    """

    source = ""

    wall_limit_secs = key(parse_duration, "Resource_List.walltime")
    cpu_limit_secs = key(parse_duration, "Resource_List.cput")
    asked_nodes = key(str, "Resource_List.nodes")
    asked_cpus = key(parse_count, "Resource_List.ncpus")
    asked_procs = key(parse_count, "Resource_List.procs")
    asked_gpus = key(parse_count, "Resource_List.ngpus")
    requested_nodes = key(parse_count, "Resource_List.nodect")

    def count_cpus(self) -> int | None:
        """Return the CPUs that a job requests; None if unknown.

        PBS has the total in ncpus if the job has a ``select`` too. Torque has it in
        ``nodes=2:ppn=4+n7:ppn=1``, else in procs, in ncpus, or in nodes of one CPU each. If one of these
        numbers is 1 and another is not, the 1 is a server's default. For Torque 6 the CPUs may be the logical
        processors that ``qsub -L`` requests.
        """
        if self.asked_cpus is not None and "Resource_List.select" in self.values:
            return self.asked_cpus
        [name] = PbsRecord.asked_nodes.names
        of_nodes = None if self.asked_nodes is None else self.read(count_ppn, name)
        if "ppn=" in (self.asked_nodes or ""):
            return of_nodes
        found = {of_nodes, self.asked_cpus, self.asked_procs} - {None}
        found = found - {1} or found
        if len(found) > 1:
            self.reject(ParseError("ncpus or procs is another number"), name, self.asked_nodes or "")
            return None
        return found.pop() if found else count_asked(self, "lprocs", each=1)

    def count_gpus(self) -> int | None:
        """Return the GPUs that a job requests: ngpus, or the total of Torque's ``nodes=2:ppn=4:gpus=2``.

        None if unknown.
        """
        if self.asked_nodes is not None and ":gpus=" in self.asked_nodes:
            return self.read(count_gpus, *PbsRecord.asked_nodes.names)
        return count_asked(self, "gpus", each=0) if self.asked_gpus is None else self.asked_gpus


def _has_started(job: QstatJob) -> bool:
    return job.has_started


def _has_ended(job: QstatJob) -> bool:
    return job.has_ended


class QstatJob(PbsRecord):
    """The attributes of a job in a record of qstat.

    `states` maps letters to job states; None: the exit status decides.
    """

    source = "qstat"

    letter = key(str, "job_state")
    exit_status = key(parse_whole, "Exit_status", "exit_status", when=_has_ended)
    substate = key(str, "substate")
    name = key(str, "Job_Name")
    euser = key(str, "euser")  # only managers see it
    owner = key(lambda text: text.partition("@")[0] or None, "Job_Owner")  # alice@head
    user_list = key(str, "User_List")  # may name other users than the owner
    account = key(str, "Account_Name")
    partition = key(str, "queue")
    submit_secs = key(parse_time, "qtime", "ctime")
    start_secs = key(parse_time, "stime", "start_time", when=_has_started)
    end_secs = key(parse_time, "obittime", "comp_time", when=_has_ended)
    eligible_secs = key(parse_time, "etime", when=lambda job: job.state_of_letter is JobState.PENDING)
    restarts = key(lambda text: max(0, parse_count(text) - 1), "run_count", "start_count")
    priority = key(parse_whole, "Priority")
    cards = key(parse_cards, "exec_gpus", when=_has_started)
    session = key(parse_count, "session_id", when=_has_started)
    used_secs = key(parse_duration, "resources_used.walltime", when=_has_started)  # not while suspended

    def __init__(self, record: Record, states: Mapping[str, JobState | None], note: Note) -> None:
        self.state_of_letter = state = states.get(record.attributes.get("job_state", ""), JobState.UNKNOWN)
        self.has_ended = state is None or state.is_finished
        self.has_started = self.has_ended or (state is not None and state.is_on_node)
        super().__init__(record.attributes, note, about=f"job {record.name[:40]}")

    def state(self, batch_system: str) -> JobState:
        """Return the job's state; UNKNOWN if it has ended and its exit status is malformed."""
        if self.state_of_letter is not None:
            return self.state_of_letter
        is_stated = self.text(*QstatJob.exit_status.names) is not None
        if self.exit_status is None and self.substate not in SUBSTATES and is_stated:
            return JobState.UNKNOWN
        return state_of_exit(
            batch_system, self.exit_status, self.substate, ran_secs=self.used_secs, limit=self.wall_limit_secs
        )


def make_job(
    record: Record,
    *,
    batch_system: str,
    states: Mapping[str, JobState | None],
    node_name: str | None,
    now_secs: float,
    note: Note,
) -> Job:
    """Return the job in a record of the qstat of a `batch_system`. Raises ParseError without id or state.

    `states` maps letters to job states (None: the exit status decides). CPUs, memory and GPUs are those on
    `node_name`; with None, they are known only for a single-node job. `now_secs` is when qstat answered
    (epoch). A malformed value is reported to `note` and stays unknown.
    """
    job_id = parse_job_id(record.name)
    found = QstatJob(record, states, note)
    if found.letter is None:
        raise ParseError(
            f"field is missing (job {job_id})", source=QstatJob.source, field=QstatJob.letter.names[0]
        )
    state, started = found.state(batch_system), found.has_started
    requested = found.count_cpus()
    shares = read_shares(found, "exec_host", "exec_vnode", requested) if started else {}
    cpus = compute_total(share.cpus for share in shares.values())
    mine = share_of(shares, node_name)
    wall, cpu_limit, cards = found.wall_limit_secs, found.cpu_limit_secs, found.cards or ()
    gpus = tuple(str(card) for host, card in cards if node_name and is_same_host(host, node_name))
    return Job(
        key=JobKey(batch_system, job_id),
        **found.fields(Job),
        state=state,
        user=found.euser or (None if found.user_list else found.owner),
        nodes=tuple(shares),
        total_cpus=cpus or (None if started else requested),
        allocated_cpus=mine.cpus or None,
        limit_end_secs=(
            limit_end_of_resumed(found.start_secs, wall, found.used_secs, now_secs=now_secs)
            if state is JobState.RUNNING
            else None
        ),
        ran_secs=found.used_secs if state is JobState.SUSPENDED else None,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=multiplied(wall, cpus or requested) if cpu_limit is None else cpu_limit,
            memory_bytes=memory_limit(found, mine, len(shares), "Resource_List.mem", "Resource_List.pmem"),
        ),
        **array_fields(job_id),
        allocated_gpus=mine.gpus or len(gpus) or None,
        gpus=gpus,
        total_nodes=len(shares) or found.requested_nodes,
        total_gpus=compute_total(share.gpus for share in shares.values()) or len(cards) or found.count_gpus(),
        reason=_REASONS.get(found.letter, "Queued") if state is JobState.PENDING else None,
        sessions=_sessions(found, shares, node_name) if state.is_on_node else frozenset(),
    )


def count_cards(records: Iterable[Record]) -> Counter[str]:
    """Return the number of GPUs in use on each host, by host: those of Torque's jobs that have not ended.

    They are counted in the jobs' attribute `exec_gpus`.
    """
    [name] = QstatJob.cards.names
    queued = (each.attributes.get(name, "") for each in records if each.attributes.get("job_state") != "C")
    return Counter(host for cards in parse_each(parse_cards, queued, []) for host, _ in cards)


def _sessions(found: QstatJob, shares: Mapping[str, Share], node_name: str | None) -> frozenset[int]:
    """Return the job's session id, which is on its first node; empty on other nodes."""
    first = next(iter(shares), None)
    if not found.session or first is None or (node_name is not None and not is_same_host(first, node_name)):
        return frozenset()
    return frozenset({found.session})
