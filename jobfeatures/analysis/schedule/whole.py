"""Evaluates a log of any length in chunks: the jobs of a few users at a time. Needs numpy.

A user's expected ends depend only on the user's own jobs and share, so a chunk is evaluated as a log of its
own. A user with more jobs than fit into one chunk is spread over several, and the used part of the share is
passed from each chunk to the next. Figures over all users are sums over the chunks (use and queue over time),
or are computed from the merged values of all chunks. What does not fit into memory is kept on disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.choosing import Arrival, ScheduleError, passing, why_none
from jobfeatures.analysis.schedule.eet import Lanes
from jobfeatures.analysis.schedule.eligibility import REASONS
from jobfeatures.analysis.schedule.expected import Tick
from jobfeatures.analysis.schedule.measures import Distribution, Measures, describe_runs, make_edges
from jobfeatures.analysis.schedule.result import (
    QUEUE,
    Bags,
    GroupResult,
    Schedule,
    ScheduleSums,
    asked,
    evaluate,
)
from jobfeatures.analysis.schedule.runs import Array, Run, Store
from jobfeatures.analysis.schedule.shares import RESOURCES, STEPS, Shares, make_shares
from jobfeatures.analysis.schedule.spooled import Spooled

HAND_JOBS: Final = 2**20
INTERVALS: Final = 100  # of use and queue over time


class Use(NamedTuple):
    """How one resource was used: the machine's total and its source, the peak, and mean use over time.

    `over_time` has one value for each of several intervals of equal length.
    """

    total: int
    total_from: str
    peak: int | float
    over_time: Array


class CombinedResults:
    """Sums and lists of results over some chunks; a chunk is the jobs of some users.

    `by` names fields (user, queue …), each of whose values gets figures of its own.
    """

    def __init__(self, by: Iterable[str]) -> None:
        self.users: list[str] = []
        self.jobs: list[int] = []  # of each
        self.violated: list[int] = []
        self.weighted_by_user: list[int | float] = []
        self.sums: list[ScheduleSums] = []
        self.steps: dict[str, Array] = {}
        self.runs: dict[str, list[Run]] = defaultdict(list)
        self.groups: dict[str, dict[str, list[tuple[GroupResult, list[Run]]]]] = {
            field: defaultdict(list) for field in by
        }

    def add(self, chunk: Schedule, edges: Array, store: Store, *, goes_on: bool, is_cut: bool) -> None:
        """Add the results of one chunk: the jobs of some users, or some jobs of a user with very many.

        `goes_on` says that earlier jobs of this chunk's first user are in the previous chunk, `is_cut` that
        more jobs of its last user are in the next chunk.
        """
        jobs = np.diff(chunk.chosen.bounds).tolist()
        if goes_on:
            self.jobs[-1] += jobs[0]
            self.violated[-1] += chunk.violated[0]
            self.weighted_by_user[-1] += chunk.weighted_by_user[0]
        else:
            self.jobs += jobs
            self.violated += chunk.violated
            self.weighted_by_user += chunk.weighted_by_user
        self.users += chunk.chosen.users[goes_on:]
        self.sums.append(chunk.sums)
        add_steps(self.steps, chunk.steps(edges))
        measures = chunk.measures._asdict()
        nobody = np.zeros(len(chunk.chosen), np.int64)
        for measure, values in measures.items():
            self.runs[measure] += store.write_groups(values, nobody, 1)
        for field, groups in self.groups.items():
            codes, names, _ = chunk.codes_of(field)
            runs: list[list[Run]] = []
            if field != "user" or goes_on or is_cut:  # other groups may have jobs in other chunks
                runs = [store.write_groups(values, codes, len(names)) for values in measures.values()]
            places = {name: place for place, name in enumerate(names)}
            for name, group in chunk.groups(field).items():
                groups[name].append((group, [each[places[name]] for each in runs]))

    def join(self, other: CombinedResults) -> None:
        """Add the results in `other`; no user may be in both."""
        self.users += other.users
        self.jobs += other.jobs
        self.violated += other.violated
        self.weighted_by_user += other.weighted_by_user
        self.sums += other.sums
        add_steps(self.steps, other.steps)
        for measure, runs in other.runs.items():
            self.runs[measure] += runs
        for field, groups in other.groups.items():
            for name, parts in groups.items():
                self.groups[field][name] += parts


class Whole:
    """Evaluates one whole log, a few users at a time (a chunk), to limit memory.

    The results are complete once `evaluate_chunks` has been iterated over, or `join` has been called.
    """

    def __init__(self, spooled: Spooled, by: Sequence[str] = (), *, most: int = HAND_JOBS) -> None:
        """Prepare the evaluation; `by`: fields for whose values figures are listed. Raises ScheduleError.

        A chunk has at most `most` jobs.
        """
        name, options = spooled.name, spooled.options
        if options.arrival is Arrival.ELIGIBLE and not spooled.has_eligible:
            raise ScheduleError(f"{name}: the log does not report when jobs became eligible")
        if not spooled.counted:
            raise ScheduleError(f"{name}: {why_none(spooled.skipped)}")
        if not spooled.shown:
            raise ScheduleError(f"{name}: none of {spooled.counted} jobs passes --filter")
        self._spooled, self.options, self._by, self._most = spooled, options, by, most
        self.log = spooled.make_log([])
        self.skipped = {reason: spooled.skipped[reason] for reason in REASONS}
        self.filtered = spooled.counted - spooled.shown
        self.is_in_order = spooled.is_in_order
        self.job_count = spooled.shown
        self.user_count = len(spooled.shown_users)
        self.shares = tuple(map(self._settle, options.resources))
        self.first_secs, self.last_secs = spooled.first, spooled.last
        self.edges = make_edges(self.first_secs, self.last_secs, INTERVALS)
        self._found = found = CombinedResults(by)
        self.users, self.violated, self.weighted_by_user = found.users, found.violated, found.weighted_by_user

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

    def evaluate_chunks(self, tick: Tick | None = None) -> Iterator[tuple[Schedule, int]]:
        """Evaluate the log in chunks, each the jobs of a few users; yield each chunk's results.

        The integer is the index of the chunk's first user in `users`. `tick` is called with numbers of jobs
        done. Raises ScheduleError, TemporaryFileError.
        """
        yield from self._evaluate_chunks(self._spooled, self._found, tick)
        self._finish()

    def part(self, spooled: Spooled) -> CombinedResults:
        """Evaluate only the users in `spooled`, and return their results, to be passed to `join`."""
        found = CombinedResults(self._by)
        for _ in self._evaluate_chunks(spooled, found):
            del _  # else two are in memory at once
        return found

    def join(self, parts: Iterable[CombinedResults]) -> None:
        """Complete this evaluation with results from `part`, which together must cover all users."""
        for part in parts:
            self._found.join(part)
        self._finish()

    def _evaluate_chunks(
        self, spooled: Spooled, found: CombinedResults, tick: Tick | None = None
    ) -> Iterator[tuple[Schedule, int]]:
        options = self.options
        lanes: dict[str, Lanes] = {}
        was_cut = goes_on = False
        for log, is_cut in spooled.read_chunks(self._most):
            if not was_cut:
                lanes, goes_on = {}, False
            left = lanes if is_cut or was_cut else None
            if passing(log, options.filters).any():
                chunk = evaluate(log, options, self.shares, tick, left)
                found.add(chunk, self.edges, spooled.store, goes_on=goes_on, is_cut=is_cut)
                goes_on = True
                yield chunk, len(found.users) - len(chunk.chosen.users)
                del chunk  # else two are in memory at once
            elif left is not None:  # lay them before the user's later ones
                evaluate(log, replace(options, filters=()), self.shares, None, left)
            del log
            was_cut = is_cut

    def _finish(self) -> None:
        """Combine the results of all chunks."""
        spooled, found = self._spooled, self._found
        bags = [each.bags for each in found.sums if each.bags is not None]
        self.veet = [100 * late / jobs for late, jobs in zip(self.violated, found.jobs, strict=True)]
        unknown = [each.unknown_requests for each in found.sums]
        self.sums = ScheduleSums(
            sum(each.jobs for each in found.sums),
            sum(each.expected for each in found.sums),
            sum(each.tardiness for each in found.sums),
            sum(each.weighted_tardiness for each in found.sums),
            sum(each.waited_for_another for each in found.sums),
            {each.resource: sum(counts[each.resource] for counts in unknown) for each in self.shares},
            Bags(*map(sum, zip(*bags, strict=True))) if bags else None,
        )
        self.distributions: dict[str, Distribution] = {
            measure: describe_runs(runs) for measure, runs in found.runs.items()
        }
        self.queue = spooled.peak(QUEUE), found.steps[QUEUE]
        self.use = self.use_of(found.steps)

    def use_of(self, steps: dict[str, Array]) -> dict[str, Use]:
        """Return total, peak and mean use over time of each resource.

        `steps` holds the mean use in each interval, summed by `add_steps` over all users.
        """
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

    def groups(self, field: str) -> dict[str, GroupResult]:
        """Return figures for each value of `field` (user, group, queue or partition).

        Jobs without a value of the field are left out.
        """
        found, names = self._found.groups[field], self._spooled.names[field].names
        reported = dict.fromkeys(name for _, name in sorted(names.items()))
        return {name: _joined(found[name]) for name in reported if name in found}


def add_steps(sums: dict[str, Array], steps: dict[str, Array]) -> None:
    """Add each array in `steps` (values over time, from `Schedule.steps`) to its namesake in `sums`."""
    for what, means in steps.items():
        sums[what] = sums.get(what, 0) + means


def _joined(parts: list[tuple[GroupResult, list[Run]]]) -> GroupResult:
    """Return a group joined from its parts in several chunks."""
    if len(parts) == 1:
        return parts[0][0]
    groups, runs = zip(*parts, strict=True)
    sums: list[Any] = [sum(each) for each in zip(*(group[:6] for group in groups), strict=True)]
    measures = {
        name: describe_runs([each[place] for each in runs]) for place, name in enumerate(Measures._fields)
    }
    return GroupResult._make([*sums, measures])
