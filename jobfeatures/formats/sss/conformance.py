"""Checks rules of the specification that readers of logs ignore, but checks of documents enforce. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import DELIVERED, REQUESTED, Property, Scope, SssJob, SssTaskGroup
from jobfeatures.formats.sss.requests.names import MAX_PATTERN_CHARACTERS, expand_names
from jobfeatures.formats.sss.values import error_at
from jobfeatures.formats.sss.xml import Element

MOST: dict[str, int] = dict.fromkeys(
    ("SubmitTime", "StartTime", "EndTime", "EligibleTime", "DeadlineTime", "Duration"), 2**32 - 1
)  # "32 bit unsigned"

# What Perl's patterns have and Python's may not: such a pattern is not judged.
_OF_PERL = re.compile(r"\\[A-Za-z]|\(\?|[*+?}][+]|\[\[")


def check_elements(element: Element) -> None:
    """Raise ParseError if a Requested or Delivered element in a document holds no properties."""
    if element.name in {REQUESTED, DELIVERED} and not element.children:
        raise error_at(element, "must have properties")
    for each in element.children:
        check_elements(each)


def check_conformance(job: SssJob) -> None:
    """Raise ParseError if a job, as written, breaks a rule of the specification.

    The job's defaults must not be filled in.
    """
    groups = [each for each in job.task_groups if isinstance(each, SssTaskGroup)]
    _check_ids("TaskGroup", groups)
    for group in groups:
        _check_ids("Task", [each for each in group.tasks if isinstance(each, Scope)])
        if group.line and not (
            group.has_properties or group.tasks or group.task_defaults or group.environment
        ):
            raise _error(group, "must have properties", "TaskGroup")
    for scope in job.scopes():
        for each in (*scope.properties, *scope.requested, *scope.delivered):
            _check_property(each)


def _check_ids(name: str, scopes: Iterable[Scope]) -> None:
    seen: set[str] = set()
    for each in scopes:
        if each.id is not None and each.id in seen:
            raise _error(each, f"another {name} has the same Id", name, each.id)
        seen |= {each.id} if each.id is not None else set()


def _check_property(each: Property) -> None:
    for reason in _breaches(each):
        raise each.error(reason, str(each.value)[:80])
    if each.text("aggregation") == "Range":
        expand_names(each)


def _breaches(each: Property) -> Iterator[str]:
    if isinstance(each.value, int) and each.value > MOST.get(each.name, each.value):
        yield "beyond 32 bits"
    if each.name == "Dependency" and "code" in each.attributes and each.text("condition") != "OnExit":
        yield "has a code, which only the condition OnExit takes"
    if "delimiter" in each.attributes and each.text("aggregation") != "List":
        yield "has a delimiter, which only a List takes"
    is_pattern = each.text("aggregation") == "Pattern" or each.text("op") == "Match"
    if is_pattern and not _may_be_pattern(str(each.value)):
        yield "not a regular expression"


def _may_be_pattern(text: str) -> bool:
    if len(text) > MAX_PATTERN_CHARACTERS or _OF_PERL.search(text):
        return True
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _error(scope: Scope, reason: str, name: str, text: str = "") -> ParseError:
    placed = f"column {scope.column}: {reason}" if scope.column else reason
    return ParseError(placed, line=scope.line, field=name, text=text)
