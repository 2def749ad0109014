"""Constructed documents of two nodes, as agents of different age would send them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from jobfeatures_exporter.ingest.intake import SonarIntake
from jobfeatures_exporter.ingest.nodes import SonarNodes
from jobfeatures_exporter.ingest.page import SonarPage
from jobfeatures_exporter.model.snapshot import Kind

NOW = 1_800_000_000.0
EPOCH = 221_000_000


@dataclass
class FakeClock:
    now: float = NOW

    def now_secs(self) -> float:
        return self.now

    def monotonic_secs(self) -> float:
        return self.now


def stamp(ago_secs: int = 0, at: float = NOW) -> str:
    """Return a time as agents write it."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at - ago_secs, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def envelope(tag: str, **attributes: object) -> dict:
    attributes = {"time": stamp(), "cluster": "hpc.example.org", **attributes}
    return {
        "meta": {"producer": "sonar", "version": "0.18.0"},
        "data": {"type": tag, "attributes": attributes},
    }


def process(pid: int, cpu_time: int = 0, **more: object) -> dict:
    return {"pid": pid, "ppid": 1, "cmd": "python", "cpu_time": cpu_time, "resident_memory": 1024, **more}


def sample(
    node: str = "c1-7", *, jobs: list | None = None, ago: int = 0, at: float = NOW, **system: object
) -> dict:
    found = [{"job": 12, "user": "alice", "processes": [process(100, 60)]}] if jobs is None else jobs
    return envelope("sample", time=stamp(ago, at), node=node, system=system, jobs=found)


def job(job_id: int = 12, **more: object) -> dict:
    return {
        "job_id": job_id, "job_name": "fit", "job_state": "RUNNING", "user_name": "alice", "account": "physics",
        "partition": "batch", "nodes": ["c1-7"], "time_limit": 3602, "requested_cpus": 4,
        "requested_memory_per_node": 2048, "start_time": stamp(600), **more,
    }  # fmt: skip


class Site:
    """All parts of what comes in, without sockets and threads."""

    def __init__(self, max_nodes: int = 100, max_series: int = 0, minutes_from: str | None = None) -> None:
        self.clock = FakeClock()
        self.nodes = SonarNodes(self.clock, max_nodes=max_nodes, silence_secs=600.0)
        self.intake = SonarIntake(self.nodes, self.clock, minutes_from)
        self.page = SonarPage(self.nodes, self.clock, frozenset(Kind), max_series)

    def send(self, *documents: object):
        return self.intake.take("\n".join(map(json.dumps, documents)).encode(), "test")

    def text(self, *, openmetrics: bool = False) -> str:
        return self.page.exposition(openmetrics=openmetrics).decode()

    def value(self, series: str) -> float | None:
        """Return the value of the only series that begins so."""
        found = [line for line in self.text().splitlines() if line.startswith(series)]
        assert len(found) < 2, found
        return float(found[0].rpartition(" ")[2]) if found else None


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture(scope="session")
def make():
    """Return the makers of documents: envelope, sample, process, job, stamp, and the site's."""

    class Make:
        pass

    for each in (envelope, sample, process, job, stamp, Site):
        setattr(Make, each.__name__, staticmethod(each))
    Make.NOW, Make.EPOCH = NOW, EPOCH
    return Make
