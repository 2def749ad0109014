"""Runs qstat and pbsnodes; a table has the differences between PBS and Torque.

PBS Professional Reference Guide, "PBS Commands", and its "Job States":
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf. PBS Pro prints JSON from
version 13 on. Torque, qstat(1B), "S: The job's current state":
https://docs.adaptivecomputing.com/torque/6-1-2/adminGuide/Content/topics/torque/13-commands/qstat.htm.
Torque's XML escapes text from users and has times in epoch seconds; its queues are available as text only. A
version that is too old, or was built without JSON or XML, is queried for text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from jobfeatures.batch.basics import Note
from jobfeatures.batch.pbs import VARIABLES, QstatSettings
from jobfeatures.batch.pbs.jobs import make_job
from jobfeatures.batch.pbs.records import Records, parse_json, parse_text, parse_xml
from jobfeatures.batch.pbs.values import parse_job_id
from jobfeatures.batch.programs import Programs
from jobfeatures.batch.questions import MAX_QUESTIONS
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import ParseError, Rejected, SourceError, parse_each, shown
from jobfeatures.records.model import Job, JobState
from jobfeatures.system.command import first_line

_GONE = (
    re.compile(r"(?:[\w./-]+: )?Unknown Job Id(?: Error)?:? (\S+)\Z"),
    re.compile(r"(?:[\w./-]+: )?(\S+) Job has finished\b"),
)
_USAGE = re.compile(r"(?i)(?:invalid|illegal|unrecognized|unknown) option|^usage:", re.MULTILINE)

_COMMON: Mapping[str, JobState | None] = {
    "E": JobState.COMPLETING,
    "H": JobState.PENDING,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "T": JobState.PENDING,  # on its way to another queue
    "W": JobState.PENDING,
}


# The question about single jobs or nodes in place of that about all of them.
_BY_NAME = {"queue": "jobs", "nodes": "node"}


class NotUnderstoodError(SourceError):
    """The command does not know one of its options: this version is too old for the query."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run of qstat or pbsnodes printed.

    `gone` are the ids of jobs that standard error reports as unknown or finished; `complaint` is the first
    other line there, "" if none.
    """

    records: Records
    gone: frozenset[str] = frozenset()
    complaint: str = ""

    @property
    def complaints(self) -> tuple[Rejected, ...]:
        """Return the complaint as a problem to report, in a tuple; () if there is none."""
        return (Rejected("qstat", f"standard error says {self.complaint}"),) if self.complaint else ()

    @property
    def problems(self) -> tuple[Rejected, ...]:
        """Return what has to be reported: the rejected records, and the complaint if there is one."""
        return (*self.records.rejected, *self.complaints)

    @property
    def whole(self) -> bool:
        """Return whether no job is missing from this answer: no complaint, and no unreadable record."""
        return not self.complaint and not self.records.unsure


class Question(NamedTuple):
    """One query: a command, and the kind of its records (a name in `Dialect.members`).

    `structured` are its arguments for JSON or XML, `text` those for text; None: it cannot print that format.
    """

    command: str
    kind: str
    structured: tuple[str, ...] | None
    text: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How to query PBS or Torque, and how to read what they print.

    `states` maps the letters of job states; None: the exit status decides. `parse` parses JSON (PBS) or XML
    (Torque); `members` are the names that a job, a node and a queue have in it. `questions` are the queries
    by name: jobs (by id), queue (all jobs and subjobs), node (by name), nodes (all), queues.
    """

    states: Mapping[str, JobState | None]
    parse: Callable[[bytes, str, str], Records]  # takes a name of `members`, and the source
    members: Mapping[str, str]
    questions: Mapping[str, Question]


DIALECTS: Mapping[str, Dialect] = {
    "pbs": Dialect(
        states={
            **_COMMON,
            "B": JobState.RUNNING,  # an array with a started subjob
            "F": None,
            "M": JobState.CANCELLED,  # moved to another server
            "U": JobState.SUSPENDED,  # the workstation is in use by its owner
            "X": None,  # an ended subjob
        },
        parse=lambda data, member, source: parse_json(
            data.decode("utf-8", "replace"), member=member, source=source
        ),
        members={"job": "Jobs", "node": "nodes", "queue": "Queue"},
        questions={
            "jobs": Question("qstat", "job", ("-f", "-F", "json"), ("-f",)),
            "queue": Question("qstat", "job", ("-t", "-f", "-F", "json"), ("-t", "-f")),
            "node": Question("pbsnodes", "node", ("-v", "-F", "json"), ("-v",)),
            "nodes": Question("pbsnodes", "node", ("-a", "-F", "json"), ("-a",)),
            "queues": Question("qstat", "queue", ("-Q", "-f", "-F", "json"), ("-Q", "-f")),
        },
    ),
    "torque": Dialect(
        states={**_COMMON, "C": None},
        parse=lambda data, member, source: parse_xml(data, kind=member, source=source),
        members={"job": "Job", "node": "Node"},
        questions={
            "jobs": Question("qstat", "job", ("-x",), ("-f",)),
            "queue": Question("qstat", "job", ("-t", "-x"), ("-t", "-f")),
            "node": Question("pbsnodes", "node", ("-x",), None),
            "nodes": Question("pbsnodes", "node", ("-x",), None),
            "queues": Question("qstat", "queue", None, ("-Q", "-f")),
        },
    ),
}


class QstatCommands:
    """Runs the qstat of PBS or of Torque, and the pbsnodes in its directory. Queries raise SourceError."""

    def __init__(self, system: str, config: SystemSettings[QstatSettings], timeout_secs: float) -> None:
        self.name = system
        self._dialect = DIALECTS[system]
        self._programs = Programs(
            f"{system}.qstat", config.own.qstat, timeout_secs, kept=VARIABLES, environment={"TZ": "UTC0"}
        )
        self._is_old = False  # it supports text output only

    def ask(self, question: str, *names: str) -> Answer:
        """Run the query called `question` in `Dialect.questions`, about the jobs or the node `names`."""
        source, kind, structured, text = self._dialect.questions[question]
        if structured is not None and not (self._is_old and text is not None):
            member = self._dialect.members[kind]
            try:
                answer = self._run(
                    (source, *structured, *names), lambda data: self._dialect.parse(data, member, source)
                )
                return self._with_text(question, answer)
            except NotUnderstoodError:
                if text is None:
                    raise
                self._is_old = True
        return self._ask_text(question, *names)

    def _ask_text(self, question: str, *names: str) -> Answer:
        source, kind, _, text = self._dialect.questions[question]
        return self._run(
            (source, *(text or ()), *names),
            lambda data: parse_text(data.decode("utf-8", "replace"), kind=kind, source=source),
        )

    def _with_text(self, question: str, answer: Answer) -> Answer:
        """Return an answer whose unreadable records are replaced by those of a query about them as text.

        Some versions of PBS write users' and managers' quotes into JSON as they are (OpenPBS 830, 2049).
        """
        unsure = sorted(answer.records.unsure)[:MAX_QUESTIONS]
        again = _BY_NAME.get(question, question)
        if not unsure or self._dialect.questions[again].text is None:
            return answer
        try:
            found = self._ask_text(again, *unsure).records.found
        except SourceError:
            return answer
        found = {name: found[name] for name in unsure if name in found}
        left = answer.records.unsure - found.keys()
        records = replace(answer.records, found={**answer.records.found, **found}, unsure=left)
        return replace(answer, records=records)

    def _run(self, question: Sequence[str], parse: Callable[[bytes], Records]) -> Answer:
        command, output = self._programs.path(question[0]), self._programs.run(*question)
        stderr = output.stderr.decode("utf-8", "replace")
        gone, complaint = parse_complaints(stderr)
        if output.status != 0 and _USAGE.search(stderr):
            raise NotUnderstoodError(f"{command}: {first_line(output.stderr)}")
        try:
            records = parse(output.stdout) if output.stdout.strip() else Records({})
        except ParseError as error:
            raise SourceError(f"{command}: {complaint or error}") from error
        if output.status != 0 and not complaint and not gone:
            complaint = f"status {output.status}"
        if complaint and not records.found and not gone:
            raise SourceError(f"{command}: no answer (exit status {output.status}): {complaint}")
        return Answer(records, gone, complaint)

    def make_jobs(
        self, answer: Answer, *, node_name: str | None, now_secs: float, note: Note, broken: list[Rejected]
    ) -> Iterator[Job]:
        """Yield the jobs in qstat's answer; append a Rejected to `broken` for one without an id or state.

        CPUs, memory and GPUs are those on `node_name`. `now_secs` is when qstat answered (epoch).
        """
        make = partial(
            make_job,
            batch_system=self.name,
            states=self._dialect.states,
            node_name=node_name,
            now_secs=now_secs,
            note=note,
        )
        return parse_each(make, answer.records.found.values(), broken)


def parse_complaints(stderr: str) -> tuple[frozenset[str], str]:
    """Return the job ids that standard error reports as unknown or finished, and its first other line. Pure.

    The line is "" if there is none.
    """
    gone: set[str] = set()
    foreign = ""
    for line in filter(None, map(str.strip, stderr.split("\n"))):
        match = next(filter(None, (pattern.match(line) for pattern in _GONE)), None)
        try:
            if match is not None:
                gone.add(parse_job_id(match[1]))
        except ParseError:
            match = None
        if match is None:
            foreign = foreign or shown(line)
    return frozenset(gone), foreign
