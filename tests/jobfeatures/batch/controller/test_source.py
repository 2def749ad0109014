"""A node that asks the controller role, and the batch system itself while that does not answer."""

import contextlib
import itertools
import random
from dataclasses import replace

import pytest

from jobfeatures.batch.controller import ControllerSettings
from jobfeatures.batch.controller.source import ControllerSource
from jobfeatures.errors import SourceError
from jobfeatures.records.model import JobKey, NodeNotice

INTERVAL = ControllerSettings().fallback_secs
RPCS = 2  # of one question: scontrol asks for the federation too, as sdiag shows


class Client:
    """A controller role whose answers are set by the test."""

    name = "controller role"

    def __init__(self):
        self.answer = SourceError("controller role: Connection refused")

    def ask(self):
        if isinstance(self.answer, Exception):
            raise SourceError(str(self.answer))  # a new one: it grows with each raise
        return self.answer


class Slurm:
    """A batch system that knows some jobs."""

    def __init__(self, clock):
        self.jobs, self.asked, self._clock = {}, [], clock

    def ask(self, job_id):
        self.asked.append((self._clock.monotonic, job_id))
        found = self.jobs.get(job_id)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def slurm(clock):
    return Slurm(clock)


@pytest.fixture
def make_source(clock, client, slurm, monkeypatch):
    def make():
        return ControllerSource(
            ControllerSettings(),
            clock,
            "n1",
            "slurm",
            timeout_secs=1.0,
            ask_one=slurm.ask,
            is_plain=str.isdigit,
        )

    monkeypatch.setattr("jobfeatures.batch.controller.source.make_client", lambda *_, **__: client)
    monkeypatch.setattr(random, "uniform", lambda low, high: (low + high) / 2)
    return make


def key(job_id, system="slurm"):
    return JobKey(system, job_id)


def test_while_the_controller_role_answers_nobody_else_is_asked(
    clock, client, slurm, make_source, make_table, make_job
):
    source = make_source()
    client.answer = make_table(make_job("1"), taken_at_secs=clock.now - 20)
    for _ in range(100):
        clock.advance(60)
        assert source.poll_jobs({key("1"), key("2")}) is client.answer
    assert slurm.asked == []


def test_the_batch_system_is_asked_about_one_job_an_interval_unknown_ones_first(
    clock, client, slurm, make_source, make_table, make_job
):
    source = make_source()
    client.answer = make_table(make_job("1"), make_job("2"), taken_at_secs=clock.now)
    source.poll_jobs({key("1"), key("2")})
    client.answer = SourceError("controller role: Connection refused")
    slurm.jobs = {str(n): make_job(str(n), name="told by Slurm") for n in range(1, 5)}
    began, seen = clock.monotonic, {key(str(n)) for n in range(1, 5)} | {key("9", "pbs"), key("x")}
    tables = []
    for _ in range(600):
        with contextlib.suppress(SourceError):
            tables.append(source.poll_jobs(seen))
        clock.advance(60)
    times = [at - began for at, _ in slurm.asked]
    assert times[0] == INTERVAL / 2
    assert {later - earlier for earlier, later in itertools.pairwise(times)} == {INTERVAL}
    assert [job_id for _, job_id in slurm.asked][:6] == ["3", "4", "1", "2", "3", "4"]
    last = tables[-1]
    assert last.complete is False
    assert "Connection refused" in last.node_problem
    assert {job.name for job in last.jobs.values()} == {"told by Slurm"}
    assert last.answered_at_secs(key("1")) > last.taken_at_secs  # each when it was told


def test_a_job_that_the_batch_system_does_not_know_is_taken_out_and_absence_proves_nothing(
    clock, client, slurm, make_source, make_table, make_job
):
    source = make_source()
    client.answer = make_table(make_job("1"), taken_at_secs=clock.now)
    source.poll_jobs({key("1")})
    client.answer = SourceError("down")
    with pytest.raises(SourceError, match="down"):
        source.poll_jobs({key("1")})
    clock.advance(INTERVAL)
    table = source.poll_jobs({key("1")})
    assert (table.jobs, table.complete) == ({}, False)


def test_where_slurm_does_not_answer_either_both_are_told(clock, slurm, make_source):
    source = make_source()
    slurm.jobs["1"] = SourceError("scontrol: Unable to contact slurm controller")
    with pytest.raises(SourceError):
        source.poll_jobs({key("1")})
    clock.advance(INTERVAL)
    with pytest.raises(
        SourceError, match="refused; a direct query of slurm failed too: scontrol: Unable to contact"
    ):
        source.poll_jobs({key("1")})


def test_what_is_announced_of_the_node_stays_while_the_controller_role_is_down(
    clock, client, slurm, make_source, make_table, make_job
):
    source = make_source()
    client.answer = replace(make_table(taken_at_secs=clock.now), node=NodeNotice(True, (5,)))
    source.poll_jobs(())
    client.answer = SourceError("down")
    slurm.jobs["1"] = make_job("1")
    with pytest.raises(SourceError):
        source.poll_jobs({key("1")})
    clock.advance(INTERVAL)
    assert source.poll_jobs({key("1")}).node == NodeNotice(True, (5,))


def test_ten_thousand_nodes_that_lose_the_controller_role_at_once_ask_less_than_ten_times_a_second(
    clock, client, make_source, slurm, monkeypatch
):
    """Simulated for 70 minutes: each polls every five, at its own second, 16 jobs being there; then it repeats."""
    nodes, turns = 10_000, 14
    draw = random.Random(1)
    monkeypatch.setattr(random, "uniform", draw.uniform)
    sources = [(draw.uniform(0, 300), make_source()) for _ in range(nodes)]
    seen = {key(str(n)) for n in range(1, 17)}
    began = clock.monotonic
    for turn in range(turns):
        for offset, source in sources:
            clock.monotonic = began + 300 * turn + offset
            with contextlib.suppress(SourceError):
                source.poll_jobs(seen)
    by_turn = [0] * turns
    for at, _ in slurm.asked:
        by_turn[int((at - began) // 300)] += 1
    assert max(by_turn) * RPCS / 300 < 10
    assert sum(by_turn) * RPCS / (300 * turns) > 5  # and they do ask


def test_another_batch_systems_answer_is_refused(client, make_source, make_table):
    client.answer = make_table(source="pbs")
    with pytest.raises(SourceError, match="reports jobs of pbs, not of slurm"):
        make_source().poll_jobs(())
