"""Run in a throw-away machine with Slurm up: step its clock by an hour either way below live jobs, and print what is seen.

Standard library only: the machine's Python runs it. One JSON object a line on standard output.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

HOUR_SECS = 3600
FEATURES = Path("/run/jobfeatures")
SLURMS_VIEW = """squeue -h -t all -o '%i %T %E'
find /sys/fs/cgroup -path '*/job_*' -name cgroup.procs -print -exec cat {} ';'"""
WEB = "127.0.0.1:9819"


def until(condition: Callable[[], object], timeout_secs: float = 180) -> bool:
    end = time.monotonic() + timeout_secs
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def page() -> str:
    try:
        with urllib.request.urlopen(f"http://{WEB}/metrics", timeout=20) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def submit(user: str) -> str:
    command = [
        "runuser", "-u", user, "--", "env", "-i", f"HOME=/home/{user}", f"USER={user}", "PATH=/usr/bin:/bin",
        f"SLURM_CONF={os.environ['SLURM_CONF']}", "sbatch", "--parsable", "-D", f"/home/{user}", "-o", "/dev/null",
        "-p", "long", "-t", "5-0", "-n1", "--mem=64", "--wrap", "while :; do for i in {1..9999}; do :; done; sleep 0.2; done",
    ]  # fmt: skip
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def has_features(job_id: str) -> bool:
    return (FEATURES / f"jobfeatures/slurm-{job_id}/wall_limit_secs").exists()


def begin(user: str) -> str:
    """Submit a job and wait until it has features and is shown with what it uses."""
    job_id = submit(user)
    used = f'batch_job_cpu_seconds_total{{batch_system="slurm",job_id="{job_id}"'
    until(lambda: has_features(job_id) and used in page())
    return job_id


def is_gone(job_id: str) -> bool:
    text = page()
    folder = FEATURES / f"jobfeatures/slurm-{job_id}"
    return text != "" and f'job_id="{job_id}"' not in text and not folder.exists()


def end(job_id: str) -> None:
    """Cancel a job and wait until nothing of it is left."""
    subprocess.run(["scancel", job_id], check=True)
    for _ in range(2):  # after a page without its empty group there may be one with its last values
        until(lambda: is_gone(job_id))
        time.sleep(2)


def step_clock(secs: int) -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + secs)


def observe(name: str, began: float) -> None:
    """Print which jobs have features, and what the page says of each."""
    text = page()
    jobs: dict[str, dict[str, float]] = {}
    for series, job_id, value in re.findall(
        r'(?m)^(batch_job_\w+)\{batch_system="slurm",(?:\w+="[^"]*",)*?job_id="(\d+)"[^}]*\} (\S+)$', text
    ):
        jobs.setdefault(job_id, {}).setdefault(series, 0.0)
        jobs[job_id][series] += float(value)
    up = re.search(r'(?m)^batch_exporter_source_up\{source="slurm"\} (\S+)$', text)
    told = {
        path.parent.name: path.read_text().strip() for path in FEATURES.glob("jobfeatures/*/wall_limit_secs")
    }
    wrong = time.time() - began - time.monotonic()
    slurm = subprocess.run(["sh", "-c", SLURMS_VIEW], capture_output=True, text=True).stdout
    seen = {"at": name, "features": told, "jobs": jobs, "up": up and float(up[1]), "wrong": wrong}
    print(json.dumps(seen | {"slurm": slurm}), flush=True)


def main() -> None:
    serve = [
        sys.argv[1], "serve", "--web.listen-address", WEB, "--batch.sources", "slurm", "--node.name", "lab1",
        "--batch.interval", "1s", "--batch.refresh", "2s", "--sample.interval", "1s", "--jobs.retain", "0s",
    ]  # fmt: skip
    began = time.time() - time.monotonic()
    with subprocess.Popen(serve) as daemon:
        first = begin("alice")
        time.sleep(4)
        observe("before", began)
        step_clock(HOUR_SECS)
        time.sleep(5)
        observe("ahead", began)
        second, third = begin("bob"), begin("alice")
        observe("ahead, two more", began)
        end(first)
        observe("ahead, one less", began)
        step_clock(-2 * HOUR_SECS)  # Slurm starts no job until its clock has caught up with all it has seen
        time.sleep(5)
        observe("behind", began)
        end(second)
        observe("behind, one less", began)
        step_clock(HOUR_SECS)
        time.sleep(5)
        observe("back", began)
        end(third)
        observe("after", began)
        daemon.terminate()


main()
