"""Data for administrators besides queue and nodes: scheduler, licences, fair shares, reservations.

One record per answer of a batch system. Unknown values are None; entries missing from an answer are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jobfeatures.errors import Rejected, parse_each


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrationAnswer:
    """The common part of a batch system's answers: who gave it, when, and which entries were rejected."""

    source: str
    taken_at_secs: float
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests of one type (`name`) the controller served, and in how many seconds, so far."""

    name: str
    count: int
    total_secs: float


class UserRequests(Requests):
    """Requests that one user has made of the controller."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Cycles:
    """The scheduling cycles of one scheduler, such as main or backfill, since its statistics began."""

    count: int | None = None
    last_secs: float | None = None
    mean_secs: float | None = None
    max_secs: float | None = None
    mean_depth_jobs: int | None = None
    queue_jobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler(AdministrationAnswer):
    """The controller's load. `jobs` counts events of jobs, `queued` messages that wait, both by name."""

    threads: int | None = None
    queued: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    backfilled_jobs: int | None = None  # since the controller started
    cycles: Mapping[str, Cycles] = field(default_factory=dict)
    types: tuple[Requests, ...] = ()
    users: tuple[UserRequests, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """The licences with one name: how many there are, and how many are used."""

    name: str
    total: int
    used: int
    free: int | None = None
    reserved: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Licences(AdministrationAnswer):
    """All licences that the batch system manages."""

    licences: tuple[Licence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShare:
    """An account's share, or with `user` that of a user in it. Share and usage are fractions of the total."""

    account: str
    user: str = ""
    shares_ratio: float | None = None
    usage_ratio: float | None = None
    usage_secs: int | None = None  # decayed, weighted as the site weights resources
    factor: float | None = None  # 0 to 1: its contribution to the priority of its jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShares(AdministrationAnswer):
    """The shares of all accounts and users."""

    shares: tuple[FairShare, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes reserved for users or maintenance. Times are epoch seconds."""

    name: str
    start_secs: int
    end_secs: int
    nodes: int | None
    cores: int | None = None
    is_maintenance: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservations(AdministrationAnswer):
    """All reservations that have not ended."""

    reservations: tuple[Reservation, ...] = ()


Record = TypeVar("Record")
Named = TypeVar("Named", bound=Licence | Reservation)
Counted = TypeVar("Counted", bound=Requests)


def each_once(
    parse: Callable[[Record], Named], records: Iterable[Record], source: str
) -> tuple[tuple[Named, ...], tuple[Rejected, ...]]:
    """Return what `parse` makes of records, one of each name (a label of time series), and the rejected ones.

    A malformed record is rejected alone, as is one with the name of another.
    """
    kept: dict[str, Named] = {}
    rejected: list[Rejected] = []
    for each in parse_each(parse, records, rejected, source):
        if kept.setdefault(each.name, each) is not each:
            rejected.append(Rejected(source, f"{type(each).__name__.lower()} occurs twice", text=each.name))
    return tuple(kept.values()), tuple(rejected)


def added_up(found: Iterable[Counted]) -> tuple[Counted, ...]:
    """Return one entry per name, with sums: Slurm gives all users of unknown uids the name "nobody"."""
    sums: dict[str, Counted] = {}
    for each in found:
        old = sums.setdefault(each.name, each)
        if old is not each:
            count, total_secs = old.count + each.count, old.total_secs + each.total_secs
            sums[each.name] = replace(old, count=count, total_secs=total_secs)
    return tuple(sums.values())
