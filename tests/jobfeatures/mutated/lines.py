"""Lines of accounting whose fields are broken one at a time, and a judge of what a reader makes of them.

The outcome must be right, or rejected with the field's name, or listed under it. What is right is told by the
readers of `secondreaders`, written from each format's documentation and not from this project's code; they take
the fields as they were meant, so that a separator within one is no matter of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC
from typing import Any

from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.logkinds import KINDS, read_log

Fields = Mapping[str, Any]


class BadError(Exception):
    """The documentation gives a text no meaning."""


@dataclass(frozen=True)
class Log:
    """One line of a log, as fields by name; what a second reader makes of it, by the names of `JobRecord`."""

    kind: str
    fields: dict[str, Any]
    join: Callable[[Fields], str]  # the fields as a text
    told: Mapping[str, Callable[[Fields], Any]]
    separators: tuple[str, ...] = ()  # put into texts
    before: str = ""
    governs: frozenset[str] = frozenset()  # fields whose unknown values make others unknown
    aliases: Mapping[str, str] = field(default_factory=dict)  # what rejections call a field
    closed: frozenset[str] = frozenset()  # fields whose form holds no separator
    partial: frozenset[str] = frozenset()  # fields of which a part may be read and another be listed
    is_positional: bool = False  # an empty field shifts all behind it: any of them may be named
    refuses_all: bool = False  # what is malformed may be an imitation: all of the job is refused, by name
    named: bool = False  # fields have names, so that one can be missing


def mutants(log: Log) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each broken line as its field's name, what was done to it, and all fields."""
    for name, value in log.fields.items():
        for how, changed in _broken(value, () if name in log.closed else log.separators):
            if changed != value:
                yield name, how, {**log.fields, name: changed}
        if log.named:
            yield name, "missing", {each: text for each, text in log.fields.items() if each != name}


def _broken(value: Any, separators: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool | list) or value is None:
        yield "null", None
    elif isinstance(value, int | float):
        yield from (("null", None), ("negative", -value - 1), ("in thousandths", value * 1000))
        yield from (("a text", f"{value}x"), ("a fraction", value + 0.5))
    else:
        yield "empty", ""
        yield "doubled", value * 2
        yield "cut", value[: len(value) // 2]
        for each in separators if len(value) > 1 else ():
            yield f"with {each!r} in it", value[: len(value) // 2] + each + value[len(value) // 2 :]
        for unit in ("000", "K", ".5"):
            yield f"with {unit!r} behind it", value + unit


def read(log: Log, values: Fields) -> tuple[list[JobRecord | Rejected], Notes]:
    """Return what this project's reader makes of a line."""
    notes = Notes()
    text = log.before + log.join(values)
    zoned = {"zone": UTC} if KINDS[log.kind].is_zoned else {}
    lines = [f"{line}\n" for line in text.split("\n")]
    return list(read_log(lines, log.kind, source="log", notes=notes, **zoned)), notes


def complaint(log: Log, base: JobRecord, name: str, how: str, values: Fields) -> str | None:
    """Return what is wrong with the reading of one broken line, None if nothing is; `base` is the unbroken one's."""
    found, notes = read(log, values)
    rejected = [each for each in found if isinstance(each, Rejected)]
    is_readable = not any(_expected(log, each, values) is BadError for each in log.told)
    alias = log.aliases.get(name, name)
    if rejected:
        if log.is_positional or (how.startswith("with") and how.endswith("in it")):
            return None  # what cannot be split has no field
        if is_readable and not log.refuses_all and how not in {"empty", "null", "missing"}:
            return f"refused what can be read: {rejected[0]}"
        is_named = any(
            any(word in f"{each.field} {each.reason}" for word in (name, alias)) for each in rejected
        )
        return None if is_named else f"refused without its name: {rejected[0]}"
    jobs = [each for each in found if isinstance(each, JobRecord)]
    if len(jobs) != 1:
        return f"{len(jobs)} records"
    if log.is_positional and any("18 fields" in each for each in notes.repaired):
        return None  # as listed, others stand in their places
    counted = (notes.unread, notes.doubtful, notes.repaired, notes.not_taken)
    is_listed = any(_names(alias, each) for counts in counted for each in counts)
    for each in fields(JobRecord):
        if each.name in {"source_text", "more", "state_word", "report"}:
            continue
        got, before = getattr(jobs[0], each.name), getattr(base, each.name)
        wanted = _expected(log, each.name, values) if each.name in log.told else before
        if _same(got, wanted):
            continue
        if (name in log.governs and each.name in log.told) and (got is None or _same(got, before)):
            continue
        if is_listed and (got in (None, ()) or _same(got, _expected(log, each.name, {**values, name: ""}))):
            continue
        if is_listed and name in log.partial:
            continue
        wanted = "nothing, by name" if wanted is BadError else repr(wanted)
        return f"{each.name} is {got!r} and not {wanted}"
    return None


def _names(name: str, listed: str) -> bool:
    """Return whether a list names a field, or what it is a part of."""
    told = listed.partition(",")[0]
    return name in told or name.startswith(f"{told}.")


def _expected(log: Log, name: str, values: Fields) -> Any:
    if name not in log.told:
        return None
    try:
        return log.told[name](values)
    except (BadError, KeyError):  # what a job cannot be without
        return BadError


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, abs_tol=1e-6)
    return bool(one == other)
