"""Implements `jobfeatures check` for files: logs in SWF, and documents in the formats of SSS and Sonar."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from jobfeatures.errors import JobfeaturesError, ParseError, shown_name
from jobfeatures.formats.sonar.documents import iterate_documents
from jobfeatures.formats.sonar.validate import Fault as SonarFault
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.formats.swf.check import ERROR, WARNING, SwfFault, check_log
from jobfeatures.joblogs.logfiles import HEAD_CHARACTERS, SWF_ENDINGS, LogFileError, bounded_lines, reading
from jobfeatures.logkinds import KindError, recognise_kind
from jobfeatures.records.quantities import counted
from jobfeatures.settings.usage import complain
from jobfeatures.system.progress import shown_progress

_ENVELOPE = re.compile(r'[\s\ufeff]*\[?\s*\{\s*"(data|errors|meta)"')  # of Sonar's documents
SHOWN_ALIKE: Final = 10
MAX_SONAR_BYTES: Final = 512 * 2**20
DONE, ERRORS, UNREADABLE = 0, 1, 2


class Flags(NamedTuple):
    """The flags of `jobfeatures check` that concern files.

    `profile` is a version of Sonar's format; `strict` also reports faults that readers of Sonar's format
    tolerate. `lenient` accepts typographic quotes in SSS documents. `show_all` prints all faults, `as_json`
    prints them as JSON.
    """

    profile: str | None = None
    strict: bool = False
    lenient: bool = False
    show_all: bool = False
    as_json: bool = False


def check_file(name: str, kind: str | None, flags: Flags) -> int:
    """Print the faults of a file. If `kind` is None, its format is determined from its beginning.

    Returns the exit status: 0 without errors, 1 with errors, 2 if the file cannot be read or there is no
    check for its format.
    """
    try:
        if kind is None:
            kind = _recognise(name)
        return _CHECKS[kind](name, flags)
    except (JobfeaturesError, OSError) as error:
        complain(error if isinstance(error, JobfeaturesError) else f"{shown_name(name)}: {error.strerror}")
        return UNREADABLE


def _recognise(name: str) -> str:
    if name == "-":
        raise KindError("standard input: give its kind with --as")
    with reading(name) as stream:
        head = stream.read(HEAD_CHARACTERS)
    if _ENVELOPE.match(head):
        return "sonar"
    if name.endswith(SWF_ENDINGS):
        return "swf"
    try:
        kind = recognise_kind(head, flag="--as")
    except KindError as error:
        raise KindError(f"{shown_name(name)}: {error}") from None
    if kind not in _CHECKS:
        raise KindError(
            f"{shown_name(name)}: is a log of kind {kind}, which only jobfeatures convert can read"
        )
    return kind


def _check_swf(name: str, flags: Flags) -> int:
    seen: Counter[tuple[str, str]] = Counter()
    few: list[str] = []  # printed at the end, so that they do not break up the progress bar
    with reading(name) as stream:
        lines = bounded_lines(stream)
        is_plain = flags.as_json or flags.show_all
        for fault in check_log(lines if is_plain else shown_progress(lines, stream, name), source=name):
            seen[fault.level, fault.rule] += 1
            if flags.as_json:
                print(json.dumps({"file": name, **fault._asdict()}))
            elif flags.show_all:
                print(_line(name, fault))
            elif seen[fault.level, fault.rule] <= SHOWN_ALIKE:
                few.append(_line(name, fault))
    for line in few:
        print(line)
    levels: Counter[str] = Counter()
    for (level, rule), count in seen.items():
        levels[level] += count
        if not is_plain and count > SHOWN_ALIKE:
            print(f"{name}: {level}: {rule}: {count - SHOWN_ALIKE} more")
    if not flags.as_json:
        print(f"{name}: {counted(levels[ERROR], 'error')}, {counted(levels[WARNING], 'warning')}")
    return ERRORS if levels[ERROR] else DONE


def _line(name: str, fault: SwfFault) -> str:
    place = f"{name}:{fault.line}" if fault.line else name
    return f"{place}: {fault.level}: {fault.rule}: {fault.message}"


def _check_sss(name: str, flags: Flags) -> int:
    from jobfeatures.formats.sss.explain import examine  # its library takes long to import

    try:
        for line in examine(name, lenient=flags.lenient):
            if not flags.as_json:
                print(line)
    except ParseError as error:
        text = str(error if error.source else error.at(name))
        print(json.dumps({"file": name, "level": ERROR, "message": text}) if flags.as_json else text)
        return ERRORS
    return DONE


def _check_sonar(name: str, flags: Flags) -> int:
    status = DONE
    for number, fault in _sonar_faults(_read_sonar(name), flags):
        status = ERRORS
        if flags.as_json:
            print(json.dumps({"file": name, "document": number, "path": fault.path, "message": fault.reason}))
        else:
            print(f"{shown_name(name)}:{number}: {fault}")
    return status


def _sonar_faults(text: str, flags: Flags) -> Iterator[tuple[int, SonarFault]]:
    number = 0
    for document in iterate_documents(text):
        number = document.number
        if document.reason:
            yield number, SonarFault("", document.reason)
            continue
        for fault in validate_envelope(document.value, profile=flags.profile, strict=flags.strict):
            yield number, fault
    if number == 0:
        yield 0, SonarFault("", "holds no document")


def _read_sonar(name: str) -> str:
    """Return the text; bytes that are not UTF-8 become lone surrogates, which no string may contain."""
    if name == "-":
        content = sys.stdin.buffer.read(MAX_SONAR_BYTES + 1)
    else:
        with open(name, "rb") as opened:
            content = opened.read(MAX_SONAR_BYTES + 1)
    if len(content) > MAX_SONAR_BYTES:
        raise LogFileError(f"{shown_name(name)}: larger than {MAX_SONAR_BYTES} bytes")
    return content.decode("utf-8", "surrogateescape")


_CHECKS: Final[Mapping[str, Callable[[str, Flags], int]]] = {
    "swf": _check_swf,
    "sss": _check_sss,
    "sonar": _check_sonar,
}
FILE_KINDS: Final = tuple(_CHECKS)
