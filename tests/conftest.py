"""What many tests need."""

from __future__ import annotations

import logging
import os

import pytest
from hypothesis import settings

from jobfeatures.model import Job, JobKey, JobState, JobTable

settings.register_profile("quick", max_examples=30, deadline=None)
settings.load_profile("quick")


class FakeClock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now_secs: float = 1_800_000_000.0) -> None:
        self.now = now_secs
        self.monotonic = 1000.0

    def now_secs(self) -> float:
        return self.now

    def monotonic_secs(self) -> float:
        return self.monotonic

    def advance(self, secs: float) -> None:
        self.now += secs
        self.monotonic += secs


@pytest.fixture(autouse=True)
def logging_as_it_was():
    """Take away what a command that ran in this process has set: the next test may look at warnings."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = [each for each in root.handlers if each in handlers]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def make_job():
    """Return a function that makes a running Slurm job."""

    def make(job_id: str = "12", **changes) -> Job:
        values = {"state": JobState.RUNNING, "user": "alice", "uid": 6001, **changes}
        return Job(key=JobKey(values.pop("batch_system", "slurm"), job_id), **values)

    return make


@pytest.fixture
def make_table():
    """Return a function that makes the table of a source."""

    def make(
        *jobs: Job, source: str = "slurm", taken_at_secs: float = 100.0, complete: bool = True
    ) -> JobTable:
        return JobTable(
            source=source, jobs={job.key: job for job in jobs}, taken_at_secs=taken_at_secs, complete=complete
        )

    return make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Make a skipped integration test fail where the servers that it needs were promised."""
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and item.get_closest_marker("integration")
        and os.environ.get("JOBFEATURES_REQUIRE_INTEGRATION")
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped although its servers are promised here: {report.longrepr[2]}"
    return report
