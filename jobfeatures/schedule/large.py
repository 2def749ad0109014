"""A log that does not fit into memory, evaluated some users' jobs at a time; the rest lies on disk: numpy.

The pieces of the log are written down sorted by user. Expected ends depend on nothing but the user's own
jobs and share, so that a hand of users is evaluated as a log of its own; a user with more jobs than a hand
has is evaluated from hand to hand, the share as far as it is taken passed on. What all users share are sums
over hands: use and queue over time, and the merged values of all hands' jobs.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from jobfeatures.schedule.choosing import Arrival, Chosen, ScheduleError, passing, sift, why_none
from jobfeatures.schedule.document import Values, make_document
from jobfeatures.schedule.eet import Lanes
from jobfeatures.schedule.expected import Tick
from jobfeatures.schedule.jobs import Array, Labels, ScheduleLog
from jobfeatures.schedule.metrics import Measures, Steps, make_edges
from jobfeatures.schedule.partitions import evaluate_partitions
from jobfeatures.schedule.reading import LinkedError, Pieces
from jobfeatures.schedule.reasons import REASONS, UNKNOWN
from jobfeatures.schedule.result import (
    Bags,
    Group,
    Options,
    Schedule,
    Sums,
    asked,
    evaluate,
    held_weights,
    requests_of,
)
from jobfeatures.schedule.runs import Run, Store, describe_runs, merge, peak_of
from jobfeatures.schedule.shares import FIELDS, RESOURCES, STEPS, Shares, make_shares
from jobfeatures.spill import naming_full_folder

HAND_JOBS: Final = 2**20
TIMES: Final = ("submit", "eligible", "start", "end")
COLUMNS: Final = (*TIMES, "runtime", "is_cancelled", "cpus", "memory_kib", "gpus", "arrays", "workflows")


def evaluate_large(
    name: str,
    pieces: Iterable[ScheduleLog],
    options: Options,
    by: Sequence[str] = (),
    tick: Tick | None = None,
    *,
    most: int = HAND_JOBS,
) -> Values:
    """Return what `make_document` tells about a log in pieces. Raises ScheduleError, SpillError.

    Times of a piece are those of the log; where it has no time zero of its own, they are epoch seconds.
    """
    with naming_full_folder():
        made = tempfile.TemporaryDirectory(prefix="jobfeatures-")
    with made as folder:
        spooled = _Spooled(name, Store(folder), options)
        for piece in pieces:
            spooled.add(piece)
        return make_document(_Summed(spooled, by, tick, most), by)


def evaluate_pieces(
    log: Pieces, options: Options, by: Sequence[str] = (), tick: Tick | None = None
) -> Values:
    """Return the same of a log in files; where jobs wait for others, perhaps of other pieces, in memory."""
    try:
        return evaluate_large(log.name, log.logs(), options, by, tick)
    except LinkedError:
        if len(log.files) > 1:
            return evaluate_partitions([name for name, _ in log.files], options, log.read)
        return make_document(evaluate(log.read(log.name), options, tick), by)


class _Names:
    """The users, say, of all pieces. They are sorted by number, where they have some, else as they came."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self._keys: dict[str, int] = {}

    def keys_of(self, labels: Labels) -> Array:
        numbers = labels.numbers
        if numbers is None:
            numbers = [self._keys.setdefault(name, len(self._keys)) for name in labels.names]
        self.names.update(zip(numbers, labels.names, strict=True))
        return np.array([*numbers, UNKNOWN], np.int64)[labels.codes]

    def labels_of(self, keys: Array) -> Labels:
        found, codes = np.unique(np.append(keys, UNKNOWN), return_inverse=True)
        numbers = found[1:].tolist()
        return Labels(codes.reshape(-1)[:-1] - 1, [self.names[number] for number in numbers], numbers)


class _Spooled:
    """The jobs that count, on disk, and what has to be known of all before one of them is evaluated."""

    def __init__(self, name: str, store: Store, options: Options) -> None:
        self.name, self.store, self.options = name, store, options
        self.names = {field: _Names() for field in FIELDS}
        self.skipped, self.folded, self.totals = Counter[str](), Counter[str](), dict[str, int]()
        self.counted = self.shown = 0
        self.users: dict[int, int] = Counter()  # how many jobs of each count
        self.first, self.last = np.inf, -np.inf
        self.is_in_order, self.has_eligible = True, False
        self.events: dict[str, list[Run]] = defaultdict(list)
        self.warnings: list[str] = []
        self.zero: float = np.inf  # of records: the first submission
        self._latest = -np.inf
        self.types: dict[str, np.dtype[Any]] = {}
        self._parts: list[tuple[Run, Array, Array]] = []  # rows, users, and where each begins

    def add(self, log: ScheduleLog) -> None:
        """Write the jobs of a piece."""
        options = self.options
        self.has_eligible |= log.eligible is not None
        sifted = log
        if log.eligible is None and options.arrival is Arrival.ELIGIBLE:
            sifted = replace(log, eligible=np.full(len(log), UNKNOWN))
        is_counted, skipped, (arrival, start, end) = sift(
            sifted, by=options.arrival, no_waits=options.no_waits
        )
        self.skipped.update(skipped)
        self.folded.update(log.folded)
        for resource, amount in log.totals.items():
            self.totals[resource] = max(amount, self.totals.get(resource, 0))
        self.warnings += log.warnings
        keys = {field: self.names[field].keys_of(getattr(log, field)) for field in FIELDS}
        is_shown = is_counted & passing(log, options.filters)
        self.counted += int(is_counted.sum())
        self.shown += int(is_shown.sum())
        if log.ids is not None and (log.submit >= 0).any():
            self.zero = min(self.zero, math.floor(log.submit[log.submit >= 0].min()))
        for name in COLUMNS:
            if (each := getattr(log, name)) is not None:
                self.types[name] = np.result_type(self.types.get(name, each.dtype), each.dtype)
        if not is_counted.any():
            return
        self._write(log, keys, is_counted, arrival)
        for which, what in (
            ((is_counted, "all"), (is_shown, "shown")) if options.filters else ((is_counted, "all"),)
        ):
            chosen = _chosen(np.flatnonzero(which), arrival, start, end, log)
            for resource in RESOURCES:
                requests = requests_of(log, resource)
                if requests is not None:
                    held = held_weights(requests[chosen.position], chosen)
                    self.types["held"] = np.result_type(self.types.get("held", held.dtype), held)
                    self._note(what + resource, chosen.start, chosen.end, held)
        if is_shown.any():
            self._note("queue", chosen.arrival, chosen.start, None)
            arrivals = chosen.arrival
            self.is_in_order &= bool((arrivals[1:] >= arrivals[:-1]).all() and arrivals[0] >= self._latest)
            self._latest = arrivals[-1]
            self.first = min(self.first, arrivals.min().item())
            self.last = max(self.last, chosen.end.max().item())

    def _note(self, what: str, begins: Array, ends: Array, weights: Array | None) -> None:
        self.events[what].append(self.store.write_events(begins, ends, weights))

    def _write(self, log: ScheduleLog, keys: dict[str, Array], is_counted: Array, arrival: Array) -> None:
        which = np.flatnonzero(is_counted)
        which = which[np.lexsort((arrival[which], keys["user"][which]))]
        nothing = np.full(len(log), UNKNOWN, np.int8)
        columns = {name: nothing if (each := getattr(log, name)) is None else each for name in COLUMNS}
        columns |= keys | {"arrival": arrival}
        rows = np.empty(len(which), np.dtype([(name, each.dtype) for name, each in columns.items()]))
        for name, each in columns.items():
            rows[name] = each[which]
        users, firsts = np.unique(rows["user"], return_index=True)
        firsts = np.append(firsts, len(rows))
        for user, count in zip(users.tolist(), np.diff(firsts).tolist(), strict=True):
            self.users[user] += count
        self._parts.append((self.store.write(rows), users, firsts))

    def peak(self, what: str) -> int | float:
        """Return the most at any moment."""
        found = peak_of(self.events[what])
        return int(found) if what == "queue" or self.types["held"].kind == "i" else found

    def hands(self, most: int) -> Iterator[tuple[ScheduleLog, bool]]:
        """Yield the jobs of some users as a log, and whether more of the one user follow."""
        can_cut = not (self.options.join or self.options.filters or self.options.rules.groups)
        users: list[int] = []
        jobs = 0
        for user, count in sorted(self.users.items()):
            if users and jobs + count > most:
                yield self._hand_of(users), False
                users, jobs = [], 0
            if count > most and can_cut:
                yield from self._cut(user, most)
                continue
            users.append(user)
            jobs += count
        if users:
            yield self._hand_of(users), False

    def _hand_of(self, users: Sequence[int]) -> ScheduleLog:
        return self.hand([run.read(0, run.size) for run in self._runs_of(users[0], users[-1])])

    def _runs_of(self, first: int, last: int) -> list[Run]:
        """Return the jobs of these users in each part; a user's are in order of arrival."""
        found = []
        for run, users, firsts in self._parts:
            low, high = firsts[np.searchsorted(users, (first, last + 1))].tolist()
            found.append(run.part(low, high))
        return [run for run in found if run.size]

    def _cut(self, user: int, most: int) -> Iterator[tuple[ScheduleLog, bool]]:
        """Yield the jobs of one user some at a time, in order of arrival."""
        some: list[Array] = []
        for block in merge(self._runs_of(user, user), most // 2, "arrival"):
            if some and sum(map(len, some)) + len(block) > most:
                yield self.hand(some), True
                some = []
            some.append(block)
        yield self.hand(some), False

    def hand(self, parts: Sequence[Array]) -> ScheduleLog:
        """Return jobs as a log; of none, what is known of the whole log."""
        rows = np.concatenate(parts or [_NONE])
        found: dict[str, Any] = {field: self.names[field].labels_of(rows[field]) for field in FIELDS}
        for name in COLUMNS:
            column = rows[name].astype(self.types[name]) if name in self.types else None
            if column is not None and name in TIMES and math.isfinite(self.zero):
                column = np.where(column >= 0, column - self.zero, column)
            found[name] = column
        if not parts:
            found["user"] = Labels(np.zeros(0, np.int32), list(self.names["user"].names.values()))
            found |= {"folded": dict(self.folded), "warnings": tuple(self.warnings)}
        return ScheduleLog(name=self.name, totals=self.totals, **found)


_NONE: Final = np.zeros(0, [(name, np.int64) for name in (*COLUMNS, *FIELDS)])


def _chosen(which: Array, arrival: Array, start: Array, end: Array, log: ScheduleLog) -> Chosen:
    """Return jobs as they stand in a piece, for what does not ask for users."""
    return Chosen(
        users=[], bounds=np.zeros(1, np.int64), position=which, arrival=arrival[which], start=start[which],
        end=end[which], runtime=log.runtime[which], cpus=log.cpus[which], skipped={}, filtered=0, all_users=0,
        is_in_order=True,
    )  # fmt: skip


class _Summed(Schedule):
    """A schedule of which only sums are in memory."""

    def __init__(self, spooled: _Spooled, by: Sequence[str], tick: Tick | None, most: int) -> None:
        name, options = spooled.name, spooled.options
        if options.arrival is Arrival.ELIGIBLE and not spooled.has_eligible:
            raise ScheduleError(f"{name}: does not say when jobs were eligible")
        if not spooled.counted:
            raise ScheduleError(f"{name}: {why_none(spooled.skipped)}")
        if not spooled.shown:
            raise ScheduleError(f"{name}: none of {spooled.counted} jobs passes the filter")
        self._spooled, self._by = spooled, by
        self.options = options
        self.log = spooled.hand([])
        self.shares = shares = tuple(map(self._settle, options.resources))
        default = {each.resource: each.default for each in shares}
        settled = replace(options, rules=replace(options.rules, default=default))
        totals = {each.resource: each.total // STEPS[each.resource] for each in shares}
        shift = spooled.zero if math.isfinite(spooled.zero) else 0
        self.edges = make_edges(spooled.first - shift, spooled.last - shift, options.intervals)
        self._users: list[str] = []
        self._jobs: list[int] = []
        self.violated, self.weighted_by_user = [], []
        self._sums: list[Sums] = []
        self._steps: dict[str, Array] = {}
        self._runs: dict[str, list[Run]] = defaultdict(list)
        self._groups: dict[str, dict[str, list[tuple[Group, list[Run]]]]] = {
            field: defaultdict(list) for field in by
        }
        lanes: dict[str, Lanes] = {}
        was_cut = False
        for log, is_cut in spooled.hands(most):
            if not was_cut:
                lanes = {}
            if passing(log, options.filters).any():
                log_of_hand = replace(log, totals=spooled.totals | totals)
                hand = evaluate(log_of_hand, settled, tick, lanes if is_cut or was_cut else None)
                hand.edges = self.edges
                self._add(hand, goes_on=was_cut)
            was_cut = is_cut
        self._finish()

    def _settle(self, resource: str) -> Shares:
        """Return the shares of all users."""
        spooled, rules = self._spooled, self.options.rules
        asked(self.log, resource)
        total, source = 0, "given"
        if resource in spooled.totals:
            total, source = spooled.totals[resource], "log"
        elif resource not in rules.totals:
            total, source = round(spooled.peak("all" + resource)), "most in use"
        return make_shares(
            resource,
            rules,
            total=total * STEPS[resource],
            total_from=source,
            all_users=len(spooled.users),
            groups_of={},
        )

    def _add(self, hand: Schedule, *, goes_on: bool) -> None:
        """Take the sums of a hand; `goes_on`: its user is the last one of the hand before."""
        store = self._spooled.store
        jobs = np.diff(hand.chosen.bounds).tolist()
        if goes_on:
            self._jobs[-1] += jobs[0]
            self.violated[-1] += hand.violated[0]
            self.weighted_by_user[-1] += hand.weighted_by_user[0]
        else:
            self._jobs += jobs
            self.violated += hand.violated
            self.weighted_by_user += hand.weighted_by_user
        self._users += hand.chosen.users[goes_on:]
        self._sums.append(hand.sums)
        for mine, theirs in zip(self.shares, hand.shares, strict=True):
            mine.users.update(theirs.users)
        queue, use = hand.queue[1], {name: each.over_time for name, each in hand.use.items()}
        for what, steps in (use | {"queue": queue}).items():
            self._steps[what] = self._steps.get(what, 0) + steps.means
        measures = hand.measures._asdict()
        nobody = np.zeros(len(hand.chosen), np.int64)
        for measure, values in measures.items():
            self._runs[measure] += store.write_groups(values, nobody, 1)
        for field in self._by:
            codes, names, _ = hand.codes_of(field)
            runs = [store.write_groups(values, codes, len(names)) for values in measures.values()]
            places = {name: place for place, name in enumerate(names)}
            for name, group in hand.groups(field).items():
                self._groups[field][name].append((group, [each[places[name]] for each in runs]))

    def _finish(self) -> None:
        """Put together what all hands have found."""
        spooled, bags = self._spooled, [each.bags for each in self._sums if each.bags is not None]
        self.veet = [100 * late / jobs for late, jobs in zip(self.violated, self._jobs, strict=True)]
        unknown = [each.unknown_requests for each in self._sums]
        self.sums = Sums(
            sum(each.jobs for each in self._sums),
            sum(each.expected for each in self._sums),
            sum(each.tardiness for each in self._sums),
            sum(each.weighted_tardiness for each in self._sums),
            0,  # a log whose jobs follow others is read as a whole
            {each.resource: sum(found[each.resource] for found in unknown) for each in self.shares},
            Bags(*map(sum, zip(*bags, strict=True))) if bags else None,
        )
        self.chosen = replace(
            _chosen(np.zeros(0, np.int64), *(np.zeros(0),) * 3, self.log),
            users=self._users,
            skipped={reason: spooled.skipped[reason] for reason in REASONS},
            filtered=spooled.counted - spooled.shown,
            is_in_order=spooled.is_in_order,
        )
        self.distributions = {measure: describe_runs(runs) for measure, runs in self._runs.items()}
        steps = {what: Steps(self.edges, means) for what, means in self._steps.items()}
        self.queue = spooled.peak("queue"), steps.pop("queue")
        shown = "shown" if self.options.filters else "all"
        self.use = {
            resource: self.make_use(resource, spooled.peak(shown + resource), each)
            for resource, each in steps.items()
        }

    def groups(self, field: str) -> dict[str, Group]:
        """Return the jobs by user, group, queue or partition; others than those are left out."""
        found, names = self._groups[field], self._spooled.names[field].names
        reported = dict.fromkeys(name for _, name in sorted(names.items()))
        return {name: _joined(found[name]) for name in reported if name in found}


def _joined(parts: list[tuple[Group, list[Run]]]) -> Group:
    """Return a group of which each hand has a part."""
    if len(parts) == 1:
        return parts[0][0]
    groups, runs = zip(*parts, strict=True)
    sums: list[Any] = [sum(each) for each in zip(*(group[:6] for group in groups), strict=True)]
    measures = {
        name: describe_runs([each[place] for each in runs]) for place, name in enumerate(Measures._fields)
    }
    return Group._make([*sums, measures])
