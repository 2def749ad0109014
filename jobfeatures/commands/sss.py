"""`jobfeatures sss`: explains SSS documents, matches them with nodes, prints their schema."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.resources import files

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.explain import examine, jobs_of, read_bytes
from jobfeatures.formats.sss.requests.matching import Match, match, parse_nodes
from jobfeatures.settings.usage import complain

DONE, ERRORS, UNREADABLE = 0, 1, 2
MAX_NODES_BYTES = 64 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures sss` to its parser."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    explained = actions.add_parser(
        "explain",
        help="show what jobs inherit, request, wait for and used",
        description="Show what each job inherits, requests, waits for and used, and a possible order. "
        "Exit status: 0 no errors, 1 errors, 2 a file could not be read.",
    )
    explained.add_argument("files", nargs="+", metavar="FILE", help="a document of a Job or a JobGroup")
    explained.add_argument(
        "--resolved", action="store_true", help="print also each job with its defaults resolved"
    )
    _add_lenient(explained)
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
    """Explain SSS documents, match them with nodes, or print their schema; return the exit status."""
    if arguments.action == "schema":
        print(files("jobfeatures.formats.sss").joinpath("sss.rng").read_text(encoding="utf-8"), end="")
        return DONE
    if arguments.action == "match":
        return _print_all(arguments.file, _match(arguments))
    flags = {"lenient": arguments.lenient, "explain": True, "resolved": arguments.resolved}
    return max(_print_all(name, examine(name, **flags)) for name in arguments.files)


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


def _match(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield each job's nodes. Raises ParseError with an empty reason if a job does not find enough nodes."""
    try:
        nodes = parse_nodes(read_bytes(arguments.nodes, MAX_NODES_BYTES).decode("utf-8", "replace"))
    except ParseError as error:
        raise error.at(arguments.nodes) from None
    warnings, jobs, _ = jobs_of(arguments.file, lenient=arguments.lenient)
    yield from warnings
    lacking = 0
    for _, job in jobs:
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
