"""The quality of a real Slurm's schedule: live, after a restart, and from the log that sacct writes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.analysis.schedule.live.outlook import OVERRUN_SECS
from jobfeatures.batch.slurm.clustersource import SlurmCluster
from jobfeatures.batch.source import KeeperStatus
from jobfeatures.records.schedulequality import Verdict
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.cluster.accountingfeed import AccountingFeed
from jobfeatures_exporter.controller import livequality
from jobfeatures_exporter.controller.livequality import LiveQuality
from jobfeatures_exporter.scrape.collectors import CONTROLLER
from tests.configured import configured, settings_for
from tests.exporter.controller.polled import Kept

BIN = Path(sys.executable).parent
DAY = 86_400


@pytest.fixture
def watch(slurm, monkeypatch):
    """Return a function that starts to watch the schedule. The database of the lab learns within seconds."""
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(livequality, "SETTLE_SECS", 8.0)

    def start(**settings):
        clock = SystemClock()
        source = SlurmCluster(settings_for("slurm"), clock, 60.0)
        made = LiveQuality(
            source,
            clock,
            configured(role=CONTROLLER, schedule_history_secs=DAY, **settings),
            feed=AccountingFeed(source),
            queue=Kept(lambda: KeeperStatus("slurm-queue", source.poll_queue())),
            cluster=Kept(lambda: KeeperStatus("slurm-nodes", source.poll_cluster())),
        )
        made._wait_secs, made._overlap_secs = 0.0, 600.0
        return made

    return start


def offline(slurm, tmp_path, *options):
    """Return what `jobfeatures schedule` says of the log that sacct writes.

    Of a user's jobs that arrive in one second, as an array's, those of lower numbers come first where jobs are
    followed, in a log those that it lists first: here they are in one order.
    """
    log = tmp_path / "log.txt"
    head, *rows = slurm.run(
        "sacct", "-a", "-P", "-X", "-S", f"now-{2 * DAY}seconds", "-o",
        "JobID,User,Partition,State,Submit,Start,End,AllocCPUS,ReqCPUS,Suspended,ElapsedRaw",
    ).splitlines(True)  # fmt: skip
    rows.sort(key=lambda row: [int(each) for each in re.findall("[0-9]+", row.partition("|")[0])])
    log.write_text(head + "".join(rows))
    done = subprocess.run(
        [BIN / "jobfeatures", "schedule", log, "--format", "json", *options],
        capture_output=True, text=True, check=False, env={**os.environ, **slurm.environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_figures_are_those_of_the_log_and_of_a_restart(slurm, watch, tmp_path, until):
    made = watch(schedule_share="2")
    jobs = [slurm.submit("sleep 2", "-n", str(count), "-t", "5") for count in (1, 2, 2, 1)]
    array = slurm.submit("sleep 1", "--array", "1-4%2", "-n", "1", "-t", "5")
    first = slurm.submit("sleep 60", "-n", "4", "-t", "5", "--dependency", f"afterany:{array}")
    waiting = slurm.submit("sleep 60", "-n", "4", "-t", "5", "--dependency", f"after:{first}")
    held = slurm.submit("sleep 60", "-H", "-t", "5")  # nobody knows its end
    seen = made.ask()
    assert sum(seen.unfinished.values()) >= 5
    for job_id in (*jobs, array):
        slurm.wait(job_id, "COMPLETED", timeout_secs=120)
    slurm.wait(first, "RUNNING")
    # sacct lists no job that was never eligible
    until(lambda: slurm.run("squeue", "-h", "-j", waiting, "-o", "%r").strip() != "Dependency", 60)
    for job_id in (waiting, first, held):
        slurm.run("scancel", job_id)
    until(lambda: not slurm.run("squeue", "-h", "-t", "PD,R,CG"), 60)

    same = ("begin_secs", "jobs", "violated", "tardiness_secs", "weighted_tardiness_cpu_secs", "users",
            "veet_quantiles", "skipped", "wait_secs", "slowdown", "top_users", "share_cpus")  # fmt: skip

    def settled():  # the database learns of ends a little later
        found, again = made.ask(), watch(schedule_share="2").ask()
        apart = [name for name in same if getattr(found, name) != getattr(again, name)]
        is_settled = not apart and not len(made._live) and "never_started" in found.skipped
        print(is_settled, len(made._live), found.jobs, again.jobs, found.skipped, apart)
        return found if is_settled else None

    found = until(settled, 180, 1.0)
    log = offline(slurm, tmp_path, "--share", "2")
    assert found.jobs == log["jobs"]
    assert found.violated == log["violated"]
    assert found.tardiness_secs == log["total_tardiness"]
    assert found.weighted_tardiness_cpu_secs == log["total_weighted_tardiness"]
    assert {each.user: 100 * each.veet for each in found.top_users} == pytest.approx(log["veet"])
    assert found.skipped["never_started"] == log["skipped"]["never_started"] >= 1
    assert sum(each.sum for each in found.wait_secs.values()) == pytest.approx(log["mean_wait"] * log["jobs"])


def test_a_job_that_is_held_beyond_its_limit_is_certainly_late(slurm, watch, until):
    made = watch(schedule_share="2")
    job_id = slurm.submit("sleep 60", "-H", "-t", "1", "-n", "1")

    def outlook():
        made.ask()
        return next(iter(made._live.outlooks("alice", SystemClock().now_secs())), None)

    first = until(outlook)
    assert first.facts.job_id == job_id
    longest = 60 + OVERRUN_SECS
    assert first.upper_secs - first.facts.submit_secs >= longest
    last_start = first.upper_secs - longest
    verdicts = [made._live.outlooks("alice", at)[0].verdict for at in (last_start, last_start + 1)]
    assert verdicts[0] is not Verdict.CERTAINLY_LATE
    assert verdicts[1] is Verdict.CERTAINLY_LATE


def test_the_page_shows_it_and_the_default_share_is_that_of_the_nodes(slurm, start_exporter, until):
    job_id = slurm.submit("sleep 60", "-t", "5", "-n", "1")
    slurm.wait(job_id, "RUNNING")
    exporter = start_exporter(
        "--role", "controller", "--batch.sources", "slurm", "--controller.interval", "1s", environ=slurm.environ
    )  # fmt: skip
    until(lambda: exporter.series("batch_schedule_share_cpus", batch_system="slurm"))
    cpus = sum(exporter.series("batch_cluster_cpus", batch_system="slurm", partition="batch").values())
    assert list(exporter.series("batch_schedule_share_cpus").values()) == [cpus]  # nobody is a user yet
    assert list(exporter.series("batch_exporter_source_up", source="slurm-schedule").values()) == [1]
    until(lambda: sum(exporter.series("batch_schedule_unfinished_jobs", batch_system="slurm").values()) >= 1)
