"""Parses the output of ``sdiag``, ``sshare``, ``scontrol show licenses`` and ``show reservation``. Pure.

The formats are those of 22.05, whose commands have no JSON for this. Times of sdiag are microseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.node import RESERVATION_SOURCE, find_reservation
from jobfeatures.errors import ParseError, Rejected, matched, parse_each
from jobfeatures.records.administration import (
    Cycles,
    FairShare,
    FairShares,
    Licence,
    Licences,
    Requests,
    Reservation,
    Reservations,
    Scheduler,
    UserRequests,
    added_up,
    each_once,
)
from jobfeatures.records.quantities import parse_count

T = TypeVar("T")
SHOW_LICENCES = "show licenses"
SHARE_FIELDS = ("Account", "User", "NormShares", "RawUsage", "EffectvUsage", "FairShare")

_MICRO = 1e-6
_VALUE = re.compile(r"\t?([A-Z][^:\t]*):\s+([0-9]{1,18})\s*\Z")
_REQUESTS = re.compile(
    r"\t(\S.{0,63}?)\s*\(\s*[0-9]{1,10}\)\s+count:([0-9]{1,18})\s+ave_time:[0-9]+\s+total_time:([0-9]{1,18})\b"
)
_SECTIONS = {
    "Main schedule statistics": "main",
    "Backfilling stats": "backfill",
    "Remote Procedure Call statistics by message type": "types",
    "Remote Procedure Call statistics by user": "users",
}
_QUEUED = {"Agent queue size": "agent", "DBD Agent queue size": "accounting"}
_JOBS = tuple(f"Jobs {event}" for event in ("submitted", "started", "completed", "canceled", "failed"))
_CYCLES = {
    "main": (
        *("Total cycles", "Last cycle", "Mean cycle", "Max cycle", "Mean depth cycle", "Last queue length"),
    ),
    "backfill": ("Total cycles", "Last cycle", "Mean cycle", "Max cycle", "Depth Mean", "Last queue length"),
}
_LICENCE = re.compile(
    r"LicenseName=(\S{1,255}) Total=([0-9]{1,9}) Used=([0-9]{1,9})"
    r"(?: Free=([0-9]{1,9}))?(?: Reserved=([0-9]{1,9}))?(?: |\Z)"
)


def parse_sdiag(text: str, *, taken_at_secs: float) -> Scheduler:
    """Return the controller's load from the output of sdiag. Raises ParseError for any other text.

    `taken_at_secs` is the epoch time of the query.
    """
    values: dict[tuple[str, str], int] = {}
    requests: dict[str, list[Requests]] = {"types": [], "users": []}
    rejected: list[Rejected] = []
    section = ""
    for line in text.splitlines():
        if line and not line.startswith(("\t", "*")):
            # A warning may follow a section's title; values without indent belong to no section.
            section = next((each for title, each in _SECTIONS.items() if line.startswith(title)), "")
        if found := _VALUE.match(line):
            values[section, found[1]] = int(found[2])
        elif section in requests and (found := _REQUESTS.match(line)):
            requests[section].append(Requests(found[1], int(found[2]), int(found[3]) * _MICRO))
        elif section in requests and "count:" in line:
            rejected.append(Rejected("sdiag", "not a count of requests", text=line.strip()))
    if ("", "Server thread count") not in values:
        raise ParseError("not sdiag's output", text=text[:80])
    return Scheduler(
        source=NAME,
        taken_at_secs=taken_at_secs,
        threads=values["", "Server thread count"],
        queued={word: values["", key] for key, word in _QUEUED.items() if ("", key) in values},
        jobs={key.removeprefix("Jobs "): values["", key] for key in _JOBS if ("", key) in values},
        backfilled_jobs=values.get(("backfill", "Total backfilled jobs (since last slurm start)")),
        cycles={
            section: make_cycles(values.get((section, name)) for name in names)
            for section, names in _CYCLES.items()
        },
        types=added_up(requests["types"]),
        users=added_up(UserRequests(each.name, each.count, each.total_secs) for each in requests["users"]),
        rejected=tuple(rejected),
    )


def make_cycles(values: Iterable[int | None]) -> Cycles:
    """Return a scheduler's cycles from six values that sdiag prints.

    In this order they are: the number of cycles; the last, the mean and the longest time of a cycle in µs;
    the mean number of jobs examined; the last length of the queue. The mean time is None before the first
    cycle.
    """
    count, last, mean, most, depth, queue = values
    last_secs, mean_secs, max_secs = (None if each is None else each * _MICRO for each in (last, mean, most))
    return Cycles(count, last_secs, mean_secs if count else None, max_secs, depth, queue)


def parse_licences(lines: Iterable[str], *, taken_at_secs: float) -> Licences:
    """Parse the output of ``scontrol -o show licenses``.

    Sample: ``LicenseName=matlab@flexhost Total=20 Used=3 Free=17 Reserved=0 Remote=yes``
    """
    records = [line for line in lines if line.startswith("LicenseName=")]  # else there are none
    return make_licences(_licence, records, source=f"scontrol {SHOW_LICENCES}", taken_at_secs=taken_at_secs)


def make_licences(
    parse: Callable[[T], Licence], records: Iterable[T], *, source: str, taken_at_secs: float
) -> Licences:
    """Return the licences that `parse` makes of the records; malformed and repeated ones are rejected.

    `source` names the command in errors.
    """
    found, rejected = each_once(parse, records, source)
    return Licences(source=NAME, taken_at_secs=taken_at_secs, licences=found, rejected=rejected)


def _licence(line: str) -> Licence:
    found = matched(_LICENCE, line, "not a licence")
    free, reserved = (None if each is None else int(each) for each in found.group(4, 5))
    return Licence(name=found[1], total=int(found[2]), used=int(found[3]), free=free, reserved=reserved)


def parse_shares(text: str, *, taken_at_secs: float) -> FairShares:
    """Return the fair shares of accounts and users in the output of ``sshare -a -P -n -o …``.

    The columns are `SHARE_FIELDS`; sshare indents the names of accounts below others.
    """
    rejected: list[Rejected] = []
    found: dict[tuple[str, str], FairShare] = {}
    for share in parse_each(_share, filter(None, text.splitlines()), rejected, "sshare"):
        # With associations by partition an account has a user several times; the first has no partition.
        found.setdefault((share.account, share.user), share)
    return FairShares(
        source=NAME, taken_at_secs=taken_at_secs, shares=tuple(found.values()), rejected=tuple(rejected)
    )


def _share(line: str) -> FairShare:
    fields = line.split("|")
    if len(fields) != len(SHARE_FIELDS):
        raise ParseError("line of sshare lacks requested fields", text=line)
    account, user, shares, raw, usage, factor = map(str.strip, fields)
    return FairShare(
        account=account,
        user=user,
        shares_ratio=_number(shares, "NormShares"),
        usage_secs=parse_count(raw, field="RawUsage") if raw else None,
        usage_ratio=_number(usage, "EffectvUsage"),
        factor=_number(factor, "FairShare"),
    )


def _number(text: str, field: str) -> float | None:
    """Return a non-negative number; None for "parent", and for an empty text, as accounts' FairShare is."""
    if text in {"", "parent"}:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ParseError("not a number", field=field, text=text)
    return value


def parse_all_reservations(lines: Iterable[str], *, taken_at_secs: float) -> Reservations:
    """Parse ``scontrol -o show reservation``; records with text like `` Flags=`` in the name are rejected."""
    records = [line for line in lines if line.startswith("ReservationName=")]
    return make_reservations(_reservation, records, source=RESERVATION_SOURCE, taken_at_secs=taken_at_secs)


def make_reservations(
    parse: Callable[[T], Reservation], records: Iterable[T], *, source: str, taken_at_secs: float
) -> Reservations:
    """Return the reservations that `parse` makes of the records and that end after `taken_at_secs` (epoch).

    Malformed and repeated ones are rejected. `source` names the command in errors.
    """
    found, rejected = each_once(parse, records, source)
    kept = tuple(each for each in found if each.end_secs > taken_at_secs)
    return Reservations(source=NAME, taken_at_secs=taken_at_secs, reservations=kept, rejected=rejected)


def _reservation(line: str) -> Reservation:
    found = find_reservation(line)
    cores = found["cores"]
    return Reservation(
        name=found["name"],
        start_secs=parse_count(found["start"], field="StartTime"),
        end_secs=parse_count(found["end"], field="EndTime"),
        nodes=parse_count(found["count"], field="NodeCnt"),
        cores=None if cores is None else int(cores),
        is_maintenance="MAINT" in found["flags"].split(","),
    )
