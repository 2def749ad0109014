"""What is due is done, not sooner than limits allow, and with few wakeups. Time is the test's own."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from jobfeatures.system import rounds as module
from jobfeatures.system.rounds import Round, Rounds
from tests.running import until


@pytest.fixture
def time(monkeypatch):
    """Time passes only while the thread waits, which it does `left` times; `woken` is when each wait ended."""
    state = SimpleNamespace(now=1000.0, woken=[], left=0, rest=threading.Event())

    class Condition(threading.Condition):
        def wait(self, timeout=None):
            if not state.left:
                state.rest.set()
                return super().wait(60)
            state.left -= 1
            state.now += timeout
            state.woken.append(state.now - 1000.0)
            return False

    fake = SimpleNamespace(Condition=Condition, Thread=threading.Thread, TIMEOUT_MAX=threading.TIMEOUT_MAX)
    monkeypatch.setattr(module, "threading", fake)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: state.now))
    return state


@pytest.fixture
def run(time):
    """Return a function that does rounds until the thread has waited so many times."""
    made = []

    def start(*rounds, waits=0):
        time.left = waits
        made.append(Rounds("rounds"))
        for each in rounds:
            made[-1].add(each)
        made[-1].start()
        assert time.rest.wait(60)
        return made[-1]

    yield start
    for each in made:
        each.stop(60)


def noting(time, done, name, secs):
    def work():
        done.append((name, time.now - 1000.0))
        return secs

    return work


def test_what_is_nearly_due_is_done_in_one_wakeup(run, time):
    done = []
    run(Round(noting(time, done, "a", 57.0)), Round(noting(time, done, "b", 60.0)), waits=2)
    assert time.woken == [57.0, 114.0]
    assert done == [(name, at) for at in (0.0, 57.0, 114.0) for name in ("a", "b")]


def test_what_is_not_nearly_due_wakes_by_itself(run, time):
    done = []
    run(Round(noting(time, done, "a", 20.0)), Round(noting(time, done, "b", 60.0)), waits=3)
    assert [at for name, at in done if name == "b"] == [0.0, 60.0]
    assert time.woken == [20.0, 40.0, 60.0]


def test_least_intervals_are_kept_in_haste_and_otherwise(run, time):
    done = []
    one = Round(noting(time, done, "a", 60.0), least_secs=10.0, hasty_secs=1.0)
    rounds = run(one)
    time.left, time.rest = 1, threading.Event()
    one.want()
    assert time.rest.wait(60)
    assert done == [("a", 0.0), ("a", 10.0)]
    time.left, time.rest = 1, threading.Event()
    one.want(in_haste=True)
    assert time.rest.wait(60)
    assert done[-1] == ("a", 11.0)
    rounds.stop(60)


def test_who_wants_it_while_it_is_done_has_it_once_more(run, time):
    done = []

    def work():
        done.append(1)
        if len(done) == 1:
            one.want()
        return 60.0

    one = Round(work)
    run(one)
    assert done == [1, 1]


def test_what_is_removed_is_closed_and_done_no_more(run, time):
    done, closed = [], []
    one = Round(noting(time, done, "a", 60.0), close=lambda: closed.append(1))
    rounds = run(one)
    rounds.remove(one, 60)
    rounds.remove(one, 60)
    one.want()
    rounds.stop(60)
    assert (len(done), closed) == (1, [1])


def test_what_hangs_is_abandoned_and_closed_once_it_returns():
    entered, going_on, closed = threading.Event(), threading.Event(), threading.Event()

    def work():
        entered.set()
        going_on.wait(60)
        return 60.0

    one, rounds = Round(work, close=closed.set), Rounds("rounds")
    rounds.add(one)
    rounds.start()
    assert entered.wait(60)
    rounds.remove(one, 0.01)
    assert not closed.is_set()
    going_on.set()
    assert closed.wait(60)
    rounds.stop(60)
    assert not rounds.has_died


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_has_ended_by_a_fault_is_told():
    class FaultError(BaseException):
        pass

    def fail():
        raise FaultError

    rounds = Rounds("rounds")
    assert not rounds.has_died
    rounds.add(Round(fail))
    rounds.start()
    until(lambda: rounds.has_died)


def test_work_that_fails_is_told_and_keeps_no_other_from_being_done(time, run, caplog):
    done = []

    def fail():
        raise ZeroDivisionError

    run(Round(fail), Round(noting(time, done, "b", 10.0)), waits=2)
    assert [name for name, _ in done] == ["b"] * len(done)
    assert len(done) == 3
    assert "repeated work failed; it is tried again in a minute" in caplog.text
