"""Jobs that run here by their batch system's word, and have no control group. Constructed."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.missing import DaemonGroups, Reason
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample
from jobfeatures_exporter.state.missinggroups import AGAIN_SECS, PATIENCE_SECS, MissingGroups, describe

SLURM, PBS, SGE = JobKey("slurm", "7"), JobKey("pbs", "7"), JobKey("gridengine", "7")


class Groups:
    """Stands in for /proc: groups of processes, and what is seen of each batch system's daemon."""

    def __init__(self) -> None:
        self.of: dict[int, tuple[str, ...]] = {}
        self.daemon = DaemonGroups("slurmd", "/a.slice/slurmd.service", ("/a.slice",))
        self.asked: list[tuple[str, list[str]]] = []

    def paths(self, pid: int) -> tuple[str, ...]:
        return self.of.get(pid, ())

    def of_system(self, name: str, job_ids: list[str]) -> DaemonGroups:
        self.asked.append((name, sorted(job_ids)))
        return self.daemon


@pytest.fixture
def groups() -> Groups:
    return Groups()


@pytest.fixture
def missing(clock, groups):
    return MissingGroups(clock, groups)


@pytest.fixture
def after(missing, clock, context, make_table):
    """Return what follows these jobs for some seconds; it returns the reasons."""

    def after(*jobs, secs=PATIENCE_SECS, samples=(), groupless=(), keys=None):
        snapshot = replace(context.snapshot, jobs={each.key: each for each in samples}, keys=keys or {})
        table = replace(make_table(*jobs), groupless=frozenset(groupless))
        by_key = {job.key: job for job in jobs}
        missing.follow(by_key, snapshot, [table])
        clock.advance(secs)
        missing.follow(by_key, snapshot, [table])
        return dict(missing.latest.reasons)

    return after


def job(key=SLURM, state=JobState.RUNNING):
    return Job(key=key, state=state)


def sample(key=SLURM, **more):
    return JobSample(key=key, accounting=FigureSource.PROCESSES, **more)


def test_a_job_counts_after_a_minute_without_a_group(after):
    assert after(job(), secs=PATIENCE_SECS - 1) == {}
    assert after(job(), secs=1) == {SLURM: Reason.FOUND}


def test_a_job_with_a_group_or_that_does_not_run_counts_never(after):
    assert after(job(), samples=[sample(in_group=True)]) == {}
    for state in (JobState.PENDING, JobState.SUSPENDED, JobState.COMPLETING, JobState.UNKNOWN):
        assert after(job(state=state)) == {}


def test_a_group_that_comes_or_goes_counts_anew(after):
    assert after(job()) == {SLURM: Reason.FOUND}
    assert after(job(), samples=[sample(in_group=True)]) == {}
    assert after(job(), secs=1) == {}


def test_no_group_is_expected_where_the_batch_system_makes_none_or_says_so(after, groups):
    assert after(job(), job(SGE), groupless=[SLURM]) == {SLURM: Reason.EXPECTED, SGE: Reason.EXPECTED}
    assert groups.asked == []


def test_a_job_whose_processes_stand_in_no_group_of_their_own_needs_none(after, groups):
    groups.of = {40: ("/system.slice/pbs.service",), 41: ("/pbspro/7.srv",)}
    seen = sample(PBS, processes=1)
    assert after(job(PBS), samples=[seen], keys={40: PBS}) == {PBS: Reason.EXPECTED}
    assert after(samples=[seen]) == {}
    assert after(job(PBS), samples=[seen], keys={42: PBS}) == {
        PBS: Reason.FOUND
    }  # where it stands is not told
    assert after(samples=[seen]) == {}
    assert after(job(PBS), samples=[seen], keys={41: PBS}) == {PBS: Reason.FOUND}


def test_a_daemon_that_makes_no_groups_is_looked_at_again_now_and_then(after, groups):
    groups.daemon = DaemonGroups("pbs_mom", "/pbs", makes_none=True)
    assert after(job(PBS)) == {PBS: Reason.EXPECTED}
    assert after(job(PBS)) == {PBS: Reason.EXPECTED}
    assert len(groups.asked) == 1
    groups.daemon = DaemonGroups("pbs_mom", "/pbs", ("/site",))
    assert after(job(PBS), secs=AGAIN_SECS) == {PBS: Reason.FOUND}
    assert after(job(PBS), secs=AGAIN_SECS) == {PBS: Reason.FOUND}
    assert groups.asked == [("pbs", ["7"])] * 2


def test_the_daemon_s_group_is_in_the_log_once_while_it_lasts(after, missing, groups, caplog):
    caplog.set_level(logging.WARNING)
    other = JobKey("slurm", "8")
    for _ in range(2):
        after(job(), job(other))
    (record,) = caplog.records
    assert "slurmd's control group is /a.slice/slurmd.service" in record.getMessage()
    assert (record.source, record.job) == ("slurm", "7")
    assert groups.asked == [("slurm", ["7", "8"])]
    assert missing.latest.daemons == {"slurm": groups.daemon}
    assert missing.latest.not_found == (SLURM, other)
    assert missing.latest.counts == {Reason.FOUND: 2}
    after()
    assert missing.latest.daemons == {}
    after(job())
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (None, "pbs_mom is not seen"),
        ("", "pbs_mom's control group cannot be read"),
        ("/", "pbs_mom's control group is /"),
    ],
)
def test_what_is_seen_of_a_daemon_is_said(group, words):
    assert describe(DaemonGroups("pbs_mom", group)) == words
