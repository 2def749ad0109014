"""A year of accounting in the controller role, a look a day: what is kept of a schedule does not grow with the jobs that have ended.

Short: 40 jobs a day. JOBFEATURES_LONG=1: 2,000. What stays of a job that has ended is in its user's sums.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import statistics
import time

import pytest

from jobfeatures.analysis.schedule.live.facts import JobFacts
from tests.benchmarks.bench_endurance import resident_mib
from tests.benchmarks.bench_live import make_live

IS_LONG = bool(os.environ.get("JOBFEATURES_LONG"))
DAYS, JOBS_A_DAY, USERS = 365, 2000 if IS_LONG else 40, 50
DAY_SECS = 86_400
MOST_GROWN_MIB = 12
MOST_TIMES_MEDIAN = 12
MOST_LINES = 20


def jobs_of(day: int) -> list[JobFacts]:
    """Return the jobs that are submitted on a day: they wait for an hour at most and run for two days at most."""
    rng = random.Random(day)
    found = []
    for place in range(JOBS_A_DAY):
        submit = day * DAY_SECS + place * DAY_SECS // JOBS_A_DAY
        start = submit + rng.randrange(3600)
        end = start + rng.randrange(2 * DAY_SECS)
        number, user = str(day * JOBS_A_DAY + place), f"u{rng.randrange(USERS)}"
        found.append(
            JobFacts(number, user, "batch", submit, start, end, 0, 2 * DAY_SECS, rng.randrange(1, 64))
        )
    return found


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600 if IS_LONG else 300)
def test_a_year_of_jobs_costs_what_a_season_does(caplog):
    caplog.set_level(logging.INFO)
    live = make_live()
    unfinished: list[JobFacts] = []
    memory_mib, held, spent_secs = [], [], []
    for day in range(DAYS):
        now = (day + 1) * DAY_SECS
        unfinished += jobs_of(day)
        ended = [each for each in unfinished if each.end_secs <= now]
        unfinished = [each for each in unfinished if each.end_secs > now]
        queue = [
            each._replace(start_secs=each.start_secs if each.start_secs <= now else None, end_secs=None)
            for each in unfinished
        ]
        began = time.process_time()
        live.apply_queue(queue, now)
        live.apply_ended(ended)
        live.finalize_ends(now)
        quality = live.quality("slurm", now, top_users=20)
        spent_secs.append(time.process_time() - began)
        if day % 18 == 0:
            gc.collect()
            memory_mib.append(resident_mib())
            held.append(len(live))
    warm = len(memory_mib) // 4
    p99 = statistics.quantiles(spent_secs[DAYS // 4 :], n=100)[98]
    print(
        f"{DAYS * JOBS_A_DAY} jobs in {DAYS} days: {memory_mib[0]:.0f}, {memory_mib[warm]:.0f}, {memory_mib[-1]:.0f} MiB; "
        f"{held[warm]}, {held[-1]} jobs held; CPU of a look {statistics.median(spent_secs) * 1e3:.1f} ms, "
        f"p99 {p99 * 1e3:.1f} ms"
    )
    assert quality.jobs + quality.unsettled_jobs + len(unfinished) == DAYS * JOBS_A_DAY, "no job is lost"
    assert max(held[warm:]) < 2 * held[warm] + JOBS_A_DAY, held
    assert max(memory_mib[warm:]) - memory_mib[warm] < MOST_GROWN_MIB, memory_mib
    assert p99 < MOST_TIMES_MEDIAN * statistics.median(spent_secs)
    assert len(caplog.records) <= MOST_LINES, caplog.text[-2000:]
