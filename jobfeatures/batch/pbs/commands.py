"""PBS's commands, and its words for the states of jobs.

Commands: PBS Professional Reference Guide, "PBS Commands": qstat, pbsnodes.
JSON comes from PBS Pro 13 on; an older one is asked for text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jobfeatures.batch.pbsfamily.asking import Answer, NotUnderstoodError, ask
from jobfeatures.batch.pbsfamily.records import Records, parse_json, parse_text
from jobfeatures.model import JobState

NAME = "pbs"

# Reference Guide, "Job States": https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf
STATES: Mapping[str, JobState | None] = {
    "B": JobState.RUNNING,  # an array of which something has started
    "E": JobState.COMPLETING,
    "F": None,
    "H": JobState.PENDING,
    "M": JobState.CANCELLED,  # moved: another server's job from now on
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "T": JobState.PENDING,  # on its way to another queue
    "U": JobState.SUSPENDED,  # the workstation's user is back
    "W": JobState.PENDING,
    "X": None,  # of an array
}
MEMBERS = {"job": "Jobs", "node": "nodes", "queue": "Queue"}


class PbsCommands:
    """Asks PBS's qstat, and the pbsnodes beside it."""

    name = NAME
    states = STATES

    def __init__(self, qstat: str = "qstat", *, timeout_secs: float = 10.0) -> None:
        self._qstat = qstat
        self._pbsnodes = f"{qstat.removesuffix('qstat')}pbsnodes"
        self._timeout_secs = timeout_secs
        self._json = True

    def ask_jobs(self, job_ids: Sequence[str]) -> Answer:
        """Ask about these jobs."""
        return self._ask("job", [self._qstat, "-f"], job_ids)

    def ask_queue(self) -> Answer:
        """Ask about all jobs, those of arrays one by one."""
        return self._ask("job", [self._qstat, "-t", "-f"], ())

    def ask_nodes(self, node_name: str | None) -> Answer:
        """Ask about a node, or about all."""
        if node_name is None:
            return self._ask("node", [self._pbsnodes, "-a"], ())
        return self._ask("node", [self._pbsnodes, "-v"], (node_name,))

    def ask_queues(self) -> Answer:
        """Ask about the queues."""
        return self._ask("queue", [self._qstat, "-Q", "-f"], ())

    def _ask(self, kind: str, argv: Sequence[str], names: Sequence[str]) -> Answer:
        source = argv[0].rpartition("/")[2]

        def read_json(data: bytes) -> Records:
            return parse_json(data.decode("utf-8", "replace"), member=MEMBERS[kind], source=source)

        def read_text(data: bytes) -> Records:
            return parse_text(data.decode("utf-8", "replace"), kind=kind, source=source)

        if self._json:
            try:
                return self._run([*argv, "-F", "json", *names], read_json)
            except NotUnderstoodError:
                self._json = False
        return self._run([*argv, *names], read_text)

    def _run(self, argv: Sequence[str], parse: Callable[[bytes], Records]) -> Answer:
        return ask(argv, parse, timeout_secs=self._timeout_secs)
