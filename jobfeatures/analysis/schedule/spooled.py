"""Stores the jobs of a log grouped by user, so that the jobs of a few users can be read at a time.

Only jobs that count in the figures are stored. Needs numpy.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from jobfeatures.analysis.schedule.choosing import passing, sift
from jobfeatures.analysis.schedule.eligibility import UNKNOWN
from jobfeatures.analysis.schedule.followers import Links
from jobfeatures.analysis.schedule.jobarrays import Labels, ScheduleLog, merge_warnings
from jobfeatures.analysis.schedule.result import QUEUE, Options, mean_held, requests_of
from jobfeatures.analysis.schedule.runs import Array, Run, Store, as_rows, merge, peak_of
from jobfeatures.analysis.schedule.shares import FIELDS, RESOURCES

COLUMNS: Final = (
    "submit", "eligible", "start", "end", "could_start", "runtime", "is_cancelled", "cpus", "memory_kib",
    "gpus", "arrays", "workflows", *Links._fields,
)  # fmt: skip


class SpooledNames:
    """Translates names (of users, groups, queues …) to numeric keys, the same for all pieces of a log."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self._keys: dict[str, int] = {}

    def keys_of(self, labels: Labels) -> Array:
        """Return each job's user (or group …) as a numeric key; −1 means unknown."""
        numbers = labels.numbers
        if numbers is None:
            numbers = [self._keys.setdefault(name, len(self._keys)) for name in labels.names]
        self.names.update(zip(numbers, labels.names, strict=True))
        return np.array([*numbers, UNKNOWN], np.int64)[labels.codes]

    def labels_of(self, keys: Array) -> Labels:
        """Convert keys from `keys_of`, one per job, back to labels with names."""
        found, codes = np.unique(np.append(keys, UNKNOWN), return_inverse=True)
        numbers = found[1:].tolist()
        return Labels(codes.reshape(-1)[:-1] - 1, [self.names[number] for number in numbers], numbers)


class Spooled:
    """The jobs of a log that count in the figures, in a store, and summary data on the log.

    Summary data are what every evaluation needs: counts, totals, users, peaks of use.
    """

    def __init__(self, name: str, store: Store, options: Options) -> None:
        self.name, self.store, self.options = name, store, options
        self.names = {field: SpooledNames() for field in FIELDS}
        self.skipped, self.folded, self.totals = Counter[str](), Counter[str](), dict[str, int]()
        self.jobs = self.counted = self.shown = 0
        self.users = Counter[int]()  # how many jobs that count each has
        self.shown_users: set[int] = set()
        self._groups: set[tuple[int, int]] = set()  # (user, group), where groups have shares
        self.first, self.last = np.inf, -np.inf
        self.is_in_order, self.has_eligible = True, False
        self.events: dict[str, list[Run]] = defaultdict(list)
        self.warnings: list[str] = []
        self._latest = -np.inf
        self._is_moved = False  # jobs are not in order of submission, the log's order
        self._peaks: dict[str, int | float] = {}
        self._weights: dict[str, np.dtype[Any]] = {}  # by quantity
        self.types: dict[str, np.dtype[Any]] = {}
        self._parts: list[tuple[Run, Array, Array]] = []  # rows, users, and where each begins

    def add(self, log: ScheduleLog) -> None:
        """Store the jobs of one piece of the log that count in the figures, and add to the summary data."""
        options = self.options
        self.has_eligible |= log.eligible is not None
        is_counted, skipped, (arrival, start, end) = sift(log, by=options.arrival)
        self.skipped.update(skipped)
        self.folded.update(log.folded)
        for resource, amount in log.totals.items():
            self.totals[resource] = max(amount, self.totals.get(resource, 0))
        self.warnings += log.warnings
        keys = {field: self.names[field].keys_of(getattr(log, field)) for field in FIELDS}
        is_shown = is_counted & passing(log, options.filters)
        self.counted += int(is_counted.sum())
        self.shown += int(is_shown.sum())
        if options.rules.groups:
            pairs = (keys[field][is_counted].tolist() for field in ("user", "group"))
            self._groups.update(zip(*pairs, strict=True))
        columns: dict[str, Array] = {}
        for name in COLUMNS:
            each = getattr(log.links if name in Links._fields else log, name, None)
            columns[name] = np.full(len(log), UNKNOWN, np.int8) if each is None else each
            if each is not None:
                self.types[name] = np.result_type(self.types.get(name, each.dtype), each.dtype)
        places = np.arange(self.jobs, self.jobs + len(log)) if log.places is None else log.places
        self._is_moved |= log.places is not None
        columns |= keys | {"arrival": arrival, "place": places}
        self.jobs += len(log)
        if not is_counted.any():
            return
        self._write(columns, is_counted)
        lasted = end - start
        for what, which in (("all", is_counted), ("shown", is_shown))[: 1 + bool(options.filters)]:
            for resource in RESOURCES:
                requests = requests_of(log, resource)
                if requests is None:  # if a later piece has some, these are 0
                    requests = np.zeros(len(log), np.int64)
                held = mean_held(requests[which], lasted[which], log.runtime[which])
                self._note(what + resource, start[which], end[which], held)
        if is_shown.any():
            self.shown_users.update(np.unique(keys["user"][is_shown]).tolist())
            self._note(QUEUE, arrival[is_shown], start[is_shown], np.ones(int(is_shown.sum()), np.int64))
            arrivals = arrival[is_shown]
            is_later = (arrivals[1:] >= arrivals[:-1]).all() and arrivals[0] >= self._latest
            self.is_in_order &= bool(is_later) or log.places is not None
            self._latest = arrivals[-1]
            self.first = min(self.first, arrivals.min().item())
            self.last = max(self.last, end[is_shown].max().item())

    def absorb(self, other: Spooled) -> None:
        """Add the summary data of `other`, such as counts and totals, but not its jobs.

        Both must use the same numeric keys for the same users.
        """
        self.skipped.update(other.skipped)
        self.folded.update(other.folded)
        for resource, amount in other.totals.items():
            self.totals[resource] = max(amount, self.totals.get(resource, 0))
        self.warnings += other.warnings
        for field, names in other.names.items():
            self.names[field].names.update(names.names)
        self.counted += other.counted
        self.shown += other.shown
        self.users.update(other.users)
        self.shown_users |= other.shown_users
        self._groups |= other._groups
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.has_eligible |= other.has_eligible
        self.is_in_order &= other.is_in_order
        self.types |= other.types
        for what, kind in other._weights.items():
            self.events[what] += other.events[what]
            self._weights[what] = np.result_type(self._weights.get(what, kind), kind)

    def without_jobs(self) -> Spooled:
        """Return a copy with only the summary data, small enough to be sent to other processes."""
        found = Spooled(self.name, self.store, self.options)
        found.absorb(self)
        return found

    def _note(self, what: str, begins: Array, ends: Array, weights: Array) -> None:
        if weights.any():
            self.events[what].append(self.store.write_events(begins, ends, weights))
        self._weights[what] = np.result_type(self._weights.get(what, weights.dtype), weights)

    def _write(self, columns: dict[str, Array], is_counted: Array) -> None:
        which = np.flatnonzero(is_counted)
        which = which[np.lexsort((columns["arrival"][which], columns["user"][which]))]
        rows = as_rows({name: each[which] for name, each in columns.items()})
        users, firsts = np.unique(rows["user"], return_index=True)
        firsts = np.append(firsts, len(rows))
        for user, count in zip(users.tolist(), np.diff(firsts).tolist(), strict=True):
            self.users[user] += count
        self._parts.append((self.store.write(rows), users, firsts))

    def groups_of(self) -> dict[str, set[str]]:
        """Return the groups of each user who has jobs that pass the filters."""
        users, groups = self.names["user"].names, self.names["group"].names
        found: dict[str, set[str]] = {}
        for user, group in sorted(self._groups):
            if user in self.shown_users and group != UNKNOWN:
                found.setdefault(users[user], set()).add(groups[group])
        return found

    def peak(self, what: str) -> int | float:
        """Return the largest value at any time of the quantity `what`, such as the processors in use."""
        if what not in self._peaks:
            found = peak_of(self.events[what])
            self._peaks[what] = int(found) if self._weights[what].kind == "i" else found
        return self._peaks[what]

    def read_chunks(self, most: int) -> Iterator[tuple[ScheduleLog, bool]]:
        """Yield all jobs of a few users at a time, about `most` jobs.

        A user with more jobs than that is spread over several logs. The boolean says whether the next log
        continues the jobs of the same user.
        """
        users: list[int] = []
        jobs = 0
        for user, count in sorted(self.users.items()):
            if users and jobs + count > most:
                yield self._chunk_of(users), False
                users, jobs = [], 0
            if count > most and not (self.options.join and user in self.shown_users):
                yield from self._cut(user, most) if user in self.shown_users else ()
                continue
            users.append(user)
            jobs += count
        if users:
            yield self._chunk_of(users), False

    def _chunk_of(self, users: Sequence[int]) -> ScheduleLog:
        return self.make_log([run.read(0, run.size) for run in self._runs_of(users[0], users[-1])])

    def _runs_of(self, first: int, last: int) -> list[Run]:
        """Return these users' jobs in each part; each user's are in order of arrival."""
        found = []
        for run, users, firsts in self._parts:
            low, high = firsts[np.searchsorted(users, first)], firsts[np.searchsorted(users, last, "right")]
            found.append(run.part(low.item(), high.item()))
        return [run for run in found if run.size]

    def _cut(self, user: int, most: int) -> Iterator[tuple[ScheduleLog, bool]]:
        """Yield the jobs of one user in blocks, in order of arrival."""
        some: list[Array] = []
        for block in merge(self._runs_of(user, user), most // 2, "arrival"):
            if some and sum(map(len, some)) + len(block) > most:
                yield self.make_log(some), True
                some = []
            some.append(block)
        yield self.make_log(some), False

    def make_log(self, parts: Sequence[Array]) -> ScheduleLog:
        """Convert stored rows to a log.

        Without any array, the log has no jobs; it holds the names of all users, the totals and the warnings.
        """
        rows = np.concatenate(parts or [_NONE])
        if self._is_moved:
            rows = rows[np.argsort(rows["submit"], kind="stable")]
        found: dict[str, Any] = {field: self.names[field].labels_of(rows[field]) for field in FIELDS}
        for name, kind in self.types.items():
            found[name] = rows[name].astype(kind)
        if "preceding" in found:
            links = Links(found.pop("preceding"), found.pop("thinks"))
            found["links"] = links.among(rows["place"])
        if not parts:
            found["user"] = Labels(np.zeros(0, np.int32), list(self.names["user"].names.values()))
            found |= {"folded": dict(self.folded), "warnings": tuple(merge_warnings(self.warnings))}
        return ScheduleLog(name=self.name, totals=self.totals, **found)


def spool(name: str, pieces: Iterable[ScheduleLog], options: Options, store: Store | None = None) -> Spooled:
    """Store the jobs of a log that is given in pieces; the pieces must have the same time zero.

    Without a `store`, the jobs are stored in memory. Raises TemporaryFileError if they cannot be stored on
    disk.
    """
    found = Spooled(name, store or Store(sys.maxsize), options)
    for piece in pieces:
        found.add(piece)
    return found


_NONE: Final = np.zeros(0, [(name, np.int64) for name in (*COLUMNS, *FIELDS, "place")])
