"""A log evaluated some users' jobs at a time: numpy.

Expected ends depend on nothing but the user's own jobs and share, so that a hand of users is evaluated as
a log of its own; a user with more jobs than a hand has is evaluated from hand to hand, the share as far as
it is taken passed on. What all users share are sums over hands: use and queue over time, and the merged
values of all hands' jobs. What does not fit into memory lies on disk.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from jobfeatures.schedule.choosing import Arrival, ScheduleError, passing, why_none
from jobfeatures.schedule.eet import Lanes
from jobfeatures.schedule.expected import Tick
from jobfeatures.schedule.jobs import ScheduleLog
from jobfeatures.schedule.metrics import Distribution, Measures, describe_runs, make_edges
from jobfeatures.schedule.reasons import REASONS
from jobfeatures.schedule.result import QUEUE, Bags, Group, Options, Schedule, Sums, asked, evaluate
from jobfeatures.schedule.runs import Array, Run, Store
from jobfeatures.schedule.shares import RESOURCES, STEPS, Shares, make_shares
from jobfeatures.schedule.spooled import Spooled

HAND_JOBS: Final = 2**20


class Use(NamedTuple):
    """Of one resource: what there is, and how much of it was in use, over intervals of equal length."""

    total: int
    total_from: str
    peak: int | float
    over_time: Array


class Whole:
    """All that is known of one log: complete once all of `hands` have been gone through."""

    def __init__(
        self,
        name: str,
        pieces: Iterable[ScheduleLog],
        options: Options,
        by: Sequence[str] = (),
        *,
        store: Store | None = None,
        most: int = HAND_JOBS,
    ) -> None:
        """Read a log; `by`: the fields whose groups are listed one by one. Raises ScheduleError, SpillError.

        Times of a piece are those of the log. Jobs lie in the `store`, else in memory, `most` in a hand.
        """
        self._spooled = spooled = Spooled(name, store or Store(sys.maxsize), options)
        for piece in pieces:
            spooled.add(piece)
        if options.arrival is Arrival.ELIGIBLE and not spooled.has_eligible:
            raise ScheduleError(f"{name}: does not say when jobs were eligible")
        if not spooled.counted:
            raise ScheduleError(f"{name}: {why_none(spooled.skipped)}")
        if not spooled.shown:
            raise ScheduleError(f"{name}: none of {spooled.counted} jobs passes the filter")
        self.options, self._by, self._most = options, by, most
        self.log = spooled.hand([])
        self.skipped = {reason: spooled.skipped[reason] for reason in REASONS}
        self.filtered = spooled.counted - spooled.shown
        self.is_in_order = spooled.is_in_order
        self.job_count = spooled.shown
        self.user_count = len(spooled.shown_users)
        self.shares = tuple(map(self._settle, options.resources))
        self.first_secs, self.last_secs = spooled.first, spooled.last
        self.edges = make_edges(self.first_secs, self.last_secs, options.intervals)
        self.users: list[str] = []
        self.violated: list[int] = []
        self.weighted_by_user: list[int | float] = []
        self._jobs: list[int] = []
        self._sums: list[Sums] = []
        self._steps: dict[str, Array] = {}
        self._runs: dict[str, list[Run]] = defaultdict(list)
        self._groups: dict[str, dict[str, list[tuple[Group, list[Run]]]]] = {
            field: defaultdict(list) for field in by
        }

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
            groups_of=spooled.groups_of(),
        )

    def hands(self, tick: Tick | None = None) -> Iterator[tuple[Schedule, int]]:
        """Evaluate the log, and yield some users' jobs at a time, with the place of the first in `users`.

        `tick` is called with how many jobs were done. Raises ScheduleError, SpillError.
        """
        options, spooled = self.options, self._spooled
        lanes: dict[str, Lanes] = {}
        was_cut = goes_on = False
        for log, is_cut in spooled.hands(self._most):
            if not was_cut:
                lanes, goes_on = {}, False
            left = lanes if is_cut or was_cut else None
            if passing(log, options.filters).any():
                hand = evaluate(log, options, self.shares, tick, left)
                self._add(hand, goes_on=goes_on, is_cut=is_cut)
                goes_on = True
                yield hand, len(self.users) - len(hand.chosen.users)
                del hand  # or two are in memory at once
            elif left is not None and not options.recompute:  # they are laid before others of their user
                evaluate(log, replace(options, filters=()), self.shares, None, left)
            del log
            was_cut = is_cut
        self._finish()

    def _add(self, hand: Schedule, *, goes_on: bool, is_cut: bool) -> None:
        """Take the sums of a hand; its user may go on from the one before (`goes_on`), to the one after."""
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
        self.users += hand.chosen.users[goes_on:]
        self._sums.append(hand.sums)
        add_steps(self._steps, hand.steps(self.edges))
        measures = hand.measures._asdict()
        nobody = np.zeros(len(hand.chosen), np.int64)
        for measure, values in measures.items():
            self._runs[measure] += store.write_groups(values, nobody, 1)
        for field in self._by:
            codes, names, _ = hand.codes_of(field)
            runs: list[list[Run]] = []
            if field != "user" or goes_on or is_cut:  # others may have more jobs in other hands
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
            sum(each.waited_for_another for each in self._sums),
            {each.resource: sum(found[each.resource] for found in unknown) for each in self.shares},
            Bags(*map(sum, zip(*bags, strict=True))) if bags else None,
        )
        self.distributions: dict[str, Distribution] = {
            measure: describe_runs(runs) for measure, runs in self._runs.items()
        }
        self.queue = spooled.peak(QUEUE), self._steps[QUEUE]
        self.use = self.use_of(self._steps)

    def use_of(self, steps: dict[str, Array]) -> dict[str, Use]:
        """Return the use of each resource that the log reports, with what there is of it."""
        shown = "shown" if self.options.filters else "all"
        shares = {each.resource: each for each in self.shares}
        found: dict[str, Use] = {}
        for resource in RESOURCES:
            if resource not in steps:
                continue
            peak = self._spooled.peak(shown + resource)
            total, source = round(peak), "most in use"
            if resource in shares:
                total, source = shares[resource].total // STEPS[resource], shares[resource].total_from
            elif resource in self.log.totals:
                total, source = self.log.totals[resource], "log"
            found[resource] = Use(total, source, peak, steps[resource])
        return found

    def groups(self, field: str) -> dict[str, Group]:
        """Return the jobs by user, group, queue or partition; others than those are left out."""
        found, names = self._groups[field], self._spooled.names[field].names
        reported = dict.fromkeys(name for _, name in sorted(names.items()))
        return {name: _joined(found[name]) for name in reported if name in found}


def summarise(
    name: str, pieces: Iterable[ScheduleLog], options: Options, by: Sequence[str] = (), **more: Any
) -> Whole:
    """Return all that is known of a log, evaluated; see `Whole`."""
    whole = Whole(name, pieces, options, by, **more)
    for _ in whole.hands():
        del _  # or two are in memory at once
    return whole


def add_steps(sums: dict[str, Array], steps: dict[str, Array]) -> None:
    """Add quantities over time to what they are summed up in."""
    for what, means in steps.items():
        sums[what] = sums.get(what, 0) + means


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
