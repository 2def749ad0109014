"""`jobfeatures sss`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.resources import files

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.dependencies import order_jobs
from jobfeatures.formats.sss.explain import explain_job
from jobfeatures.formats.sss.expressions import parse_expression
from jobfeatures.formats.sss.format import format_object
from jobfeatures.formats.sss.inherit import resolve_group, resolve_job
from jobfeatures.formats.sss.matching import Match, match, parse_nodes
from jobfeatures.formats.sss.objects import SssJob, SssJobGroup
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.xml import MAX_BYTES
from jobfeatures.usage import complain

DONE, ERRORS, UNREADABLE = 0, 1, 2
MAX_NODES_BYTES = 64 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="report errors in documents",
        description="Report errors in documents, with defaults resolved: in contents, requests, and "
        "dependencies (jobs that wait for each other). Exit status: 0 no errors, 1 errors, "
        "2 a file could not be read.",
    )
    check.add_argument("files", nargs="+", metavar="FILE", help="a document of a Job or a JobGroup")
    check.add_argument("--resolved", action="store_true", help="print each job with its defaults resolved")
    check.add_argument(
        "--explain",
        action="store_true",
        help="show what each job inherits, requests, waits for and used, and a possible order",
    )
    _add_lenient(check)
    matched = actions.add_parser(
        "match",
        help="show which nodes satisfy the jobs' requests",
        description="Show which of the given nodes satisfy each job's request, the preferred ones first. "
        "Exit status: 0 each job finds its nodes, 1 one does not, or its request is invalid, 2 a file could "
        "not be read.",
    )
    matched.add_argument("file", metavar="FILE", help="a document of a Job or a JobGroup")
    matched.add_argument("nodes", metavar="NODES", help="JSON: a list, or an object per line")
    _add_lenient(matched)
    actions.add_parser(
        "schema",
        help="print the schema of documents",
        description="Print the schema of documents, in RELAX NG.",
    )


def _add_lenient(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lenient", action="store_true", help="read typographic quotes as straight ones")


def run(arguments: argparse.Namespace) -> int:
    """Check documents, match them with nodes, or print their schema."""
    if arguments.action == "schema":
        print(files("jobfeatures.formats.sss").joinpath("sss.rng").read_text(encoding="utf-8"), end="")
        return DONE
    if arguments.action == "match":
        return _print_all(arguments.file, _match(arguments))
    return max(_print_all(name, _check(name, arguments)) for name in arguments.files)


def _print_all(name: str, lines: Iterator[str]) -> int:
    """Print lines; return the exit status, by the error that ends them."""
    try:
        for line in lines:
            print(line)
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}")
        return UNREADABLE
    except ParseError as error:
        if error.reason:
            print(error if error.source else error.at(name))
        return ERRORS
    return DONE


def _read(name: str, max_bytes: int) -> bytes:
    with open(name, "rb") as file:
        return file.read(max_bytes + 1)


def _jobs(
    name: str, arguments: argparse.Namespace
) -> tuple[list[str], tuple[SssJob, ...], tuple[SssJob, ...]]:
    """Return warnings about a document, and its jobs: as written, and with their defaults resolved."""
    parsed = parse_object(_read(name, MAX_BYTES), source=name, lenient=arguments.lenient)
    if isinstance(parsed.root, SssJobGroup):
        own, resolved = parsed.root.jobs, resolve_group(parsed.root)
    else:
        own = (parsed.root,) if isinstance(parsed.root, SssJob) else ()
        resolved = tuple(resolve_job(each) for each in own if isinstance(each, SssJob))
    both = [tuple(each for each in jobs if isinstance(each, SssJob)) for jobs in (own, resolved)]
    return [str(each) for each in parsed.warnings], both[0], both[1]


def _check(name: str, arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of output about a document. Raises ParseError for the first error."""
    warnings, written, jobs = _jobs(name, arguments)
    yield from warnings
    for own, job in zip(written, jobs, strict=True):
        for scope in job.scopes():
            parse_expression(scope.requested)
        if arguments.resolved:
            yield format_object(job)
        if arguments.explain:
            yield from (f"{name}: {job.id}: {line}" for line in explain_job(job, own, jobs))
    order = order_jobs(jobs)
    for job_id, other in order.missing:
        yield f"{name}: {job_id}: waits for {other}, which is not in the document"
    if order.cycle:
        raise ParseError(f"jobs wait for each other: {', then '.join(order.cycle)}", field="Dependency")
    if arguments.explain and len(jobs) > 1:
        yield f"{name}: can run in this order: {', '.join(order.order)}"
    yield f"{name}: {len(jobs)} jobs, no errors"


def _match(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield each job's nodes. Raises ParseError with an empty reason if a job does not find enough nodes."""
    try:
        nodes = parse_nodes(_read(arguments.nodes, MAX_NODES_BYTES).decode("utf-8", "replace"))
    except ParseError as error:
        raise error.at(arguments.nodes) from None
    warnings, _, jobs = _jobs(arguments.file, arguments)
    yield from warnings
    lacking = 0
    for job in jobs:
        for found in match(job, nodes):
            lacking += not found.is_enough
            yield from (f"{arguments.file}: {line}" for line in _nodes_of(found))
    if lacking:
        raise ParseError("")


def _nodes_of(found: Match) -> Iterator[str]:
    for place, (node, verdict) in enumerate(found.nodes, 1):
        score = f", score {verdict.score}" if verdict.score else ""
        factors = "".join(f", performance factor {each}" for each in verdict.performance_factors)
        yield f"{found.of}: {place}. {node}{score}{factors}"
    if found.unclear:
        yield f"{found.of}: unknown for {', '.join(found.unclear)}"
    if not found.is_enough:
        yield f"{found.of}: {len(found.nodes)} of {found.wanted} nodes found"
