"""Helpers shared by several batch systems; kept small because a prolog pays for every import."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, Limit
from jobfeatures.records.nodelist import is_same_host
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.clock import Clock
from jobfeatures.system.lookups import LookUps

T = TypeVar("T")
Note = Callable[[Rejected], None]

MAX_EPOCH_SECS = 2**40  # year 36812: after any job, before milliseconds that are taken for seconds
RAN_LATE_SECS = 600  # servers know minutes late for how long a job has run, and clocks differ
_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12})(?::([1-9][0-9]{0,9}))?)?\Z")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z")


def parse_epoch(text: str, *, field: str = "") -> int:
    """Return digits as epoch seconds. Raises ParseError for any other text, also for milliseconds."""
    secs = parse_count(text, field=field)
    if secs >= MAX_EPOCH_SECS:
        raise ParseError("not seconds since the epoch", field=field, text=text)
    return secs


class Texts:
    """Parses values that are given as texts by name, such as environment variables.

    A malformed text is reported to the callback `note`, and its value is None.
    """

    def __init__(
        self,
        values: Mapping[str, str],
        note: Note,
        *,
        source: str = "environment",
        about: str = "",
        nothing: Collection[str] = ("",),
    ) -> None:
        """`about` names the record in error reports; `nothing` holds the system's words for "no value"."""
        self.values = values
        self._note = note
        self._source = source
        self._about = f" ({about})" if about else ""
        self._nothing = nothing

    def text(self, *names: str) -> str | None:
        """Return the text of the first of `names` that is set; None if none is."""
        for name in names:
            if (text := self.values.get(name, "")) not in self._nothing:
                return text
        return None

    def read(self, parse: Callable[[str], T], *names: str) -> T | None:
        """Return the parsed text of the first of `names` that is set and well-formed; None if none is."""
        for name in names:
            text = self.text(name)
            try:
                if text is not None:
                    return parse(text)
            except ParseError as error:
                self.reject(error, name, text or "")
        return None

    def reject(self, error: ParseError, name: str, text: str) -> None:
        """Report to `note` that the text of `name` is malformed, and why."""
        self._note(Rejected(self._source, error.reason + self._about, error.line, name, text))


def limit_end_of_resumed(
    start_secs: int | None, wall_secs: Limit, ran_secs: int | None, *, now_secs: float
) -> int | None:
    """Return when the wall limit ends a running job that was suspended (epoch); None if it never was.

    Suspended time does not count, and follows from the time for which the job ran (`ran_secs`). The result
    may be too early by `RAN_LATE_SECS`, as servers learn late how long a job has run. `now_secs` is when the
    server answered.
    """
    if start_secs is None or ran_secs is None or not isinstance(wall_secs, int):
        return None
    suspended = int(now_secs) - start_secs - ran_secs - RAN_LATE_SECS
    return start_secs + wall_secs + suspended if suspended > 0 else None


def is_installed(command: str, *paths: str, variable: str = "") -> bool:
    """Return whether PATH has `command`, one of `paths` exists, or the environment has `variable`."""
    import shutil  # a hook has no use for it

    return any(map(os.path.exists, paths)) or variable in os.environ or shutil.which(command) is not None


def is_host_name(text: str) -> bool:
    """Return whether a text is a valid host or node name, safe to use in a query."""
    return _HOST.match(text) is not None


def find_host(names: Iterable[str], node_name: str | None) -> str | None:
    """Return the one of `names` that is the host `node_name`, with or without domain; None if none is."""
    return next((name for name in names if node_name and is_same_host(name, node_name)), None)


def share_of(slots: Mapping[str, int], node_name: str | None) -> int | None:
    """Return how many slots a job has on the host `node_name`; None if it has none there.

    `slots` maps each of the job's hosts to the job's slots there.
    """
    return slots.get(find_host(slots, node_name) or "")


def is_elsewhere(job: Job, known_as: str | None) -> bool:
    """Return whether a job is known to run, but on other nodes than this one.

    `known_as` is this node's name in the batch system.
    """
    is_placed = known_as is not None and job.state.is_on_node and bool(job.nodes)
    return is_placed and find_host(job.nodes, known_as) is None


def parse_ranges(text: str, what: str, *, field: str) -> list[range]:
    """Return the ranges in a text such as ``1-5,9`` or ``0-100:4`` (every fourth number).

    Raises ParseError if malformed: `what` says in its message what was expected, such as "tasks of an array";
    `field` names the field.
    """
    found: list[range] = []
    for part in text.split(","):
        match = _RANGE.match(part)
        numbers = match and range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or "1"))
        if not numbers:
            raise ParseError(f"not {what}", field=field, text=text)
        found.append(numbers)
    return found


def count_ranges(text: str, what: str, *, field: str) -> int:
    """Return how many numbers a text such as ``1-5,9`` or ``0-100:4`` (every fourth) contains.

    Raises ParseError: its message says that the text is not `what`, such as "tasks of an array".
    """
    return sum(map(len, parse_ranges(text, what, field=field)))


def count_hosts(names: Iterable[str], *, file: str = "", field: str = "") -> dict[str, int]:
    """Return how often each host is named (once per slot), in order of first appearance.

    `names` are the lines of a file or the words of a field, which `file` or `field` names in errors. Raises
    ParseError if one is not a host name.
    """
    counts: Counter[str] = Counter()
    for line, name in enumerate(map(str.strip, names), 1):
        if name and not is_host_name(name):
            raise ParseError("not a host name", source=file, line=line if file else 0, field=field, text=name)
        counts[name] += bool(name)
    return dict(+counts)


def split_records(lines: Iterable[str], head: re.Pattern[str]) -> Iterator[tuple[str, list[str]]]:
    """Split the lines of a command's output into records; yield the name and the lines of each.

    `head` matches the first line of a record, and its group 1 is the name. Lines before the first record are
    skipped.
    """
    found: tuple[str, list[str]] | None = None
    for line in lines:
        if (match := head.match(line)) is not None:
            if found is not None:
                yield found
            found = match[1], []
        if found is not None:
            found[1].append(line)
    if found is not None:
        yield found


def busy_state(used: int | None, total: int | None) -> str:
    """Return a node's base state: IDLE, MIXED or ALLOCATED, by how many of its CPUs are allocated.

    `used` is the number of allocated CPUs (None counts as 0), `total` that of all CPUs; if `total` is None, a
    node with allocated CPUs is MIXED.
    """
    if not used:
        return "IDLE"
    return "ALLOCATED" if total is not None and used >= total else "MIXED"


def find_uid(user: str) -> int | None:
    """Return the uid of a user name on this machine, None if there is no such user."""
    import pwd

    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError, OSError):
        return None


class Users(LookUps[str, int]):
    """A cache of uids by user name, for batch systems that report only names."""

    def __init__(self, clock: Clock, look_up: Callable[[str], int | None] = find_uid) -> None:
        super().__init__(look_up, clock.monotonic_secs)

    def uid(self, user: str | None) -> int | None:
        """Return a user's uid; None if there is no such user, or while a slow look-up still runs."""
        return None if user is None else self.get(user)

    def complete(self, job: Job) -> Job:
        """Return the job with its user's uid filled in, if the job has none and the uid is known."""
        uid = self.uid(job.user) if job.uid is None else None
        return job if uid is None else replace(job, uid=uid)
