"""Reads what ``oarstat -J -f`` of OAR 2.5, 2.6 and 3 prints, as a log of jobs. Pure.

OAR 3 prints the columns of its table of jobs, under other names than OAR 2, and neither resources, limits,
events nor dependencies: so it is unknown, for example, why a job is in Error. ``assigned_moldable_job`` is 0
until a job has resources. Without ``-f`` OAR 3 prints no times, and such jobs are rejected. Source:
oar/lib/models.py and oar/cli/oarstat.py of OAR 3.0.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from jobfeatures.batch.oar import answers
from jobfeatures.batch.oar.answers import STATES, Values, exit_fields
from jobfeatures.batch.oar.basics import NAME, parse_id
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.joblogs.nottaken import TrackingDict, count_not_taken, without_unreadable
from jobfeatures.records.jsontext import parse_objects
from jobfeatures.records.model import JobState

# A job without these is rejected; any other value may be unknown.
NEEDED = frozenset({"id", "state", "submission_time", "start_time", "stop_time", "assigned_moldable_job"})
# Redundant, or the server's own.
_OF_THE_SERVER = frozenset({"cpuset_name", "accounted", "file_id", "assigned_moldable_job", "info_type"})
_HEAD = re.compile(
    r'\s*\{\s*"[1-9][0-9]{0,9}"\s*:\s*\{.{0,4096}?'
    r'"(?:assigned_resources|cpuset_name|launchingDirectory|initial_request)"\s*:',
    re.DOTALL,
)


def recognise(head: str) -> bool:
    """Return whether `head`, the beginning of a log, is output of ``oarstat -J``."""
    return _HEAD.match(head) is not None


def read_records(lines: Iterable[str], *, source: str, notes: Notes) -> Iterator[JobRecord | Rejected]:
    """Yield the jobs of a text, which may hold several answers of oarstat one after another.

    A malformed job is yielded as Rejected. `source` names the log in errors; `notes` counts unreadable
    values.
    """
    for found in parse_objects("".join(lines), source=source):
        if isinstance(found, ParseError):
            yield Rejected.from_error(found)
            continue
        arrays, arrays3 = answers.arrays_in([found]), oar3_arrays_in(found)
        for name, values in sorted(found.items(), key=lambda each: (len(each[0]), each[0])):
            try:
                if is_job(values):
                    yield make_oar3_record(values, notes, arrays3)
                else:
                    yield answers.make_record(values, notes, arrays)
            except ParseError as error:
                yield Rejected.from_error(error.at(source, field=f"{name}.{error.field}"))


def is_job(values: Any) -> bool:
    """Return whether a JSON value is a job as OAR 3 prints it."""
    return isinstance(values, Mapping) and "id" in values and "Job_Id" not in values


def oar3_arrays_in(answer: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of the arrays in an answer of OAR 3.

    An array is recognised by any job but its first one, which looks like a job outside of arrays.
    """
    pairs = ((each.get("array_id"), each.get("id")) for each in answer.values() if is_job(each))
    return frozenset(str(array) for array, job_id in pairs if array and array != job_id)


def make_oar3_record(values: Mapping[str, Any], notes: Notes, arrays: Collection[str] = ()) -> JobRecord:
    """Return the accounting record of a job of OAR 3 from its JSON object, `values`. Raises ParseError.

    A malformed optional field is None, and counted in `notes`. `arrays` is the result of `oar3_arrays_in`.
    """
    asked = TrackingDict[Any](values)
    for name in sorted(NEEDED - asked.keys()):
        raise ParseError("is missing: OAR 3 prints this field only with oarstat -f", field=name)
    record = without_unreadable(lambda: _make_record(Values(asked), arrays), asked, NEEDED, notes)
    asked.names |= _OF_THE_SERVER
    count_not_taken(notes, asked)
    return record


def _make_record(job: Values, arrays: Collection[str]) -> JobRecord:
    job_id = parse_id(str(job.count("id")), "id")
    code, kind = job.number("exit_code", 2**16, "not a wait status"), job.text("type")
    state, word = _state_of(job, code, is_interactive=kind == "INTERACTIVE")
    has_begun = job.count("assigned_moldable_job") is not None and state is not JobState.PENDING
    array, index = job.count("array_id"), job.count("array_index")
    is_task = array is not None and (str(array) != job_id or job_id in arrays)
    return JobRecord(
        batch_system=NAME,
        job_id=job_id,
        state=state,
        state_word=word,
        name=job.text("name"),
        user=job.text("user"),
        account=job.text("project"),
        queue=job.text("queue_name"),
        is_interactive=None if kind is None else kind == "INTERACTIVE",
        executable=job.text("command"),
        submit_secs=job.epoch("submission_time"),
        start_secs=job.epoch("start_time") if has_begun else None,
        end_secs=job.epoch("stop_time"),
        **exit_fields(code),
        array_job_id=str(array) if is_task else None,
        array_task_id=str(index) if is_task and index is not None else None,
    )


def _state_of(job: Values, code: int | None, *, is_interactive: bool) -> tuple[JobState, str | None]:
    """Return a job's state, and OAR's own word for it if that does not show how the job ended."""
    word = job.text("state") or ""
    if word in STATES:
        return STATES[word], None
    if word == "Terminated" and (code is not None or is_interactive):
        return (JobState.FAILED if code else JobState.COMPLETED), None
    return JobState.UNKNOWN, word
