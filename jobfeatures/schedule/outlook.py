"""When jobs that have not ended are expected to end: bounds, and whether they can still be in time.

Runtimes that are not known yet are at least what has elapsed, and at most what the time limit allows. The
more the earlier jobs run, the later is a job expected to end, so with the former the expected ends are bounds
from below, with the latter bounds from above. And for each second that a job itself runs longer, it is
expected to end at least a second later: it takes no more of the share in any second than it asked for. So

- a job that runs is certainly late if it would be with all of its limit, and
  certainly in time if it would be, were it to end now;
- a job that waits is certainly late if it would be, were it to start now and
  use all of its limit (Tóth and Klusáček's measure, used while jobs run).

Pure. All of it holds as long as jobs keep to their limits and to the processors they asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from jobfeatures.joblog import Number
from jobfeatures.schedule.eet import Lanes, Mode
from jobfeatures.schedule.facts import JobFacts
from jobfeatures.schedule.quality import Verdict

BLUR_SECS = 1e-6  # what doubles may be wrong by, in the mode fluid
OVERRUN_SECS = 120  # batch systems end jobs a little after their limit
MAX_TASKS = 10_000  # of one waiting array that are looked at one by one
MAX_ALL_TASKS = 100_000  # of all arrays of one user, beyond the first of each: anybody may submit millions
NEVER_SECS = 2**50  # a job without a limit runs for so long
UNBOUNDED_SECS = 2**49  # no clock of jobs shows so much


class Outlook(NamedTuple):
    """One job that has not ended. Bounds are epoch seconds; `upper_secs` is None where there is none."""

    facts: JobFacts
    lower_secs: Number
    upper_secs: Number | None
    verdict: Verdict


def whole(secs: Number, mode: Mode) -> Number:
    """Return a time as expected ends are computed with: whole seconds, rounded up, but in the mode fluid."""
    return secs if mode is Mode.FLUID else math.ceil(secs)


def compute_elapsed(facts: JobFacts, now_secs: Number) -> Number:
    """Return for how long a job has certainly run. While it is suspended that is not known."""
    if facts.start_secs is None or facts.is_suspended:
        return 0
    return max(0, now_secs - facts.start_secs - facts.suspended_secs)


def compute_outlooks(
    lanes: Lanes, jobs: Iterable[JobFacts], now_secs: Number, *, scale: int = 1, overrun_secs: int = 0
) -> Iterator[Outlook]:
    """Yield what is to be expected of those of one user's jobs that have not ended, each task by itself.

    `lanes` is the user's share as the jobs before these left it, and is not changed. `jobs` are in order,
    ended ones among them: all that count. Their processors times `scale` are the lanes they ask for. Jobs may
    exceed their limit by `overrun_secs`. Tasks of a waiting array beyond `MAX_TASKS`, and of all beyond
    `MAX_ALL_TASKS`, are left out, and what comes behind has no upper bound.
    """
    low, high = lanes.copy(), lanes.copy()
    mode, is_bounded = lanes.mode, True
    jobs = list(jobs)
    counts = count_tasks(jobs)
    for is_waiting, group in groupby(jobs, lambda facts: facts.start_secs is None):
        same = list(group)
        arrivals = [whole(facts.submit_secs or 0, mode) for facts in same]
        requests = [(facts.cpus or 0) * scale for facts in same]
        if is_waiting:
            least: list[Number] = []
            lowers: Sequence[Number] = arrivals
        else:
            least = [least_runtime(facts, now_secs) for facts in same]
            lowers = low.place(arrivals, requests, [whole(secs, mode) for secs in least])
        most = [most_runtime(facts, now_secs, mode, overrun_secs) for facts in same]
        tasks = list(islice(counts, len(same)))
        uppers = iter(
            high.place(_repeated(arrivals, tasks), _repeated(requests, tasks), _repeated(most, tasks))
        )
        for place, facts in enumerate(same):
            if is_waiting:
                base = now_secs
                # It would be in time with the shortest run if the share had not held that until now.
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
    """Yield how many tasks of each of one user's jobs are looked at."""
    left = MAX_ALL_TASKS
    for facts in jobs:
        count = min(facts.tasks, MAX_TASKS, 1 + left)
        left -= count - 1
        yield count


def least_runtime(facts: JobFacts, now_secs: Number) -> Number:
    """Return the least runtime that a job that has started can have."""
    return compute_elapsed(facts, now_secs) if facts.end_secs is None else facts.runtime_secs


def most_runtime(facts: JobFacts, now_secs: Number, mode: Mode, overrun_secs: int) -> Number:
    """Return the longest runtime that a job can have."""
    if facts.end_secs is not None:
        return whole(facts.runtime_secs, mode)
    limit = NEVER_SECS if facts.limit_secs is None else facts.limit_secs + overrun_secs
    return max(limit, math.ceil(compute_elapsed(facts, now_secs)))


def _repeated(values: Sequence[Number], times: Sequence[int]) -> Sequence[Any]:
    if max(times) == 1:
        return values
    return [value for value, count in zip(values, times, strict=True) for _ in range(count)]
