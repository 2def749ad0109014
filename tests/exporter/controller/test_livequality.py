"""The controller's watch over a schedule, on a batch system that replays a log by a clock that is turned."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures.analysis.schedule.jobarrays import from_records
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.shares import ShareRules
from jobfeatures.analysis.schedule.spooled import spool
from jobfeatures.batch.source import KeeperStatus
from jobfeatures.errors import ConfigurationError, Rejected, SourceError
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord
from jobfeatures.records.model import Cluster, ClusterNode, Job, JobKey, JobState, JobTable, Limits
from jobfeatures.records.schedulequality import WAIT_BOUNDS, ScheduleQuality, Tally
from jobfeatures_exporter.cluster.accountingfeed import AccountingFeed
from jobfeatures_exporter.controller import daemon as controller
from jobfeatures_exporter.controller import livequality
from jobfeatures_exporter.controller.daemon import Controller
from jobfeatures_exporter.controller.livequality import LiveQuality, compute_begin, compute_shown, make_rules
from jobfeatures_exporter.scrape.collectors import CONTROLLER
from tests.configured import configured
from tests.exporter.controller.polled import Kept, poll
from tests.jobfeatures.evaluated import evaluate

DAY = 86_400
HOSTILE = 'eve"\n\\ü'


class Replayed:
    """A batch system whose jobs are known beforehand. What it says depends on the time alone."""

    name = "slurm"

    def __init__(self, clock, jobs, *, lag_secs=0, cpus=64):
        self.clock, self.jobs, self.lag_secs, self.cpus = clock, jobs, lag_secs, cpus
        self.asked = []  # since when, of accounting
        self.failing = 0

    def poll_queue(self):
        now = self.clock.now
        found = [self._job(each, now) for each in self.jobs if each.submit_secs <= now < each.end_secs]
        return JobTable(
            source="slurm", jobs={job.key: job for job in found}, taken_at_secs=now, complete=True
        )

    @staticmethod
    def _job(each, now):
        runs = each.start_secs is not None and each.start_secs <= now
        return Job(
            key=JobKey("slurm", each.job_id),
            state=JobState.RUNNING if runs else JobState.PENDING,
            user=each.user,
            partition=each.partition,
            submit_secs=each.submit_secs,
            start_secs=each.start_secs if runs else None,
            total_cpus=each.total_cpus,
            limits=Limits(wall_secs=each.wall_limit_secs),
        )

    def poll_cluster(self):
        node = ClusterNode(name="n1", states=("IDLE",), cpus=self.cpus)
        return Cluster(source="slurm", taken_at_secs=self.clock.now, nodes=(node,))

    def poll_accounting(self, since_secs):
        return self.ended(since_secs, self.clock.now)

    def ended(self, since_secs, until_secs):
        self.asked.append((since_secs, until_secs))
        if self.failing:
            self.failing -= 1
            raise SourceError("the database is away")
        now = self.clock.now
        records = [
            JobRecord(
                batch_system="slurm",
                job_id=each.job_id,
                step=step,
                state=each.state,
                user=each.user,
                partition=each.partition,
                submit_secs=each.submit_secs,
                start_secs=each.start_secs,
                end_secs=each.end_secs,
                wall_limit_secs=each.wall_limit_secs,
                total_cpus=each.total_cpus,
                requested_cpus=each.total_cpus,
            )
            for each in self.jobs
            for step in (None, "batch")
            if since_secs <= each.end_secs <= now - self.lag_secs and each.submit_secs <= until_secs
        ]
        return Accounting(source="slurm", records=tuple(records), taken_at_secs=now)


class Chunked(Replayed):
    """One that can be asked for parts of its history."""

    def poll_history(self, since_secs, until_secs):
        return self.ended(since_secs, until_secs)


def make_log(begin, days, *, count=600, seed=1):
    rng = random.Random(seed)
    found = []
    for number in range(1, count + 1):
        submit = begin + rng.randrange(days * DAY)
        start = submit + rng.choice([0, 5, rng.randrange(4 * 3600)])
        runtime = rng.randrange(1, 7200)
        never = rng.random() < 0.05
        found.append(
            JobRecord(
                batch_system="slurm",
                job_id=str(number),
                user=rng.choice(["ann", "bob", HOSTILE, "zoe"]),
                partition=rng.choice(["batch", "gpu"]),
                state=JobState.CANCELLED if never else JobState.COMPLETED,
                submit_secs=submit,
                start_secs=None if never else start,
                end_secs=start + runtime,
                total_cpus=rng.randrange(1, 17),
                wall_limit_secs=rng.choice([None, 7200, 10_000]),
            )
        )
    return sorted(found, key=lambda each: (each.submit_secs, int(each.job_id)))


def watch(source, clock, feed=None, *, fed_secs=None, queue=None, **settings):
    return LiveQuality(
        source,
        clock,
        configured(role=CONTROLLER, **settings),
        feed=feed or AccountingFeed(source),
        fed_secs=fed_secs,
        queue=Kept(queue or (lambda: KeeperStatus("slurm-queue", source.poll_queue()))),
        cluster=Kept(lambda: KeeperStatus("slurm-nodes", source.poll_cluster())),
    )


def offline(jobs, begin, until, *, share=None, of=None):
    """Return the log of the jobs that ended in between evaluated, with the shares that the watch took."""
    log = from_records([each for each in jobs if begin <= each.end_secs <= until], "log")
    users = {name: {"cpu": amount} for name, amount in (of or {}).items()}
    return evaluate(log, Options(rules=ShareRules(default={"cpu": share}, users=users)))


def figures(found):
    return (
        found.jobs,
        found.violated,
        found.tardiness_secs,
        found.weighted_tardiness_cpu_secs,
        found.users,
        {user.user: user.weighted_tardiness_cpu_secs for user in found.top_users},
    )


def offline_figures(schedule):
    return (
        len(schedule.chosen),
        sum(schedule.violated),
        sum(schedule.tardiness.tolist()),
        sum(schedule.weighted_by_user),
        len(schedule.chosen.users),
        dict(zip(schedule.chosen.users, schedule.weighted_by_user, strict=True)),
    )


@pytest.fixture
def begin(clock):
    """Return a midnight, and set the clock to a time two days later."""
    begin = int(clock.now // DAY) * DAY
    clock.now = begin + 2 * DAY + 0.5
    return begin


@pytest.mark.parametrize("kind", [Replayed, Chunked])
@pytest.mark.parametrize("lag_secs", [0, 400])
def test_a_log_that_is_replayed_gives_its_figures(clock, begin, kind, lag_secs):
    jobs = make_log(begin - DAY, 4)
    source = kind(clock, jobs, lag_secs=lag_secs)
    made = watch(source, clock, schedule_history_secs=DAY, schedule_share="8", schedule_share_of="bob=2.5")
    rng = random.Random(2)
    while clock.now < begin + 4 * DAY:
        found = made.ask()
        clock.advance(rng.randrange(30, 1800))
    assert found.begin_secs == begin + DAY
    schedule = offline(jobs, begin + DAY, 10**12, share=8000, of={"bob": 2500})
    assert figures(found) == offline_figures(schedule)
    assert found.violated > 10
    skipped = spool("log", [schedule.log], Options()).skipped
    assert found.skipped == {"never_started": skipped["never_started"]}
    assert found.unfinished == {}
    waits = found.wait_secs.values()
    assert sum(each.sum for each in waits) == schedule.measures.wait_secs.sum()


def test_a_job_that_is_queued_anew_after_its_end_makes_no_count_fall(clock, begin):
    [job] = make_log(begin + DAY, 1, count=1)
    job = replace(
        job, state=JobState.COMPLETED, start_secs=job.submit_secs + 5, end_secs=job.submit_secs + 60
    )
    source = Replayed(clock, [job])
    clock.now = job.end_secs + 1
    made = watch(source, clock, schedule_history_secs=DAY)
    assert made.ask().wait_secs[job.partition].counts[-1] == 1
    again = replace(
        job, submit_secs=job.end_secs + 1, start_secs=job.end_secs + 100, end_secs=job.end_secs + 10_000
    )
    source.jobs = [again]
    clock.advance(60)
    assert made.ask().wait_secs[job.partition].counts[-1] == 1
    clock.advance(20_000)
    assert made.ask().wait_secs[job.partition].sum == again.start_secs - again.submit_secs


def test_a_clock_that_was_days_ahead_spoils_nothing_for_good(clock, begin, caplog):
    jobs = make_log(begin - DAY, 4)
    source = Chunked(clock, jobs)
    made = watch(source, clock, schedule_history_secs=DAY, schedule_share="8")
    made.ask()
    source.jobs = [each for each in jobs if each.end_secs <= clock.now]
    clock.advance(3 * DAY)  # nobody else's clock goes so
    made.ask()
    clock.advance(-3 * DAY)
    source.jobs = jobs
    while clock.now < begin + 4 * DAY:
        found = made.ask()
        clock.advance(600)
    assert figures(found) == offline_figures(offline(jobs, begin + DAY, 10**12, share=8000))
    assert caplog.text.count("clock was set back") == 1


def test_a_restart_gives_the_same_figures(clock, begin):
    source = Chunked(clock, make_log(begin - DAY, 4))
    first = watch(source, clock, schedule_history_secs=DAY)
    for _ in range(200):
        first.ask()
        clock.advance(300)
    # The horizon is that of the last queue: both have seen one now.
    found, again = first.ask(), watch(source, clock, schedule_history_secs=DAY).ask()
    assert found == again
    assert found.jobs > 100
    assert found.share_cpus == 64 / 4
    assert found.unfinished


def test_the_beginning_moves_only_when_another_span_has_passed(clock, begin):
    assert compute_begin(begin + 2 * DAY + 0.5, DAY) == begin + DAY
    assert compute_begin(begin + 2.9 * DAY, DAY) == begin + DAY
    assert compute_begin(begin + 3 * DAY, DAY) == begin + 2 * DAY
    assert compute_begin(5.0, DAY) == 0


def test_the_default_share_is_that_of_the_users_of_the_first_span_and_stays(clock, begin):
    jobs = make_log(begin + DAY, 1, count=50)
    late = [replace(each, job_id=f"9{each.job_id}", user="new", end_secs=begin + 3 * DAY) for each in jobs]
    source = Replayed(clock, [*jobs, *late])
    made = watch(source, clock, schedule_history_secs=DAY)
    assert made.ask().share_cpus == 16
    source.cpus = 6400
    clock.advance(2 * DAY)
    assert made.ask().share_cpus == 16
    assert made.ask().users == 5


def test_accounting_is_asked_by_the_day_at_first_then_now_and_then_for_what_is_new(clock, begin):
    source = Chunked(clock, make_log(begin, 2, count=50))
    made = watch(source, clock, schedule_history_secs=3 * DAY, schedule_share="8")
    made.ask()
    assert [round((until - since) / DAY) for since, until in source.asked[:3]] == [1, 1, 1]
    assert source.asked[-1] == (clock.now - 600, clock.now)
    source.asked.clear()
    for _ in range(10):
        clock.advance(60)
        made.ask()
    assert source.asked == [
        (clock.now - 600 - 600 + 300 - 300, clock.now - 300),
        (clock.now - 900, clock.now),
    ]


def test_where_a_day_of_history_fails_it_goes_on_there(clock, begin):
    source = Chunked(clock, make_log(begin, 2, count=50))
    made = watch(source, clock, schedule_history_secs=2 * DAY, schedule_share="8")
    undisturbed = watch(source, clock, schedule_history_secs=2 * DAY, schedule_share="8").ask()
    source.asked.clear()
    source.ended = lambda since, until, ask=source.ended: (
        (_ for _ in ()).throw(SourceError("away"))
        if len(source.asked) == 1 and not source.failing
        else ask(since, until)
    )
    with pytest.raises(SourceError):
        made.ask()
    first = source.asked[0]
    source.failing = 0
    del source.ended
    assert made.ask() == undisturbed
    assert source.asked.count(first) == 1


def test_what_sonars_documents_were_told_is_not_asked_again(clock, begin):
    jobs = make_log(begin, 3)
    source = Chunked(clock, jobs)
    feed = AccountingFeed(source)
    made = watch(source, clock, feed, fed_secs=300, schedule_history_secs=DAY, schedule_share="8")
    made.ask()
    source.asked.clear()
    told = clock.now
    while clock.now < begin + 3.5 * DAY:
        clock.advance(300)
        feed.poll_accounting(told - 600)
        told = clock.now
        found = made.ask()
    assert len(source.asked) == (1.5 * DAY) // 300
    assert figures(found) == offline_figures(offline(jobs, begin + DAY, 10**12, share=8000))
    clock.advance(601)  # nobody feeds it any more
    made.ask()
    assert source.asked[-1] == (told - 600, clock.now)


def test_an_answer_that_leaves_a_gap_is_not_used(clock, begin):
    source = Chunked(clock, make_log(begin, 3))
    feed = AccountingFeed(source)
    made = watch(source, clock, feed, schedule_history_secs=DAY, schedule_share="8")
    made.ask()
    source.asked.clear()
    clock.advance(3 * 3600)
    feed.poll_accounting(clock.now - 60)
    made.ask()
    assert len(source.asked) == 2


def test_a_database_that_is_away_costs_nothing_but_time(clock, begin):
    jobs = make_log(begin, 3)
    source = Chunked(clock, jobs)
    made = watch(source, clock, schedule_history_secs=DAY, schedule_share="8")
    made.ask()
    source.failing = 10**9
    for _ in range(12):
        clock.advance(3600)
        with pytest.raises(SourceError):
            made.ask()
    source.failing = 0
    clock.advance(2 * DAY)
    made.ask()
    clock.advance(700)
    assert figures(made.ask()) == offline_figures(offline(jobs, begin + DAY, 10**12, share=8000))


def test_a_job_whose_end_nobody_tells_holds_the_others_up_for_ten_minutes(clock, begin):
    jobs = make_log(begin, 3, count=50)
    held = replace(jobs[0], job_id="0", submit_secs=begin, start_secs=None, end_secs=begin + 3 * DAY)
    source = Replayed(clock, [held, *(replace(each, user=held.user) for each in jobs)])
    made = watch(source, clock, schedule_history_secs=DAY, schedule_share="8")
    clock.now = begin + 3 * DAY - 5
    assert made.ask().jobs == 0
    source.jobs.remove(held)
    for jobs_known, secs in ((0, 300), (0, 300), (len(jobs), 400)):
        clock.advance(secs)
        assert (made.ask().jobs > 0) is (jobs_known > 0)


def test_without_cpus_there_is_no_default_share(clock, begin):
    source = Replayed(clock, make_log(begin, 1, count=5), cpus=None)
    with pytest.raises(SourceError, match=r"set schedule\.share"):
        watch(source, clock).ask()


def test_a_queue_that_fails_is_told_and_not_waited_for(clock, begin):
    source = Replayed(clock, [])
    made = LiveQuality(
        source,
        clock,
        configured(role=CONTROLLER),
        feed=AccountingFeed(source),
        queue=Kept(lambda: KeeperStatus("slurm-queue", None, failures=1)),
        cluster=Kept(lambda: KeeperStatus("slurm-nodes", None)),
    )
    with pytest.raises(SourceError, match="slurm-queue has not answered"):
        made.ask()


def test_at_the_start_it_waits_for_the_queue(clock, begin, monkeypatch):
    monkeypatch.setattr(livequality, "OTHERS_WAIT_SECS", 0.0)
    source = Replayed(clock, [])
    answers = [KeeperStatus("slurm-queue")] * 3

    def queue():
        return answers.pop() if answers else KeeperStatus("slurm-queue", source.poll_queue())

    made = watch(source, clock, queue=queue, schedule_share="8")
    assert made.ask().jobs == 0
    waiting = watch(source, clock, queue=lambda: KeeperStatus("slurm-queue"), schedule_share="8")
    waiting.stop()
    with pytest.raises(SourceError):
        waiting.ask()


def test_bad_records_are_handed_on(clock, begin):
    source = Chunked(clock, make_log(begin, 1, count=5))
    bad = Rejected("sacct", "not a job id")
    source.ended = lambda since, until, ask=source.ended: replace(ask(since, until), rejected=(bad,))
    assert bad in watch(source, clock, schedule_share="8").ask().rejected


@pytest.mark.parametrize(
    ("share", "of", "reason"),
    [
        ("x", None, "schedule.share: must be a number"),
        ("0", None, "schedule.share: must be above 0"),
        ("gpu=1", None, "schedule.share"),
        (None, "group:staff=4", "schedule.share_of: must name users: accounting does not report groups"),
        (None, "=4", "schedule.share_of"),
    ],
)
def test_a_share_that_is_none_ends_the_start(share, of, reason):
    with pytest.raises(ConfigurationError, match=reason):
        make_rules(share, of)


@pytest.fixture
def served(clock, begin, monkeypatch):
    source = Chunked(clock, make_log(begin - DAY, 3))
    monkeypatch.setattr(controller, "make_cluster_sources", lambda _config, _clock: [source])
    made = Controller(configured(role=CONTROLLER, schedule_history_secs=DAY, schedule_top_users=2), clock)
    poll(made)
    return made


def test_the_page_holds_the_figures_in_both_formats(served):
    [found] = served.context().schedules
    text = served.exposition(openmetrics=False).decode()
    assert f'batch_schedule_jobs_total{{batch_system="slurm"}} {found.jobs}\n' in text
    assert text.count("batch_schedule_user_veet_ratio{") == 2
    families = {each.name: each for each in parse_text(text)}
    waits = families["batch_schedule_wait_seconds"]
    assert waits.type == "histogram"
    counts = [each.value for each in waits.samples if each.name.endswith("_count")]
    assert sum(counts) == sum(each.counts[-1] for each in found.wait_secs.values()) > 0
    openmetrics = {each.name for each in parse_openmetrics(served.exposition(openmetrics=True).decode())}
    assert {
        "batch_schedule_wait_seconds",
        "batch_schedule_slowdown",
        "batch_schedule_veet_ratio",
    } <= openmetrics


def test_a_broken_accounting_leaves_the_last_figures_and_shows_in_the_sources(served, clock):
    before = served.context().schedules
    served.sources[0].failing = 10**9
    clock.advance(600)
    poll(served)
    text = served.exposition(openmetrics=False).decode()
    assert served.context().schedules == before
    assert 'batch_exporter_source_up{source="slurm-schedule"} 0\n' in text
    assert 'batch_exporter_source_failures_total{source="slurm-schedule"} 1\n' in text
    assert 'batch_exporter_source_up{source="slurm-queue"} 1\n' in text


@pytest.mark.program
def test_it_needs_no_numpy():
    code = "import sys, jobfeatures_exporter.controller.daemon, jobfeatures_exporter.startup.serve; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_where_the_collector_is_off_accounting_is_not_asked(clock, begin, monkeypatch):
    source = Chunked(clock, [])
    monkeypatch.setattr(controller, "make_cluster_sources", lambda _config, _clock: [source])
    made = Controller(configured(role=CONTROLLER, collector_schedule=False), clock)
    poll(made)
    assert source.asked == []
    assert made.context().schedules == ()


VALUES = st.integers(0, 10**6)


def quality(tally, skipped):
    return ScheduleQuality(
        source="slurm",
        taken_at_secs=0,
        begin_secs=0,
        share_cpus=1,
        skipped={"no_user": skipped} if skipped else {},
        wait_secs={"batch": tally.histogram()},
        slowdown={"batch": tally.histogram()},
    )


@given(st.lists(st.tuples(VALUES, st.booleans())))
def test_counts_that_are_taken_back_stand_still_until_others_make_up_for_them(steps):
    tally, counted, skipped = Tally(WAIT_BOUNDS), [], 0
    shown = None
    for value, is_taken_back in steps:
        if is_taken_back and counted:
            tally.add(counted.pop(), -1)
            skipped -= 1
        else:
            tally.add(value, 1)
            counted.append(value)
            skipped += 1
        found = quality(tally, skipped)
        before, shown = shown, compute_shown(shown, found)
        for old, new, true in (
            (before and each(before), each(shown), each(found))
            for each in (lambda one: one.wait_secs["batch"], lambda one: one.slowdown["batch"])
        ):
            assert list(new.counts) == sorted(new.counts)
            assert all(more >= less for more, less in zip(new.counts, true.counts, strict=True))
            if old is not None:
                assert all(after >= was for after, was in zip(new.counts, old.counts, strict=True))
                assert new.sum >= old.sum
        assert shown.skipped.get("no_user", 0) >= (0 if before is None else before.skipped.get("no_user", 0))
        if not any(is_taken_back for _, is_taken_back in steps):
            assert shown == found


def test_what_is_made_up_for_is_shown_as_it_is():
    tally = Tally(WAIT_BOUNDS)
    tally.add(100, 1)
    shown = compute_shown(None, quality(tally, 1))
    tally.add(100, -1)
    shown = compute_shown(shown, quality(tally, 0))
    assert shown.wait_secs["batch"].counts[-1] == 1
    assert shown.skipped == {"no_user": 1}
    for count in (1, 2):
        tally.add(200, 1)
        shown = compute_shown(shown, quality(tally, count))
        assert shown == quality(tally, count) or count == 1
    assert shown.wait_secs["batch"].sum == 400
    assert shown.wait_secs["batch"].counts[-1] == 2
