"""Records of the checker: what it read from a directory, and what the rules check."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from jobfeatures.features.keys import KEYS, Area, Key, MjfProfile
from jobfeatures.status.jobstatus import STATUS_KEYS

MAX_SHOWN_NAMES = 1000  # of one directory


class DirectoryKind(enum.Enum):
    """The kinds of directories that are checked: of machine features, job features and job status."""

    MACHINE = "machine"
    JOB = "job"
    STATUS = "status"


VARIABLES = {
    "MACHINEFEATURES": DirectoryKind.MACHINE,
    "JOBFEATURES": DirectoryKind.JOB,
    "JOBSTATUS": DirectoryKind.STATUS,
}
_AREAS = {Area.MACHINE: DirectoryKind.MACHINE, Area.JOB: DirectoryKind.JOB}

# Of every known key: the directory it belongs in, and its type: "integer", "decimal", "boolean" or "text".
KINDS = {key.name: _AREAS[key.area] for key in KEYS} | {key.name: DirectoryKind.STATUS for key in STATUS_KEYS}
TYPES = {key.name: key.value_type for key in KEYS} | {key.name: key.value_type for key in STATUS_KEYS}


class Severity(enum.StrEnum):
    """The severity of a violation, in the terms of the WLCG probe."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


class Trouble(enum.Enum):
    """The reasons why an entry of a directory was not read, so that it has no value to check."""

    NOT_A_FILE = "not a file"
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"
    FOREIGN_LINK = "a link of another user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """The head of an HTTP response; names of headers are in lower case.

    `body_bytes` is the number of bytes that were read of the body.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Rights:
    """Owner and mode of a file or directory."""

    path: str
    mode: int
    uid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory: its content, or the reason (`trouble`, `detail`) why it was not read.

    `written_at_secs` is the file's modification time (epoch seconds). `rights` is set for a local file,
    `answer` for a key read over HTTP.
    """

    content: bytes | None = None
    trouble: Trouble | None = None
    detail: str = ""  # describes the trouble
    is_link: bool = False
    written_at_secs: float | None = None  # epoch
    rights: Rights | None = None  # of a local file
    answer: ResponseHead | None = None  # over HTTP


@dataclass(frozen=True)
class Listing:
    """What was read of one directory of features, by name of the entry.

    `is_cut` says that there were too many names to read. `missing` is a server's answer for a name that
    cannot exist. `rights` are those of a local directory and of each of its parents. `reported_profile` is
    the specification that the user asked for.
    """

    location: str
    entries: Mapping[str, Entry]
    kind: DirectoryKind
    is_cut: bool = False  # there were too many names
    missing: ResponseHead | None = None
    rights: tuple[Rights, ...] = ()  # of a local directory, then of each of its parents
    reported_profile: MjfProfile | None = None

    @cached_property
    def profile(self) -> MjfProfile:
        """Return the specification to check against: the requested one, else what the names suggest."""
        if self.reported_profile is not None:
            return self.reported_profile
        texts = {key.texts for key in KEYS if key.name in self.entries and len(key.texts) == 1}
        if texts == {("2014",)}:
            return MjfProfile.OF_2014
        return MjfProfile.BOTH if len(texts) > 1 else MjfProfile.OF_2016

    @cached_property
    def numbers(self) -> Mapping[str, Decimal]:
        """Return by key the well-formed values of the numeric keys that belong in this kind of directory."""
        found = {}
        for name, entry in self.entries.items():
            if KINDS.get(name) is self.kind and entry.content is not None:
                value = parse_number(entry.content, TYPES[name])
                if value is not None:
                    found[name] = value
        return found


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule checks: the directory `listing`, as of the time `now_secs` (epoch seconds).

    `machine` and `job` are the directories of machine and job features for the same job, if known.
    """

    listing: Listing
    now_secs: float
    machine: Listing | None = None
    job: Listing | None = None

    def own(self, key: Key) -> Decimal | None:
        """Return a key's value from the directory that is checked; None if it is absent or malformed."""
        return self.listing.numbers.get(key.name)

    def number(self, key: Key) -> Decimal | None:
        """Return a key's value from the checked directory, else from `machine`, else from `job`.

        Returns None if none of these directories has a well-formed value of the key.
        """
        for listing in (self.listing, self.machine, self.job):
            if listing is not None and key.name in listing.numbers:
                return listing.numbers[key.name]
        return None


Remarks = Iterator[tuple[str, str]]  # what a rule reports: key ("" for the directory) and text


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a rule: its severity, the rule, the key, a message, and the source of the rule.

    `key` is empty if the violation concerns the whole directory. `source` names the specification or program
    that requires the rule.
    """

    severity: Severity
    rule: str
    key: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class LocationVerdict:
    """All violations found at one location.

    If the location could not be checked, `problem` says why, else `problem` is "".
    """

    location: str
    kind: DirectoryKind | None = None
    findings: tuple[Violation, ...] = field(default=())
    problem: str = ""

    def count(self, severity: Severity) -> int:
        """Return how many violations of this severity the location has."""
        return sum(finding.severity is severity for finding in self.findings)


_INTEGER = re.compile(rb"[0-9]{1,19}\Z")
_SIGNED = re.compile(rb"-?[0-9]{1,19}\Z")
_DECIMAL = re.compile(rb"[0-9]{1,19}(?:\.[0-9]{1,19})?\Z")


def parse_number(content: bytes, value_type: str) -> Decimal | None:
    """Parse the content of a file as a number of the given type; one newline may follow it.

    `value_type` is "integer", "signed" or "decimal". Returns None for any other content.
    """
    text = content.removesuffix(b"\n")
    pattern = {"integer": _INTEGER, "signed": _SIGNED, "decimal": _DECIMAL}.get(value_type)
    return Decimal(text.decode()) if pattern is not None and pattern.match(text) else None


def guess_kind(location: str, names: Mapping[str, object]) -> DirectoryKind | None:
    """Guess the kind of a directory of features from its keys, else from its path.

    Returns None if neither shows it.
    """
    counts = {kind: sum(KINDS.get(name) is kind for name in names) for kind in DirectoryKind}
    best = max(counts.values())
    likely = [kind for kind, count in counts.items() if count == best]
    if best and len(likely) == 1:
        return likely[0]
    for part in reversed(location.rstrip("/").split("/")):
        kind = VARIABLES.get(part.upper())
        if kind is not None:
            return kind
    return None
