"""From one log of jobs to another: the kinds there are, which one a text is, and the way between two. Pure.

Each kind is a module that offers what `jobfeatures.joblog` says; nothing is
imported but what is asked for.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import tzinfo
from itertools import islice
from typing import Any, Final, NamedTuple

from jobfeatures.errors import JobfeaturesError, Rejected
from jobfeatures.jobfold import fold_jobs
from jobfeatures.joblog import JobRecord

MAX_SHOWN: Final = 20  # rejected records that are kept, the others are counted
_DOCUMENT: Final = 2**28
_LIST_OF_NODES: Final = 2**20
WHOLE_JOB: Final = "job "  # what is lost under a name that begins so is a job as a whole


class KindError(JobfeaturesError):
    """It cannot be told what a log is, or what it shall become."""


class Kind(NamedTuple):
    """A kind of log. `reader` and `writer` are modules, empty where it is not read or not written."""

    meaning: str
    reader: str = ""
    writer: str = ""
    endings: tuple[str, ...] = ()  # of file names that are written as this kind where --to does not say
    is_zoned: bool = False  # its times are by the clock of a place, which `zone` names
    has_header: bool = False  # of comments, which may say more of the machine
    is_checked: bool = False  # each record is read back when it has been written: what is not there is lost
    jobs_only: bool = False  # has one entry a job: steps and runs are folded before it is written
    longest_line: int = 2**16  # characters; a document may stand on one line


KINDS: Final[dict[str, Kind]] = {
    "swf": Kind(
        "Standard Workload Format 2.2",
        reader="jobfeatures.formats.swf.records",
        writer="jobfeatures.formats.swf.records",
        endings=(".swf",),
        has_header=True,
        jobs_only=True,
    ),
    "sss": Kind(
        "SSS job objects",
        reader="jobfeatures.formats.sss.records",
        writer="jobfeatures.formats.sss.writerecords",
        endings=(".xml",),
        jobs_only=True,
        longest_line=_DOCUMENT,
    ),
    "sacct": Kind(
        "what sacct -P of Slurm prints, with a header",
        reader="jobfeatures.formats.sacct.records",
        writer="jobfeatures.formats.sacct.write",
        endings=(".sacct",),
        is_zoned=True,
        longest_line=_LIST_OF_NODES,
    ),
    "slurmjson": Kind(
        "what sacct --json, squeue --json and slurmrestd of Slurm print, v0.0.37 to v0.0.43",
        reader="jobfeatures.formats.slurmjson",
        longest_line=_DOCUMENT,
    ),
    "sonar": Kind(
        "Sonar's JSON documents of jobs",
        reader="jobfeatures.formats.sonar.joblog",
        writer="jobfeatures.formats.sonar.joblog",
        endings=(".json",),
        longest_line=_DOCUMENT,
    ),
    "records": Kind(
        "one JSON object a line, which holds all that any other kind does",
        reader="jobfeatures.formats.joblines",
        writer="jobfeatures.formats.joblines",
        endings=(".jsonl",),
        longest_line=_LIST_OF_NODES,
    ),
    "htcondor": Kind(
        "HTCondor's history, as files and as condor_history prints it (long form, JSON, XML)",
        reader="jobfeatures.batch.htcondor.accounting",
        longest_line=_DOCUMENT,
    ),
    "pbs": Kind(
        "accounting files of PBS and Torque",
        reader="jobfeatures.batch.pbsfamily.accounting",
        writer="jobfeatures.batch.pbsfamily.accountingwrite",
        endings=(".pbs",),
        is_zoned=True,
        jobs_only=True,
        longest_line=_LIST_OF_NODES,
    ),
    "gridengine": Kind(
        "Grid Engine's accounting file",
        reader="jobfeatures.batch.gridengine.accounting",
        writer="jobfeatures.batch.gridengine.writing",
        endings=(".gridengine",),
        is_checked=True,
    ),
    "lsf": Kind("LSF's lsb.acct", reader="jobfeatures.formats.lsf", longest_line=_LIST_OF_NODES),
}


_FIELDS: Final = tuple(each.name for each in fields(JobRecord) if each.name != "batch_system")


@dataclass(slots=True)
class Notes:
    """What became of the records of one log."""

    read: int = 0
    rejected: int = 0
    shown: list[Rejected] = field(default_factory=list)  # the first of them
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def is_whole(self) -> bool:
        """Tell whether every job that was there is there again."""
        return not self.rejected and not any(name.startswith(WHOLE_JOB) for name in self.lost)

    def lose(self, name: str) -> None:
        """Count a value that has no place."""
        self.lost[name] += 1

    def accepted(self, found: Iterable[JobRecord | Rejected]) -> Iterator[JobRecord]:
        """Return the records, counted; what was rejected is noted."""
        for each in found:
            if isinstance(each, JobRecord):
                self.read += 1
                yield each
                continue
            self.rejected += 1
            if len(self.shown) < MAX_SHOWN:
                self.shown.append(each)


def recognise_kind(head: str) -> str:
    """Return the kind of a text that begins with `head`. Raises KindError unless there is exactly one."""
    found = [name for name, kind in KINDS.items() if kind.reader and _load(kind.reader).recognise(head)]
    if len(found) == 1:
        return found[0]
    if found:
        raise KindError(f"may be {' or '.join(found)}: --from has to say")
    raise KindError("is empty: --from has to say" if not head.strip() else "is none of the kinds known here")


def kind_of_name(name: str, compressions: Iterable[str]) -> str:
    """Return the kind that a file of this name is written as. Raises KindError where it does not say."""
    plain = name
    for ending in compressions:
        plain = plain.removesuffix(ending)
    for kind, each in KINDS.items():
        if each.writer and plain.endswith(each.endings):
            return kind
    raise KindError("its name does not say what it shall be: --to has to")


def read_log(
    lines: Iterable[str], kind: str, *, source: str, strict: bool = False, zone: tzinfo | None = None
) -> Iterator[JobRecord | Rejected]:
    """Return the records of a log. Raises ParseError, in strict reading for every fault."""
    given: dict[str, Any] = {"zone": zone} if KINDS[kind].is_zoned else {}
    found: Iterator[JobRecord | Rejected] = _load(KINDS[kind].reader).read_records(
        lines, source=source, strict=strict, **given
    )
    return found


def write_log(
    records: Iterable[JobRecord],
    kind: str,
    notes: Notes,
    *,
    all_runs: bool = False,
    header: Iterable[str] = (),
) -> Iterator[str]:
    """Return the lines of a log, without newlines. `notes` are told what has no place.

    Of kinds with a header, the comments of `header` come behind its first line.
    """
    if KINDS[kind].jobs_only:
        records = fold_jobs(records, notes.lose, all_runs=all_runs)
    if KINDS[kind].is_checked:
        lines = _checked_lines(records, kind, notes)
    else:
        lines = _load(KINDS[kind].writer).write_records(records, notes.lose)
    yield from islice(lines, 1)
    yield from (f"; {each}" for each in header)
    yield from lines


def _checked_lines(records: Iterable[JobRecord], kind: str, notes: Notes) -> Iterator[str]:
    """Return the lines of a format whose lines stand for themselves, each read back."""
    writer = _load(KINDS[kind].writer)
    for record in records:
        told = Notes()
        lines: list[str] = list(writer.write_records([record], told.lose))
        if lines:
            again = next(told.accepted(read_log((f"{line}\n" for line in lines), kind, source="")), None)
            if again is None:
                notes.lose(f"{WHOLE_JOB}that cannot be written so that it is read again")
                continue
            for name in _FIELDS:
                value = getattr(record, name)
                if value not in {None, ()} and not told.lost[name] and getattr(again, name) != value:
                    told.lose(name)
        notes.lost.update(told.lost)
        yield from lines


def _load(module: str) -> Any:
    return importlib.import_module(module)
