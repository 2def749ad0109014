"""Parses the JSON of ``oarstat -J -f`` and ``oarnodes -J``, of OAR 2.5 and 2.6: jobs and nodes. Pure.

Each is one object, keyed by job or resource id; without jobs or resources, the answer is empty. Times are
epoch seconds, 0 means not yet; ``walltime`` is in seconds; ``exit_code`` is a wait status, null for killed
and for interactive jobs. A job that waits for its reservation, or was refused one, has a ``startTime`` in the
future. Source: oarstat(1), oarnodes(1).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from jobfeatures.batch.basics import MAX_EPOCH_SECS, busy_state
from jobfeatures.batch.oar.basics import NAME, make_limits, parse_id
from jobfeatures.errors import ParseError, Rejected, parse_each
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, record_of
from jobfeatures.joblogs.nottaken import TrackingDict, count_not_taken, without_unreadable
from jobfeatures.records.jsontext import clean, parse_object
from jobfeatures.records.model import Cluster, ClusterNode, Job, JobKey, JobState

# "Job states" of the administrator's guide.
STATES: Mapping[str, JobState] = {
    **dict.fromkeys(("Waiting", "Hold", "toAckReservation", "toLaunch"), JobState.PENDING),
    **dict.fromkeys(("Launching", "Running"), JobState.RUNNING),
    **dict.fromkeys(("Suspended", "Resuming"), JobState.SUSPENDED),
    "Finishing": JobState.COMPLETING,
}
# A job without these is rejected; any other value may be unknown.
NEEDED = frozenset({"Job_Id", "state", "submissionTime", "startTime", "stopTime", "assigned_resources"})
_DOWN = {"Absent", "Dead", "Suspected"}
HOLDS = frozenset({"HOLD_RUNNING_JOB", "HOLD_WAITING_JOB"})  # also of a job that resumes
_OTHER_TYPE = re.compile(r"\btype\b(?!\s*=\s*'default')")  # {type='disk'}/disk=2, vlans, licences: no CPUs
_INNER = re.compile(r"\binner=[0-9]")  # a job within another one's resources (oarsub -t container)
_OVERTIME = re.compile(r"\(Elapsed\)|reached its walltime")  # in the words of OAR 2.5, of 2.6


def parse_answer(text: str, *, source: str) -> dict[str, Any]:
    """Return the objects in an answer, by job or resource id; {} if the answer is empty.

    `source` names the command in errors. Raises ParseError if the answer is not a JSON object.
    """
    return parse_object(text, source=source) if text.strip() else {}


class Values:
    """Reads values of one JSON object by field name. Methods raise ParseError, which names the field."""

    def __init__(self, values: Any) -> None:
        if not isinstance(values, dict):
            raise ParseError("not an object", text=str(values)[:80])
        self.asked: TrackingDict[Any] = values if isinstance(values, TrackingDict) else TrackingDict(values)

    def checked(self, name: str, is_valid: Callable[[Any], bool], reason: str) -> Any:
        """Return a field's value; None if null or absent.

        Raises ParseError with the text `reason` if `is_valid` returns False for it.
        """
        value = self.asked.get(name)
        if value is not None and not is_valid(value):
            raise ParseError(reason, field=name, text=str(value)[:80])
        return value

    def text(self, name: str) -> str | None:
        """Return a field's text; None if it is empty or absent."""
        value = self.checked(name, lambda value: isinstance(value, str), "not a text")
        return clean(value) if value else None

    def number(self, name: str, limit: int, reason: str) -> int | None:
        """Return a field's integer from 0 to `limit` - 1; None if null or absent.

        Raises ParseError with the text `reason` for any other value.
        """
        value = numeral(self.asked.get(name))
        if value is not None and not _is_below(value, limit):
            raise ParseError(reason, field=name, text=str(value)[:80])
        found: int | None = value
        return found

    def count(self, name: str) -> int | None:
        """Return a field's positive integer; None for null and 0, which both mean that there is no value.

        Raises ParseError for a negative one.
        """
        return self.number(name, 2**63, "must be a whole number, 0 or more") or None

    def epoch(self, name: str) -> int | None:
        """Return a field's time in epoch seconds; None for null and 0, which mean not yet."""
        return self.number(name, MAX_EPOCH_SECS, "not seconds since the epoch") or None

    def names(self, name: str) -> tuple[str, ...]:
        """Return the members of a field's list as texts; () if it is null or absent."""
        return tuple(map(str, self.checked(name, lambda value: isinstance(value, list), "not a list") or ()))


def numeral(value: Any) -> Any:
    """Return a value that is a text of digits as a number, any other value as it is.

    Some versions of Perl write numbers in JSON as texts.
    """
    is_numeral = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    return int(value) if is_numeral else value


def _is_below(value: Any, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit


def list_events(job: Values) -> list[dict[str, Any]]:
    """Return a job's events, sorted by id, then by time: OAR prints them in any order. Never raises."""
    events = job.asked.get("events")
    found = [each for each in events if isinstance(each, dict)] if isinstance(events, list) else []
    return sorted(found, key=lambda each: [_time(each.get(name)) for name in ("event_id", "date")])


def events_of(job: Values) -> dict[str, dict[str, Any]]:
    """Return a job's last event of each type, by type. Never raises."""
    return {str(each.get("type")): each for each in list_events(job)}


def _time(value: Any) -> int:
    value = numeral(value)
    return value if _is_below(value, MAX_EPOCH_SECS) else 0


def suspensions_of(job: Values, start_secs: int) -> list[tuple[int, int | None]]:
    """Return the start and the end (epoch) of each suspension of a job; an end of None: it still lasts.

    These are the times of the requests; OAR acts seconds later. A request from before the job's start counts
    from its start on. Never raises.
    """
    found: list[tuple[int, int | None]] = []
    for each in list_events(job):
        kind, at_secs = each.get("type"), _time(each.get("date"))
        is_open = bool(found) and found[-1][1] is None
        if not at_secs:
            continue
        if kind in HOLDS and not is_open:
            found.append((max(at_secs, start_secs), None))
        elif kind == "RESUME_JOB" and is_open:
            found[-1] = found[-1][0], max(found[-1][0], at_secs)
    return found


def suspended_limit(
    job: Values, state: JobState, start_secs: int | None, wall_secs: int | None
) -> tuple[int | None, int | None]:
    """Return, for a job that has been suspended, when it reaches its wall limit, or how long it has run.

    The first value is set for a running job: the epoch time of the limit, which suspensions extend. The
    second is set for a suspended job: the seconds that it has run. The other value is None; both are for a
    job that was never suspended.
    """
    if start_secs is None or wall_secs is None or not (spans := suspensions_of(job, start_secs)):
        return None, None
    before = sum(until - since for since, until in spans[:-1] if until is not None)
    since, until = spans[-1]
    if state is JobState.SUSPENDED:
        return None, max(0, since - start_secs - before)
    if state is JobState.RUNNING:
        return start_secs + wall_secs + before + (0 if until is None else until - since), None
    return None, None


def reason_of(job: Values) -> str | None:
    """Return why a pending job may not start: JobHeld, Dependency, BeginTime; None if it may."""
    if job.text("state") == "Hold":
        return "JobHeld"
    if (job.text("message") or "").startswith("Cannot determine scheduling time due to dependency"):
        return "Dependency"
    return None if (job.text("reservation") or "None") == "None" else "BeginTime"


def state_of(job: Values) -> tuple[JobState, str | None]:
    """Return a job's state and None; or UNKNOWN and OAR's own word for the state, if that word is not enough.

    The job's ``events`` say why a job is in Error; a WALLTIME event may also mean that the wall limit was
    changed.
    """
    word, events = job.text("state") or "", events_of(job)
    if word in STATES:
        return STATES[word], None
    if word == "Terminated":
        code = job.number("exit_code", 2**16, "not a wait status")
        if code is None and job.text("jobType") != "INTERACTIVE":
            return JobState.UNKNOWN, word
        return (JobState.FAILED if code else JobState.COMPLETED), None
    if word not in {"Error", "toError"}:
        return JobState.UNKNOWN, word
    if _OVERTIME.search(str(events.get("WALLTIME"))):
        return JobState.TIMEOUT, None
    if "BESTEFFORT_KILL" in events:
        return JobState.PREEMPTED, None
    return (JobState.CANCELLED if "FRAG_JOB_REQUEST" in events else JobState.FAILED), None


def exit_fields(code: int | None) -> dict[str, Any]:
    """Return the arguments exit_status and exit_signal of a `JobRecord`, from a wait status.

    If a signal ended the job, exit_status is None.
    """
    signal = (code and code & 127) or None
    return {"exit_status": None if code is None or signal else code >> 8, "exit_signal": signal}


def array_of(values: Any) -> str | None:
    """Return the id of a job's array; None for a job outside of arrays, and for the first job of an array.

    OAR prints both alike; `arrays_in` helps to tell them apart. A job that was resubmitted keeps the array of
    its first run. `values` is the job's JSON object. Raises ParseError if a field is malformed.
    """
    job = Values(values)
    array, earlier = job.count("array_id"), job.count("resubmit_job_id")
    is_first = array == job.count("Job_Id") or (earlier is not None and (job.count("array_index") or 1) == 1)
    return None if array is None or is_first else str(array)


def arrays_in(answers: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of the arrays in `answers`, the objects of oarstat by job id.

    An array is recognised by any job but its first one, which looks like a job outside of arrays.
    """
    return frozenset(
        filter(None, parse_each(array_of, (each for found in answers for each in found.values()), []))
    )


def make_job(values: Any, arrays: Collection[str] = ()) -> tuple[Job, tuple[str, ...]]:
    """Return a job of the queue from its JSON object, and the ids of its resources.

    `arrays` is the result of `arrays_in`. The job's CPUs are unknown if it also requested resources of
    another type than ``default``, as the ids do not show the type. Raises ParseError if a field is malformed.
    """
    job = Values(values)
    state, _ = state_of(job)
    resources = job.names("assigned_resources")
    if "Job_Id" not in job.asked and "id" in job.asked:
        raise ParseError("OAR 3 is not supported here: its oarstat prints no resources of jobs", field="id")
    job_id = parse_id(str(job.count("Job_Id")), "Job_Id")
    array, index = job_id if job_id in arrays else array_of(job.asked), job.count("array_index")
    wanted = str(dict.get(job.asked, "wanted_resources"))  # it counts as not taken: only types are of use
    total_cpus = None if _OTHER_TYPE.search(wanted) else len(resources) or None
    start = job.epoch("startTime")
    start_secs = start if resources and state is not JobState.PENDING else None
    wall_secs = job.count("walltime")
    limit_end_secs, ran_secs = suspended_limit(job, state, start_secs, wall_secs)
    return Job(
        key=JobKey(NAME, job_id),
        state=state,
        name=job.text("name"),
        user=job.text("owner"),
        account=job.text("project"),
        partition=job.text("queue"),
        submit_secs=job.epoch("submissionTime"),
        start_secs=start_secs,
        planned_secs=job.epoch("scheduledStart") if state is JobState.PENDING else None,
        reason=reason_of(job) if state is JobState.PENDING else None,
        end_secs=job.epoch("stopTime") if state.is_finished or job.text("state") == "Terminated" else None,
        nodes=job.names("assigned_network_address"),
        total_cpus=total_cpus,
        total_nodes=len(job.names("assigned_network_address")) or None,
        limits=make_limits(wall_secs, total_cpus),
        limit_end_secs=limit_end_secs,
        ran_secs=ran_secs,
        array_job_id=array,
        array_task_id=None if array is None else str(index),
    ), resources


def make_record(values: Any, notes: Notes, arrays: Collection[str]) -> JobRecord:
    """Return the accounting record of a job from its JSON object.

    Raises ParseError if a field in `NEEDED` is malformed; any other malformed field is None, and counted in
    `notes`. `arrays` is the result of `arrays_in`. An inner job has no CPUs: its container does.
    """
    asked = Values(values).asked
    record = without_unreadable(lambda: _make_record(Values(asked), arrays), asked, NEEDED, notes)
    if _INNER.search(str(dict.get(asked, "types"))) and record.total_cpus is not None:
        notes.not_taken["assigned_resources of an inner job, which its container has"] += 1
        record = replace(record, total_cpus=None)
    elif record.nodes and record.total_cpus is None:
        notes.count_unread("assigned_resources", str(dict.get(asked, "wanted_resources")))
    # redundant, or only planned
    asked.names |= {"job_user", "cpuset_name", "scheduledStart", "reservation"}
    count_not_taken(notes, asked)
    return record


def _make_record(answer: Values, arrays: Collection[str]) -> JobRecord:
    job, resources = make_job(answer.asked, arrays)
    state, word = state_of(answer)
    end = None
    if not state.is_on_node and state is not JobState.PENDING:  # deleted before it ran: OAR gives no end
        end = answer.epoch("stopTime") or Values(events_of(answer).get("FRAG_JOB_REQUEST", {})).epoch("date")
    if not resources and end == answer.epoch("startTime"):
        end = None  # of a reservation that was refused: a time that was only planned
    code = answer.number("exit_code", 2**16, "not a wait status")
    kind, command = answer.text("jobType"), answer.text("command")
    return record_of(
        job,
        state=state,
        state_word=word,
        queue=job.partition,
        partition=None,
        is_interactive=None if kind is None else kind == "INTERACTIVE",
        executable=command,
        end_secs=end,
        **exit_fields(code),
        total_nodes=job.total_nodes,
        total_cpus=job.total_cpus,
        preceding_job_id=_only_dependency(answer),
    )


def _only_dependency(answer: Values) -> str | None:
    """Return the id of the one job that this job waited for; None if it waited for several, or none."""
    if len(answer.names("dependencies")) == 1:
        return parse_id(answer.names("dependencies")[0], "dependencies")
    answer.asked.names.discard("dependencies")
    return None


def parse_nodes(text: str, *, source: str) -> dict[str, str]:
    """Return the host name of each CPU, by resource id, from ``oarnodes -J``. Raises ParseError if malformed.

    A CPU is a resource of the type ``default``.
    """
    return {
        name: str(values.get("network_address"))
        for name, values in parse_answer(text, source=source).items()
        if isinstance(values, dict) and values.get("network_address") and values.get("type") == "default"
    }


def parse_cluster(text: str, *, source: str, taken_at_secs: float) -> Cluster:
    """Return the nodes in the output of ``oarnodes -J``. Each resource of type default is a CPU of its node.

    Raises ParseError if the output is malformed.
    """
    cpus: Counter[str] = Counter()
    busy: Counter[str] = Counter()
    words: dict[str, set[str]] = {}
    rejected: list[Rejected] = []
    for name, values in parse_answer(text, source=source).items():
        try:
            resource = Values(values)
            node = resource.text("network_address")
            if node is None or resource.text("type") != "default":
                continue
            state = resource.text("state") or "UNKNOWN"
            is_drained = resource.asked.get("drain") == "YES"
            is_busy = bool(resource.asked.get("jobs"))
        except ParseError as error:
            rejected.append(Rejected.from_error(error.at(source, field=f"{name}.{error.field}")))
            continue
        cpus[node] += 1
        busy[node] += is_busy
        words.setdefault(node, set()).update({"DOWN"} if state in _DOWN else set())
        words[node].update({"DRAIN"} if is_drained else set())
    nodes = []
    for node in sorted(cpus):
        base = "DOWN" if "DOWN" in words[node] else busy_state(busy[node], cpus[node])
        nodes.append(
            ClusterNode(
                name=node,
                states=(base, *sorted(words[node] - {base})),
                cpus=cpus[node],
                allocated_cpus=busy[node],
                address=node,
            )
        )
    return Cluster(NAME, taken_at_secs, tuple(nodes), rejected=tuple(rejected))
