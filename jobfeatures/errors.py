"""Everything this project raises on purpose.

JobfeaturesError
├── ConfigurationError      a setting is wrong: names its key; ends the program before a port opens
├── ParseError              a text is not what its format promises: names source, line, field
├── UnsafePathError         a path is not what it must be (link, foreign owner, not a regular file)
├── LockTimeoutError        somebody else holds a lock for longer than we wait
├── SinkError               a document could not be handed over
└── SourceError             a batch system could not be asked
    └── CommandError        … because a program is missing, failed, hung or said too much

A record that is bad inside a good document is not an exception: it becomes a
`Rejected`, is counted, and the other records live.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

SHOWN_CHARACTERS = 80


class JobfeaturesError(Exception):
    """Base of all errors below. `exit_status` is that of a command which one of them ends."""

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
        said = f": {shown(text)}" if text else ""
        super().__init__(f"{place}: {reason}{said}" if place else f"{reason}{said}")
        self.reason = reason
        self.source = source
        self.line = line
        self.field = field
        self.text = text

    def at(self, source: str = "", line: int = 0, field: str = "", about: str = "") -> ParseError:
        """Return the same error at a place that whoever raised it does not know; `about` names the record."""
        return ParseError(
            f"{self.reason} ({about})" if about else self.reason,
            source=source or self.source,
            line=line or self.line,
            field=field or self.field,
            text=self.text,
        )


class UnsafePathError(JobfeaturesError):
    """A path leads, or could lead, to something other than what it names. Nothing was read or written."""


class LockTimeoutError(JobfeaturesError):
    """A lock was held by somebody else for longer than allowed."""


class SinkError(JobfeaturesError):
    """A document could not be handed over. `is_final`: the far side will never take this one."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class SourceError(JobfeaturesError):
    """A batch source could not answer. The last good table stays in use."""


class CommandError(SourceError):
    """A program could not be run to a usable end. `kind`: "missing", "timeout", "failed", "too large"."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@contextmanager
def failing_source(name: str, *kinds: type[ParseError | OSError | SourceError]) -> Iterator[None]:
    """Raise SourceError, naming what was asked or read, for errors of these kinds."""
    try:
        yield
    except kinds as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"{name}: {said}") from error


@dataclass(frozen=True, slots=True)
class Rejected:
    """One record that was skipped, and why. The other records of its source live. `text` is cut."""

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
        """Keep what a parser said about a record, or the system about its file."""
        if isinstance(error, OSError):
            return cls(source, error.strerror or "cannot be read")
        return cls(source or error.source, error.reason, error.line, error.field, error.text)

    def as_error(self) -> ParseError:
        """Return what would have been raised."""
        return ParseError(self.reason, source=self.source, line=self.line, field=self.field, text=self.text)

    def __str__(self) -> str:
        return str(self.as_error())


class News:
    """Tells problems that last once, when they appear."""

    def __init__(self) -> None:
        self._reported: frozenset[Rejected] = frozenset()

    def among(self, problems: Collection[Rejected]) -> tuple[Rejected, ...]:
        """Return those that there were not at the last call."""
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
    """Yield what `parse` makes of each record; a bad one costs itself only, and is added to `rejected`."""
    for record in records:
        try:
            yield parse(record)
        except ParseError as error:
            rejected.append(Rejected.from_error(error.at(source, about=about(record))))


def shown(text: str, characters: int = SHOWN_CHARACTERS) -> str:
    """Return foreign text as it may stand in a log line: escaped, quoted, cut at some characters."""
    cut = text if len(text) <= characters else text[:characters] + "…"
    return repr(cut)


def shown_name(name: str) -> str:
    """Return the name of a file as it may stand in a message: whole, escaped where it is not printable."""
    return name if name.isprintable() else repr(name)
