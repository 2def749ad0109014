"""One log in several files, evaluated on a Dask cluster: numpy.

Each file is read by itself. Its jobs are dealt out by user, so that all jobs
of a user come into one hand; a hand is a log, and is evaluated as one. Only
sums, and figures by user, come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import getitem
from typing import Any, Final
from zlib import crc32

import numpy as np

from jobfeatures.errors import ConfigurationError, shown
from jobfeatures.jobfold import EARLIER_RUN, SAME_RUN, is_next_run
from jobfeatures.schedule.choosing import ScheduleError, choose, sift, why_none
from jobfeatures.schedule.document import MEASURES, Values, make_document
from jobfeatures.schedule.jobs import Labels, ScheduleLog
from jobfeatures.schedule.reading import compute_shifts
from jobfeatures.schedule.reasons import REASONS, UNKNOWN
from jobfeatures.schedule.result import Options, asked
from jobfeatures.schedule.runs import Array
from jobfeatures.schedule.shares import STEPS, make_shares, plain
from jobfeatures.schedule.whole import summarise

HANDS: Final = 16
CONNECT_SECS: Final = 10
SUMMED: Final = ("waited_for_another", "sum_eet", "violated", "total_tardiness", "total_weighted_tardiness")
BY_USER: Final = ("veet", "weighted_tardiness")
TIMES: Final = ("submit", "eligible", "start", "end", "could_start")
ARRAYS: Final = ("submit", "start", "end", "runtime", "is_cancelled", "cpus")
LABELS: Final = ("user", "group", "queue", "partition")
OPTIONAL: Final = ("eligible", "could_start", "memory_kib", "gpus", "ids")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Give a client of the Dask cluster with this scheduler (extra ``dask``). Raises ConfigurationError."""
    try:
        from distributed import Client
    except ImportError:
        raise ConfigurationError(
            "--dask", "needs Dask: pip install 'jobfeatures-exporter[analysis,dask]'"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConfigurationError("--dask", f"no scheduler answers at {shown(address)}: {error}") from None
    with client:
        yield client


def evaluate_partitions(
    files: Sequence[str],
    options: Options,
    read: Callable[[str], ScheduleLog],
    *,
    runner: Any,
    hands: int = HANDS,
) -> Values:
    """Return the figures of the whole log: those of `make_document`'s fields that are sums or by user.

    `files` are the log's in its order; `read` returns the jobs of one. `runner` is Dask's client, or has its
    `submit` and `gather`.
    Raises ScheduleError, and what `read` raises.
    """
    name = f"{files[0]} and {len(files) - 1} more" if len(files) > 1 else files[0]
    parts = [runner.submit(read, each) for each in files]
    shifts = compute_shifts(files, runner.gather([runner.submit(zero_of, part) for part in parts]))
    dealt = [runner.submit(deal, part, shift, hands) for part, shift in zip(parts, shifts, strict=True)]
    parts = []
    held = [
        runner.submit(join, [runner.submit(getitem, each, hand) for each in dealt]) for hand in range(hands)
    ]
    dealt = []
    surveys = runner.gather([runner.submit(survey, hand, options) for hand in held])
    options, shares = _settle(name, surveys, options)
    found = runner.gather([runner.submit(sum_up, hand, options) for hand in held])
    return _combine(name, [each for each in found if each is not None], surveys, options, shares)


def zero_of(log: ScheduleLog) -> int | None:
    """Return the epoch seconds of a log's time zero."""
    return log.zero_secs


def deal(log: ScheduleLog, shift_secs: int, hands: int) -> list[ScheduleLog]:
    """Return the log in so many, all jobs of a user in the same one; times are moved on by `shift_secs`.

    Jobs of nobody, and what is reported about the whole log, are in the first.
    """
    names = (name.encode("utf-8", "surrogatepass") for name in log.user.names)
    hand_of = np.array([*(crc32(name) % hands for name in names), 0])  # the same on all machines
    place = hand_of[log.user.codes]  # a code of -1 is the last
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(hands + 1))
    found = []
    for hand in range(hands):
        taken = _take(log, order[bounds[hand] : bounds[hand + 1]], shift_secs)
        found.append(taken if hand == 0 else replace(taken, unreadable=0, folded={}, warnings=()))
    return found


def _take(log: ScheduleLog, which: Array, shift_secs: int) -> ScheduleLog:
    found: Values = {}
    for name in (*ARRAYS, *OPTIONAL):
        values = getattr(log, name)
        if values is not None:
            values = values[which]
            found[name] = np.where(values >= 0, values + shift_secs, values) if name in TIMES else values
    for name in LABELS:
        labels = getattr(log, name)
        codes = labels.codes[which]
        known, places = np.unique(codes[codes >= 0], return_inverse=True)
        codes[codes >= 0] = places.reshape(-1)
        found[name] = Labels(codes, [labels.names[code] for code in known.tolist()])
    return replace(log, links=None, arrays=None, workflows=None, **found)


def join(logs: Sequence[ScheduleLog]) -> ScheduleLog:
    """Return the jobs of several logs as one, in that order; one that stands in several is there once."""
    totals: dict[str, int] = {}
    for log in logs:
        for resource, amount in log.totals.items():
            totals[resource] = max(amount, totals.get(resource, 0))
    found: Values = {name: np.concatenate([getattr(log, name) for log in logs]) for name in ARRAYS}
    found |= {name: _join_optional([getattr(log, name) for log in logs], logs) for name in OPTIONAL}
    found |= {name: _join_labels([getattr(log, name) for log in logs]) for name in LABELS}
    folded = Counter[str]()
    for log in logs:
        folded.update(log.folded)
    joined = replace(
        logs[0],
        **found,
        totals=totals,
        folded=folded,
        unreadable=sum(log.unreadable for log in logs),
        warnings=tuple(dict.fromkeys(warning for log in logs for warning in log.warnings)),
    )
    return _fold(joined, folded)


def _fold(log: ScheduleLog, folded: Counter[str]) -> ScheduleLog:
    """Return a log with one entry a job: of those that have the same id, as `jobfold` folds records."""
    if log.ids is None:
        return log
    order = np.argsort(log.ids, kind="stable")
    ids = log.ids[order]
    ends = np.flatnonzero(np.concatenate((ids[1:] != ids[:-1], [True])))
    keeps = np.ones(len(ids), dtype=bool)
    first = 0
    for end in ends.tolist():
        places, first = order[first : end + 1].tolist(), end + 1
        if len(places) == 1:
            continue
        runs = sorted((_times_of(log, place), place) for place in places)
        latest: list[int] = []  # of each job that has this id
        for times, place in runs:
            same = next((each for each in latest if _may_be_one(_times_of(log, each), times)), None)
            if same is None:
                latest.append(place)
                continue
            is_again = _times_of(log, same)[:2] == times[:2]
            folded[SAME_RUN if is_again else EARLIER_RUN] += 1
            keeps[same] = False
            latest[latest.index(same)] = place
    return log if keeps.all() else replace(_take(log, np.flatnonzero(keeps), 0), folded=folded)


def _times_of(log: ScheduleLog, place: int) -> tuple[float, float, float]:
    """Return submission, start and end; −1 where they are not known: such a run comes first."""
    return log.submit[place].item(), log.start[place].item(), log.end[place].item()


def _may_be_one(earlier: tuple[float, float, float], later: tuple[float, float, float]) -> bool:
    """Return whether two entries may be of one job: the same run, or the next after a requeue."""
    if earlier[:2] == later[:2]:
        return earlier[2] == later[2] or (earlier[1] >= 0 and min(earlier[2], later[2]) < 0)
    known = [None if time < 0 else time for time in (*earlier, *later[:2])]
    return is_next_run((known[0], known[1], known[2]), (known[3], known[4]))


def _join_optional(arrays: Sequence[Array | None], logs: Sequence[ScheduleLog]) -> Array | None:
    if all(each is None for each in arrays):
        return None
    return np.concatenate(
        [np.full(len(log), UNKNOWN) if each is None else each for each, log in zip(arrays, logs, strict=True)]
    )


def _join_labels(labels: Sequence[Labels]) -> Labels:
    code_of: dict[str, int] = {}
    codes = []
    for each in labels:
        new = np.array([code_of.setdefault(name, len(code_of)) for name in each.names] + [UNKNOWN], np.int32)
        codes.append(new[each.codes])
    return Labels(np.concatenate(codes), list(code_of))


def survey(log: ScheduleLog, options: Options) -> Values:
    """Return what has to be known of all hands before one of them is evaluated."""
    is_chosen, skipped, _ = sift(log, by=options.arrival, no_waits=options.no_waits)
    users = len(np.unique(log.user.codes[is_chosen]))
    return {
        "users": users,
        "skipped": skipped,
        "folded": log.folded,
        "totals": log.totals,
        "warnings": log.warnings,
    }


def _settle(name: str, surveys: Sequence[Values], options: Options) -> tuple[Options, Values]:
    """Return the options with the default share of the whole log, and what is reported about the shares."""
    users = sum(each["users"] for each in surveys)
    if not users:
        raise ScheduleError(f"{name}: {why_none(_skipped(surveys))}")
    default = dict(options.rules.default)
    reported: Values = {}
    for resource in options.resources:
        known = [each["totals"][resource] for each in surveys if resource in each["totals"]]
        if not known and resource not in options.rules.totals and resource not in default:
            raise ScheduleError(f"{name}: does not say how much {resource} there is: give a total or a share")
        shares = make_shares(
            resource,
            options.rules,
            total=max(known, default=0) * STEPS[resource],
            total_from="log" if known else "unknown",
            all_users=users,
            groups_of={},
        )
        default[resource] = shares.default
        reported[resource] = {
            "default": plain(resource, shares.default),
            "default_from": shares.default_from,
            "total": plain(resource, shares.total),
            "total_from": shares.total_from,
        }
    return replace(options, rules=replace(options.rules, default=default), workers=1, intervals=1), reported


def sum_up(log: ScheduleLog, options: Options) -> Values | None:
    """Return the sums of one hand, None where no job of it counts or passes the filter."""
    for resource in options.resources:
        asked(log, resource)
    try:
        choose(log, by=options.arrival, filters=options.filters, no_waits=options.no_waits)
    except ScheduleError:
        return None
    document = make_document(summarise(log.name, [log], options))
    sums = {name: (document[name]["mean"] or 0) * document[name]["count"] for name in MEASURES}
    counts = {name: document[name]["count"] for name in MEASURES}
    kept = ("jobs", "users", "shares", *SUMMED, *BY_USER)
    return {**{name: document[name] for name in kept}, "sums": sums, "counts": counts}


def _skipped(surveys: Sequence[Values]) -> dict[str, int]:
    return {reason: sum(each["skipped"][reason] for each in surveys) for reason in REASONS}


def _combine(
    name: str, found: Sequence[Values], surveys: Sequence[Values], options: Options, shares: Values
) -> Values:
    if not found:
        raise ScheduleError(f"{name}: no job passes the filter")
    jobs = sum(each["jobs"] for each in found)
    sums = {key: sum(each["sums"][key] for each in found) for key in MEASURES}
    counts = {key: sum(each["counts"][key] for each in found) for key in MEASURES}
    for resource, reported in shares.items():
        mine = [each["shares"][resource] for each in found]
        reported["users"] = {user: amount for each in mine for user, amount in each["users"].items()}
        reported["unknown_requests"] = sum(each["unknown_requests"] for each in mine)
    document: Values = {
        "log": name,
        "jobs": jobs,
        "skipped": _skipped(surveys),
        "folded": dict(sum((Counter(each["folded"]) for each in surveys), Counter[str]())),
        "recomputed": options.recompute,
        "users": sum(each["users"] for each in found),
        "mode": options.mode.value,
        "arrival": options.arrival.value,
        "min_runtime_secs": options.min_runtime_secs,
        "tau_secs": options.tau_secs,
        "resources": list(options.resources),
        "share": shares[options.resources[0]]["default"],
        "shares": shares,
        **{key: sum(each[key] for each in found) for key in SUMMED},
        **{key: {user: value for each in found for user, value in each[key].items()} for key in BY_USER},
    }
    document["violated_percent"] = 100 * document["violated"] / jobs
    for key in MEASURES:
        document[f"mean_{key}"] = sums[key] / counts[key] if counts[key] else None
    document["warnings"] = list(dict.fromkeys(warning for each in surveys for warning in each["warnings"]))
    return document
