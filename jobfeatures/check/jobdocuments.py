"""Documents of SSS by name: their jobs, and what is wrong with them or worth knowing."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.explain import explain_job
from jobfeatures.formats.sss.format import format_object
from jobfeatures.formats.sss.inherit import resolve_group, resolve_job
from jobfeatures.formats.sss.objects import SssJob, SssJobGroup
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.requests.dependencies import order_jobs
from jobfeatures.formats.sss.requests.expressions import parse_expression
from jobfeatures.formats.sss.xml import MAX_BYTES


def read_bytes(name: str, max_bytes: int) -> bytes:
    """Return the first bytes of a file, one more than may be there. Raises OSError."""
    with open(name, "rb") as file:
        return file.read(max_bytes + 1)


def jobs_of(name: str, *, lenient: bool) -> tuple[list[str], tuple[SssJob, ...], tuple[SssJob, ...]]:
    """Return warnings about a document, and its jobs: as written, and with their defaults resolved.

    Raises ParseError and OSError.
    """
    parsed = parse_object(read_bytes(name, MAX_BYTES), source=name, lenient=lenient)
    if isinstance(parsed.root, SssJobGroup):
        own, resolved = parsed.root.jobs, resolve_group(parsed.root)
    else:
        own = (parsed.root,) if isinstance(parsed.root, SssJob) else ()
        resolved = tuple(resolve_job(each) for each in own if isinstance(each, SssJob))
    both = [tuple(each for each in jobs if isinstance(each, SssJob)) for jobs in (own, resolved)]
    return [str(each) for each in parsed.warnings], both[0], both[1]


def examine(name: str, *, lenient: bool, explain: bool = False, resolved: bool = False) -> Iterator[str]:
    """Yield the lines of output about a document. Raises ParseError for the first error, and OSError."""
    warnings, written, jobs = jobs_of(name, lenient=lenient)
    yield from warnings
    for own, job in zip(written, jobs, strict=True):
        for scope in job.scopes():
            parse_expression(scope.requested)
        if resolved:
            yield format_object(job)
        if explain:
            yield from (f"{name}: {job.id}: {line}" for line in explain_job(job, own, jobs))
    order = order_jobs(jobs)
    for job_id, other in order.missing:
        yield f"{name}: {job_id}: waits for {other}, which is not in the document"
    if order.cycle:
        raise ParseError(f"jobs wait for each other: {', then '.join(order.cycle)}", field="Dependency")
    if explain and len(jobs) > 1:
        yield f"{name}: can run in this order: {', '.join(order.order)}"
    yield f"{name}: {len(jobs)} jobs, no errors"
