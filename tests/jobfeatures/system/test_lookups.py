"""Answers of a directory service: at once where it is quick, later where it is not, and nobody waits for long."""

import threading
import time

import pytest

from jobfeatures.system import lookups
from jobfeatures.system.lookups import MAX_THREADS, LookUps


class Directory:
    """Knows a name for each number below 1000; answers once `open` is set."""

    def __init__(self):
        self.open = threading.Event()
        self.asked = []
        self.at_once = self.most = 0
        self.lock = threading.Lock()

    def look_up(self, number):
        with self.lock:
            self.asked.append(number)
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.open.wait()
        with self.lock:
            self.at_once -= 1
        if number >= 1000:
            raise KeyError(number)
        return f"u{number}"


@pytest.fixture
def directory():
    made = Directory()
    yield made
    made.open.set()


def test_what_is_answered_quickly_is_known_at_once_and_asked_once(directory):
    directory.open.set()
    names = LookUps(directory.look_up)
    assert [names.get(each) for each in (1, 2, 1, 1000, 1000)] == ["u1", "u2", "u1", None, None]
    assert directory.asked == [1, 2, 1000]


def test_what_was_not_found_is_looked_up_again_after_a_while(directory, clock):
    directory.open.set()
    names = LookUps(directory.look_up, clock.monotonic_secs)
    assert [names.get(1), names.get(1000)] == ["u1", None]
    clock.advance(lookups.UNKNOWN_SECS)
    assert [names.get(1), names.get(1000)] == ["u1", None]
    assert directory.asked == [1, 1000, 1000]


def test_a_slow_service_is_waited_for_once_in_a_while_and_its_answers_come_later(directory, monkeypatch):
    monkeypatch.setattr(lookups, "PATIENCE_SECS", 0.1)
    names, late = LookUps(directory.look_up), threading.Semaphore(0)
    names.on_late = late.release
    began = time.monotonic()
    assert {names.get(each) for each in range(500)} == {None}
    assert time.monotonic() - began < 25  # 0.1 s, where one wait for each would take 50
    directory.open.set()
    for _ in range(500):
        assert late.acquire(timeout=60)
    assert [names.get(each) for each in range(500)] == [f"u{each}" for each in range(500)]
    assert sorted(directory.asked) == list(range(500))
    assert directory.most <= MAX_THREADS


def test_nobody_is_told_of_a_late_answer_that_there_is_none(directory, monkeypatch):
    monkeypatch.setattr(lookups, "PATIENCE_SECS", 0.0)
    names, told = LookUps(directory.look_up), []
    names.on_late = lambda: told.append(1)
    assert [names.get(1000), names.get(1)] == [None, None]
    directory.open.set()
    monkeypatch.setattr(lookups, "PERIOD_SECS", 0.0)
    monkeypatch.setattr(lookups, "PATIENCE_SECS", 60.0)
    assert [names.get(1000), names.get(2)] == [None, "u2"]
    assert len(told) <= 1
