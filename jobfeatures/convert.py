"""From one log of jobs to another: the kinds there are, which one a text is, and the way between two. Pure.

Each kind is a module that offers what `jobfeatures.joblog` says; nothing is imported but what is asked for.
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
from jobfeatures.jobfold import fold_jobs
from jobfeatures.joblog import JobRecord, Notes, Passage, Sorter, StepUse, sort_in_memory


class KindError(JobfeaturesError):
    """It is not clear what a log is, or what it shall become."""

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
        "one JSON object a line, which holds all that any other kind does",
        reader="jobfeatures.formats.joblines",
        writer="jobfeatures.formats.joblines",
        endings=(".jsonl",),
        keeps_text=True,
        longest_line=LIST_OF_NODES,
    ),
    **{name: kind for system in SYSTEMS.values() for name, kind in system.log_kinds.items()},
}


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
    raise KindError(f"{shown_name(name)}: --to is needed, for its name does not tell the kind")


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
    """Return the records of a log. Raises ParseError, in strict reading for every fault.

    `notes` take what was not taken over, and what was repaired. `keep_text`: of
    kinds that keep it, records have their text, and what stands between comes too. `meaning` is that
    of the fields of an SWF log. `folds_steps`: of steps only what `fold_jobs` takes is wanted.
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
    found: Iterator[JobRecord | StepUse | Rejected | Passage] = _load(KINDS[kind].reader).read_records(
        lines, source=source, notes=Notes() if notes is None else notes, **given
    )
    return _unless_rejected(found) if strict else found


def _unless_rejected(
    found: Iterator[JobRecord | StepUse | Rejected | Passage],
) -> Iterator[JobRecord | StepUse | Rejected | Passage]:
    for each in found:
        if isinstance(each, Rejected):
            raise each.as_error()
        yield each


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
    """Return the lines of a log, without newlines. `notes` get what has no place.

    Of kinds with a header, the comments of `header` come behind its first line. What was read with its text
    is not folded. `sort` is how jobs are put in order, `options` are the kind's own.
    """
    rest = iter(records)
    first = next(rest, None)
    whole = rest if first is None else chain([first], rest)
    is_kept = isinstance(first, Passage) or (isinstance(first, JobRecord) and first.source_text is not None)
    if KINDS[kind].jobs_only and not is_kept:
        jobs = (each for each in whole if not isinstance(each, Passage))
        whole = fold_jobs(jobs, notes.fold, all_runs=all_runs, sort=sort)
    given: dict[str, Any] = options | ({"sort": sort} if KINDS[kind].is_sorted else {})
    lines = _load(KINDS[kind].writer).write_records(whole, notes.lose, **given)
    reported = [f"; {each}" for each in header]
    if reported:
        first_line = next(lines, None)
        if first_line is not None and first_line.startswith(";"):
            yield first_line
            first_line = None
        yield from reported
        if first_line is not None:
            yield first_line
    yield from lines


def _load(module: str) -> Any:
    return importlib.import_module(module)
