"""Every parser of the product: how it is called with foreign bytes, and what it may raise.

A parser is a public function called `parse_…`, `recognise`, `read_records`, `read_ads`, … or one that raises ParseError
and whose first argument is text. `found()` reads the modules for them; `test_table.py` compares. One whose argument is
text, bytes or lines needs no more than its name here; one of parsed documents says through what it gets them; what only
another parser calls is INNER, and is reached through that one.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import gzip
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jobfeatures.batch.htcondor.accounting import parse_record as parse_condor_record
from jobfeatures.batch.htcondor.fields import Fields
from jobfeatures.batch.lsf.answers import parse_records
from jobfeatures.batch.lsf.jobs import QueryContext
from jobfeatures.batch.lsf.limits import LimitRules
from jobfeatures.batch.slurm.json.values import parse_document
from jobfeatures.errors import ConfigurationError, ParseError, SourceError
from jobfeatures.formats.classad.longform import parse_ad
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.values import Type, parse_value
from jobfeatures.formats.swf.header import Header, parse_comment
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.logkinds import KINDS, KindError
from jobfeatures.records.model import JobTable
from jobfeatures_exporter.sampling.processes.scan import READ_BYTES

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "jobfeatures": ROOT / "jobfeatures",
    "jobfeatures_exporter": ROOT / "exporter/jobfeatures_exporter",
}
NAME = re.compile(
    r"(parse|recognise|expand|iterate)_?\w*|(read|check)_(records|ads|json_ads|long_ads|jobs|log)"
)
SUSPECT = re.compile(rf"def ({NAME.pattern})\(|raise ParseError|matched\(")
TEXT = {"str", "bytes", "str | bytes", "bytes | str", "str | None", "bytes | None"}
LINES = {"Iterable[str]", "Sequence[str]", "Collection[str]"}
ALLOWED = (ParseError, ConfigurationError, SourceError, KindError)

# What takes no foreign text, or hands it on as it is.
NO_PARSERS = {
    "jobfeatures.errors:parse_each": "calls another for each record",
    "jobfeatures.commands.logarguments:parse_meaning": "takes parsed arguments",
    "jobfeatures.system.privatefile:read_private": "reads a file, and does not look at what is in it",
    "jobfeatures_exporter.ingest.users:read_users": "reads a file for parse_users",
    "jobfeatures.analysis.schedule.logreading:read_log": "reads a file for what jobfeatures.logkinds has",
    "jobfeatures.batch.htcondor.scratch:read_ads": "reads a file for parse_ad",
    "jobfeatures.formats.swf.columns:read_jobs": "reads a file by its name, in pieces",
    "jobfeatures.formats.sss.explain:examine": "reads a file by its name, for the reader of documents",
}

# What gets parsed things from another parser of the table, which its corpus goes through.
INNER = {
    "jobfeatures.batch.gridengine.queue:parse_queued_job": "jobfeatures.batch.gridengine.queue:parse_queue",
    "jobfeatures.batch.htcondor.jobad:parse_queued_job": "jobfeatures.batch.htcondor.jobad:parse_queue",
    "jobfeatures.batch.pbs.accounting:parse_stamp": "jobfeatures.batch.pbs.accounting:read_records",
    "jobfeatures.batch.slurm.queue:parse_queued_job": "jobfeatures.batch.slurm.queue:parse_queue",
    "jobfeatures.formats.sonar.parsejobs:parse_slurm_job": "jobfeatures_exporter.ingest.parse:parse_envelope",
    "jobfeatures.formats.sonar.parsejobs:parse_cluster_record": "jobfeatures_exporter.ingest.parse:parse_envelope",
    "jobfeatures.formats.sonar.parsejobs:parse_limit": "jobfeatures_exporter.ingest.parse:parse_envelope",
    "jobfeatures.formats.sss.requests.names:expand_names": "jobfeatures.formats.sss.job:parse_document",
    "jobfeatures.batch.slurm.fields:split_closed": "jobfeatures.batch.slurm.queue:parse_queue",
    "jobfeatures.batch.slurm.fields:split_open": "jobfeatures.batch.slurm.sacct.records:parse_accounting",
    "jobfeatures.formats.swf.header:parse_date": "jobfeatures.formats.swf.check:check_log",
    "jobfeatures.formats.swf.header:parse_later_comment": "jobfeatures.formats.swf.records:read_records",
}

# Values of arguments besides the text, by their names.
ARGUMENTS: Mapping[str, object] = {
    "source": "fuzz",
    "taken_at_secs": 1_795_266_100.0,
    "now_secs": 1_795_266_100.0,
    "reported_at_secs": 1_795_266_100.0,
    "field": "field",
    "flag": "--flag",
    "key": "key",
    "zone": None,
    "tz": None,
    "node_name": "lab1",
    "separator": "zCaptured",
    "header_bytes": 8190,
    "ids": frozenset({"5", "6", "7"}),
    "nonce": "Ncaptured00",
    "stderr": "",
    "questions": {"1": "1", "2": "2", "3": "3"},
    "queue": JobTable(source="fuzz", jobs={}, taken_at_secs=0.0, complete=True),
    "maintenances": (),
    "reservation_lines": (),
    "ticks_per_sec": 100,
    "minor": 0,
    "path": "/sys/card",
    "resources": ("cpu", "memory"),
    "resource": "cpu",
    "ratings": {},
    "value_type": "integer",
    "config": "",
    "number": 1,
    "index": "1",
    "task": "1",
    "known": ("word", "other"),
    "what": "tasks of an array",
    "tags": ("qhost", "job_info", "detailed_job_info", "unknown_jobs"),
    "about": "hosts",
    "names": ("Prolog", "Epilog"),
    "between": "=",
}
CONTEXT = QueryContext(now_secs=1_795_266_100.0, node_name="lab1", rules=LimitRules(node_name="lab1"))


@dataclass(frozen=True)
class Parser:
    """One parser: `call` takes bytes, as they come from outside."""

    name: str
    call: Callable[[bytes], object]
    function: Callable[..., object]

    @property
    def module(self) -> str:
        return self.name.partition(":")[0]


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def lines_of(data: bytes) -> list[str]:
    return text_of(data).splitlines(keepends=True)


def json_of(data: bytes) -> object:
    """Return what a document holds; what is no JSON is refused before it gets to a parser of parsed things."""
    try:
        return json.loads(text_of(data))
    except (ValueError, RecursionError):
        raise ParseError("no JSON") from None


def members(document: object) -> Mapping[str, str]:
    if not isinstance(document, dict):
        raise ParseError("no object")
    return {name: each if isinstance(each, str) else json.dumps(each) for name, each in document.items()}


def _lsf(data: bytes) -> list[dict[str, str]]:
    command = re.search(rb'"COMMAND": *"([a-z]{1,9})"', data)
    return list(parse_records(text_of(data), source=text_of(command[1]) if command else "bjobs"))


def _slurm(data: bytes) -> Mapping[str, object]:
    return parse_document(data, source="fuzz")


def _by_kinds(data: bytes) -> list[object]:
    """Try a value as each type: the first byte of some would else always choose one."""
    found: list[object] = []
    for kind in Type:
        try:
            found.append(parse_value(kind, text_of(data)))
        except ParseError:
            continue
    if not found:
        raise ParseError("no value")
    return found


def _halves(data: bytes) -> tuple[bytes, bytes]:
    first, _, second = data.partition(b"\n\n")
    return first, second


def _commented(data: bytes) -> Header:
    header = Header()
    parse_comment(text_of(data), header)
    return header


def _understood(header: Header) -> Header:
    """Ask for what comments mean: that is read when it is asked for."""
    for ask in (
        header.preemption,
        header.start_secs,
        header.zone,
        lambda: header.numbered("Queue"),
        lambda: header.numbered("Partition"),
        lambda: header.wall_clock(0),
    ):
        with contextlib.suppress(ParseError):
            ask()
    return header


# How those are called that take something else than one text, or need to be told more of it.
def _or_refused(parse: Callable[[str], object], text: str) -> object:
    try:
        return parse(text)
    except ValueError:  # the client knows no other
        return None


ADAPTERS: dict[str, Callable[[Callable[..., object], bytes], object]] = {
    "jobfeatures.batch.gridengine.record:parse_spooled_job": lambda f, data: f(
        "1000.1", text_of(data), hosts=text_of(data), environment=text_of(data)
    ),
    "jobfeatures.batch.gridengine.basics:parse_job_id": lambda f, data: f("1000.1", text_of(data)),
    "jobfeatures.batch.gridengine.basics:make_key": lambda f, data: f(text_of(data), text_of(data)[::-1]),
    "jobfeatures.batch.htcondor.accounting:parse_record": lambda _, data: parse_condor_record(
        Fields(parse_ad(text_of(data)), "fuzz")
    ),
    **dict.fromkeys(
        (
            "jobfeatures.batch.htcondor.fields:parse_job_id",
            "jobfeatures.batch.htcondor.fields:parse_global_id",
        ),
        lambda f, data: f(parse_ad(text_of(data))),
    ),
    **dict.fromkeys(
        ("jobfeatures.client:parse_signal", "jobfeatures.client:parse_hook"),
        lambda f, data: _or_refused(f, text_of(data)),
    ),
    "jobfeatures.batch.lsf.answers:parse_records": lambda _, data: _lsf(data),
    "jobfeatures.batch.lsf.hosts:parse_notice": lambda f, data: f(_lsf(data), "n1"),
    "jobfeatures.batch.lsf.hosts:parse_memory": lambda f, data: f(_lsf(data)),
    "jobfeatures.batch.lsf.hosts:parse_node": lambda f, data: [f(each, {}) for each in _lsf(data)],
    "jobfeatures.batch.lsf.hosts:parse_queue": lambda f, data: [f(each) for each in _lsf(data)],
    "jobfeatures.batch.lsf.hosts:parse_cluster": lambda f, data: f(_lsf(data), _lsf(data), {}, taken_at_secs=0.0),
    "jobfeatures.batch.lsf.jobs:parse_jobs": lambda f, data: f(_lsf(data), CONTEXT),
    "jobfeatures.batch.lsf.jobs:parse_job": lambda f, data: [f(each, CONTEXT) for each in _lsf(data)],
    "jobfeatures.batch.lsf.limits:parse_factors": lambda f, data: f(_lsf(data)),
    "jobfeatures.batch.pbs.records:parse_text": lambda f, data: [
        f(text_of(data), kind=kind, source="fuzz") for kind in ("job", "node", "queue")
    ],
    "jobfeatures.batch.pbs.records:parse_json": lambda f, data: [
        f(text_of(data), member=member, source="fuzz") for member in ("Jobs", "nodes", "Queue")
    ],
    "jobfeatures.batch.pbs.records:parse_xml": lambda f, data: [
        f(data, kind=kind, source="fuzz") for kind in ("Job", "Node")
    ],
    "jobfeatures.batch.slurm.answers:parse_answers": lambda f, data: f(
        *map(text_of, _halves(data)), "Ncaptured00", {"1": "1", "2": "2", "3": "3"}, node_name="lab1"
    ),
    "jobfeatures.batch.slurm.cluster:parse_cluster": lambda f, data: f(
        lines_of(data), lines_of(data), taken_at_secs=0.0
    ),
    "jobfeatures.batch.slurm.json.accounting:parse_json_accounting": lambda f, data: f(
        _slurm(data), source="fuzz", taken_at_secs=0.0
    ),
    "jobfeatures.batch.slurm.json.accounting:parse_db_job": lambda f, data: f(
        _slurm(data), version="", notes=Notes()
    ),
    "jobfeatures_exporter.jobreport.jobstats:decode_summary": lambda f, data: f(
        "JS1:" + base64.b64encode(gzip.compress(data, mtime=0)).decode()  # what is packed is changed
    ),
    "jobfeatures.batch.slurm.json.cluster:parse_json_diag": lambda f, data: f(
        _slurm(data), source="fuzz", taken_at_secs=0.0
    ),
    "jobfeatures.batch.slurm.json.cluster:parse_json_licences": lambda f, data: f(
        _slurm(data), source="fuzz", taken_at_secs=0.0
    ),
    "jobfeatures.batch.slurm.json.cluster:parse_json_reservations": lambda f, data: f(
        _slurm(data), source="fuzz", taken_at_secs=0.0
    ),
    "jobfeatures.batch.slurm.json.cluster:parse_json_cluster": lambda f, data: f(
        _slurm(data), _slurm(data), source="fuzz", taken_at_secs=0.0
    ),
    "jobfeatures.batch.slurm.json.cluster:parse_json_node": lambda f, data: f(_slurm(data)),
    "jobfeatures.batch.slurm.json.cluster:parse_json_partition": lambda f, data: f(_slurm(data)),
    "jobfeatures.batch.slurm.json.cluster:parse_json_notice": lambda f, data: f(
        _slurm(data), _slurm(data), node_name="lab1", now_secs=0.0, source="fuzz"
    ),
    "jobfeatures.batch.slurm.json.jobs:parse_json_jobs": lambda f, data: f(
        _slurm(data), source="fuzz", taken_at_secs=0.0
    ),
    "jobfeatures.batch.slurm.json.jobs:parse_json_job": lambda f, data: f(_slurm(data)),
    "jobfeatures.batch.slurm.json.values:parse_number": lambda f, data: f(json_of(data), "field"),
    "jobfeatures.commands.report:parse_values": lambda f, data: f(members(json_of(data)), 1_795_266_100),
    "jobfeatures.logkinds:read_log": lambda f, data: [
        list(f(lines_of(data), kind, source="fuzz")) for kind in KINDS
    ],
    "jobfeatures_exporter.ingest.parse:parse_envelope": lambda f, data: f(json_of(data)),
    "jobfeatures.formats.sss.requests.expressions:parse_expression": lambda f, data: f(
        getattr(parse_object(data, source="fuzz").root, "requested", ())
    ),
    "jobfeatures.formats.sss.values:parse_value": lambda _, data: _by_kinds(data),
    "jobfeatures.formats.swf.header:parse_comment": lambda _, data: _commented(data),
    "jobfeatures.records.series:parse_lines": lambda f, data: f(
        text_of(data), ("batch_job_waste", "batch_node_cores", "up"), source="fuzz"
    ),
    "jobfeatures.status.jobstatus:parse_job_status": lambda f, data: f(
        {
            name: value.encode("utf-8", "replace") for name, value in members(json_of(data)).items()
        },
        allocated_cpus=4,
    ),
    "jobfeatures_exporter.web.asked:parse_asked": lambda f, data: f(members(json_of(data)), "7"),
    "jobfeatures_exporter.sampling.processes.scan:parse_process_stat": lambda f, data: f(data[:READ_BYTES]),
    "jobfeatures_exporter.sampling.host.sysinfo:parse_distances": lambda f, data: f(lines_of(data)),
}  # fmt: skip


@cache
def found() -> tuple[str, ...]:
    """Return the names of all parsers that the modules have: `package.module:function`."""
    return tuple(name for package, top in PACKAGES.items() for name in _in_package(package, top))


def _in_package(package: str, top: Path) -> Iterator[str]:
    for path in sorted(top.rglob("*.py")):
        parts = path.relative_to(top).with_suffix("").parts
        module = ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))
        text = path.read_text()
        if not SUSPECT.search(text):  # to parse all takes a second
            continue
        for each in ast.parse(text).body:
            if isinstance(each, ast.FunctionDef) and _is_parser(each):
                yield f"{module}:{each.name}"


def _is_parser(function: ast.FunctionDef) -> bool:
    if function.name.startswith("_") or not function.args.args:
        return False
    first = function.args.args[0].annotation
    kind = ast.unparse(first) if first else ""
    raises = any(
        (isinstance(each, ast.Raise) and each.exc and ast.unparse(each.exc).startswith("ParseError"))
        or (isinstance(each, ast.Call) and ast.unparse(each.func) == "matched")
        for each in ast.walk(function)
    )
    return bool(NAME.fullmatch(function.name)) or (raises and kind in TEXT | LINES)


def make_parser(name: str) -> Parser:
    """Return a parser of the table, ready to be called with bytes."""
    module, _, attribute = name.partition(":")
    function = getattr(importlib.import_module(module), attribute)
    adapter = ADAPTERS.get(name)
    if adapter is not None:
        return Parser(name, lambda data: _whole(adapter(function, data)), function)
    parameters = inspect.signature(function).parameters
    subject = next(each for each in parameters.values() if each.name not in ("flag", "key", "kind"))
    kind = str(subject.annotation)
    if kind in LINES or subject.name == "texts":
        given: Callable[[bytes], object] = lines_of
    elif kind not in TEXT:
        raise LookupError(f"{name} takes {kind}: it wants an adapter")
    else:
        given = (lambda data: data) if "bytes" in kind else text_of
    lacking = [
        each.name
        for each in parameters.values()
        if each is not subject and each.default is each.empty and each.kind is not each.VAR_KEYWORD
    ]
    others = {each: ARGUMENTS[each] for each in lacking if each != "notes"}

    def call(data: bytes) -> object:
        notes = {"notes": Notes()} if "notes" in lacking else {}
        return _whole(function(**{subject.name: given(data)}, **others, **notes))

    return Parser(name, call, function)


def _whole(result: object) -> object:
    return list(result) if isinstance(result, Iterator) else result


@cache
def parsers() -> tuple[Parser, ...]:
    """Return all parsers that are called with bytes of their own."""
    return tuple(make_parser(name) for name in found() if name not in NO_PARSERS and name not in INNER)
