"""Defines drains: requests to shut a machine down, or to end a job, at a given time. Pure.

A shutdown time comes from an operator (`jobfeatures drain set`) or from the batch system (a maintenance
reservation). The earliest applies.

Sources: HSF-TN-2016-02, shutdowntime, grace_secs, shutdowntime_job and grace_secs_job; draft 0.99 of 2014,
1.8 and 2.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from jobfeatures.errors import JobfeaturesError, ParseError
from jobfeatures.records.jsontext import parse_own, text_of
from jobfeatures.records.model import JobKey, JobTable

# json and datetime are imported only where used: every prolog imports this file.
OPERATOR = "operator"
MAX_EPOCH_SECS = 2**40  # in the year 36812; milliseconds mistaken for seconds exceed it
MAX_DOCUMENT_BYTES = 2**20
CLOCK_SKEW_SECS = 300  # between the batch system's server, which reports a job's start, and this machine
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_RELATIVE = r"\+([0-9]{1,12})([smhd]?)\Z"  # these patterns, too, are compiled only where used
_EPOCH = r"[0-9]{1,13}\Z"
_ISO = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?\Z"
)


class GraceError(JobfeaturesError):
    """Raised for a shutdown time that is in the past, or gives jobs less notice than promised."""


@dataclass(frozen=True, slots=True)
class Drain:
    """An operator's request for one shutdown. Times are epoch seconds; `set_by` is a user name."""

    at_secs: int
    set_at_secs: int
    set_by: str


@dataclass(frozen=True, slots=True)
class Drains:
    """All shutdown requests of operators on one node: at most one for the machine, and one for each job."""

    machine: Drain | None = None
    jobs: Mapping[JobKey, Drain] = field(default_factory=dict)

    def with_drain(self, key: JobKey | None, drain: Drain | None) -> Drains:
        """Return a copy in which `drain` is the request for the job `key` (None: for the machine).

        If `drain` is None, the request is removed.
        """
        if key is None:
            return replace(self, machine=drain)
        others = {known: each for known, each in self.jobs.items() if known != key}
        return replace(self, jobs=others if drain is None else {**others, key: drain})

    def of_job(self, key: JobKey, start_secs: int | None) -> Drain | None:
        """Return the shutdown request for a job, or None.

        A request that was set before the job's start is ignored: it was for an earlier run of the job.
        """
        drain = self.jobs.get(key)
        if drain is None or start_secs is None or start_secs <= drain.set_at_secs + CLOCK_SKEW_SECS:
            return drain
        return None


@dataclass(frozen=True, slots=True)
class Announced:
    """What batch systems announce for this machine, by name of the batch system.

    That is whether the machine is draining, its next shutdown (epoch seconds), and its number of job slots.
    `features` are values of machine features by key, from any batch system that provides them.
    """

    draining: Mapping[str, bool] = field(default_factory=dict)
    shutdowns: Mapping[str, int] = field(default_factory=dict)
    job_slots: Mapping[str, int] = field(default_factory=dict)
    features: Mapping[str, str] = field(default_factory=dict)


NO_DRAINS = Drains()
NOT_ANNOUNCED = Announced()


def parse_when(text: str, *, now_secs: float) -> int:
    """Parse ``1800000000``, ``+3600``, ``+2h`` (s, m, h, d) or ISO 8601 into epoch seconds.

    ISO times without a zone are local times. Fractions of a second are dropped. Raises ParseError for any
    other text.
    """
    relative = re.match(_RELATIVE, text)
    if relative is not None:
        at_secs = math.floor(now_secs) + int(relative[1]) * _UNITS[relative[2]]
    elif re.match(_EPOCH, text):
        at_secs = int(text)
    elif re.match(_ISO, text):
        from datetime import datetime

        try:
            at_secs = math.floor(datetime.fromisoformat(text).timestamp())
        except (ValueError, OverflowError, OSError) as error:
            raise ParseError("must be a valid calendar date and time", source="TIME", text=text) from error
    else:
        forms = "epoch seconds, +3600, +2h or 2027-01-15T08:00:00+01:00"
        raise ParseError(f"must be a time ({forms})", source="TIME", text=text)
    if not 0 <= at_secs <= MAX_EPOCH_SECS:
        raise ParseError("is out of range (milliseconds instead of seconds?)", source="TIME", text=text)
    return at_secs


def check_grace(at_secs: int, *, now_secs: float, grace_secs: int | None, key: str) -> None:
    """Raise GraceError if a new or moved shutdown time is in the past or sooner than promised.

    Source: HSF-TN-2016-02: the time "will not be less than grace_secs seconds after the moment the shutdown
    time is set". `key` is the name of the feature that holds `grace_secs`, for the message; `grace_secs` None
    promises nothing.
    """
    left = at_secs - now_secs
    if left < 0:
        raise GraceError(f"the shutdown time is {-left:.0f} s in the past")
    if grace_secs is not None and left < grace_secs:
        earliest = math.ceil(now_secs + grace_secs)
        raise GraceError(
            f"the shutdown time gives jobs only {left:.0f} s of notice, but {key} promises them "
            f"{grace_secs} s: choose a shutdown time of {earliest} (Unix time) or later"
        )


def compute_announced(previous: Announced, tables: Collection[JobTable], *, now_secs: float) -> Announced:
    """Return what the batch systems announce now, from their latest answers (`tables`) and `previous`.

    Of each system, the next future shutdown applies. A shutdown whose time has come is kept while the batch
    system still reports it, but only if it was announced before: a time that has already passed must not be
    newly published. A system without data on the node announces nothing.
    """
    draining: dict[str, bool] = {}
    shutdowns: dict[str, int] = {}
    job_slots: dict[str, int] = {}
    features: dict[str, str] = {}
    for table in tables:
        if table.node is None:
            continue
        draining[table.source] = table.node.draining
        features |= table.node.features
        if table.node.cpus is not None:
            job_slots[table.source] = table.node.cpus
        known = previous.shutdowns.get(table.source)
        coming = [at for at in table.node.shutdowns if at > now_secs]
        if known is not None and known <= now_secs and known in table.node.shutdowns:
            shutdowns[table.source] = known
        elif coming:
            shutdowns[table.source] = min(coming)
    return Announced(draining, shutdowns, job_slots, features)


def machine_shutdowns(drains: Drains, announced: Announced) -> dict[str, int]:
    """Return the machine's shutdown times (epoch seconds) by requester: the operator or a batch system."""
    own = {} if drains.machine is None else {OPERATOR: drains.machine.at_secs}
    return {**own, **announced.shutdowns}


def machine_shutdown(drains: Drains, announced: Announced) -> int | None:
    """Return the earliest shutdown time requested for the machine, in epoch seconds.

    Returns None if no shutdown is requested.
    """
    return min(machine_shutdowns(drains, announced).values(), default=None)


# --- documents --------------------------------------------------------------------


def format_drains(drains: Drains) -> str:
    """Return requests as the JSON document that `parse_drains` reads."""
    document: dict[str, Any] = {
        "jobs": [
            {"batch_system": key.batch_system, "job_id": key.job_id, **asdict(drain)}
            for key, drain in sorted(drains.jobs.items())
        ]
    }
    if drains.machine is not None:
        document["machine"] = asdict(drains.machine)
    return _dump(document)


def parse_drains(text: str, *, source: str = "") -> Drains:
    """Parse a JSON document of requests. Raises ParseError, naming the field, if any request is invalid."""
    document = parse_own(text, source=source)
    machine = document.get("machine")
    jobs = document.get("jobs", [])
    if not isinstance(jobs, list):
        raise ParseError("not a list", source=source, field="jobs", text=str(jobs))
    found: dict[JobKey, Drain] = {}
    for each in jobs:
        if not isinstance(each, dict):
            raise ParseError("not an object", source=source, field="jobs", text=str(each))
        key = JobKey(text_of(each, "batch_system", source), text_of(each, "job_id", source))
        found[key] = _parse_drain(each, source)
    return Drains(None if machine is None else _parse_drain(machine, source), found)


def format_announced(announced: Announced) -> str:
    """Return announcements as the JSON document that `parse_announced` reads."""
    return _dump(asdict(announced))


def parse_announced(text: str, *, source: str = "") -> Announced:
    """Parse a JSON document of announcements. Raises ParseError, naming the field, if any is invalid."""
    document = parse_own(text, source=source)

    def values(name: str, what: str, is_good: Callable[[Any], bool]) -> dict[str, Any]:
        found = document.get(name, {})
        if not isinstance(found, dict) or not all(map(is_good, found.values())):
            raise ParseError(f"not an object{what}", source=source, field=name, text=str(found))
        return found

    draining = values("draining", " of booleans", lambda each: isinstance(each, bool))
    shutdowns = values("shutdowns", "", lambda _: True)  # each is checked by itself
    slots = values("job_slots", " of counts", lambda each: type(each) is int and each >= 0)
    features = values("features", " of texts", lambda each: isinstance(each, str))
    return Announced(draining, {name: _epoch(shutdowns, name, source) for name in shutdowns}, slots, features)


def _dump(document: dict[str, Any]) -> str:
    import json

    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _parse_drain(document: Any, source: str) -> Drain:
    if not isinstance(document, dict):
        raise ParseError("not an object", source=source, field="machine", text=str(document))
    return Drain(
        _epoch(document, "at_secs", source),
        _epoch(document, "set_at_secs", source),
        text_of(document, "set_by", source),
    )


def _epoch(document: dict[str, Any], name: str, source: str) -> int:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_EPOCH_SECS:
        raise ParseError("not a time in epoch seconds", source=source, field=name, text=str(value))
    return value
