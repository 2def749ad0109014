"""What administrators look at: what is asked, how often, and what is shown."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from jobfeatures.batch.source import Keeper
from jobfeatures.records.administration import FairShares, Licences, Reservations, Scheduler
from jobfeatures.records.model import Cluster, JobTable
from jobfeatures_exporter.controller import daemon
from jobfeatures_exporter.controller.daemon import QUESTIONS, Controller
from jobfeatures_exporter.scrape.collectors import COLLECTORS, CONTROLLER, collect
from tests.configured import configured
from tests.exporter.controller.polled import poll

CLUSTER = ["slurm-queue", "slurm-nodes"]  # what is asked in any case


class StandIn:
    """A batch system that tells all four, and counts questions."""

    name = "slurm"

    def __init__(self):
        self.asked = []

    def poll_queue(self):
        return self._answer("poll_queue", partial(JobTable, jobs={}, complete=True))

    def poll_cluster(self):
        return self._answer("poll_cluster", Cluster)

    def poll_scheduler(self):
        return self._answer("poll_scheduler", Scheduler)

    def poll_licences(self):
        return self._answer("poll_licences", Licences)

    def poll_shares(self):
        return self._answer("poll_shares", FairShares)

    def poll_reservations(self):
        return self._answer("poll_reservations", Reservations)

    def _answer(self, name, kind):
        self.asked.append(name)
        return kind(source="slurm", taken_at_secs=1.0)


@pytest.fixture
def source():
    return StandIn()


@pytest.fixture
def make(source, clock, monkeypatch):
    """Return a function that makes a controller with these settings, which asks the stand-in."""

    def make(asked=source, **changes):
        monkeypatch.setattr(daemon, "make_cluster_sources", lambda _config, _clock: [asked])
        return Controller(configured(role=CONTROLLER, collector_schedule=False, **changes), clock)

    return make


def names(controller):
    return [each.name for each in controller.context().sources]


def test_only_what_is_shown_is_asked(source, make):
    assert names(make()) == [*CLUSTER, "slurm-scheduler", "slurm-licences", "slurm-reservations"]
    off = {f"collector_{name}": False for name in QUESTIONS}
    assert names(make(**off)) == CLUSTER
    assert names(make(**{**off, "collector_fairshare": True})) == [*CLUSTER, "slurm-fairshare"]
    assert source.asked == []


def test_each_is_asked_once_at_its_own_interval(source, make, monkeypatch):
    intervals = {}

    def keep(name, ask, *, interval_secs, **more):
        intervals[name] = interval_secs
        return Keeper(name, ask, interval_secs=interval_secs, **more)

    monkeypatch.setattr(daemon, "Keeper", keep)
    poll(make(collector_fairshare=True, controller_interval_secs=30.0))
    assert source.asked[2:] == ["poll_scheduler", "poll_licences", "poll_shares", "poll_reservations"]
    assert intervals == {
        "slurm-queue": 30.0,
        "slurm-nodes": 30.0,
        "slurm-scheduler": 30.0,
        "slurm-licences": 30.0,
        "slurm-fairshare": 150.0,
        "slurm-reservations": 150.0,
    }


def test_a_batch_system_that_tells_nothing_of_it_is_not_asked(make):
    class Other:
        name = "oar"

        def poll_queue(self):
            raise AssertionError

        poll_cluster = poll_queue

    assert names(make(Other())) == ["oar-queue", "oar-nodes"]


def test_every_question_has_its_collector():
    assert all(COLLECTORS[name].roles == (CONTROLLER,) for name in QUESTIONS)


def test_users_with_series_are_as_many_as_the_site_allows(context):
    def users(most):
        families = collect(replace(context, top_users=most), {"scheduler", "fairshare"})
        return {
            (each.metric.name, values)
            for each in families
            for values, _ in each.samples
            if "user" in each.metric.label_names and values[-1]
        }

    assert users(0) == set()
    assert {values for name, values in users(1) if name == "batch_scheduler_user_requests"} == {
        ("slurm", "root")
    }
    assert len(users(20)) == 2 * 2 + 4
