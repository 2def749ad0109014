"""Parses the output of qstat and pbsnodes (text, JSON and Torque's XML) into records. Pure.

Users choose job names, paths, arguments and environments, and the text format does not escape newlines in
them: a variable's value may contain lines that forge attributes or jobs. Hence a job's record is rejected if
a field occurs twice, or after the environment although it belongs before it. Only managers write nodes' and
queues' records; a queue with several limits of one kind has their name several times (OpenPBS 2677).

JSON is available from PBS Pro 13 on, and not always valid: stray backslashes, numbers with leading zeros,
bare words and raw control characters have all been seen. Repairs are reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobfeatures.batch.basics import split_records
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss.xml import Element, parse_element

MAX_LINE_CHARACTERS = 2**20

# Names of JSON objects that are not records, above and within them.
_NO_RECORDS = frozenset(
    {
        *("Jobs", "nodes", "Queue", "Resource_List", "Variable_List", "resources_used", "estimated"),
        *("resources_available", "resources_assigned", "resources_default", "resources_max", "resources_min"),
    }
)
# Attributes that precede Variable_List; after it they are a user's forgery.
_BEFORE_VARIABLES = re.compile(
    r"(?:Job_Name|Job_Owner|job_state|queue|server|exec_host|exec_vnode|ctime|qtime|stime|Account_Name|"
    r"Resource_List\..*|resources_used\..*)\Z"
)
# Of each host of a job, under one name: Torque 6.
_OF_HOSTS = re.compile(r"req_information\.(?:hostlist|task_usage)\.")
# What is read of a node or a queue: of anything else two values are none.
_READ_OF_MANAGERS = re.compile(
    r"(?:state|queue|properties|np|pcpus|jobs|status|gpus|Mom|queue_type|enabled|started|"
    r"resources_(?:available|assigned|default)(?:\..*)?)\Z"
)
_FIELD = re.compile(r" {4,5}([A-Za-z_][A-Za-z0-9_.-]{0,255}) = ?(.*)\Z", re.DOTALL)
_JOB_HEAD = re.compile(r"Job Id: ?([^\s]{1,300})\s*\Z")
_NAME_HEAD = re.compile(r"([A-Za-z0-9._\[\]-]{1,255})\s*\Z")
_QUEUE_HEAD = re.compile(r"Queue: ?([^\s]{1,255})\s*\Z")
HEADS = {"job": _JOB_HEAD, "node": _NAME_HEAD, "queue": _QUEUE_HEAD}

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[^\s{}\[\]:,"]+', re.DOTALL)
_ESCAPE = re.compile(r"\\\\|\\(?![\"/bfnrt]|u[0-9a-fA-F]{4})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_WORDS = frozenset({"true", "false", "null"})
_JOB_NAME = re.compile(r"[0-9]+(?:\[[0-9]*\])?\.")
_MEMBER = re.compile(r'^[ \t]*"([0-9A-Za-z][A-Za-z0-9._\[\]-]{0,299})"[ \t]*:[ \t]*(?=\{)', re.MULTILINE)
MAX_BYTES = 512 * 2**20
MAX_ELEMENTS = 50_000_000
MAX_DEPTH = 8
_NAMES = {"Job": "Job_Id", "Node": "name"}


@dataclass(frozen=True, slots=True)
class Record:
    """One job, node or queue: its name, and its attributes as texts.

    The names of nested attributes have a dot: ``Resource_List.walltime``.
    """

    name: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one answer, by name.

    `rejected` says what was rejected or repaired; `unsure` are the names whose records were rejected.
    """

    found: Mapping[str, Record]
    rejected: tuple[Rejected, ...] = ()
    unsure: frozenset[str] = frozenset()  # names whose records were rejected


def collect_records(found: Iterable[tuple[str, Record | ParseError]], *, source: str) -> Records:
    """Collect the records of an answer, given as pairs of a name and a record or the error in its place.

    If a name occurs twice, one of the two is forged, and both are rejected. `source` names the command in
    errors.
    """
    records: dict[str, Record] = {}
    rejected: list[Rejected] = []
    unsure: set[str] = set()
    for name, each in found:
        is_twice = name in records or name in unsure
        record = ParseError("record occurs twice", text=name) if is_twice else each
        if isinstance(record, Record):
            records[name] = record
        else:
            records.pop(name, None)
            unsure.add(name)
            rejected.append(Rejected.from_error(record.at(source, about=name)))
    return Records(records, tuple(rejected), frozenset(unsure))


def parse_text(text: str, *, kind: str, source: str) -> Records:
    """Return the records of ``qstat -f``, ``qstat -Qf`` or ``pbsnodes``: `kind` is job, queue or node.

    Sample::

        Job Id: 123.server
            Job_Name = a=b
            Resource_List.walltime = 01:00:00
            Variable_List = PBS_O_HOME=/home/alice,
        <tab>PBS_O_QUEUE=batch

    A line that starts with a tab continues the previous one. Lines before the first record, such as a
    banner, are skipped. Raises ParseError if there is text but no record.
    """
    split = split_records(text.split("\n"), HEADS[kind])
    bodies = ((name, _parse_body(name, lines[1:], kind)) for name, lines in split)
    records = collect_records(bodies, source=source)
    if not records.found and not records.unsure and text.strip():
        raise ParseError(f"no records of a {kind}", source=source, text=text.strip())
    return records


def _parse_body(name: str, lines: Iterable[str], kind: str) -> Record | ParseError:
    values: dict[str, list[str]] = {}
    several: set[str] = set()
    current: list[str] | None = None
    for line in (each.removesuffix("\r") for each in lines):
        if len(line) > MAX_LINE_CHARACTERS:
            return ParseError("line too long", text=line[:80])
        if line.startswith("\t"):
            if current is not None:
                current.append(line[1:])
        elif match := _FIELD.match(line):
            field = match[1]
            if field in values:
                is_open = _OF_HOSTS.match(field) if kind == "job" else not _READ_OF_MANAGERS.match(field)
                if not is_open:
                    return ParseError("field occurs twice", field=field, text=line)
                several.add(field)
            if "Variable_List" in values and _BEFORE_VARIABLES.match(field):
                return ParseError("field is out of its place", field=field, text=line)
            current = values[field] = [match[2]]
        elif line and current is not None:
            current.append(f"\n{line}")
    kept = ((field, "".join(parts).strip()) for field, parts in values.items() if field not in several)
    return Record(name, dict(kept))


class _Twice(dict[str, Any]):
    """An object in which a name occurred twice: if a user could write it, none of it can be trusted."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.differing = {name for name, value in pairs if value != self[name]}


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    return values if len(values) == len(pairs) else _Twice(pairs)


_DECODER = json.JSONDecoder(
    strict=False, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_pairs
)


def parse_json(text: str, *, member: str, source: str) -> Records:
    """Return the records in JSON (``-F json``): those in its object `member`, which is Jobs, nodes or Queue.

    Sample: ``{"timestamp":1795250000, "pbs_version":"23.06.06", "pbs_server":"s",
    "Jobs":{"123.s":{"Job_Name":"a", "Resource_List":{"walltime":"01:00:00"}}}}``. Numbers are kept as they
    are written. Faults are repaired and reported as Rejected; if the document cannot be parsed, each record
    is parsed on its own. An answer without `member`, as one about unknown jobs, has no records. Raises
    ParseError if there is text but nothing can be parsed.
    """
    start = text.find("{")  # after a banner, if any
    if start < 0:
        raise ParseError("no JSON in the answer", source=source, text=text.strip())
    text = text[start:]
    faults: list[Rejected] = []
    try:
        document: Any = _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError) as first:
        faults.append(Rejected(source, f"not JSON, repaired: {_reason(first)}"))
        document = _read_repaired(text)
    if isinstance(document, dict) and not isinstance(document, _Twice):
        members = document.get(member, {})
        if isinstance(members, dict) and not isinstance(members, _Twice):
            flat = ((name, _flatten(name, each, member)) for name, each in members.items())
            records = collect_records(flat, source=source)
            return replace(records, rejected=(*faults, *records.rejected))
    records = collect_records(_read_each(text, member), source=source)
    if not records.found and not records.unsure:
        raise ParseError(f"no records in {member}", source=source, text=text)
    fault = Rejected(source, "not JSON, read record by record")
    return replace(records, rejected=(fault, *records.rejected))


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__


def _read_repaired(text: str) -> Any:
    try:
        return _DECODER.raw_decode(_TOKEN.sub(_repair, text))[0]
    except (ValueError, RecursionError):
        return None


def _repair(match: re.Match[str]) -> str:
    """Return a token as valid JSON: stray backslashes doubled, bare words quoted."""
    token = match[0]
    if token.startswith('"'):
        return _ESCAPE.sub(r"\\\\", token)
    if token in _WORDS or _NUMBER.match(token):
        return token
    return json.dumps(token)


def _read_each(text: str, member: str) -> Iterator[tuple[str, Record | ParseError]]:
    """Yield the objects that begin on a line with a record's name; a broken one is rejected on its own.

    Each is parsed from its own slice: computing an error's position takes time from the slice's start.
    """
    starts = [
        match
        for match in _MEMBER.finditer(text)
        if (_JOB_NAME.match(match[1]) if member == "Jobs" else match[1] not in _NO_RECORDS)
    ]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    for match, end in zip(starts, ends, strict=False):
        part = text[match.end() : end]
        try:
            found = _DECODER.raw_decode(part)[0]
        except (ValueError, RecursionError) as error:
            found = _read_repaired(part)
            if found is None:
                yield match[1], ParseError(f"not JSON: {_reason(error)}", text=part[:200])
                continue
        yield match[1], _flatten(match[1], found, member)


def _flatten(name: str, value: Any, member: str) -> Record | ParseError:
    if not isinstance(value, dict) or (isinstance(value, _Twice) and member == "Jobs"):
        return ParseError("not an object with each name once", text=name)
    attributes: dict[str, str] = {}
    differing = value.differing if isinstance(value, _Twice) else set()
    for key, each in value.items():
        if key in differing:
            if _READ_OF_MANAGERS.match(key):
                return ParseError("field occurs twice", field=key)
            continue
        is_unclear = isinstance(each, _Twice) and (member == "Jobs" or each.differing)
        if is_unclear and key != "Variable_List":
            return ParseError("field occurs twice", field=key)
        if isinstance(each, dict):
            attributes.update({f"{key}.{part}": _text(leaf) for part, leaf in each.items()})
        else:
            attributes[key] = _text(each)
    return Record(name, attributes)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def parse_xml(data: bytes, *, kind: str, source: str) -> Records:
    """Return the records in Torque's XML: its elements `kind`, which is Job or Node.

    Sample: ``<Data><Job><Job_Id>123.server</Job_Id><Job_Name>a</Job_Name>
    <Resource_List><walltime>01:00:00</walltime></Resource_List></Job></Data>``. Times are epoch seconds. Text
    before the document, such as a banner, is skipped. Empty output has no records. Raises ParseError if the
    XML is malformed.
    """
    start = data.find(b"<Data")
    if start < 0:
        if data.strip():
            raise ParseError("not <Data>…</Data>", source=source, text=data[:200].decode("utf-8", "replace"))
        return Records({})
    root = parse_element(
        data[start:].rstrip(),
        source=source,
        max_bytes=MAX_BYTES,
        max_depth=MAX_DEPTH,
        max_elements=MAX_ELEMENTS,
    )
    found = (_record(each, _NAMES[kind]) for each in root.children if each.name == kind)
    return collect_records(found, source=source)


def _record(element: Element, name_field: str) -> tuple[str, Record | ParseError]:
    attributes: dict[str, str] = {}
    doubled = ""
    for child in element.children:
        parts = [(f"{child.name}.{each.name}", each.text) for each in child.children]
        for field, text in parts or [(child.name, child.text)]:
            doubled = field if field in attributes and not _OF_HOSTS.match(field) else doubled
            attributes[field] = text.strip()
    name = attributes.pop(name_field, "")
    if doubled or not name:
        return name, ParseError(
            "field occurs twice" if name else "record without a name", field=doubled or name_field
        )
    return name, Record(name, attributes)
