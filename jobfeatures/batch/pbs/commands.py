"""qstat and pbsnodes, and the table of what differs between PBS and Torque.

PBS Professional Reference Guide, "PBS Commands", and its "Job States":
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf. JSON comes from PBS
Pro 13 on. Torque, qstat(1B), "S: The job's current state":
https://docs.adaptivecomputing.com/torque/6-1-2/adminGuide/Content/topics/torque/13-commands/qstat.htm.
Its XML escapes what users write, and has times as epoch seconds; queues are reported as text only.
One that is too old, or was built without, is asked for text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobfeatures.batch.pbs.asking import Answer, NotUnderstoodError, ask
from jobfeatures.batch.pbs.records import Records, parse_json, parse_text, parse_xml
from jobfeatures.model import JobState

_COMMON: Mapping[str, JobState | None] = {
    "E": JobState.COMPLETING,
    "H": JobState.PENDING,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "T": JobState.PENDING,  # on its way to another queue
    "W": JobState.PENDING,
}


class Question(NamedTuple):
    """Arguments of a command: for JSON or XML, and for text; None where there is no such answer."""

    structured: tuple[str, ...] | None
    text: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one of them is asked; `members` are the names of jobs, nodes and queues in its answers."""

    states: Mapping[str, JobState | None]
    parse: Callable[[bytes, str, str], Records]  # with a name of `members`, and the source
    members: Mapping[str, str]
    jobs: Question
    queue: Question  # all jobs, those of arrays one by one
    node: Question
    nodes: Question
    queues: Question


def _parse_json(data: bytes, member: str, source: str) -> Records:
    return parse_json(data.decode("utf-8", "replace"), member=member, source=source)


def _parse_xml(data: bytes, member: str, source: str) -> Records:
    return parse_xml(data, kind=member, source=source)


DIALECTS: Mapping[str, Dialect] = {
    "pbs": Dialect(
        states={
            **_COMMON,
            "B": JobState.RUNNING,  # an array of which something has started
            "F": None,
            "M": JobState.CANCELLED,  # moved: another server's job from now on
            "U": JobState.SUSPENDED,  # the workstation's user is back
            "X": None,  # of an array
        },
        parse=_parse_json,
        members={"job": "Jobs", "node": "nodes", "queue": "Queue"},
        jobs=Question(("-f", "-F", "json"), ("-f",)),
        queue=Question(("-t", "-f", "-F", "json"), ("-t", "-f")),
        node=Question(("-v", "-F", "json"), ("-v",)),
        nodes=Question(("-a", "-F", "json"), ("-a",)),
        queues=Question(("-Q", "-f", "-F", "json"), ("-Q", "-f")),
    ),
    "torque": Dialect(
        states={**_COMMON, "C": None},
        parse=_parse_xml,
        members={"job": "Job", "node": "Node"},
        jobs=Question(("-x",), ("-f",)),
        queue=Question(("-t", "-x"), ("-t", "-f")),
        node=Question(("-x",), None),
        nodes=Question(("-x",), None),
        queues=Question(None, ("-Q", "-f")),
    ),
}


class Commands:
    """One system's qstat, and the pbsnodes beside it. Each question raises SourceError."""

    def __init__(self, name: str, qstat: str = "qstat", *, timeout_secs: float = 10.0) -> None:
        self.name = name
        self._dialect = DIALECTS[name]
        self._qstat = qstat
        self._pbsnodes = f"{qstat.removesuffix('qstat')}pbsnodes"
        self._timeout_secs = timeout_secs
        self._is_old = False  # it knows text only

    @property
    def states(self) -> Mapping[str, JobState | None]:
        """Return what its letters for the states of jobs mean."""
        return self._dialect.states

    def ask_jobs(self, job_ids: Sequence[str]) -> Answer:
        """Ask about these jobs."""
        return self._ask(self._qstat, "job", self._dialect.jobs, job_ids)

    def ask_queue(self) -> Answer:
        """Ask about all jobs, those of arrays one by one."""
        return self._ask(self._qstat, "job", self._dialect.queue)

    def ask_nodes(self, node_name: str | None) -> Answer:
        """Ask about a node, or about all."""
        if node_name is None:
            return self._ask(self._pbsnodes, "node", self._dialect.nodes)
        return self._ask(self._pbsnodes, "node", self._dialect.node, (node_name,))

    def ask_queues(self) -> Answer:
        """Ask about the queues."""
        return self._ask(self._qstat, "queue", self._dialect.queues)

    def _ask(self, command: str, kind: str, question: Question, names: Sequence[str] = ()) -> Answer:
        source = command.rpartition("/")[2]
        structured, text = question
        if structured is not None and not (self._is_old and text is not None):
            member = self._dialect.members[kind]
            try:
                return self._run(
                    [command, *structured, *names], lambda data: self._dialect.parse(data, member, source)
                )
            except NotUnderstoodError:
                if text is None:
                    raise
                self._is_old = True
        return self._run(
            [command, *(text or ()), *names],
            lambda data: parse_text(data.decode("utf-8", "replace"), kind=kind, source=source),
        )

    def _run(self, argv: Sequence[str], parse: Callable[[bytes], Records]) -> Answer:
        return ask(argv, parse, timeout_secs=self._timeout_secs)
