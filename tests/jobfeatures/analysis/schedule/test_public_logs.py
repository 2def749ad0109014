"""A real log, where somebody has it beside the project: JOBFEATURES_DATA names a folder with ``swf/`` in it.

What is expected was counted by another program: Algorithm 1 of the paper as it stands, over every second.
"""

import math
import os
import sys
from pathlib import Path

import pytest

from jobfeatures.analysis.schedule.document import make_document
from jobfeatures.analysis.schedule.jobarrays import from_swf
from jobfeatures.analysis.schedule.live.facts import JobFacts
from jobfeatures.analysis.schedule.live.ongoing import LiveSchedule
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.shares import ShareRules, Shares
from jobfeatures.errors import JobfeaturesError
from jobfeatures.formats.swf.columns import read_pieces
from tests.jobfeatures.evaluated import evaluate, summarise

FOLDER = os.environ.get("JOBFEATURES_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="JOBFEATURES_DATA names no folder of public logs")


def test_the_expected_ends_of_kth_are_those_of_the_loop_over_seconds():
    path = Path(FOLDER) / "swf/KTH-SP2-1996-2.1-cln.swf.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    log = from_swf(next(read_pieces(str(path), sys.maxsize)), "KTH")
    found = make_document(summarise("KTH", [log], Options(rules=ShareRules(default={"cpu": 8000}))))
    expected = {
        "jobs": 28475,
        "users": 214,
        "sum_eet": 436090472648,
        "violated": 15568,
        "total_tardiness": 262122453,
        "total_weighted_tardiness": 3441930356,
    }
    assert {name: found[name] for name in expected} == expected
    assert sum(found["skipped"].values()) == found["skipped"]["no_cpus"] == 1


def told_live(log, polls):
    """Return the quality of a schedule whose jobs are told as they come, run and end, in so many polls."""
    columns = (log.user.codes, log.submit, log.start, log.end, log.runtime, log.cpus)
    jobs = [
        JobFacts(
            job_id=str(number),
            user=log.user.names[user] if user >= 0 else None,
            partition="",
            submit_secs=submit,
            start_secs=start if start >= 0 else None,
            end_secs=end if end >= 0 else submit,
            suspended_secs=end - start - runtime if min(end, start, runtime) >= 0 else 0,
            cpus=cpus if cpus >= 0 else None,
        )
        for number, (user, submit, start, end, runtime, cpus) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        )
    ]
    live = LiveSchedule(begin_secs=0)
    live.use_shares(Shares(resource="cpu", default=8000, total=0, total_from="given", default_from="given"))
    first, last = min(job.submit_secs for job in jobs), max(job.end_secs for job in jobs)
    step = (last - first) / polls
    begun = [[] for _ in range(polls + 1)]
    ended = [[] for _ in range(polls + 1)]
    for job in jobs:
        begun[math.ceil((job.submit_secs - first) / step)].append(job)
        ended[math.ceil((job.end_secs - first) / step)].append(job)
    open_jobs: dict[str, JobFacts] = {}
    for poll in range(polls + 1):
        now = first + poll * step
        open_jobs |= {job.job_id: job for job in begun[poll]}
        for job in ended[poll]:
            del open_jobs[job.job_id]
        live.apply_queue(
            (
                job._replace(
                    end_secs=None,
                    suspended_secs=0,
                    start_secs=job.start_secs
                    if job.start_secs is not None and job.start_secs <= now
                    else None,
                )
                for job in open_jobs.values()
            ),
            now,
        )
        live.apply_ended(ended[poll])
        live.finalize_ends(live.horizon_secs(now))
        if poll % 50 == 0:
            live.quality("log", now)
    live.finalize_ends(math.inf)
    return live.quality("log", last, top_users=1000)


def test_kth_told_live_ends_in_the_same_figures():
    path = Path(FOLDER) / "swf/KTH-SP2-1996-2.1-cln.swf.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    found = told_live(from_swf(next(read_pieces(str(path), sys.maxsize)), "KTH"), 2000)
    assert (found.jobs, found.users, found.violated) == (28475, 214, 15568)
    assert (found.tardiness_secs, found.weighted_tardiness_cpu_secs) == (262122453, 3441930356)
    assert found.skipped == {"no_cpus": 1}
    assert found.unfinished == {}


def test_every_log_told_live_ends_in_the_figures_of_the_log():
    checked = 0
    for path in sorted((Path(FOLDER) / "swf").glob("*.swf*")):
        try:
            log = from_swf(next(read_pieces(str(path), sys.maxsize)), path.name)
            schedule = evaluate(log, Options(rules=ShareRules(default={"cpu": 8000})))
        except (JobfeaturesError, OSError):
            continue  # not a log, or none that counts
        found = told_live(log, 200)
        assert found.jobs == len(schedule.chosen), path.name
        assert found.violated == sum(schedule.violated), path.name
        assert found.tardiness_secs == schedule.tardiness.sum(), path.name
        assert found.weighted_tardiness_cpu_secs == schedule.weighted_tardiness.sum(), path.name
        waits = schedule.measures.wait_secs
        assert (found.wait_secs[""].counts[-1], found.wait_secs[""].sum) == (len(waits), waits.sum()), (
            path.name
        )
        checked += 1
    assert checked
