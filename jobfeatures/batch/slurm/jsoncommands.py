"""What Slurm's commands are asked with ``--json``: one process a question.

``scontrol`` has ``--json`` from 23.02 on, ``squeue``, ``sinfo`` and ``sacct``
from 21.08 on. Of 22.05 the nodes are had from sinfo, and single jobs not at all.
"""

from __future__ import annotations

import math

from jobfeatures.batch.slurm import SYSTEM
from jobfeatures.batch.slurm.jsonvalues import JsonRecord, parse_document
from jobfeatures.clock import Clock
from jobfeatures.command import first_line, run_command
from jobfeatures.errors import CommandError, ParseError, SourceError

MAX_ANSWER_BYTES = 2**30


class CommandTransport:
    """Asks the commands that stand beside scontrol."""

    def __init__(self, clock: Clock, *, scontrol: str = "scontrol") -> None:
        self.name = f"{scontrol} --json"
        self._clock = clock
        self._scontrol = scontrol
        self._folder = scontrol.removesuffix("scontrol")
        self._nodes_by_sinfo = False

    def job(self, job_id: str, timeout_secs: float) -> JsonRecord:
        """Ask about one job."""
        return self._run([self._scontrol, "-a", "-d", "--json", "show", "job", job_id], timeout_secs)

    def node(self, name: str, timeout_secs: float) -> JsonRecord:
        """Ask about one node."""
        return self._run([self._scontrol, "--json", "show", "node", name], timeout_secs)

    def reservations(self, timeout_secs: float) -> JsonRecord:
        """Ask about the reservations."""
        return self._run([self._scontrol, "--json", "show", "reservation"], timeout_secs)

    def jobs(self, timeout_secs: float) -> JsonRecord:
        """Ask about the whole queue."""
        return self._run([f"{self._folder}squeue", "-a", "-t", "all", "--json"], timeout_secs)

    def nodes(self, timeout_secs: float) -> JsonRecord:
        """Ask about all nodes."""
        if not self._nodes_by_sinfo:
            try:
                return self._run([self._scontrol, "-a", "--json", "show", "node"], timeout_secs)
            except CommandError:
                raise
            except SourceError:
                self._nodes_by_sinfo = True
        return self._run([f"{self._folder}sinfo", "-a", "--json"], timeout_secs)

    def partitions(self, timeout_secs: float) -> JsonRecord:
        """Ask about all partitions; where scontrol cannot tell, they are made of what the nodes say."""
        if not self._nodes_by_sinfo:
            return self._run([self._scontrol, "-a", "--json", "show", "partition"], timeout_secs)
        members: dict[str, list[str]] = {}
        for node in self.nodes(timeout_secs).records("nodes"):
            for name in node.words("partitions"):
                members.setdefault(name, []).append(node.text("name") or "")
        return JsonRecord(
            {"partitions": [{"name": name, "nodes": ",".join(members[name])} for name in members]}
        )

    def accounting(self, since_secs: int, timeout_secs: float) -> JsonRecord:
        """Ask accounting about jobs since then."""
        ago_secs = max(1, math.ceil(self._clock.now_secs() - since_secs))
        argv = [f"{self._folder}sacct", "-a", "--json", "-S", f"now-{ago_secs}seconds", "-E", "now"]
        return self._run(argv, timeout_secs)

    def _run(self, argv: list[str], timeout_secs: float) -> JsonRecord:
        output = run_command(
            argv,
            timeout_secs=timeout_secs,
            kept=SYSTEM.variables,
            max_bytes=MAX_ANSWER_BYTES,
            environment={"SLURM_BITSTR_LEN": "0"},  # array tasks in full: they are counted
        )
        try:
            return parse_document(output.stdout, source=argv[0])
        except ParseError as error:
            if output.status != 0 or not output.stdout:
                complaint = first_line(output.stderr)
                raise SourceError(f"{argv[0]}: no answer (status {output.status}): {complaint}") from error
            raise SourceError(str(error)) from error
