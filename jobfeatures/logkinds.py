"""The kinds (formats) of job logs: recognises, reads and writes logs of each kind. Pure.

Each kind is a module with the functions that `jobfeatures.joblogs.logformat` describes, imported when needed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import chain
from typing import Any, Final

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.system import DOCUMENT, LIST_OF_NODES, LogKind
from jobfeatures.errors import JobfeaturesError, Rejected, shown_name
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.joblogs.folding import fold_batches, fold_jobs
from jobfeatures.joblogs.logformat import LogReader, LogWriter
from jobfeatures.joblogs.loggedjob import (
    Found,
    JobRecord,
    Notes,
    Passage,
    Sorter,
    sort_in_memory,
)


class KindError(JobfeaturesError):
    """Raised if it is not clear which kind a log is of, or should be written as."""

    exit_status = 2


class WritableKind(LogKind):
    """A kind of log that can be written as well as read."""

    @abstractmethod
    def writer(self) -> LogWriter:
        """Return the module that writes logs of this kind."""


class SwfKind(WritableKind):
    name = "swf"
    meaning = "Standard Workload Format 2.2"
    endings = (".swf",)
    has_header = True
    jobs_only = True
    keeps_text = True
    repairs = True
    is_sorted = True
    is_by_line = True

    def reader(self) -> LogReader:
        from jobfeatures.formats.swf import records

        return records

    def writer(self) -> LogWriter:
        from jobfeatures.formats.swf import write

        return write


class SssKind(WritableKind):
    name = "sss"
    meaning = "SSS job objects"
    endings = (".xml",)
    jobs_only = True
    keeps_text = True
    repairs = True
    longest_line = DOCUMENT

    def reader(self) -> LogReader:
        from jobfeatures.formats.sss import records

        return records

    def writer(self) -> LogWriter:
        from jobfeatures.formats.sss import writerecords

        return writerecords


class SonarKind(WritableKind):
    name = "sonar"
    meaning = "Sonar's JSON documents of jobs"
    endings = (".json",)
    repairs = True
    longest_line = DOCUMENT

    def reader(self) -> LogReader:
        from jobfeatures.formats.sonar import joblog

        return joblog

    def writer(self) -> LogWriter:
        from jobfeatures.formats.sonar import joblog

        return joblog


class RecordsKind(WritableKind):
    name = "records"
    meaning = "one JSON object a line, which holds everything that any other kind can hold"
    endings = (".jsonl",)
    keeps_text = True
    longest_line = LIST_OF_NODES
    is_by_line = True

    def reader(self) -> LogReader:
        from jobfeatures.formats import joblines

        return joblines

    def writer(self) -> LogWriter:
        from jobfeatures.formats import joblines

        return joblines


KINDS: Final[dict[str, LogKind]] = {
    kind.name: kind
    for kind in (
        *(SwfKind(), SssKind(), SonarKind(), RecordsKind()),
        *(kind for system in SYSTEMS.values() for kind in system.log_kinds),
    )
}
WRITABLE: Final = {name: kind for name, kind in KINDS.items() if isinstance(kind, WritableKind)}
_BY_LINE: Final = tuple(name for name, kind in KINDS.items() if kind.is_by_line)


def recognise_kind(head: str, *, flag: str = "--from") -> str:
    """Return the kind of a log by its beginning, `head`. Raises KindError unless exactly one kind fits.

    Where the first line tells nothing, since it is cut or damaged, at least half of all lines have to fit.
    The error's message suggests `flag`, with which the user can give the kind.
    """
    found = [name for name, kind in KINDS.items() if kind.reader().recognise(head)]
    if len(found) == 1:
        return found[0]
    if found:
        raise KindError(f"could be a log of kind {' or '.join(found)}: choose one with {flag}")
    if not head.strip():
        raise KindError(f"is empty, so its kind is unknown: give it with {flag}")
    lines = [f"{line}\n" for line in head.split("\n")[:-1] if line.strip()]
    fitting = Counter(name for name in _BY_LINE for line in lines if KINDS[name].reader().recognise(line))
    [(kind, count)] = fitting.most_common(1) or [("", 0)]
    if count and 2 * count >= len(lines):
        return kind
    closest = f", closest to {kind} ({count} of {len(lines)} lines)" if kind else ""
    raise KindError(f"is not recognised as a log{closest}: if you know its kind, give it with {flag}")


def kind_of_name(name: str, compressions: Iterable[str]) -> str:
    """Return the kind in which to write a file, by the ending of its name.

    `compressions` are endings of compressed files, which may follow. Raises KindError if no kind has that
    ending.
    """
    plain = name
    for ending in compressions:
        plain = plain.removesuffix(ending)
    for kind, each in WRITABLE.items():
        if plain.endswith(each.endings):
            return kind
    raise KindError(f"{shown_name(name)}: the file name does not show the kind: give it with --to")


def read_log(
    lines: Iterable[str],
    kind: str,
    *,
    source: str,
    strict: bool = False,
    zone: tzinfo | None = None,
    notes: Notes | None = None,
    keep_text: bool = False,
    meaning: Meaning | None = None,
    folds_steps: bool = False,
) -> Iterator[Found | Rejected]:
    """Yield the records of a log, and a `Rejected` for each faulty one; if `strict`, raise a ParseError.

    `zone` is that of times without an offset (None: this machine's). `notes` counts what was ignored or
    repaired. With `keep_text`, records of kinds that support it carry their source text, and the text between
    records is yielded too. `meaning` says how to interpret an SWF log's fields. With `folds_steps`, job steps
    are reduced to what `fold_jobs` needs. Raises ParseError if the log as a whole cannot be read.
    """
    given: dict[str, Any] = {"zone": zone} if KINDS[kind].is_zoned else {}
    if keep_text and KINDS[kind].keeps_text:
        given["keep_text"] = True
    if KINDS[kind].repairs:
        given["strict"] = strict
    if folds_steps and KINDS[kind].has_steps:
        given["folds_steps"] = True
    if kind == "swf":
        given["meaning"] = meaning
    notes = Notes() if notes is None else notes
    found: Iterator[Found | Rejected] = (
        KINDS[kind].reader().read_records(lines, source=source, notes=notes, **given)
    )
    return _unless_faulty(found, notes, source) if strict else found


def _unless_faulty(
    found: Iterator[Found | Rejected], notes: Notes, source: str
) -> Iterator[Found | Rejected]:
    for each in found:
        for fault in [each] if isinstance(each, Rejected) else notes.faults(source):
            raise fault.as_error()
        yield each
    for fault in notes.faults(source):
        raise fault.as_error()


def write_log(
    records: Iterable[Found],
    kind: str,
    notes: Notes,
    *,
    all_runs: bool = False,
    header: Iterable[str] = (),
    sort: Sorter = sort_in_memory,
    **options: Any,
) -> Iterator[str]:
    """Yield the lines of a log of this kind, without newlines.

    `notes` counts values that the kind cannot hold. In kinds with a header, the comments in `header` follow
    its first line. If the kind holds one record per job, or each record reports one change of a job, the
    records of a job are merged as by `fold_jobs`; records that carry their source text are not. Of several
    runs of a job, the latest is written, or all if `all_runs`. `sort` sorts the jobs; `options` are specific
    to the kind.
    """
    rest = iter(records)
    first = next(rest, None)
    found = rest if first is None else chain([first], rest)
    has_text = isinstance(first, Passage) or (isinstance(first, JobRecord) and first.source_text is not None)
    is_partial = isinstance(first, JobRecord) and first.report is not None
    if (KINDS[kind].jobs_only or is_partial) and not has_text:
        jobs = (each for each in found if not isinstance(each, Passage))
        keeps_steps = not KINDS[kind].jobs_only
        fold = fold_batches if KINDS[kind].is_sorted else fold_jobs
        found = fold(jobs, notes.count_folded, all_runs=all_runs, keeps_steps=keeps_steps, sort=sort)
    given: dict[str, Any] = options | ({"sort": sort} if KINDS[kind].is_sorted else {})
    lines = WRITABLE[kind].writer().write_records(found, notes.count_lost, **given)
    comments = [f"; {each}" for each in header]
    if comments:
        first_line = next(lines, None)
        if first_line is not None and first_line.startswith(";"):
            yield first_line
            first_line = None
        yield from comments
        if first_line is not None:
            yield first_line
    yield from lines
