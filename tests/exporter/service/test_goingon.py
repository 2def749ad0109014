import asyncio
import logging
import threading

import pytest

from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.service import goingon
from jobfeatures_exporter.service.goingon import Progress, fail_if_dead, tell_end
from tests.running import FakeClock


class Served:
    def __init__(self, *answers):
        self._answers = list(answers)

    def dead(self):
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def missing(clock, progress, *gaps):
    """Return what is missing after looks with these gaps between them."""
    for gap in gaps:
        clock.advance(gap)
        found = progress.missing_secs()
    return found


def test_what_is_not_done_while_somebody_looks_is_missing():
    clock = FakeClock()
    progress = Progress(clock)
    assert missing(clock, progress, *[10] * 5) == 50
    progress.made()
    assert missing(clock, progress, 3) == 3


@pytest.mark.parametrize("pause", [60, 3600, 10**6])
def test_a_pause_of_the_process_is_no_time_in_which_something_was_not_done(pause):
    clock = FakeClock()
    progress = Progress(clock)
    assert missing(clock, progress, 5, pause) <= 5 + goingon.MOST_SECS
    progress.made()
    assert missing(clock, progress, 10) == 10


def test_a_thread_that_hangs_after_a_pause_is_noticed_all_the_same():
    clock = FakeClock()
    progress = Progress(clock)
    assert missing(clock, progress, 5, 3600, *[10] * 4) > 60


async def test_a_thread_that_has_ended_ends_the_daemon_with_its_name(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(goingon, "LOOK_SECS", 0.001)
    with pytest.raises(
        JobfeaturesError, match=r"^threads have ended unexpectedly: publishing, status; is memory"
    ):
        await fail_if_dead(Served([], [], ["status", "publishing"]))


async def test_the_exception_that_ends_a_thread_is_noticed_at_once_though_looks_are_rare(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(goingon, "LOOK_SECS", 3600)
    allowed = threading.Event()

    def fail():
        allowed.wait(60)
        raise ValueError(7)

    thread = threading.Thread(target=fail, name="sampling")
    thread.start()

    class One:
        def dead(self):
            allowed.set()  # after the first look
            return [] if thread.is_alive() else ["sampling"]

    with pytest.raises(JobfeaturesError, match=r"^threads have ended unexpectedly: sampling;"):
        await fail_if_dead(One())


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
async def test_a_daemon_that_can_start_no_thread_ends(monkeypatch, error):
    async def fail(_function):
        raise error

    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(asyncio, "to_thread", fail)
    with pytest.raises(JobfeaturesError, match=r"^no request can be answered: .*TasksMax="):
        await fail_if_dead(Served([]))


async def test_a_daemon_whose_threads_live_goes_on(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(goingon, "LOOK_SECS", 0.001)
    task = asyncio.create_task(fail_if_dead(Served([])))
    await asyncio.sleep(0.01)
    assert not task.done()
    task.cancel()


@pytest.mark.parametrize(
    ("error", "text", "has_traceback"),
    [
        (MemoryError(), "thread x has ended: out of memory: is memory", False),
        (RuntimeError("can't start new thread"), "thread x has ended: can't start new thread: is", False),
        (ValueError("7"), "thread x has ended", True),
    ],
)
def test_the_end_of_a_thread_is_told_in_a_line(caplog, monkeypatch, error, text, has_traceback):
    def fail():
        raise error

    monkeypatch.setattr(threading, "excepthook", tell_end)
    thread = threading.Thread(target=fail, name="x")
    thread.start()
    thread.join()
    [told] = caplog.records
    assert told.levelno == logging.ERROR
    assert told.getMessage().startswith(text)
    assert bool(told.exc_info) is has_traceback
