"""`jobfeatures sss`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from jobfeatures.errors import ConfigurationError, ParseError
from jobfeatures.formats.sss.dependencies import order_jobs
from jobfeatures.formats.sss.expressions import Candidate, evaluate, parse_expression
from jobfeatures.formats.sss.format import format_object
from jobfeatures.formats.sss.inherit import resolve_group, resolve_job
from jobfeatures.formats.sss.objects import SssJob, SssJobGroup
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.schema import format_schema
from jobfeatures.formats.sss.xml import MAX_BYTES

DONE, ERRORS, UNREADABLE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="report what is wrong with documents",
        description="Report what is wrong with documents of jobs, their defaults resolved: contents, "
        "requests, and jobs that wait for each other. Exit status: 0 no errors, 1 errors, "
        "2 a file could not be read.",
    )
    check.add_argument("files", nargs="+", metavar="FILE", help="a document of a Job or a JobGroup")
    check.add_argument(
        "--have",
        action="append",
        metavar="NAME=VALUE",
        help="what a node has of a property, amounts in bytes and seconds, once for each: "
        "tell whether it is what each job requests",
    )
    check.add_argument("--resolved", action="store_true", help="print each job with its defaults resolved")
    actions.add_parser(
        "schema",
        help="print the schema of documents",
        description="Print the schema of documents, in RELAX NG.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check documents, or print their schema."""
    if arguments.action == "schema":
        print(format_schema(), end="")
        return DONE
    status = DONE
    candidate = _parse_candidate(arguments.have) if arguments.have else None
    for name in arguments.files:
        try:
            with open(name, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            print(f"jobfeatures: {name}: {error.strerror}", file=sys.stderr)
            status = UNREADABLE
            continue
        try:
            for line in _check(data, name, candidate, is_resolved=arguments.resolved):
                print(line)
        except ParseError as error:
            print(error.at(name))
            status = status or ERRORS
    return status


def _parse_candidate(words: list[str]) -> Candidate:
    found: dict[str, Decimal | str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise ConfigurationError("--have", f"must be NAME=VALUE, not {word!r}")
        try:
            found[name] = Decimal(text)
        except InvalidOperation:
            found[name] = text
    return found


def _check(data: bytes, name: str, candidate: Candidate | None, *, is_resolved: bool) -> Iterator[str]:
    """Yield what is to be said of a document. Raises ParseError for the first thing that is wrong."""
    parsed = parse_object(data, source=name)
    yield from map(str, parsed.warnings)
    if isinstance(parsed.root, SssJobGroup):
        jobs = resolve_group(parsed.root)
    else:
        jobs = (resolve_job(parsed.root) if isinstance(parsed.root, SssJob) else parsed.root,)
    for job in jobs:
        if not isinstance(job, SssJob):
            continue
        requests = [parse_expression(scope.requested) for scope in job.scopes()]
        if is_resolved:
            yield format_object(job)
        if candidate is not None:
            verdict = evaluate(requests[0], candidate)
            said = {True: f"satisfied, score {verdict.score}", False: "not satisfied", None: "not known"}
            yield f"{name}: {job.id}: {said[verdict.is_satisfied]}"
    order = order_jobs(jobs)
    for job_id, other in order.missing:
        yield f"{name}: {job_id}: waits for {other}, which is not here"
    if order.cycles:
        raise ParseError(f"jobs wait for each other: {', then '.join(order.cycles[0])}", field="Dependency")
    yield f"{name}: {len(jobs)} jobs, no errors"
