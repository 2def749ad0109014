"""What is to be expected of one job."""

from __future__ import annotations

import json
import re
from datetime import UTC
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.eet import Lanes, Mode
from jobfeatures.analysis.schedule.live.expectation import NotExpectedError, compute_expectation
from jobfeatures.analysis.schedule.live.expecttext import Words, format_expectation, make_document, span
from jobfeatures.analysis.schedule.live.facts import JobFacts
from jobfeatures.analysis.schedule.live.outlook import MAX_TASKS, compute_outlooks
from jobfeatures.analysis.schedule.live.userhistory import ReportedJob, choose_jobs
from jobfeatures.analysis.schedule.shares import CPU, ShareRules, make_shares
from jobfeatures.records.schedulequality import Verdict

NOW = 1_763_628_000  # 2025-11-20 08:40:00 UTC
OTHERS = {"total": 0, "total_from": "none", "all_users": 0, "groups_of": {}}


def shares_of(cpus, **users):
    rules = ShareRules(
        default={CPU: round(cpus * 1000)}, users={name: {CPU: round(n * 1000)} for name, n in users.items()}
    )
    return make_shares(CPU, rules, **OTHERS)


def job(job_id, submit, start=None, end=None, **more):
    values = {"cpus": 1, "limit_secs": 3600, **more}
    return JobFacts(job_id, "ann", "batch", submit, start, end, **values)


def expect(jobs, asked, now=NOW, *, share=4, mode=Mode.LITERAL, **told):
    found = choose_jobs(
        [ReportedJob(each)._replace(**told) if each.job_id == asked else ReportedJob(each) for each in jobs],
        asked,
    )
    return compute_expectation(found, shares_of(share), now, mode=mode)


def shown(found, notes=(), zone=UTC):
    return format_expectation(found, notes, zone)


EARLIER = [
    job("1", NOW - 6000, NOW - 6000, cpus=2, limit_secs=7200),
    job("2", NOW - 5400, NOW - 5400, NOW - 3000, cpus=2),
    job("3", NOW - 4800, NOW - 3000, cpus=2, limit_secs=14_400),
]


def test_a_job_that_waits_is_said_to_wait():
    waiting = job("9", NOW - 3600, cpus=2, limit_secs=1800)
    found = expect([*EARLIER, waiting], "9", reason="Priority", planned_secs=NOW + 600)
    assert (
        shown(found)
        == """\
Job 9 of ann (2 CPUs, limit 30 min, batch) waits since 2025-11-20 07:40:00 UTC (1 h ago); the batch \
system says: Priority.

With 4 CPUs for ann it should end by
  2025-11-20 09:12:00 UTC (in 32 min) if it uses all of its limit, and the earlier jobs end now
  2025-11-20 09:34:00 UTC (in 54 min) at the latest: if it and the earlier jobs use all of their \
limits, and 2 min more

It is not late: until now earlier jobs of its user have used up the share.
It can only end in time if it starts by 2025-11-20 09:02:00 UTC (in 22 min).
The batch system means to start it 2025-11-20 08:50:00 UTC (in 10 min); with all of its limit it \
would end 2025-11-20 09:20:00 UTC, which may be in time.

Why:
- The share is 4 CPUs at any time: set for all users.
- When it arrived, 3 earlier jobs of ann had 4 to 11.13 core hours of
  the share before it. The last to leave the share do so, at the latest,
    2025-11-20 11:52:00 UTC: job 3 (runs, 2 CPUs, limit 4 h)
    2025-11-20 09:02:00 UTC: job 1 (runs, 2 CPUs, limit 2 h)
    2025-11-20 07:50:00 UTC: job 2 (ended, 2 CPUs, ran 40 min)
- Limits may be exceeded by 2 min: so long may ending a job take.
- Mode literal. Jobs count from their submission, in that order; other users' do not.
"""
    )


def test_a_job_that_runs_is_said_to_run():
    found = expect(EARLIER, "3", share=2.5)
    assert (
        shown(found, ("jobs that have ended: the database is away",), ZoneInfo("Europe/Prague"))
        == """\
Job 3 of ann (2 CPUs, limit 4 h, batch) runs since 2025-11-20 08:50:00 CET (50 min ago).

With 2.5 CPUs for ann it should end by
  2025-11-20 10:43:08 CET (in 1 h 3 min) at the earliest: if it and all earlier jobs ended now, in time
  2025-11-20 13:55:08 CET (in 4 h 15 min) if it uses all of its limit, and the earlier jobs end now
  2025-11-20 14:13:00 CET (in 4 h 33 min) at the latest: if it and the earlier jobs use all of \
their limits, and 2 min more, in time

It is not late, and will not be, however long it runs.
Its own limit ends it 2025-11-20 12:50:00 CET (in 3 h 10 min), or up to 2 min later.

Why:
- The share is 2.5 CPUs at any time: set for all users.
- When it arrived, 2 earlier jobs of ann had 3.917 to 4.65 core hours of
  the share before it. The last to leave the share do so, at the latest,
    2025-11-20 10:14:00 CET: job 2 (ended, 2 CPUs, ran 40 min)
    2025-11-20 10:02:00 CET: job 1 (runs, 2 CPUs, limit 2 h)
- Limits may be exceeded by 2 min: so long may ending a job take.
- Mode literal. Jobs count from their submission, in that order; other users' do not.

Not known:
- jobs that have ended: the database is away
"""
    )


def test_a_job_that_has_ended_is_compared_with_its_expected_end():
    found = expect([*EARLIER, job("4", NOW - 4000, NOW - 100, NOW - 40, cpus=4)], "4")
    assert (
        shown(found)
        == """\
Job 4 of ann (4 CPUs, limit 1 h, batch) ended 2025-11-20 08:39:20 UTC (40 s ago) after running for \
1 min.

With 4 CPUs for ann it should have ended by 2025-11-20 08:41:00 UTC at the earliest,
2025-11-20 09:04:00 UTC at the latest: earlier jobs of ann have not ended.

It was in time.

Why:
- The share is 4 CPUs at any time: set for all users.
- When it arrived, 3 earlier jobs of ann had 4.444 to 11.58 core hours of
  the share before it. The last to leave the share do so, at the latest,
    2025-11-20 11:52:00 UTC: job 3 (runs, 2 CPUs, limit 4 h)
    2025-11-20 09:02:00 UTC: job 1 (runs, 2 CPUs, limit 2 h)
    2025-11-20 07:50:00 UTC: job 2 (ended, 2 CPUs, ran 40 min)
- Mode literal. Jobs count from their submission, in that order; other users' do not.
"""
    )


def test_all_that_is_said_is_there_for_programs():
    found = expect([*EARLIER, job("9", NOW - 3600, cpus=2, limit_secs=1800)], "9")
    document = json.loads(json.dumps(make_document(found, ("something",))))
    assert document["expected"] == {
        "mode": "literal",
        "lower_secs": NOW - 3600,
        "lower_with_limit_secs": NOW + 1920,
        "upper_secs": NOW + 3240,
        "is_final": False,
    }
    assert (document["verdict"], document["last_start_secs"]) == ("not_late", NOW + 1320)
    assert document["ahead"]["cpu_secs_at_most"] == 40_080
    assert document["not_known"] == ["something"]


@pytest.mark.parametrize(
    ("jobs", "asked", "said"),
    [
        (
            [job("1", NOW - 9000, limit_secs=60)],
            "1",
            r"certainly late, even if.*\n.*if it had started by .*06:10:00.*ago",
        ),
        ([job("1", NOW - 60)], "1", "It is certainly late, even if it starts now"),
        ([job("1", NOW - 60, cpus=8)], "1", "possibly late: the share had room"),
        ([job("1", NOW - 60, limit_secs=None)], "1", "no certain time at the latest: it has no time limit"),
        (
            [job("1", NOW - 90, NOW - 90, limit_secs=None, cpus=4), job("2", NOW - 60)],
            "2",
            "(?s)an earlier job has no time limit.*at least .* core hours.*at no certain time: job 1",
        ),
        (
            [job("1", NOW - 60, NOW - 60)],
            "1",
            "It is not late, and will not be.*\n.*own limit ends it .*in 59 min",
        ),
        ([job("1", NOW - 90_000, NOW - 60)], "1", "It is certainly late: however long"),
        ([job("1", NOW - 60, NOW - 50)], "1", "It is certainly late: however long it"),
        ([job("1", NOW - 60, NOW - 10, cpus=8)], "1", "(?s)possibly late: that depends.*more than the share"),
        ([job("1", NOW - 60, NOW - 60, is_suspended=True)], "1", "is suspended, started"),
        (
            [job("1", NOW - 60, NOW - 60, NOW - 5)],
            "1",
            "(?s)by 2025-11-20 08:39:55 UTC.\n\nIt was in time.*No earlier",
        ),
        ([job("1", NOW - 60, NOW - 50, NOW - 5)], "1", "It was late, by 10 s"),
        (
            [job("0", NOW - 99, cpus=4, limit_secs=20), job("1", NOW - 60, NOW - 50, NOW - 5)],
            "1",
            r"(?s)earlier jobs of ann have not ended\..*It was late by 10 s at most, or in time",
        ),
        (
            [job("0", NOW - 99, NOW - 99, cpus=4, limit_secs=None), job("1", NOW - 60, NOW - 50, NOW - 5)],
            "1",
            "(?s)with no upper bound",
        ),
        ([job("1", NOW)], "1", "waits since .*now"),
        (
            [job("1", NOW - 99, NOW - 99, NOW - 98), job("2", NOW - 60)],
            "2",
            "1 earlier job of ann, and none was left",
        ),
        ([job(str(n), NOW - 90) for n in range(9)], "8", "and 3 more before these"),
        (
            [job("10", NOW - 9, array_id="10", task=2, tasks=MAX_TASKS + 1)],
            "10",
            "(?s)follows too many tasks.*10 is an array. This is of its last task",
        ),
    ],
)
def test_it_is_said_how_it_stands(jobs, asked, said):
    assert re.search(said, shown(expect(jobs, asked)))


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("JobHeldUser", "It is held until somebody releases it"),
        ("JobHeldAdmin", "It is held until somebody releases it"),
        ("Held", "It is held until somebody releases it"),
        ("PSUSP", "It is held until somebody releases it"),
        ("Dependency", "It waits for another job or a date"),
        ("BeginTime", "It waits for another job or a date"),
    ],
)
def test_a_job_that_may_not_start_is_said_to(reason, said):
    assert said in shown(expect([job("1", NOW - 60)], "1", reason=reason))


def test_a_start_that_is_meant_too_late_is_said_to_be():
    text = shown(expect([job("1", NOW - 60)], "1", planned_secs=NOW + 5000))
    assert ", too late." in text


def test_components_are_told_of():
    told = [ReportedJob(job(str(n), NOW - 60), frozenset({f"1+{n - 1}"})) for n in (1, 2)]
    found = compute_expectation(choose_jobs(told, "1+1"), shares_of(4), NOW)
    assert "one of 2 components" in shown(found)


def test_many_hours_are_said_in_digits():
    earlier = job("1", NOW - 9, cpus=1000, limit_secs=36_000_000)
    text = shown(expect([earlier, job("2", NOW)], "2"))
    assert "had 0 to 10,000,033 core hours of" in text


def test_millions_of_tasks_take_no_time_and_leave_no_upper_bound():
    arrays = [job(str(n), NOW - 9, array_id=str(n), task=0, tasks=10**9) for n in range(10, 40)]
    found = expect([*arrays, job("99", NOW - 5)], "99")
    assert (found.upper_secs, found.taken_cpu_secs[1], found.ahead[0].leaves_secs) == (None, None, None)


def test_a_share_of_a_user_comes_first():
    found = compute_expectation(choose_jobs([ReportedJob(job("1", NOW))], "1"), shares_of(4, ann=1.5), NOW)
    assert "1.5 CPUs at any time: set for this user" in shown(found)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (job("1", NOW, cpus=None), "processors are known"),
        (job("1", NOW, NOW, NOW + 5, is_cancelled=True)._replace(start_secs=None), "never started"),
        (job("1", NOW, NOW - 5), "it started before it arrived"),
        (job("1", NOW)._replace(user=None), "the user is unknown"),
    ],
)
def test_of_a_job_that_does_not_count_nothing_is_expected(facts, said):
    with pytest.raises(NotExpectedError, match=said):
        expect([facts], "1")


def test_by_a_share_of_nothing_nothing_is_expected():
    with pytest.raises(NotExpectedError, match="user 'ann' has a share of 0"):
        compute_expectation(choose_jobs([ReportedJob(job("1", NOW))], "1"), shares_of(4, ann=0), NOW)


def test_what_users_wrote_does_nothing_to_a_terminal():
    evil = "\x1b[2J\nann\u202e"
    found = choose_jobs([ReportedJob(job("1", NOW)._replace(user=evil, partition=evil), reason=evil)], "1")
    text = shown(compute_expectation(found, shares_of(4), NOW), (evil,))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\nann" not in text


@pytest.mark.parametrize(
    ("secs", "said"),
    [(0, "0 s"), (0.25, "0.25 s"), (59, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (90_000, "1 d 1 h"),
     (86_459, "1 d"), (10**12, "11574074 d 1 h")],
)  # fmt: skip
def test_lengths_of_time_are_said_in_two_units(secs, said):
    assert span(secs) == said


def test_times_that_no_clock_shows_are_said_too():
    words = Words(5, UTC)
    assert words.time(5) == "second 5 of the log (now)"
    assert words.time(2.5) == "second 2.5 of the log (2 s ago)"
    assert words.clock(2**60) == "second 1152921504606846976 since 1970"
    assert Words(NOW, None).clock(NOW).startswith("2025-11-2")


# --- what holds for all -----------------------------------------------------------------


@st.composite
def histories(draw):
    found, submit = [], 0
    for number in range(draw(st.integers(1, 8))):
        submit += draw(st.integers(0, 30))
        wait, runtime = draw(st.integers(0, 40)), draw(st.integers(0, 60))
        start, end = submit + wait, submit + wait + runtime
        limit = draw(st.sampled_from([None, runtime, runtime + 20]))
        found.append((f"{number:02}", submit, start, end, draw(st.integers(0, 5)), limit))
    return found


def as_of(histories, now):
    return [
        job(
            job_id,
            submit,
            start if start <= now else None,
            end if end <= now else None,
            cpus=cpus,
            limit_secs=limit,
        )
        for job_id, submit, start, end, cpus, limit in histories
        if submit <= now
    ]


@given(histories(), st.sampled_from(Mode), st.integers(1, 6), st.integers(0, 200))
def test_the_final_end_is_between_the_bounds_of_any_time_before(history, mode, share, now):
    jobs = as_of(history, now)
    if not jobs:
        return
    asked = jobs[-1].job_id
    found = compute_expectation(choose_jobs(map(ReportedJob, jobs), asked), shares_of(share), now, mode=mode)
    final = compute_expectation(
        choose_jobs(map(ReportedJob, as_of(history, 10_000)), asked), shares_of(share), 10_000, mode=mode
    )
    blur = 1e-6
    assert final.lower_secs == final.upper_secs
    assert found.lower_secs <= final.lower_secs + blur
    assert found.upper_secs is None or final.lower_secs <= found.upper_secs + blur
    if found.full_secs is not None and found.upper_secs is not None:
        assert found.lower_secs <= found.full_secs + blur
        assert found.full_secs <= found.upper_secs + blur
    is_late = final.late_secs[0] > blur
    if found.verdict is Verdict.CERTAINLY_LATE:
        assert is_late
    format_expectation(found)
    json.dumps(make_document(found))


@st.composite
def live_queues(draw):
    """Return now and one user's jobs as a live queue may tell them, clocks a little apart."""
    now, jobs = draw(st.integers(0, 400)), []
    for number in range(draw(st.integers(1, 6))):
        submit = draw(st.integers(0, now + 3))
        start = draw(st.none() | st.integers(submit, max(submit, now + 3)))
        end = None if start is None else draw(st.none() | st.integers(start, max(start, now)))
        runs = start is not None and end is None
        jobs.append(
            job(
                f"{number}",
                submit,
                start,
                end,
                suspended_secs=draw(st.integers(0, 50)) if runs else 0,
                is_suspended=runs and draw(st.integers(0, 4)) == 0,
                tasks=draw(st.integers(1, 3)) if start is None else 1,
                cpus=draw(st.integers(1, 5)),
                limit_secs=draw(st.none() | st.integers(1, 300)),
            )
        )
    return now, jobs


@given(live_queues(), st.sampled_from(Mode), st.integers(1, 6), st.booleans())
def test_no_state_of_a_queue_makes_it_contradict_itself(queue, mode, share, is_partial):
    now, jobs = queue
    blur = 1e-6
    for each in jobs:
        found = compute_expectation(
            choose_jobs(map(ReportedJob, jobs), each.job_id),
            shares_of(share),
            now,
            mode=mode,
            is_partial=is_partial,
        )
        bounds = [found.lower_secs, found.full_secs, found.upper_secs]
        known = [secs for secs in bounds if secs is not None]
        assert all(one <= other + blur for one, other in pairwise(known))
        assert not (is_partial and (found.upper_secs is not None or found.verdict is Verdict.CERTAINLY_LATE))
        if found.late_secs is not None:
            at_least, at_most = found.late_secs
            assert (at_least or 0) <= at_most + blur
            if found.verdict is Verdict.CERTAINLY_LATE:
                assert at_least > 0
            elif found.verdict is Verdict.NOT_LATE and each.start_secs <= now:
                assert at_most == 0
        format_expectation(found)


def test_a_job_that_has_just_started_is_late_by_what_it_waited_and_no_more_is_said():
    found = expect([job("7", NOW - 2, NOW - 1, cpus=2, limit_secs=60)], "7", share=8)
    text = shown(found)
    assert "08:39:59 UTC (1 s ago) at the earliest: if it and all earlier jobs ended now, 1 s late" in text
    assert (
        "08:42:58 UTC (in 2 min 58 s) at the latest: if it uses all of its limit, and 2 min more, 1 s late"
        in text
    )
    assert "Its own limit ends it 2025-11-20 08:40:59 UTC (in 59 s), or up to 2 min later." in text


def test_where_earlier_jobs_may_be_missing_nothing_is_certain():
    asked = choose_jobs([ReportedJob(job("7", NOW - 2, NOW - 1, cpus=2, limit_secs=60))], "7")
    found = compute_expectation(asked, shares_of(8), NOW, is_partial=True)
    assert (found.verdict, found.upper_secs) == (Verdict.POSSIBLY_LATE, None)
    assert "at no certain time at the latest: earlier jobs may be missing" in shown(found)


@given(histories(), st.sampled_from(Mode), st.integers(1, 6))
def test_when_all_has_ended_it_is_the_algorithm(history, mode, share):
    arrivals, requests, runtimes = zip(
        *((submit, cpus, end - start) for _, submit, start, end, cpus, _ in history), strict=True
    )
    ends = Lanes(share, mode).place(arrivals, requests, runtimes)
    for place, (job_id, *_) in enumerate(history):
        found = expect(as_of(history, 10_000), job_id, 10_000, share=share, mode=mode)
        assert found.lower_secs == found.upper_secs == ends[place]


@given(histories(), st.sampled_from(Mode), st.integers(1, 6), st.integers(0, 200))
def test_bounds_and_verdicts_are_those_of_the_watch(history, mode, share, now):
    jobs = as_of(history, now)
    for outlook in compute_outlooks(Lanes(share, mode), jobs, now):
        found = expect(jobs, outlook.facts.job_id, now, share=share, mode=mode)
        assert (found.lower_secs, found.upper_secs, found.verdict) == outlook[1:]


@given(histories(), st.sampled_from(Mode), st.integers(1, 6))
def test_what_is_taken_is_what_was_placed_and_is_left(history, mode, share):
    lanes = Lanes(share, mode)
    _, submit, start, end, cpus, _ = history[0]
    lanes.place([submit], [cpus], [end - start])
    work = cpus * (end - start)
    assert work <= lanes.occupied_lane_secs(submit) + 1e-6
    assert lanes.occupied_lane_secs(submit) <= work + (cpus if mode is Mode.LITERAL else 1e-6)
    assert lanes.occupied_lane_secs(10_000) == 0
