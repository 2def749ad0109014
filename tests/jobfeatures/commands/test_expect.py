"""`jobfeatures expect`: of logs, and of batch systems that are played."""

from __future__ import annotations

import gzip
import io
import json
import sys
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.cli import main
from jobfeatures.commands import expect
from jobfeatures.errors import ConfigurationError, Rejected, SourceError
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord
from jobfeatures.records.model import Cluster, ClusterNode, Job, JobKey, JobState, JobTable, Limits

# Constructed: ann's first jobs hold her share of 16, bob has one job.
LINES = """\
; Version: 2.2
; UnixStartTime: 1763622000
; TimeZoneString: Europe/Prague
; MaxProcs: 64
; Note: user 1 is ann
; Note: user 2 is bob
1     0    0  7200  8 -1 -1  8  7200 -1 1 1 1 -1 1 -1 -1 -1
2   600    0  9000  8 -1 -1  8 14400 -1 1 1 1 -1 1 -1 -1 -1
3   900    0   600 40 -1 -1 40   600 -1 1 2 1 -1 1 -1 -1 -1
4  1200 9000  3600  4 -1 -1  4  7200 -1 1 1 1 -1 1 -1 -1 -1
5  1300   50    -1  4 -1 -1  4  7200 -1 5 1 1 -1 1 -1 -1 -1
"""
BEGIN = 1_763_622_000


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(LINES)
    return str(path)


def said(capsys, *words, status=0):
    assert main(["expect", *words]) == status
    out, err = capsys.readouterr()
    assert (out == "") == (status in {1, 2})
    return out or err


def told(capsys, *words, status=0):
    return json.loads(said(capsys, *words, "--format", "json", status=status))


# --- of a log ---------------------------------------------------------------------------


def test_a_log_tells_what_was_known_at_a_time(log, capsys):
    of_log = ("--log", log, "--share", "16", "--zone", "Europe/Prague")
    text = said(capsys, "4", *of_log, "--at", "2025-11-20T09:40")
    assert text.startswith(
        "Job 4 of ann (4 CPUs, limit 2 h) waits since 2025-11-20 08:20:00 CET (1 h 20 min ago).\n"
    )
    assert "2025-11-20 12:04:00 CET (in 2 h 24 min) at the latest" in text
    assert told(capsys, "4", *of_log, "--at", str(BEGIN + 10_200))["state"] == "running"
    assert told(capsys, "4", *of_log, "--at", "2025-11-20T10:50:00Z")["state"] == "ended"
    text = said(capsys, "4", *of_log)
    assert "With 16 CPUs for ann it should have ended by 2025-11-20 11:00:00 CET.\n" in text
    assert "It was late, by 50 min.\n" in text


def test_shares_can_be_said_or_set_and_modes_said(log, capsys, monkeypatch):
    assert told(capsys, "4", "--log", log, "--share-of", "ann=2.5")["share"] == {
        "cpus": 2.5,
        "from": "given to this user",
    }
    monkeypatch.setenv("JOBFEATURES_SCHEDULE_SHARE", "32")
    found = told(capsys, "4", "--log", log)
    assert (found["share"]["cpus"], found["expected"]["mode"]) == (32, "literal")
    found = told(capsys, "4", "--log", log, "--share", "16", "--mode", "exact")
    assert (found["share"]["cpus"], found["expected"]["mode"]) == (16, "exact")


def test_standard_input_and_packed_logs_are_read(tmp_path, capsys, monkeypatch):
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(LINES.encode()))
    assert told(capsys, "4", "--log", str(path), "--share", "16")["job"] == "4"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES.encode())))
    assert told(capsys, "4", "--log", "-", "--share", "16")["job"] == "4"


def test_records_that_cannot_be_read_are_told_of(tmp_path, capsys):
    path = tmp_path / "log.swf"
    path.write_text(LINES + "7 what is this\n")
    assert told(capsys, "4", "--log", str(path), "--share", "16")["not_known"] == [
        "1 records of the log could not be read"
    ]


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["99"], 1, "no job '99' is known"),
        (["4", "--at", "1763622000"], 1, ", as known at 1763622000"),
        (["5"], 1, "the job never started"),
        (["4", "--share-of", "ann=0"], 1, "user 'ann' has a share of 0"),
        (["4", "--share", "0"], 2, "must be above 0"),
        (["4", "--share", "many"], 2, "schedule.share: must be a number"),
        (["4", "--share-of", "group:x=1"], 2, "must name users"),
        (["4", "--history", "long"], 2, "--history: "),
        (["4", "--at", "soon"], 2, "--at: must be epoch seconds or a time"),
        (["4", "--zone", "Nowhere"], 2, "--zone: no such zone"),
        (["4", "--batch", "slurm"], 2, "--batch: cannot be combined with --log"),
        (["4", "--from", "sonar"], 1, "is known"),
    ],
)
def test_what_cannot_be_said_is_said_to_be(log, capsys, words, status, why):
    assert why in said(capsys, *words[:1], "--log", log, "--share", "16", *words[1:], status=status)


def test_a_log_needs_a_share(log, capsys):
    assert "--share: or --share-of for user 'ann' is needed with --log" in said(
        capsys, "4", "--log", log, status=2
    )


def test_a_log_that_is_not_there_is_named(capsys):
    assert "/nowhere.swf: cannot read" in said(capsys, "4", "--log", "/nowhere.swf", "--share", "1", status=2)


def test_a_time_without_a_log_makes_no_sense(capsys):
    assert "need --log" in said(capsys, "4", "--at", "0", status=2)


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_none(text):
    try:
        found = expect.parse_time("--at", text, ZoneInfo("Europe/Prague"))
    except ConfigurationError:
        return
    assert isinstance(found, int | float)


# --- of a batch system --------------------------------------------------------------------

NOW = 1_763_625_600


class Clock:
    def now_secs(self):
        return float(NOW)

    def monotonic_secs(self):
        return 0.0


def ended(job_id, user, submit, start, end, cpus):
    return JobRecord(
        batch_system="slurm", job_id=job_id, state=JobState.COMPLETED, user=user, partition="batch", submit_secs=submit,
        start_secs=start, end_secs=end, requested_cpus=cpus, wall_limit_secs=7200,
    )  # fmt: skip


class Played:
    """A batch system that knows three of ann's jobs and one of bob's."""

    name = "slurm"
    rejected = ()
    has_accounting = True

    def __init__(self):
        self.asked = []

    def poll_queue(self):
        jobs = [
            Job(key=JobKey("slurm", "7"), state=JobState.PENDING, user="ann", partition="batch", reason="Resources",
                submit_secs=NOW - 600, total_cpus=4, limits=Limits(wall_secs=3600), planned_secs=NOW + 300),
            Job(key=JobKey("slurm", "6"), state=JobState.RUNNING, user="ann", partition="batch",
                submit_secs=NOW - 900, start_secs=NOW - 900, total_cpus=8, limits=Limits(wall_secs=7200)),
        ]  # fmt: skip
        return JobTable(
            source="slurm",
            jobs={job.key: job for job in jobs},
            taken_at_secs=NOW,
            complete=True,
            rejected=self.rejected,
        )

    def poll_cluster(self):
        return Cluster(
            source="slurm", taken_at_secs=NOW, nodes=(ClusterNode(name="n1", states=("IDLE",), cpus=24),)
        )

    def poll_accounting(self, since_secs):
        self.asked.append(since_secs)
        if not self.has_accounting:
            raise SourceError("the database is away")
        day, old = 86_400, NOW - 5 * 86_400
        records = [
            ended("1", "bob", old, old, old + 60, 4),
            ended("2", "ann", old, old, old + 60, 4),
            ended("3", "eve", NOW - 61 * day, NOW - 60 * day, NOW - 59 * day, 4),
            ended("5", "ann", NOW - 3600, NOW - 3600, NOW - 60, 4),
        ]
        return Accounting(
            source="slurm", taken_at_secs=NOW,
            records=tuple(each for each in records if each.end_secs >= since_secs),
        )  # fmt: skip


class PlayedByUser(Played):
    """One that can be asked for one user's jobs."""

    def find_user(self, job_id):
        return {"7": "ann", "6": "ann", "5": "ann", "3": "eve", "8": "ann"}.get(job_id)

    def poll_user_queue(self, user):
        self.asked.append(user)
        return self.poll_queue()

    def poll_user_history(self, user, since_secs):
        return self.poll_accounting(since_secs)


@pytest.fixture(params=[Played, PlayedByUser])
def played(request, monkeypatch):
    source = request.param()
    monkeypatch.setattr(expect, "make_source", lambda *_: source)
    monkeypatch.setattr(expect, "SystemClock", Clock)
    return source


def test_a_batch_system_is_asked(played, capsys):
    text = said(capsys, "7", "--share", "12", "--zone", "UTC")
    assert "waits since" in text
    assert "the batch system says: Resources" in text
    assert "means to start it 2025-11-20 08:05:00 UTC (in 5 min)" in text
    assert "2 earlier jobs of ann" in text
    assert all(each == "ann" or each >= NOW - 15 * 86_400 for each in played.asked)
    assert "Not known" not in text


def test_the_default_share_is_that_of_the_nodes_by_users_before(played, capsys):
    share = told(capsys, "7")["share"]
    assert share == {"cpus": 12, "from": "24 CPUs of all nodes / 2 users with jobs before"}


def test_where_others_are_hidden_the_default_share_may_be_too_large(played, capsys):
    found = told(capsys, "7", "--history", "2h")
    assert found["share"]["cpus"] == 24
    assert found["not_known"][0].startswith("other users with jobs at that time, so the share may be")


def test_a_job_that_ended_long_ago_is_found_with_what_was_before_it(played, capsys):
    if isinstance(played, PlayedByUser):
        assert told(capsys, "3", "--share", "4")["late_secs"]["at_least"] == 86_400
    else:
        assert "a longer --history reaches further back" in said(capsys, "3", "--share", "4", status=1)
        assert told(capsys, "3", "--share", "4", "--history", "60d")["late_secs"]["at_least"] == 86_400


def test_without_accounting_it_is_said_what_is_not_known(played, capsys):
    played.has_accounting = False
    found = told(capsys, "7", "--share", "12", status=3)
    assert found["earlier_jobs"] == 1
    assert (found["is_partial"], found["expected"]["upper_secs"]) == (True, None)
    assert found["not_known"] == ["jobs that have ended: bounds may be too early (the database is away)"]
    assert "the database is away" in said(capsys, "7", status=1)


def test_records_of_a_batch_system_that_cannot_be_read_are_told_of(played, capsys):
    played.rejected = (Rejected("squeue", "bad"),)
    assert told(capsys, "7", "--share", "12")["not_known"] == ["1 records that could not be read"]


@pytest.mark.parametrize("job_id", ["8", "999", "", "7_1"])
def test_of_an_unknown_job_it_is_said_that_it_may_be_hidden(played, capsys, job_id):
    assert "jobs of others may be hidden from you" in said(capsys, job_id, "--share", "12", status=1)


def test_jobs_of_which_the_queue_tells_too_little_are_told_of(played, capsys, monkeypatch):
    poll = played.poll_queue

    def poll_queue():
        table = poll()
        jobs = {
            key: replace(job, submit_secs=None) if key.job_id == "6" else job
            for key, job in table.jobs.items()
        }
        return replace(table, jobs=jobs)

    monkeypatch.setattr(played, "poll_queue", poll_queue)
    found = told(capsys, "7", "--share", "12", status=3)
    assert found["earlier_jobs"] == 2
    assert found["not_known"] == [
        "when 1 other jobs of its user were submitted, or what they ask for: bounds may be too early"
    ]
    assert "the time of submission is unknown" in said(capsys, "6", "--share", "12", status=1)


def test_a_cluster_that_does_not_tell_of_its_processors_has_no_default_share(played, capsys):
    played.poll_cluster = lambda: Cluster(source="slurm", taken_at_secs=NOW)
    assert "use --share" in said(capsys, "7", status=1)


def test_where_no_batch_system_is_here_one_has_to_be_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("jobfeatures.batch.oar.site.CONFIGURATION", str(tmp_path / "oar.conf"))
    monkeypatch.setattr(
        "jobfeatures.batch.gridengine.site.find_spool", lambda procfs: None
    )  # one may run beside tests
    text = said(capsys, "7", "--pbs.home", str(tmp_path), "--torque.home", str(tmp_path), status=2)
    assert "--batch: must be given: here is none of slurm" in text


def test_a_batch_system_that_does_not_answer_is_no_answer(capsys):
    text = said(capsys, "7", "--batch", "slurm", "--slurm.scontrol", "/nowhere/scontrol", status=1)
    assert "/nowhere/squeue: No such file or directory" in text


def test_a_log_of_several_clusters_is_refused_for_each_may_have_a_job_of_that_id(tmp_path, capsys):
    path = tmp_path / "two.sacct"
    times = "2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:10:10|COMPLETED|4|00:10:00"
    head = "JobID|Cluster|User|Submit|Start|End|State|AllocCPUS|Elapsed"
    path.write_text(f"{head}\n1|c1|ann|{times}\n1|c2|bob|{times}\n")
    text = said(capsys, "1", "--log", str(path), "--share", "4", status=2)
    assert text == "jobfeatures: --log: holds jobs of several clusters (c1, c2): give those of one only\n"
    assert main(["schedule", str(path), "--share", "4"]) == 0
    assert "jobs of several clusters (c1, c2) are taken for one machine's" in capsys.readouterr().err
