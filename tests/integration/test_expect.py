"""`jobfeatures expect` on a real Slurm: jobs that wait, run and have ended, asked about by root and by users."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture
def expect(slurm):
    """Return a function that asks about a job and returns what is said, from a share of 2."""

    def ask(job_id, *options, status=0):
        words = [BIN / "jobfeatures", "expect", job_id, "--batch", "slurm", "--share", "2", *options]
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **slurm.environ},
            timeout=240,
        )
        assert done.returncode == status, done.stderr
        return done.stdout or done.stderr

    ask.json = lambda job_id, *options: json.loads(ask(job_id, *options, "--format", "json"))
    return ask


def test_jobs_that_have_ended_run_and_wait(slurm, expect, until):
    first = slurm.submit("sleep 2", "-n", "2", "-t", "5")
    slurm.wait(first, "COMPLETED")
    running = slurm.submit("sleep 120", "-N", "1", "-n", "3", "-t", "5")
    slurm.wait(running, "RUNNING")
    waiting = slurm.submit("sleep 1", "-N", "1", "-n", "4", "-t", "2")
    held = slurm.submit("sleep 1", "-H", "-t", "5")
    behind = slurm.submit("sleep 1", "--dependency", f"afterok:{held}", "-t", "5")

    found = expect.json(first)
    assert (found["state"], found["user"]) == ("ended", "alice")
    assert found["elapsed_secs"] == found["end_secs"] - found["start_secs"]

    found = expect.json(running)
    assert (found["state"], found["limit_secs"], found["cpus"]) == ("running", 300, 3)
    assert found["limit_end_secs"] == found["start_secs"] + 300
    # 3 CPUs for 5 minutes and the 2 that ending may take, from a share of 2; more where earlier jobs hold it.
    assert found["expected"]["upper_secs"] - found["submit_secs"] >= (300 + 120) * 3 / 2
    assert found["expected"]["lower_secs"] <= found["expected"]["upper_secs"]

    found = expect.json(waiting)
    assert (found["state"], found["cpus"]) == ("waiting", 4)
    assert running in [each["job"] for each in found["ahead"]["last"]]
    text = expect(waiting)
    assert re.search(rf"Job {waiting} of alice \(4 CPUs, limit 2 min, batch\) waits since", text)
    assert re.search(r"the batch system says: (Resources|Priority)", text)

    def is_planned():
        return expect.json(waiting)["planned_start_secs"]

    planned = until(is_planned, 90, 2.0)  # the backfilling scheduler looks now and then
    assert planned >= found["now_secs"]
    assert "The batch system means to start it " in expect(waiting)
    assert "It is held until somebody releases it." in expect(held)
    assert "It waits for another job or a date." in expect(behind)


def test_arrays_and_heterogeneous_jobs(slurm, expect):
    array = slurm.submit("sleep 60", "--array", "1-5%1", "-n", "1", "-t", "5")
    slurm.wait(array, "RUNNING", "PENDING")
    assert expect.json(f"{array}_3")["state"] == "waiting"
    third, fifth = (expect.json(f"{array}_{task}")["expected"]["upper_secs"] for task in (3, 5))
    assert third < fifth == expect.json(array)["expected"]["upper_secs"]
    assert f"{array} is an array. This is of its last task" in expect(array)
    assert re.search("is known|has no job", expect(f"{array}_9", status=1))
    het = slurm.run(
        "sbatch", "--parsable", "-D", "/home/alice", "-o", "/dev/null", "-n1", "-t", "5", "--mem=50", ":",
        "-n1", "-t", "5", "--mem=50", "--wrap", "sleep 60", user="alice",
    ).strip()  # fmt: skip
    slurm.submitted.append(het)
    found = expect.json(f"{het}+1")
    assert (found["job"], found["components"]) == (str(int(het) + 1), 2)


@pytest.mark.parametrize("job_id", ["4294901", "0", "-1", "nonsense", "1_", "$(id)"])
def test_a_job_that_slurm_does_not_know(slurm, job_id):
    done = subprocess.run(
        [BIN / "jobfeatures", "expect", "--batch", "slurm", "--share", "2", "--", job_id],
        capture_output=True, text=True, check=False, env={**os.environ, **slurm.environ}, timeout=240,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "has no job" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_user_without_rights_may_ask(slurm):
    """With the system's Python, which everybody may run."""
    libraries = sysconfig.get_path("purelib")
    command = [
        "env",
        f"PYTHONPATH={ROOT}:{libraries}",
        SYSTEM_PYTHON,
        "-m",
        "jobfeatures",
        "expect",
        "--batch",
        "slurm",  # other systems' programs may be here too
        "--share",
        "2",
    ]
    probe = subprocess.run(
        ["/usr/sbin/runuser", "-u", "bob", "--", *command[:-5], "--version"], capture_output=True, check=False
    )
    if probe.returncode:
        pytest.skip("another user cannot run the project from here with the system's Python")
    job_id = slurm.submit("sleep 60", "-n", "1", "-t", "5")
    slurm.wait(job_id, "RUNNING")
    for user in ("alice", "bob"):
        text = slurm.run(*command, job_id, user=user)
        assert f"Job {job_id} of alice (1 CPU, limit 5 min, batch) runs since" in text
