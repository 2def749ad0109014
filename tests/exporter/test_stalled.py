"""What counts as the death of a daemon, and what does not; an end that waits for nobody for long."""

import threading

import pytest

from jobfeatures.batch.spool.source import SpoolSource
from jobfeatures.errors import SourceError
from jobfeatures.settings.resolve import load_config
from jobfeatures.system import inotify
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.node.samplingloop import LATE_SECS
from jobfeatures_exporter.node.sources import NodeSources
from jobfeatures_exporter.service.reload import SettingsChange
from tests.running import NO_INOTIFY, until


class ShiftedClock(SystemClock):
    """The machine's clock, some time ahead."""

    ahead_secs = 0.0

    def monotonic_secs(self):
        return super().monotonic_secs() + self.ahead_secs


@pytest.fixture
def site(tmp_path):
    """A daemon that is not started, its clock, and what lets go of all that hangs."""
    (tmp_path / "spool").mkdir()
    flags = {
        "features.root": str(tmp_path / "features"), "batch.sources": "spool", "spool.directory": str(tmp_path / "spool"),
        "sample.interval": "100ms", "scrape.deadline": "60s",
    }  # fmt: skip
    clock, released = ShiftedClock(), threading.Event()
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}), clock)
    yield daemon, clock, released
    released.set()
    daemon.stop()


def test_a_daemon_at_work_is_not_stalled(site):
    daemon, _, _ = site
    daemon.start()
    until(lambda: daemon.is_ready)
    assert daemon.stalled() == []
    assert daemon.summary() == "0 jobs here; sources: hooks answers, spool answers"


@pytest.fixture
def no_inotify(monkeypatch):
    monkeypatch.setattr(inotify, "_libc", NO_INOTIFY)


def test_a_kernel_without_a_watch_to_spare_is_no_death(no_inotify, site):
    daemon, _, _ = site
    others = threading.enumerate()
    daemon.start()
    until(lambda: daemon.is_ready)
    for thread in set(threading.enumerate()).difference(others):
        thread.join(0.05)
    assert daemon.stalled() == []


def test_a_look_that_does_not_end_is_death_after_some_patience(site):
    daemon, clock, released = site
    entered = threading.Event()

    def hang(wishes):
        entered.set()
        released.wait()

    daemon.sampling.sampler.sample = hang
    daemon.start()
    assert entered.wait(60)
    looked = []
    while clock.ahead_secs <= LATE_SECS + 10:
        looked.append(daemon.stalled())
        clock.ahead_secs += 10  # it is asked every few seconds
    *before, at_its_end, after = looked  # the machine's own clock goes on, too: at its end either is right
    assert before == [[]] * 3
    assert at_its_end in ([], ["sampling"])
    assert after == ["sampling"]


def test_a_pause_of_the_whole_process_is_no_death(site):
    daemon, clock, released = site
    entered = threading.Event()

    def hang(wishes):
        entered.set()
        released.wait()

    daemon.sampling.sampler.sample = hang
    daemon.start()
    assert entered.wait(60)
    assert daemon.stalled() == []
    clock.ahead_secs = LATE_SECS + 1
    assert daemon.stalled() == []


def test_looks_that_fail_are_none(site):
    daemon, clock, _ = site
    rounds = []

    def fail(wishes):
        rounds.append(1)
        raise OSError("EIO")

    daemon.sampling.sampler.sample = fail
    daemon.start()
    clock.ahead_secs = LATE_SECS + 1
    count = len(rounds)
    until(lambda: len(rounds) > count + 2)
    assert daemon.stalled() == []


def test_a_source_that_hangs_is_none(site, monkeypatch):
    daemon, clock, released = site
    entered = threading.Event()

    def hang(*_):
        entered.set()
        released.wait()
        raise SourceError("late")

    monkeypatch.setattr(SpoolSource, "poll_jobs", hang)
    daemon.start()
    assert entered.wait(60)
    clock.ahead_secs = LATE_SECS + 1
    until(lambda: daemon.stalled() == [])  # the looks go on, by that clock too
    assert "spool has not answered yet" in daemon.summary()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_has_ended_is_death(site, monkeypatch):
    daemon, _, _ = site

    def end(*_):
        raise SystemExit

    monkeypatch.setattr(SpoolSource, "poll_jobs", end)
    daemon.start()
    until(lambda: daemon.stalled() == ["source spool"])


def test_sources_that_are_replaced_are_none_meanwhile(site, monkeypatch):
    daemon, _, _ = site
    daemon.start()
    until(lambda: daemon.is_ready)
    seen = []
    stop = NodeSources.stop

    def stop_slowly(sources):
        stop(sources)
        seen.append(daemon.stalled())

    with monkeypatch.context() as patch:
        patch.setattr(NodeSources, "stop", stop_slowly)
        daemon.reconfigure(SettingsChange(daemon.board.config, ("batch.sources",), ()))
    assert seen == [[]]
    assert daemon.stalled() == []


def test_a_scrape_that_waits_for_a_look_is_let_go_at_the_end(site, monkeypatch):
    monkeypatch.setattr(
        "jobfeatures_exporter.node.daemon.STOP_SECS", 0.1
    )  # it would wait for the look that hangs
    daemon, _, released = site
    entered = threading.Event()

    def hang(wishes):
        entered.set()
        released.wait()

    daemon.sampling.sampler.sample = hang
    daemon.start()
    assert entered.wait(60)
    pages = []
    scrape = threading.Thread(target=lambda: pages.append(daemon.exposition(openmetrics=False)))
    scrape.start()
    daemon.stop()
    scrape.join(20)  # its deadline is a minute
    assert len(pages) == 1
