"""The exceptions that this project raises, and the records of input that was rejected.

JobfeaturesError
├── ConfigurationError      a setting is wrong: names its key; ends the program before a port opens
├── ParseError              a text does not follow its format: names source, line, field
├── UnsafePathError         a path is not safe to use (link, foreign owner, not a regular file)
├── LockTimeoutError        somebody else held a lock for longer than we wait
├── SinkError               a document could not be delivered
└── SourceError             a batch system could not be queried
    └── CommandError        … because a program is missing, failed, hung or printed too much

A bad record inside a good document raises no exception to the caller: it becomes a
`Rejected`, is counted, and the other records are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

SHOWN_CHARACTERS = 80


class JobfeaturesError(Exception):
    """Base of all errors of this project. A command that ends with the error exits with `exit_status`."""

    exit_status = 1


class ConfigurationError(JobfeaturesError):
    """A setting has a wrong value.

    `key` is the setting as its user wrote it: a flag, an environment variable or a dotted key of the file.
    """

    exit_status = 2

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class ParseError(JobfeaturesError):
    """A text does not follow its format. `line` counts from 1; 0 means the text as a whole."""

    exit_status = 2

    def __init__(
        self, reason: str, *, source: str = "", line: int = 0, field: str = "", text: str = ""
    ) -> None:
        place = ":".join(part for part in (shown_name(source), str(line) if line else "", field) if part)
        quote = f": {shown(text)}" if text else ""
        super().__init__(f"{place}: {reason}{quote}" if place else f"{reason}{quote}")
        self.reason = reason
        self.source = source
        self.line = line
        self.field = field
        self.text = text

    def at(self, source: str = "", line: int = 0, field: str = "", about: str = "") -> ParseError:
        """Return a copy of the error with the source, line and field given here, where they are not empty.

        `about`, a name for the faulty record, is added to the reason.
        """
        return ParseError(
            f"{self.reason} ({about})" if about else self.reason,
            source=source or self.source,
            line=line or self.line,
            field=field or self.field,
            text=self.text,
        )


class UnsafePathError(JobfeaturesError):
    """A path leads, or could lead, to something else than it should. Nothing was read or written."""


class OtherClusterError(JobfeaturesError):
    """Raised if a job gets no features because a job of another cluster has the same id on this node.

    The features of the other job stay.
    """


class LockTimeoutError(JobfeaturesError):
    """Somebody else held a lock for longer than this program waits."""


class SinkError(JobfeaturesError):
    """A document could not be delivered. `is_final`: the receiver will never accept it."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class SourceError(JobfeaturesError):
    """A source of jobs, such as a batch system, could not answer. The last good answer stays in use."""


class CommandError(SourceError):
    """A program gave no usable output. `kind`: "missing", "timeout", "failed", "too large"."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@contextmanager
def failing_source(name: str, *kinds: type[ParseError | OSError | SourceError]) -> Iterator[None]:
    """Turn errors of these kinds in the `with` block into a SourceError that names the source."""
    try:
        yield
    except kinds as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"{name}: {reason}") from error


@dataclass(frozen=True, slots=True)
class Rejected:
    """One record that was skipped, and why. The other records of its source are used.

    `line` counts from 1 (0: unknown), `field` is the faulty one, and `text` its value, truncated.
    """

    source: str
    reason: str
    line: int = 0
    field: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        if len(self.text) > SHOWN_CHARACTERS:
            object.__setattr__(self, "text", self.text[: SHOWN_CHARACTERS + 1])

    @classmethod
    def from_error(cls, error: ParseError | OSError, source: str = "") -> Rejected:
        """Return a `Rejected` made of a parser's error about a record, or of the system's about a file."""
        if isinstance(error, OSError):
            return cls(source, error.strerror or "cannot be read")
        return cls(source or error.source, error.reason, error.line, error.field, error.text)

    def as_error(self) -> ParseError:
        """Return a ParseError with the same content."""
        return ParseError(self.reason, source=self.source, line=self.line, field=self.field, text=self.text)

    def __str__(self) -> str:
        return str(self.as_error())


class NewProblems:
    """Filters out known problems: those that were also in the previous call of `among`."""

    def __init__(self) -> None:
        self._reported: frozenset[Rejected] = frozenset()

    def among(self, problems: Collection[Rejected]) -> tuple[Rejected, ...]:
        """Return those of the problems that were not passed in the previous call."""
        reported, self._reported = self._reported, frozenset(problems)
        return tuple(each for each in problems if each not in reported)


Record = TypeVar("Record")
Made = TypeVar("Made")


def parse_each(
    parse: Callable[[Record], Made],
    records: Iterable[Record],
    rejected: list[Rejected],
    source: str = "",
    about: Callable[[Record], str] = lambda _: "",
) -> Iterator[Made]:
    """Yield what `parse` makes of each record; a record for which it raises ParseError is left out.

    For such a record, a `Rejected` is added to `rejected`. It names the `source`, and the record as `about`
    describes it.
    """
    for record in records:
        try:
            yield parse(record)
        except ParseError as error:
            rejected.append(Rejected.from_error(error.at(source, about=about(record))))


def matched(
    pattern: re.Pattern[str], text: str, reason: str, *, source: str = "", field: str = ""
) -> re.Match[str]:
    """Return a pattern's match at the beginning of a text. Raises ParseError with `reason` without one."""
    if (match := pattern.match(text)) is None:
        raise ParseError(reason, source=source, field=field, text=text)
    return match


def shown(text: str, characters: int = SHOWN_CHARACTERS) -> str:
    """Return foreign text made safe for a log line: escaped, quoted, and truncated."""
    cut = text if len(text) <= characters else text[:characters] + "…"
    return repr(cut)


def shown_name(name: str) -> str:
    """Return a file's name made safe for a message: not truncated, escaped if it is not printable."""
    return name if name.isprintable() else repr(name)


def printable(text: str) -> str:
    """Return a text with unprintable characters escaped, so that none moves a cursor or ends a line."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def nearest(word: str, known: Collection[str]) -> str:
    """Return ``; did you mean X?`` with the known word most like this one, "" if none is."""
    import difflib  # needed only after a mistake

    ends = [each for each in known if each.rpartition(".")[2] == word.rpartition(".")[2]]
    found = difflib.get_close_matches(word, known, 1, 0.6) or ends[:1]
    return f"; did you mean {found[0]}?" if found else ""
