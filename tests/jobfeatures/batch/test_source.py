import threading
from dataclasses import replace

from jobfeatures.batch.source import Keeper, PolledSource
from jobfeatures.errors import Rejected, SourceError
from jobfeatures.system.rounds import Rounds


class StandIn(PolledSource):
    """A source that answers what it is given, in turn; the last answer again and again."""

    name = "slurm"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.was_asked = threading.Event()

    def poll_jobs(self, seen, claimed=()):
        self.asked.append(seen)
        self.was_asked.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def keep(source, clock=None, *, interval_secs=60, min_interval_secs=60, **settings):
    return Keeper(
        source.name,
        lambda: source.poll_jobs(frozenset()),
        interval_secs=interval_secs,
        min_interval_secs=min_interval_secs,
        watch=source.watch,
        clock=clock,
        **settings,
    )


def test_a_failure_keeps_the_last_good_table_and_its_age_grows(clock, make_job, make_table):
    table = make_table(make_job(), taken_at_secs=clock.now)
    keeper = keep(StandIn(table, SourceError("no answer"), table), clock)
    keeper.poll_once()
    clock.advance(30)
    keeper.poll_once()
    assert keeper.status.table is table
    assert keeper.status.failures == 1
    assert keeper.status.last_error == "no answer"
    assert keeper.status.age_secs(clock.now) == 30
    keeper.poll_once()
    assert keeper.status.last_error == ""
    assert keeper.status.failing_since_secs is None


def test_a_source_fails_since_its_first_failure_after_the_last_answer(clock, make_table):
    failure = SourceError("no answer")
    keeper = keep(StandIn(make_table(), failure, SourceError("another"), make_table()), clock)
    keeper.poll_once()
    clock.advance(60)
    keeper.poll_once()
    since = clock.now
    clock.advance(60)
    keeper.poll_once()
    assert (keeper.status.last_error, keeper.status.failing_since_secs) == ("another", since)
    keeper.poll_once()
    assert keeper.status.failing_since_secs is None


def test_an_unexpected_fault_is_a_failure_too(clock):
    keeper = keep(StandIn(ZeroDivisionError("oops")), clock)
    keeper.poll_once()
    assert keeper.status.failures == 1
    assert "ZeroDivisionError" in keeper.status.last_error
    assert keeper.status.age_secs(clock.now) is None


def test_a_clock_set_back_does_not_make_an_age_negative(clock, make_table):
    keeper = keep(StandIn(make_table(taken_at_secs=clock.now + 100)), clock)
    keeper.poll_once()
    assert keeper.status.age_secs(clock.now) == 0


def test_skipped_records_are_counted_over_all_polls(clock, make_table):
    table = replace(make_table(), rejected=(Rejected("s", "bad"),))
    keeper = keep(StandIn(table), clock)
    keeper.poll_once()
    keeper.poll_once()
    assert keeper.status.rejected == 2


def test_a_skipped_record_is_logged_when_it_appears_and_known_while_it_lasts(clock, make_table, caplog):
    bad, other = (Rejected("s", reason) for reason in ("bad", "other"))
    tables = [replace(make_table(), rejected=each) for each in ((bad, other), (bad,), (), (bad,))]
    keeper = keep(StandIn(*tables), clock)
    found = []
    for secs in (60, 599, 1000, 0):
        keeper.poll_once()
        found.append(keeper.status.skipped)
        clock.advance(secs)
    assert found == [(bad, other), (other, bad), (bad,), (bad,)]
    assert [each.args[0] for each in caplog.records] == [bad, other, bad]


def test_a_change_is_told(clock, make_table):
    told = []
    keep(StandIn(make_table()), clock, on_change=lambda: told.append(1)).poll_once()
    assert told == [1]


def test_an_answer_that_cannot_be_used_is_a_failure_and_the_next_one_is_asked_for(clock, make_table):
    source, told = StandIn(make_table()), []

    def use():
        told.append(1)
        if len(told) == 1:
            raise KeyError("n1")

    keeper = keep(source, interval_secs=0.01, min_interval_secs=0.01, on_change=use)
    keeper.poll_once()
    assert keeper.status.failures == 1
    assert "cannot be used: KeyError" in keeper.status.last_error
    assert keeper.status.table is not None
    keeper.poll_once()
    assert keeper.status.last_error == ""


def test_who_was_stopped_or_has_not_begun_has_not_died(clock, make_table):
    keeper = keep(StandIn(make_table()), clock)
    assert not keeper.has_died
    keeper.start()
    assert not keeper.has_died
    keeper.stop()
    assert not keeper.has_died


def test_being_told_to_refresh_does_not_break_the_least_interval(clock, make_table):
    source = StandIn(make_table())
    keeper = keep(source, clock)
    keeper.start()
    assert source.was_asked.wait(60)
    for _ in range(10):
        keeper.refresh()
    keeper.stop()
    assert len(source.asked) == 1


def test_a_refresh_asks_soon_where_the_least_interval_is_short(clock, make_table):
    source = StandIn(make_table())
    keeper = keep(source, interval_secs=600, min_interval_secs=0.01)
    keeper.start()
    assert source.was_asked.wait(60)
    source.was_asked.clear()
    keeper.refresh()
    assert source.was_asked.wait(60)
    keeper.stop()


def test_sources_that_share_rounds_share_a_thread(make_table):
    before, rounds = set(threading.enumerate()), Rounds("rounds")
    sources = [StandIn(make_table()) for _ in range(3)]
    keepers = [keep(each, rounds=rounds) for each in sources]
    for each in keepers:
        each.start()
    rounds.start()
    assert all(each.was_asked.wait(60) for each in sources)
    assert [each.name for each in set(threading.enumerate()) - before] == ["rounds"]
    for each in keepers:
        each.stop()
    rounds.stop(60)


def test_a_source_that_cannot_be_watched_is_polled_all_the_same(clock, make_table):
    class Broken(StandIn):
        def watch(self, notify):
            raise OSError("no inotify")

    source = Broken(make_table())
    keeper = keep(source, clock)
    keeper.start()
    assert source.was_asked.wait(60)
    keeper.stop()
    assert keeper.status.failures == 0
