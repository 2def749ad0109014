"""Waiting for a sample that is fresh, and that lists all processes where that matters; what a board shows."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from jobfeatures.batch.source import KeeperStatus
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.node.nodeboard import LatestSample, NodeBoard
from tests.configured import configured
from tests.running import HandClock, until


@pytest.fixture
def samples():
    return LatestSample(HandClock(1000.0))


def snapshot(taken_at_secs: float, *, lists_all: bool = True) -> Snapshot:
    return Snapshot(taken_at_secs=taken_at_secs, duration_secs=0.0, node=None, jobs={}, lists_all=lists_all)


@pytest.fixture
def waiting():
    """Return a function that lets a thread wait, and gives the thread."""
    threads = []

    def wait(samples: LatestSample, **more) -> threading.Thread:
        threads.append(threading.Thread(target=lambda: samples.wait_for_fresh(0.5, 60.0, **more)))
        threads[-1].start()
        return threads[-1]

    yield wait
    for each in threads:
        each.join(60)
        assert not each.is_alive()


def test_a_fresh_sample_is_not_waited_for(samples):
    samples.put(snapshot(999.6))
    samples.wait_for_fresh(0.5, 60.0)
    assert not samples.wanted.is_set()


def test_an_old_sample_is_waited_for_until_the_next_is_there(samples, waiting):
    samples.put(snapshot(999.4))
    thread = waiting(samples)
    until(samples.wanted.is_set)
    assert not samples.all_are_wanted
    samples.put(snapshot(1000.1, lists_all=False))
    thread.join(60)
    assert not thread.is_alive()


def test_who_wants_all_processes_waits_on_until_a_sample_lists_them(samples, waiting):
    samples.put(snapshot(999.9, lists_all=False))
    thread = waiting(samples, lists_all=True)
    until(lambda: samples.all_are_wanted)
    samples.put(snapshot(1000.1, lists_all=False))  # it had begun before
    thread.join(0.05)
    assert thread.is_alive()
    assert samples.all_are_wanted
    samples.put(snapshot(1000.2))
    thread.join(60)
    assert not samples.all_are_wanted


def test_nobody_waits_any_more_once_there_are_no_more_samples(samples, waiting):
    thread = waiting(samples)
    until(samples.wanted.is_set)
    samples.stop()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def board(clock, tmp_path):
    config = configured(features_root=str(tmp_path), batch_sources=(), scrape_deadline_secs=0.0)
    return NodeBoard(config, clock)


def test_a_page_is_of_a_sample_within_the_interval_and_asks_for_one_if_sampling_rests(board, clock):
    board.samples.put(snapshot(clock.now_secs() - 9.0))
    assert board.recent_context().snapshot is not None
    assert not board.samples.wanted.is_set()
    board.samples.put(snapshot(clock.now_secs() - 11.0))
    board.recent_context()
    assert board.samples.wanted.is_set()


def test_a_listing_that_takes_too_long_is_none(board, clock):
    assert board.listing() is None
    board.samples.put(snapshot(clock.now_secs(), lists_all=False))
    assert board.listing() is None
    assert board.samples.all_are_wanted
    board.samples.put(taken := snapshot(clock.now_secs() + 1))
    assert board.listing() is taken


def test_a_source_that_has_not_answered_is_on_the_board_without_a_table(board, make_table):
    answers = [KeeperStatus("hooks"), KeeperStatus("slurm", table := make_table())]
    board.keepers = [SimpleNamespace(status=each) for each in answers]
    assert (board.source_names, board.tables()) == ({"hooks", "slurm"}, [table])
    assert board.context().sources == tuple(answers)


def test_a_context_stays_as_it_was_whatever_is_written_to_the_board_afterwards(board, make_job):
    board.feature_answers = {200: 1}
    context = board.context()
    board.feature_answers[200] += 1
    board.jobs = {make_job().key: make_job()}
    board.unreadable.counts["x"] = 1
    assert (context.feature_answers, context.jobs, context.sonar_unreadable) == ({200: 1}, {}, {})
