"""Waiting for a look that is fresh, and that lists all processes where that matters."""

from __future__ import annotations

import threading

import pytest

from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.node.samplingloop import LatestLook, find_places
from tests.running import HandClock, until


@pytest.fixture
def looks():
    return LatestLook(HandClock(1000.0))


def snapshot(taken_at_secs: float, *, lists_all: bool = True) -> Snapshot:
    return Snapshot(taken_at_secs=taken_at_secs, duration_secs=0.0, node=None, jobs={}, lists_all=lists_all)


@pytest.fixture
def waiting():
    """Return a function that lets a thread wait, and gives the thread."""
    threads = []

    def wait(looks: LatestLook, **more) -> threading.Thread:
        threads.append(threading.Thread(target=lambda: looks.wait_for_fresh(0.5, 60.0, **more)))
        threads[-1].start()
        return threads[-1]

    yield wait
    for each in threads:
        each.join(60)
        assert not each.is_alive()


def test_a_fresh_look_is_not_waited_for(looks):
    looks.put(snapshot(999.6))
    looks.wait_for_fresh(0.5, 60.0)
    assert not looks.wanted.is_set()


def test_an_old_look_is_waited_for_until_the_next_is_there(looks, waiting):
    looks.put(snapshot(999.4))
    thread = waiting(looks)
    until(looks.wanted.is_set)
    assert not looks.all_are_wanted
    looks.put(snapshot(1000.1, lists_all=False))
    thread.join(60)
    assert not thread.is_alive()


def test_who_wants_all_processes_waits_on_until_a_look_lists_them(looks, waiting):
    looks.put(snapshot(999.9, lists_all=False))
    thread = waiting(looks, lists_all=True)
    until(lambda: looks.all_are_wanted)
    looks.put(snapshot(1000.1, lists_all=False))  # it had begun before
    thread.join(0.05)
    assert thread.is_alive()
    assert looks.all_are_wanted
    looks.put(snapshot(1000.2))
    thread.join(60)
    assert not looks.all_are_wanted


def test_nobody_waits_any_more_once_there_are_no_more_looks(looks, waiting):
    thread = waiting(looks)
    until(looks.wanted.is_set)
    looks.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_a_place_that_comes_while_a_command_goes_on_is_found(tmp_path):
    """`top` goes on for hours, and pods come."""
    (tmp_path / "cgroup.controllers").touch()
    flags = {"batch.cgroup_parents": "/pods/*", "batch.sources": "slurm", "path.cgroup": str(tmp_path)}
    config = load_config(ExporterConfig, flags=flags, environ={})
    clock = HandClock(1000.0)
    places = find_places(config, clock)
    assert places().parents == {}
    (tmp_path / "pods/a/slurmstepd.scope/job_7").mkdir(parents=True)
    assert places().parents == {}
    clock.secs += 60.0
    assert places().parents.keys() == {"/pods/a"}
