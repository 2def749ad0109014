"""Converts job logs: the table of formats (kinds), how to recognise one, how to read and write them. Pure.

Each kind is a module with the functions that `jobfeatures.joblogs.loggedjob` describes, imported when needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import chain
from typing import Any, Final

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.system import DOCUMENT, LIST_OF_NODES, LogKind
from jobfeatures.errors import JobfeaturesError, Rejected, shown_name
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, Passage, Sorter, StepUse, sort_in_memory


class KindError(JobfeaturesError):
    """The kind of the input, or of the output, cannot be determined."""

    exit_status = 2


KINDS: Final[dict[str, LogKind]] = {
    "swf": LogKind(
        "Standard Workload Format 2.2",
        reader="jobfeatures.formats.swf.records",
        writer="jobfeatures.formats.swf.write",
        endings=(".swf",),
        has_header=True,
        jobs_only=True,
        keeps_text=True,
        repairs=True,
        is_sorted=True,
    ),
    "sss": LogKind(
        "SSS job objects",
        reader="jobfeatures.formats.sss.records",
        writer="jobfeatures.formats.sss.writerecords",
        endings=(".xml",),
        jobs_only=True,
        keeps_text=True,
        repairs=True,
        longest_line=DOCUMENT,
    ),
    "sonar": LogKind(
        "Sonar's JSON documents of jobs",
        reader="jobfeatures.formats.sonar.joblog",
        writer="jobfeatures.formats.sonar.joblog",
        endings=(".json",),
        repairs=True,
        longest_line=DOCUMENT,
    ),
    "records": LogKind(
        "one JSON object a line, which holds everything that any other kind can hold",
        reader="jobfeatures.formats.joblines",
        writer="jobfeatures.formats.joblines",
        endings=(".jsonl",),
        keeps_text=True,
        longest_line=LIST_OF_NODES,
    ),
    **{name: kind for system in SYSTEMS.values() for name, kind in system.log_kinds.items()},
}


def recognise_kind(head: str, *, flag: str = "--from") -> str:
    """Return the kind of a text by its beginning. Raises KindError, naming `flag`, unless one matches."""
    found = [name for name, kind in KINDS.items() if kind.reader and _load(kind.reader).recognise(head)]
    if len(found) == 1:
        return found[0]
    if found:
        raise KindError(f"may be {' or '.join(found)}: {flag} is needed")
    raise KindError(f"is {'of no known kind' if head.strip() else 'empty'}: {flag} is needed")


def kind_of_name(name: str, compressions: Iterable[str]) -> str:
    """Return the kind to write, by the file name's ending. Raises KindError if the ending is of no kind."""
    plain = name
    for ending in compressions:
        plain = plain.removesuffix(ending)
    for kind, each in KINDS.items():
        if each.writer and plain.endswith(each.endings):
            return kind
    raise KindError(f"{shown_name(name)}: --to is needed, because the name does not show the kind")


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
) -> Iterator[JobRecord | StepUse | Rejected | Passage]:
    """Return the records of a log. Raises ParseError; in strict mode for every fault.

    `notes` counts what was ignored or repaired. With `keep_text`, records of kinds that support it carry
    their source text, and the text between records is returned too. `meaning` says how to interpret an SWF
    log's fields. With `folds_steps`, steps are reduced to what `fold_jobs` needs.
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
    found: Iterator[JobRecord | StepUse | Rejected | Passage] = _load(KINDS[kind].reader).read_records(
        lines, source=source, notes=notes, **given
    )
    return _unless_faulty(found, notes, source) if strict else found


def _unless_faulty(
    found: Iterator[JobRecord | StepUse | Rejected | Passage], notes: Notes, source: str
) -> Iterator[JobRecord | StepUse | Rejected | Passage]:
    for each in found:
        for fault in [each] if isinstance(each, Rejected) else notes.faults(source):
            raise fault.as_error()
        yield each
    for fault in notes.faults(source):
        raise fault.as_error()


def write_log(
    records: Iterable[JobRecord | StepUse | Passage],
    kind: str,
    notes: Notes,
    *,
    all_runs: bool = False,
    header: Iterable[str] = (),
    sort: Sorter = sort_in_memory,
    **options: bool,
) -> Iterator[str]:
    """Return the lines of a log, without newlines. `notes` counts values that the kind cannot hold.

    In kinds with a header, the comments in `header` follow its first line. Records that carry their source
    text are not folded. `sort` sorts the jobs; `options` are specific to the kind.
    """
    rest = iter(records)
    first = next(rest, None)
    found = rest if first is None else chain([first], rest)
    has_text = isinstance(first, Passage) or (isinstance(first, JobRecord) and first.source_text is not None)
    if KINDS[kind].jobs_only and not has_text:
        jobs = (each for each in found if not isinstance(each, Passage))
        found = fold_jobs(jobs, notes.fold, all_runs=all_runs, sort=sort)
    given: dict[str, Any] = options | ({"sort": sort} if KINDS[kind].is_sorted else {})
    lines = _load(KINDS[kind].writer).write_records(found, notes.lose, **given)
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


def _load(module: str) -> Any:
    return importlib.import_module(module)
