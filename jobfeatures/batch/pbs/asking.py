"""Questions to qstat and pbsnodes, and what they complain of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobfeatures.batch.pbs.records import Records
from jobfeatures.batch.pbs.values import parse_job_id
from jobfeatures.batch.programs import Programs
from jobfeatures.command import first_line
from jobfeatures.errors import ParseError, Rejected, SourceError, shown

_GONE = (
    re.compile(r"(?:[\w./-]+: )?Unknown Job Id(?: Error)?:? (\S+)\Z"),
    re.compile(r"(?:[\w./-]+: )?(\S+) Job has finished\b"),
)
_USAGE = re.compile(r"(?i)(?:invalid|illegal|unrecognized|unknown) option|^usage:", re.MULTILINE)


class NotUnderstoodError(SourceError):
    """The command does not know an option: it is too old for this question."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said. `gone`: job ids that its server knows no more, or no more as jobs to come.

    `whole`: nothing else was complained of. `complaint` is its first foreign line.
    """

    records: Records
    gone: frozenset[str] = frozenset()
    complaint: str = ""

    @property
    def problems(self) -> tuple[Rejected, ...]:
        """Return what could not be taken, and what was complained of."""
        complaint = (Rejected("qstat", f"standard error says {self.complaint}"),) if self.complaint else ()
        return (*self.records.rejected, *complaint)

    @property
    def whole(self) -> bool:
        """Return whether absence from this answer means something."""
        return not self.complaint and not self.records.unsure


def ask(programs: Programs, question: Sequence[str], parse: Callable[[bytes], Records]) -> Answer:
    """Run a command with its arguments and return its answer. Raises SourceError where it has none."""
    command = programs.path(question[0])
    output = programs.run(*question)
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
        raise SourceError(f"{command}: no answer (status {output.status}): {complaint}")
    return Answer(records, gone, complaint)


def parse_complaints(stderr: str) -> tuple[frozenset[str], str]:
    """Return the jobs that are unknown or finished, and the first line that says something else. Pure."""
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
