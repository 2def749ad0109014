"""`report --by` against sacct's own figures, from a real Slurm, real exporters and a real Prometheus."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..running import until

BIN = Path(sys.executable).parent
BUSY_SECS, JOB_SECS = 45, 100
# Idle at last: what a job burns after the last sample of it no server has. Times of accounting are whole seconds.
BUSY = f"timeout {BUSY_SECS} bash -c 'while :; do :; done'; sleep {JOB_SECS - BUSY_SECS}"


def test_core_hours_by_user_and_account_are_those_of_sacct(slurm, start_exporter, prometheus):
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        "--batch.interval", "2s", "--sample.interval", "1s", environ=slurm.environ,
    )  # fmt: skip
    query = prometheus(exporter.address)
    since = int(time.time())
    wanted = [
        slurm.submit(BUSY, "--mem=150", user="alice"),
        slurm.submit(f"sleep {JOB_SECS}", "--cpus-per-task=2", user="bob"),
    ]
    for job in wanted:
        slurm.wait(job, "COMPLETED", timeout_secs=400)
    ended = 'count(last_over_time(batch_job_end_time_seconds{{job_id="{}"}}[10m]))'
    until(lambda: all(query(ended.format(job)) for job in wanted), 120)
    time.sleep(3)  # two scrapes more, so that the last values are there
    told = {}
    for by in ("user", "account"):
        done = subprocess.run(
            [BIN / "jobfeatures-exporter", "report", "--by", by, "--prometheus", query.address, "--since",
             f"{int(time.time()) - since}s", "--format", "json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        told[by] = {each["name"]: each for each in json.loads(done.stdout)["totals"]}
    text = slurm.run("sacct", "-a", "-n", "-P", "-j", ",".join(wanted), "-o",
                     "JobID,User,Account,CPUTimeRAW,TotalCPU,State")  # fmt: skip
    rows = [line.split("|") for line in text.splitlines()]
    for job, user, account, asked, used, _ in (row for row in rows if row[1]):
        seconds = 0.0
        for part in used.replace("-", ":").split(":"):
            seconds = seconds * 60 + float(part)
        for by, name in (("user", user), ("account", account)):
            total = told[by][name]
            assert total["core_hours"] * 3600 == pytest.approx(int(asked), rel=0.01), (job, by)
            # Of the whole that was asked for: sleeping jobs use milliseconds.
            assert total["used_core_hours"] * 3600 == pytest.approx(seconds, abs=0.01 * int(asked)), (job, by)
            wasted = int(asked) - seconds
            assert total["wasted_core_hours"] * 3600 == pytest.approx(wasted, abs=0.01 * int(asked)), (
                job,
                by,
            )
