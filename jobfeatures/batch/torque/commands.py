"""Torque's commands, and its words for the states of jobs.

XML escapes what users write, and has times as epoch seconds; queues are told
as text only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jobfeatures.batch.pbsfamily.asking import Answer, NotUnderstoodError, ask
from jobfeatures.batch.pbsfamily.records import Records, parse_text
from jobfeatures.batch.pbsfamily.xmlrecords import parse_xml
from jobfeatures.model import JobState

NAME = "torque"

# qstat(1B), "S: The job's current state":
# https://docs.adaptivecomputing.com/torque/6-1-2/adminGuide/Content/topics/torque/13-commands/qstat.htm
STATES: Mapping[str, JobState | None] = {
    "C": None,
    "E": JobState.COMPLETING,
    "H": JobState.PENDING,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "T": JobState.PENDING,  # on its way to another queue
    "W": JobState.PENDING,
}


class TorqueCommands:
    """Asks Torque's qstat, and the pbsnodes beside it."""

    name = NAME
    states = STATES

    def __init__(self, qstat: str = "qstat", *, timeout_secs: float = 10.0) -> None:
        self._qstat = qstat
        self._pbsnodes = f"{qstat.removesuffix('qstat')}pbsnodes"
        self._timeout_secs = timeout_secs

    def ask_jobs(self, job_ids: Sequence[str]) -> Answer:
        """Ask about these jobs."""
        return self._ask([self._qstat], job_ids)

    def ask_queue(self) -> Answer:
        """Ask about all jobs, those of arrays one by one."""
        return self._ask([self._qstat, "-t"], ())

    def ask_nodes(self, node_name: str | None) -> Answer:
        """Ask about a node, or about all."""

        def read_xml(data: bytes) -> Records:
            return parse_xml(data, kind="Node", source="pbsnodes")

        return self._run([self._pbsnodes, "-x", *filter(None, (node_name,))], read_xml)

    def ask_queues(self) -> Answer:
        """Ask about the queues."""
        return self._run([self._qstat, "-Q", "-f"], lambda data: _read_text(data, "queue"))

    def _ask(self, argv: Sequence[str], job_ids: Sequence[str]) -> Answer:
        def read_xml(data: bytes) -> Records:
            return parse_xml(data, kind="Job", source="qstat")

        try:
            return self._run([*argv, "-x", *job_ids], read_xml)
        except NotUnderstoodError:  # built without XML
            return self._run([*argv, "-f", *job_ids], lambda data: _read_text(data, "job"))

    def _run(self, argv: Sequence[str], parse: Callable[[bytes], Records]) -> Answer:
        return ask(argv, parse, timeout_secs=self._timeout_secs)


def _read_text(data: bytes, kind: str) -> Records:
    return parse_text(data.decode("utf-8", "replace"), kind=kind, source="qstat")
