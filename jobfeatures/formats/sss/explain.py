"""Explains a document in words: inheritance, requests, order of jobs, use, and errors.

Source: SSS Job Object Specification 3.1.0, sections 3.0, 5.1 and 8.1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.amounts import growth_bounds, used_over_time
from jobfeatures.formats.sss.conformance import check_conformance, check_elements
from jobfeatures.formats.sss.inherit import resolve_group, resolve_job
from jobfeatures.formats.sss.objects import (
    DELIVERED,
    Property,
    Reference,
    SssJob,
    SssJobGroup,
    format_object,
)
from jobfeatures.formats.sss.properties import JobProperties
from jobfeatures.formats.sss.reader import Parsed, parse_object
from jobfeatures.formats.sss.requests.dependencies import Dependency, order_jobs, read_dependencies
from jobfeatures.formats.sss.requests.expressions import Parenthesis, parse_expression
from jobfeatures.formats.sss.values import format_value
from jobfeatures.formats.sss.vocabulary import CONSUMABLES
from jobfeatures.formats.sss.xml import MAX_BYTES
from jobfeatures.records.model import JobState
from jobfeatures.records.quantities import counted


def explain_job(job: SssJob, own: SssJob, jobs: Sequence[SssJob]) -> Iterator[str]:
    """Yield lines that explain a job whose defaults are filled in. Raises ParseError for an invalid request.

    `own` is the job as written, without defaults; `jobs` are all jobs of its group.
    """
    if inherited := [each for each in _all_of(job) if each not in _all_of(own)]:
        named = (f"{_words(each.key)} {format_value(each.value)}".rstrip() for each in inherited)
        yield f"inherits {', '.join(named)}"
    if job.requested:
        yield f"requests {describe(parse_expression(job.requested))}"
    for each in read_dependencies(job):
        for other in jobs:
            if each.on == (other.id if each.designator == "JobId" else other.value("Name", str)):
                yield f"after {other.id} ({each.condition}): {_standing(each, other)}"
    for key in dict.fromkeys(each.key for each in job.requested if each.attributes.get("dynamic") is True):
        low, high = growth_bounds(job.requested, key)
        yield f"{_words(key)} may change between {_number(low)} and {_number(high)}"
    secs = _run_secs(job)
    for used in job.delivered:
        if secs is not None and used.name in CONSUMABLES:
            yield f"used {_words(used.key)} × seconds: {_number(used_over_time(used, secs))}"


def describe(group: Parenthesis) -> str:
    """Return a request's expression as text, with all parentheses."""
    words: list[str] = []
    for place, part in enumerate(group.parts):
        joined = {"And": "and", "Or": "or", "Nand": "and not", "Nor": "or not"}[part.conj]
        if place or "not" in joined:
            words.append(joined if place else "not")
        is_group = isinstance(part.what, Parenthesis)
        words.append(f"({describe(part.what)})" if is_group else _request(part.what))  # type: ignore[arg-type]
    return " ".join(words)


def _request(each: Property) -> str:
    stated = [_words(each.key), each.text("op"), format_value(each.value), each.text("units")]
    if weight := each.number("preference"):
        stated.append(f"[preferred, {weight}]" if weight > 0 else f"[wished, {-weight}]")
    return " ".join(filter(None, stated))


def _words(key: Sequence[str]) -> str:
    return " ".join(filter(None, key))


def _all_of(job: SssJob) -> list[Property]:
    return [*job.properties, *job.requested, *job.delivered]


def _number(amount: Fraction | None) -> str:
    if amount is None:
        return "no bound"
    return str(amount) if amount.denominator == 1 else f"{float(amount):.6g}"


def _standing(dependency: Dependency, other: SssJob) -> str:
    stated = JobProperties(other)
    code = stated.direct_number("ExitCode")
    has_ended = stated.state().is_finished
    words: Mapping[bool | None, str] = {
        True: "may start",
        False: f"never, it ended with {code}" if has_ended else "has to wait",
        None: "is unknown, like its ExitCode",
    }
    return words[dependency.is_met(has_ended=has_ended, exit_code=code)]


def _run_secs(job: SssJob) -> int | None:
    stated = JobProperties(job)
    start, end = stated.direct_number("StartTime"), stated.direct_number("EndTime")
    reported = stated.amount("Duration", DELIVERED)
    if reported is None and stated.state() is not JobState.UNKNOWN and start is not None and end is not None:
        return end - start
    return reported


def read_bytes(name: str, max_bytes: int) -> bytes:
    """Return at most `max_bytes` + 1 bytes of a file, or of standard input (``-``); OSError if that fails."""
    if name == "-":
        return sys.stdin.buffer.read(max_bytes + 1)
    with open(name, "rb") as file:
        return file.read(max_bytes + 1)


def jobs_of(name: str, *, lenient: bool) -> tuple[list[str], list[tuple[SssJob, SssJob]], list[Reference]]:
    """Read a document; return warnings, its jobs, and its references to jobs defined elsewhere.

    Each job is a pair: as written, and with its defaults filled in. Raises ParseError if the document is
    invalid, OSError if it cannot be read.
    """
    return _jobs_of(parse_object(read_bytes(name, MAX_BYTES), source=name, lenient=lenient))


def _jobs_of(parsed: Parsed) -> tuple[list[str], list[tuple[SssJob, SssJob]], list[Reference]]:
    warnings = [str(each) for each in parsed.warnings]
    if isinstance(parsed.root, SssJob):
        return warnings, [(parsed.root, resolve_job(parsed.root))], []
    if not isinstance(parsed.root, SssJobGroup):
        return warnings, [], []
    both = zip(parsed.root.jobs, resolve_group(parsed.root), strict=True)
    jobs = [(own, job) for own, job in both if isinstance(own, SssJob) and isinstance(job, SssJob)]
    return warnings, jobs, [each for each in parsed.root.jobs if isinstance(each, Reference)]


def examine(name: str, *, lenient: bool, explain: bool = False, resolved: bool = False) -> Iterator[str]:
    """Yield the lines that `jobfeatures sss` prints about a document.

    With `resolved`, each job is printed with its defaults filled in; with `explain`, each job is explained in
    words. Raises ParseError for the first error in the document, OSError if it cannot be read.
    """
    parsed = parse_object(read_bytes(name, MAX_BYTES), source=name, lenient=lenient)
    warnings, both, references = _jobs_of(parsed)
    jobs = [job for _, job in both]
    yield from warnings
    if parsed.element is not None:
        check_elements(parsed.element)
    for own, job in both:
        check_conformance(own)
        for scope in job.scopes():
            parse_expression(scope.requested)
        if resolved:
            yield format_object(job)
        if explain:
            yield from (f"{name}: {job.id}: {line}" for line in explain_job(job, own, jobs))
    order = order_jobs([*jobs, *references])
    for job_id, other in order.missing:
        yield f"{name}: {job_id}: waits for {other}, which is not in the document"
    if order.cycle:
        raise ParseError(f"jobs wait for each other: {', then '.join(order.cycle)}", field="Dependency")
    if explain and len(order.order) > 1:
        yield f"{name}: can run in this order: {', '.join(order.order)}"
    yield f"{name}: {counted(len(jobs), 'job')}, no errors"
