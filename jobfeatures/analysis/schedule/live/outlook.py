"""Computes bounds of unfinished jobs' expected ends, and verdicts: whether jobs can still end in time.

A runtime not yet known is at least the elapsed time, and at most what the time limit allows. The longer
earlier jobs run, the later a job is expected to end. So elapsed times give lower bounds of expected ends, and
limits give upper bounds. For each second that a job itself runs longer, its expected end is at least a second
later, because the job never uses more of the share than it requested. Therefore

- a running job is certainly late if it would be late after using its whole limit,
  and certainly in time if it would be in time were it to end now;
- a waiting job is certainly late if it would be late were it to start now and
  use its whole limit (Tóth and Klusáček's measure, used while jobs run).

All of this holds provided that jobs keep to their limits and to the processors that they requested. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from jobfeatures.analysis.schedule.eet import Lanes, Mode
from jobfeatures.analysis.schedule.live.facts import JobFacts
from jobfeatures.joblogs.loggedjob import Number
from jobfeatures.records.schedulequality import Verdict

BLUR_SECS = 1e-6  # largest rounding error of doubles in fluid mode
OVERRUN_SECS = 120  # batch systems kill jobs a little after their limit
MAX_TASKS = 10_000  # of one waiting array that are computed one by one
MAX_ALL_TASKS = 100_000  # of all arrays of one user, beyond the first of each: users can submit millions
NEVER_SECS = 2**50  # longest runtime of a job without a limit
UNBOUNDED_SECS = 2**49  # later than any real time


class Outlook(NamedTuple):
    """The bounds of one unfinished job's expected end (epoch seconds), and whether it will be late.

    `upper_secs` is None if there is no upper bound. `verdict` says how certain it is that the job ends late.
    """

    facts: JobFacts
    lower_secs: Number
    upper_secs: Number | None
    verdict: Verdict


def round_up_secs(secs: Number, mode: Mode) -> Number:
    """Return a time in seconds, rounded up to whole seconds unless the mode is fluid."""
    return secs if mode is Mode.FLUID else math.ceil(secs)


def compute_elapsed(facts: JobFacts, now_secs: Number) -> Number:
    """Return for how many seconds an unfinished job has run at least.

    For a suspended job that is 0, because it is not known since when it has been suspended.
    """
    if facts.start_secs is None or facts.is_suspended:
        return 0
    return max(0, now_secs - facts.start_secs - facts.suspended_secs)


def compute_outlooks(
    lanes: Lanes, jobs: Iterable[JobFacts], now_secs: Number, *, scale: int = 1
) -> Iterator[Outlook]:
    """Yield bounds and verdict for each of one user's unfinished jobs; array tasks are separate jobs.

    `lanes` is the user's share, in which only the user's earlier jobs have been placed; it is not changed.
    `jobs` are the jobs after these that count in the figures, ended ones included, in order of arrival. One
    processor is `scale` lanes. Tasks beyond `MAX_TASKS` of a waiting array, and beyond `MAX_ALL_TASKS` of all
    arrays, are left out; jobs after them have no upper bound.
    """
    low, high = lanes.copy(), lanes.copy()
    mode, is_bounded = lanes.mode, True
    jobs = list(jobs)
    counts = count_tasks(jobs)
    for is_waiting, group in groupby(jobs, lambda facts: facts.start_secs is None):
        same = list(group)
        arrivals = [round_up_secs(facts.submit_secs or 0, mode) for facts in same]
        requests = [(facts.cpus or 0) * scale for facts in same]
        if is_waiting:
            least: list[Number] = []
            lowers: Sequence[Number] = arrivals
        else:
            least = [least_runtime(facts, now_secs) for facts in same]
            lowers = low.place(arrivals, requests, [round_up_secs(secs, mode) for secs in least])
        most = [most_runtime(facts, now_secs, mode) for facts in same]
        tasks = list(islice(counts, len(same)))
        uppers = iter(
            high.place(_repeated(arrivals, tasks), _repeated(requests, tasks), _repeated(most, tasks))
        )
        for place, facts in enumerate(same):
            if is_waiting:
                base = now_secs
                # With the shortest run it is in time if the share had no room for that run until now.
                shortest = BLUR_SECS if mode is Mode.FLUID else 1
                is_fine = not low.has_spare(arrivals[place], now_secs, requests[place] * shortest)
            elif facts.end_secs is None:
                base = (facts.start_secs or 0) + facts.suspended_secs
                is_fine = least[place] > 0 and base + least[place] <= lowers[place]
            else:
                next(uppers)
                continue
            longest = most[place]
            for upper in islice(uppers, tasks[place]):
                bound = upper if is_bounded and upper < UNBOUNDED_SECS else None
                if bound is not None and base + longest > bound:
                    verdict = Verdict.CERTAINLY_LATE
                else:
                    verdict = Verdict.NOT_LATE if is_fine else Verdict.POSSIBLY_LATE
                yield Outlook(facts, lowers[place], bound, verdict)
            is_bounded = is_bounded and facts.tasks == tasks[place]


def count_tasks(jobs: Iterable[JobFacts]) -> Iterator[int]:
    """Yield for each of one user's jobs the number of its array tasks that are taken into account."""
    left = MAX_ALL_TASKS
    for facts in jobs:
        count = min(facts.tasks, MAX_TASKS, 1 + left)
        left -= count - 1
        yield count


def least_runtime(facts: JobFacts, now_secs: Number) -> Number:
    """Return, in seconds, an ended job's runtime, or for how long an unfinished job has run at least."""
    return compute_elapsed(facts, now_secs) if facts.end_secs is None else facts.runtime_secs


def most_runtime(facts: JobFacts, now_secs: Number, mode: Mode) -> Number:
    """Return the longest runtime that a job can have when it ends, in seconds, from its time limit.

    `OVERRUN_SECS` are added to the limit. The runtime of an ended job is rounded as by `whole`.
    """
    if facts.end_secs is not None:
        return round_up_secs(facts.runtime_secs, mode)
    limit = NEVER_SECS if facts.limit_secs is None else facts.limit_secs + OVERRUN_SECS
    return max(limit, math.ceil(compute_elapsed(facts, now_secs)))


def _repeated(values: Sequence[Number], times: Sequence[int]) -> Sequence[Any]:
    if max(times) == 1:
        return values
    return [value for value, count in zip(values, times, strict=True) for _ in range(count)]
