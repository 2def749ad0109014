"""Defines records of data for administrators: scheduler, licences, fair shares, reservations.

There is one record per answer of a batch system. Unknown values are None; entries missing from an answer are
omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jobfeatures.errors import Rejected, parse_each


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrationAnswer:
    """The common part of a batch system's answers: its source, its time (epoch seconds), rejected entries."""

    source: str
    taken_at_secs: float
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests of one type the controller has served, and how many seconds these took in total."""

    name: str
    count: int
    total_secs: float


class UserRequests(Requests):
    """How many requests of one user the controller has served, and how many seconds these took in total."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Cycles:
    """Statistics of the cycles of one scheduler, such as main or backfill, since they were last reset.

    Times are in seconds. `mean_depth_jobs` is the mean number of jobs that a cycle examined, `queue_jobs` the
    length of the queue in the last cycle.
    """

    count: int | None = None
    last_secs: float | None = None
    mean_secs: float | None = None
    max_secs: float | None = None
    mean_depth_jobs: int | None = None
    queue_jobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler(AdministrationAnswer):
    """The load of the batch system's controller.

    `threads` is the number of its server threads. `queued` holds numbers of waiting messages, and `jobs`
    numbers of events of jobs, both by name. `cycles` are by scheduler; `types` and `users` count requests.
    """

    threads: int | None = None
    queued: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    backfilled_jobs: int | None = None  # since the controller started
    cycles: Mapping[str, Cycles] = field(default_factory=dict)
    types: tuple[Requests, ...] = ()
    users: tuple[UserRequests, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """The number of licences with one name: in total, in use, free, and reserved (None: unknown)."""

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
    """The share of an account, or, if `user` is not empty, of a user in the account.

    `shares_ratio` and `usage_ratio` are fractions of the total. `usage_secs` is the decayed usage in seconds,
    weighted as the site weights resources. `factor`, from 0 to 1, is what the share contributes to the
    priority of jobs.
    """

    account: str
    user: str = ""
    shares_ratio: float | None = None
    usage_ratio: float | None = None
    usage_secs: int | None = None  # decayed, weighted as the site weights resources
    factor: float | None = None  # 0 to 1: its contribution to the priority of its jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShares(AdministrationAnswer):
    """The shares of all accounts and users, as one answer of the batch system."""

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
    """All reservations that have not ended, as one answer of the batch system."""

    reservations: tuple[Reservation, ...] = ()


Record = TypeVar("Record")
Named = TypeVar("Named", bound=Licence | Reservation)
Counted = TypeVar("Counted", bound=Requests)


def each_once(
    parse: Callable[[Record], Named], records: Iterable[Record], source: str
) -> tuple[tuple[Named, ...], tuple[Rejected, ...]]:
    """Parse each of `records` with `parse`; return the parsed records, and the rejected ones.

    A malformed record is rejected alone; so is a record with the name of an earlier one, because the name
    becomes a label of time series. `source` names the batch system.
    """
    kept: dict[str, Named] = {}
    rejected: list[Rejected] = []
    for each in parse_each(parse, records, rejected, source):
        if kept.setdefault(each.name, each) is not each:
            rejected.append(Rejected(source, f"{type(each).__name__.lower()} occurs twice", text=each.name))
    return tuple(kept.values()), tuple(rejected)


def added_up(found: Iterable[Counted]) -> tuple[Counted, ...]:
    """Add up entries with the same name; return one entry per name.

    Slurm reports all users whose uid is unknown under the name "nobody".
    """
    sums: dict[str, Counted] = {}
    for each in found:
        old = sums.setdefault(each.name, each)
        if old is not each:
            count, total_secs = old.count + each.count, old.total_secs + each.total_secs
            sums[each.name] = replace(old, count=count, total_secs=total_secs)
    return tuple(sums.values())
