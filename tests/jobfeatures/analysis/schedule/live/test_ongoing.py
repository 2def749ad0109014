"""A schedule that is watched while it is made ends in the figures of its log."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.choosing import ScheduleError
from jobfeatures.analysis.schedule.eet import Mode
from jobfeatures.analysis.schedule.jobarrays import from_records
from jobfeatures.analysis.schedule.live import ongoing as module
from jobfeatures.analysis.schedule.live import outlook as outlooks
from jobfeatures.analysis.schedule.live.facts import JobFacts, from_record, order_of
from jobfeatures.analysis.schedule.live.ongoing import LATE, NO_SHARE, LiveSchedule
from jobfeatures.analysis.schedule.live.outlook import compute_outlooks
from jobfeatures.analysis.schedule.measures import QUANTILES, describe
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.shares import ShareRules, Shares
from jobfeatures.analysis.schedule.spooled import spool
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import JobState
from jobfeatures.records.schedulequality import Verdict
from tests.held import count_held
from tests.jobfeatures.evaluated import evaluate

END_OF_TIME = 10**9


def shares(default=4000, **users):
    return Shares(
        resource="cpu", default=default, total=0, total_from="given", default_from="given", users=users
    )


@pytest.fixture(autouse=True, scope="module")
def jobs_keep_to_their_limits():
    """Bounds are then exact, and no wrong one hides behind the time that ending a job may take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlooks, "OVERRUN_SECS", 0)
        yield


@pytest.fixture
def remembers_shortly(monkeypatch):
    monkeypatch.setattr(module, "REMEMBER_SECS", 100)


def live(**options):
    made = LiveSchedule(begin_secs=0, **options)
    made.use_shares(shares())
    return made


def job(job_id, user="ann", submit=0, start=0, end=10, cpus=1, **more):
    return JobFacts(job_id, user, "batch", submit, start, end, cpus=cpus, **more)


@dataclass
class Poll:
    """What a queue and accounting say at one time; the latter as of a while ago."""

    at: int
    known_until: int


def reported_at(facts, poll):
    """Return the jobs of the queue at a time, and the jobs that accounting has an end of."""
    queue = []
    for each in facts:
        if each.submit_secs is None or each.submit_secs > poll.at:
            continue
        if each.end_secs <= poll.at:
            continue
        start = each.start_secs if each.start_secs is not None and each.start_secs <= poll.at else None
        queue.append(each._replace(start_secs=start, end_secs=None, suspended_secs=0, is_cancelled=False))
    return queue, [each for each in facts if each.end_secs <= poll.known_until]


TIMES = st.integers(0, 60)


@st.composite
def any_facts(draw, users=("ann", "bob", "eve")):
    """Return jobs that ended: most count, some never started, some say what cannot be."""
    found = []
    for number in range(draw(st.integers(1, 14))):
        submit = draw(TIMES)
        start = submit + draw(st.integers(0, 30))
        end = start + draw(st.integers(0, 40))
        kind = draw(st.sampled_from(["fine"] * 8 + ["cancelled", "no user", "no cpus", "early"]))
        told = None if kind == "cancelled" else max(0, submit - 1) if kind == "early" else start
        found.append(
            JobFacts(
                job_id=str(number),
                user=None if kind == "no user" else draw(st.sampled_from(users)),
                partition=draw(st.sampled_from(["a", "b"])),
                submit_secs=submit,
                start_secs=told,
                end_secs=end,
                suspended_secs=draw(st.sampled_from([0, 0, 0, 3])) if kind == "fine" else 0,
                limit_secs=draw(st.none() | st.integers(end - (start if told is None else told) + 1, 200)),
                cpus=None if kind == "no cpus" else draw(st.integers(0, 6)),
                is_cancelled=kind == "cancelled",
            )
        )
    return found


@st.composite
def any_polls(draw):
    """Return polls in time, accounting being late by any amount, never earlier than before."""
    found, known = [], 0
    for at in sorted(draw(st.lists(st.integers(0, 140), max_size=8))):
        known = max(known, draw(st.integers(0, at)))
        found.append(Poll(at, known))
    return found


def records_of(facts):
    return [
        JobRecord(
            batch_system="x",
            job_id=each.job_id,
            user=each.user,
            partition=each.partition,
            state=JobState.CANCELLED if each.is_cancelled else JobState.COMPLETED,
            submit_secs=each.submit_secs,
            start_secs=each.start_secs,
            end_secs=each.end_secs,
            suspended_secs=each.suspended_secs,
            total_cpus=each.cpus,
        )
        for each in sorted(facts, key=order_of)
    ]


def offline(facts, mode):
    """Return the log of these jobs evaluated, None where none of them counts."""
    rules = ShareRules(default={"cpu": 4000})
    try:
        return evaluate(from_records(records_of(facts), "log"), Options(rules=rules, mode=mode))
    except ScheduleError:
        return None


def watch(facts, polls, mode, *, shuffle=lambda found: found):
    """Return a schedule after all polls, and everything at last."""
    made = live(mode=mode)
    for poll in polls:
        queue, ended = reported_at(facts, poll)
        made.apply_queue(shuffle(queue), poll.at)
        made.apply_ended(shuffle(ended))
        made.finalize_ends(made.horizon_secs(poll.known_until))
    made.apply_ended(shuffle(facts))
    made.finalize_ends(END_OF_TIME)
    return made


def check_equal(found, schedule, mode):
    """Compare all figures of a live schedule with those of a log."""
    if schedule is None:
        assert found.jobs == found.users == 0
        return
    exactly = mode is not Mode.FLUID
    assert found.jobs == len(schedule.chosen)
    assert found.users == len(schedule.chosen.users)
    assert found.violated == sum(schedule.violated)
    late, weighted = sum(schedule.tardiness.tolist()), sum(schedule.weighted_by_user)
    assert found.tardiness_secs == (late if exactly else pytest.approx(late))
    assert found.weighted_tardiness_cpu_secs == (weighted if exactly else pytest.approx(weighted))
    jobs = __import__("numpy").diff(schedule.chosen.bounds)
    quantiles = describe(100 * __import__("numpy").array(schedule.violated) / jobs)
    assert found.veet_quantiles[0.5] == pytest.approx(quantiles.quantiles[QUANTILES.index(0.5)] / 100)
    assert found.veet_quantiles[1.0] == pytest.approx(quantiles.most / 100)
    by_user = dict(zip(schedule.chosen.users, schedule.weighted_by_user, strict=True))
    assert {each.user: each.weighted_tardiness_cpu_secs for each in found.top_users} == (
        by_user if exactly else pytest.approx(by_user)
    )
    waits = schedule.measures.wait_secs
    assert sum(each.counts[-1] for each in found.wait_secs.values()) == len(waits)
    assert sum(each.sum for each in found.wait_secs.values()) == waits.sum()
    slowdowns = schedule.measures.bounded_slowdown
    assert sum(each.sum for each in found.slowdown.values()) == pytest.approx(slowdowns.sum(), abs=1e-4)
    skipped = spool("log", [schedule.log], Options()).skipped
    assert found.skipped == {reason: count for reason, count in skipped.items() if count}


@given(any_facts(), any_polls(), st.sampled_from(Mode), st.randoms())
def test_whatever_is_told_when_the_figures_at_the_end_are_those_of_the_log(facts, polls, mode, random):
    def shuffle(found):
        found = [*found, *random.sample(found, random.randint(0, len(found)))]  # some twice
        random.shuffle(found)
        return found

    made = watch(facts, polls, mode, shuffle=shuffle)
    found = made.quality("slurm", 200, top_users=10)
    check_equal(found, offline(facts, mode), mode)
    assert found.unfinished == {}
    assert found.unsettled_jobs == 0
    assert len(made) == 0


@given(any_facts(), any_polls(), st.integers(0, 140), st.sampled_from(Mode))
def test_a_fresh_start_from_the_same_history_gives_the_same_figures(facts, polls, at, mode):
    """The last look of a schedule that was watched, and of one that is told all of it at once."""
    polls = [*(each for each in polls if each.at < at), Poll(at, at)]  # accounting is asked after the queue
    watched = live(mode=mode)
    for poll in polls:
        queue, ended = reported_at(facts, poll)
        watched.apply_queue(queue, poll.at)
        watched.apply_ended(ended)
        watched.finalize_ends(watched.horizon_secs(poll.known_until))
    fresh = live(mode=mode)
    queue, ended = reported_at(facts, polls[-1])
    fresh.apply_queue(queue, at)
    fresh.apply_ended(ended)
    fresh.finalize_ends(fresh.horizon_secs(at))
    assert fresh.quality("slurm", at, top_users=9) == watched.quality("slurm", at, top_users=9)


@given(
    any_facts(users=("ann",)), st.lists(st.integers(0, 140), min_size=1, max_size=5), st.sampled_from(Mode)
)
def test_bounds_bound_and_no_verdict_is_ever_wrong(facts, times, mode):
    """At any time, of any job that counts in the end."""
    schedule = offline(facts, mode)
    if schedule is None:
        return
    log = sorted(facts, key=order_of)
    expected = {
        log[position].job_id: end + schedule.log.zero_secs
        for position, end in zip(schedule.chosen.position.tolist(), schedule.expected.tolist(), strict=True)
    }
    late = {
        log[position].job_id
        for position, secs in zip(schedule.chosen.position.tolist(), schedule.tardiness.tolist(), strict=True)
        if secs > 0
    }
    counting = [each for each in facts if each.job_id in expected and not each.suspended_secs]
    if len(counting) < len(expected):
        return  # how long a job was suspended is known at its end only
    for now in times:
        made = live(mode=mode)
        queue, ended = reported_at(facts, Poll(now, now))
        made.apply_queue(queue, now)
        made.apply_ended(ended)
        made.finalize_ends(now)
        blur = 1e-6 if mode is Mode.FLUID else 0
        for each in made.outlooks("ann", now):
            job_id = each.facts.job_id
            if job_id not in expected:
                continue  # it will be cancelled, or say what cannot be
            assert each.lower_secs <= expected[job_id] + blur
            assert each.upper_secs is None or expected[job_id] <= each.upper_secs + blur
            if each.verdict is Verdict.CERTAINLY_LATE:
                assert job_id in late
            if each.verdict is Verdict.NOT_LATE and each.facts.start_secs is not None:
                assert job_id not in late


@given(any_facts(users=("ann",)), st.integers(0, 100), st.integers(1, 30), st.sampled_from(Mode))
def test_a_waiting_job_that_is_not_late_would_be_in_time_if_it_started_now(facts, now, runtime, mode):
    """However the user's other jobs go on."""
    facts = [each for each in facts if each.cpus is not None and not each.is_cancelled and each.user]
    facts = [
        each._replace(suspended_secs=0, start_secs=max(each.submit_secs, each.start_secs)) for each in facts
    ]
    made = live(mode=mode)
    queue, ended = reported_at(facts, Poll(now, now))
    made.apply_queue(queue, now)
    made.apply_ended(ended)
    made.finalize_ends(now)
    for each in made.outlooks("ann", now):
        if each.facts.start_secs is None and each.verdict is Verdict.NOT_LATE:
            then = [
                other
                if other.job_id != each.facts.job_id
                else other._replace(start_secs=now, end_secs=now + runtime)
                for other in facts
            ]
            schedule = offline(then, mode)
            log = sorted(then, key=order_of)
            place = [log[at].job_id for at in schedule.chosen.position.tolist()].index(each.facts.job_id)
            assert schedule.tardiness[place] == 0


def test_a_job_is_settled_once_all_before_it_have_ended():
    made = live()
    made.apply_queue([job("1", submit=0, start=None, end=None)], 50)
    made.apply_ended([job("2", submit=5, start=5, end=20)])
    made.finalize_ends(50)
    found = made.quality("slurm", 50)
    assert (found.jobs, found.unsettled_jobs) == (0, 1)
    assert found.wait_secs["batch"].counts[-1] == 1  # waits know no expected end
    made.apply_ended([job("1", submit=0, start=50, end=60)])
    made.finalize_ends(60)
    assert (made.quality("slurm", 60).jobs, len(made)) == (2, 0)


def test_what_ended_after_the_horizon_is_not_settled_yet():
    made = live()
    made.apply_ended([job("1", end=10), job("2", end=30)])
    made.finalize_ends(20)
    assert made.quality("slurm", 30).jobs == 1


def test_a_correction_before_that_replaces_what_was_told():
    made = live()
    made.apply_ended([job("1", end=10)])
    made.apply_ended([job("1", start=4, end=30)])
    made.finalize_ends(30)
    found = made.quality("slurm", 30)
    assert (found.jobs, found.violated, found.tardiness_secs) == (1, 1, 4)
    assert (found.wait_secs["batch"].counts[-1], found.wait_secs["batch"].sum) == (1, 4)


def test_what_comes_or_changes_too_late_is_told_and_changes_nothing():
    made = live()
    made.apply_ended([job("2", submit=5, start=5, end=10)])
    made.finalize_ends(10)
    made.apply_ended([job("2", submit=5, start=5, end=11), job("1", submit=4, start=4, end=9)])
    made.apply_ended([job("2", submit=5, start=5, end=11), job("1", submit=4, start=4, end=9)])
    made.finalize_ends(20)
    found = made.quality("slurm", 20)
    assert (found.jobs, found.skipped) == (1, {LATE: 2})


def test_a_requeued_job_counts_by_its_last_run():
    made = live()
    made.apply_ended([job("1", submit=0, start=2, end=5)])
    made.apply_queue([job("1", submit=6, start=None, end=None)], 7)
    made.apply_ended([job("1", submit=0, start=2, end=5)])  # accounting still reports the first
    made.finalize_ends(7)
    assert made.quality("slurm", 7).jobs == 0
    made.apply_ended([job("1", submit=6, start=8, end=12)])
    made.finalize_ends(20)
    found = made.quality("slurm", 20)
    assert (found.jobs, found.tardiness_secs, found.wait_secs["batch"].sum) == (1, 2, 2)


@pytest.mark.usefixtures("remembers_shortly")
def test_a_job_is_not_counted_again_for_as_long_as_it_may_be_told_again():
    made = live()
    for horizon in (10, 50, 109, 111, 500):
        made.apply_ended([job("1", end=10)])
        made.finalize_ends(horizon)
        assert made.quality("slurm", horizon).jobs == 1


@pytest.mark.usefixtures("remembers_shortly")
def test_a_job_that_waits_behind_another_can_be_corrected_however_long_ago_it_ended():
    made = live()
    made.apply_queue([job("1", end=None)], 10)
    made.apply_ended([job("2", submit=1, start=1, end=10)])
    made.finalize_ends(1000)
    made.apply_ended([job("2", submit=1, start=1, end=12, cpus=2), job("1", end=1001)])
    made.finalize_ends(1001)
    found = made.quality("slurm", 1001)
    assert (found.jobs, found.violated, found.wait_secs["batch"].counts[-1]) == (2, 0, 2)


@pytest.mark.usefixtures("remembers_shortly")
def test_history_is_not_remembered_job_by_job():
    made = live()
    made.apply_ended(job(str(number), submit=number, start=number, end=number + 1) for number in range(1000))
    made.finalize_ends(1000)
    assert made.quality("slurm", 1000).jobs == 1000
    few = live()
    few.apply_ended(job(str(number), submit=number, start=number, end=number + 1) for number in range(100))
    few.finalize_ends(100)
    assert count_held(made) < count_held(few) + 900  # less than one thing for each job
    made.apply_ended(job(str(number), submit=number, start=number, end=number + 1) for number in range(1000))
    made.finalize_ends(1100)
    assert made.quality("slurm", 1000).jobs == 1000


@pytest.mark.usefixtures("remembers_shortly")
def test_what_is_settled_takes_no_room_after_a_while():
    made, held = live(), []
    for number in range(1000):
        made.apply_ended([job(str(number), submit=number, start=number, end=number + 1)])
        made.finalize_ends(number + 1)
        held.append(count_held(made) if number % 100 == 99 else 0)
    assert len(made) == 0
    assert held[-1] < held[299] + 700  # less than one thing for each job


def test_jobs_that_ended_before_the_beginning_are_in_no_figure():
    made = LiveSchedule(begin_secs=100)
    made.use_shares(shares())
    made.apply_ended([job("1", end=99), job("2", end=100), job("3", start=None, end=99)])
    made.finalize_ends(200)
    found = made.quality("slurm", 200)
    assert (found.jobs, found.skipped, found.wait_secs["batch"].counts[-1]) == (1, {}, 1)


def test_a_job_that_no_queue_tells_of_any_more_is_dropped_unless_its_end_is_known():
    made = live()
    made.apply_queue([job("1", end=None), job("2", end=None)], 10)
    made.apply_ended([job("3", submit=1, start=1, end=5)])
    made.apply_queue([job("2", end=None)], 50)
    assert sum(made.quality("slurm", 50).unfinished.values()) == 1  # it has left, though how is not known yet
    made.finalize_ends(50)
    assert made.quality("slurm", 50).jobs == 0
    made.forget_missing(40)
    made.apply_ended([job("2", end=55)])
    made.finalize_ends(60)
    assert made.quality("slurm", 60).jobs == 2


def test_an_array_that_waits_stands_for_its_tasks():
    made = live()
    array = JobFacts("7", "ann", "a", 0, None, None, limit_secs=10, cpus=2, array_id="7", task=0, tasks=5)
    made.apply_queue([array], 25)
    found = made.outlooks("ann", 25)
    assert [each.upper_secs for each in found] == [10, 10, 20, 20, 30]
    assert [each.verdict for each in found] == [Verdict.CERTAINLY_LATE] * 5
    assert [each.verdict for each in made.outlooks("ann", 19)][-1] is Verdict.POSSIBLY_LATE
    assert made.quality("slurm", 25).unfinished == {Verdict.CERTAINLY_LATE: 5}


def test_of_an_array_beyond_measure_nothing_behind_it_has_an_upper_bound(monkeypatch):
    monkeypatch.setattr("jobfeatures.analysis.schedule.live.outlook.MAX_TASKS", 2)
    made = live()
    array = JobFacts("7", "ann", "a", 0, None, None, limit_secs=10, cpus=2, tasks=10**9)
    made.apply_queue([array, job("8", submit=1, start=None, end=None, limit_secs=5)], 25)
    assert [each.upper_secs for each in made.outlooks("ann", 25)] == [10, 10, None]


def test_of_arrays_beyond_measure_in_sum_only_the_first_tasks_are_looked_at(monkeypatch):
    monkeypatch.setattr("jobfeatures.analysis.schedule.live.outlook.MAX_ALL_TASKS", 3)
    made = live()
    arrays = [
        JobFacts(name, "ann", "a", 0, None, None, limit_secs=10, cpus=4, array_id=name, tasks=3)
        for name in ("7", "8", "9")
    ]
    made.apply_queue(arrays, 25)
    found = [(each.facts.job_id, each.upper_secs) for each in made.outlooks("ann", 25)]
    assert found == [("7", 10), ("7", 20), ("7", 30), ("8", 40), ("8", 50), ("9", None)]


def test_behind_a_job_without_a_limit_the_rest_of_the_share_has_bounds():
    made = live()
    jobs = [
        job("1", start=0, end=None, cpus=3),
        job("2", submit=1, start=None, end=None, limit_secs=10),
        job("3", submit=2, start=None, end=None, limit_secs=10, cpus=4),
    ]
    made.apply_queue(jobs, 30)
    assert [each.upper_secs for each in made.outlooks("ann", 30)] == [None, 11, 51]


def test_a_user_who_uses_the_share_up_is_not_kept_waiting():
    made = live()
    jobs = [job("1", start=0, end=None, cpus=4), job("2", submit=1, start=None, end=None, limit_secs=10)]
    made.apply_queue(jobs, 30)
    verdicts = {each.facts.job_id: each.verdict for each in made.outlooks("ann", 30)}
    assert verdicts == {"1": Verdict.NOT_LATE, "2": Verdict.NOT_LATE}


def test_users_without_a_share_are_left_out_and_told():
    made = live()
    made.use_shares(shares(ann=0))
    made.apply_ended([job("1", end=10), job("2", user="bob", end=10)])
    made.apply_queue([job("3", submit=20, start=None, end=None)], 20)
    made.finalize_ends(20)
    found = made.quality("slurm", 20, top_users=5)
    assert (found.jobs, found.users, found.skipped, found.unfinished) == (1, 1, {NO_SHARE: 1}, {})


def test_names_and_numbers_of_any_kind_do_no_harm():
    made = live()
    made.apply_ended(
        [
            job('1"\n', user='a"b\\\n\udcff', end=5),
            job("2", submit=-5, end=5),
            job("3", submit=0, start=0, end=2**70),
            job("4", cpus=-1),
            job("5", cpus=10**30),
            job("", user=""),
        ]
    )
    made.apply_queue(
        [job("6", submit=-1, start=None, end=None), job("7", cpus=None, start=None, end=None)], 9
    )
    made.finalize_ends(20)
    found = made.quality("slurm", 20, top_users=5)
    assert found.jobs == 2
    assert sum(found.skipped.values()) == 4
    assert found.unfinished == {}


def test_users_are_ranked_by_weighted_tardiness_and_cut():
    made = live()
    made.apply_ended(
        job(str(number), user=f"u{number}", submit=0, start=number, end=number + 5) for number in range(6)
    )
    made.finalize_ends(100)
    assert [each.user for each in made.quality("slurm", 100, top_users=2).top_users] == ["u5", "u4"]
    assert made.quality("slurm", 100).top_users == ()


def test_partitions_beyond_measure_are_one():
    made = live()
    made.apply_ended(job(str(number))._replace(partition=f"p{number}") for number in range(300))
    made.finalize_ends(100)
    found = made.quality("slurm", 100)
    assert len(found.wait_secs) == 201
    assert found.wait_secs["other"].counts[-1] == 100


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_quantiles_are_those_of_a_log(values):
    import numpy as np

    from jobfeatures.records.schedulequality import compute_quantiles

    found, told = compute_quantiles(values), describe(np.array(values))
    assert list(found.values())[1:-1] == pytest.approx(list(told.quantiles))
    assert (found[0.0], found[1.0]) == (told.least, told.most)


def test_an_outlook_needs_no_schedule_but_the_users_jobs():
    from jobfeatures.analysis.schedule.eet import Lanes

    jobs = [job("1", end=8, cpus=2), job("2", submit=1, start=8, end=None, limit_secs=9, cpus=3)]
    (found,) = compute_outlooks(Lanes(3), jobs, 10)
    assert (found.lower_secs, found.upper_secs, found.verdict) == (7, 15, Verdict.CERTAINLY_LATE)
    assert math.isfinite(found.lower_secs)


def test_facts_of_a_log_are_those_of_its_records():
    record = records_of([job("1", submit=1, start=3, end=9, cpus=2)])[0]
    assert from_record(record) == job("1", submit=1, start=3, end=9, cpus=2)
