"""Many jobs that start on a busy node: no prolog fails or takes long, no job waits in vain, no key is lost.

JOBFEATURES_BURST_JOBS (40) and JOBFEATURES_BURST_LOAD (20) say how many, and how many processes burn CPU
beside them. Counts are asserted; how long prologs took is printed, and bounded by what the site was promised.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.integration.conftest import BIN, ROOT

JOBS = int(os.environ.get("JOBFEATURES_BURST_JOBS", "40"))
LOAD = int(os.environ.get("JOBFEATURES_BURST_LOAD", "20"))
PROMISED_SECS = 5.0
FIRST_LINE = {"allocated_cpu", "job_id"}  # what the environment of Slurm 22.05 tells
ASKED = {"wall_limit_secs", "jobstart_secs", "cpu_limit_secs", "max_rss_bytes"}

JOB = """
keys=; for file in "$JOBFEATURES"/*; do [ -e "$file" ] && keys+=" ${file##*/}"; done
printf '%s\\n' "$MACHINEFEATURES" "$JOBFEATURES" "$JOBSTATUS" "${keys# }" >/home/alice/burst/$SLURM_JOB_ID
sleep 8
"""


class Watcher:
    """Looks at the published directories again and again, and keeps what was taken away from a living one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seen: dict[str, set[str]] = {}
        self.lost: list[tuple[str, set[str]]] = []

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            for path in self._folder.glob("slurm-*"):
                with contextlib.suppress(OSError):
                    before = self.seen.setdefault(path.name, set())
                    now = set(os.listdir(path))
                    if now < before and path.exists() and set(os.listdir(path)) < before:
                        self.lost.append((path.name, before - now))
                    before |= now


@pytest.fixture
def burning():
    """Return a function that burns CPU in some processes until the test ends."""
    processes = []

    def burn(count: int) -> None:
        processes.extend(subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count))

    yield burn
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.timeout(900)
def test_jobs_that_start_on_a_busy_node_find_their_features(slurm, slurm_lab, slurm_exporter, burning, until):
    log, found = slurm_lab / "log/prologs", Path("/home/alice/burst")
    log.unlink(missing_ok=True)
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir()
    shutil.chown(found, "alice")
    (slurm_lab / "scripts/prolog.d/jobfeatures").write_text(
        "#!/bin/bash\n"
        f"export JOBFEATURES_COMMAND={BIN}/jobfeatures JOBFEATURES_FEATURES_ROOT={slurm.features}\n"
        f"started=$EPOCHREALTIME\n{ROOT}/packaging/slurm/prolog.sh\n"
        f'echo "$SLURM_JOB_ID $? $started $EPOCHREALTIME" >>{log}\n'
    )
    before = hook_failures(slurm_exporter)
    with Watcher(slurm.features / "jobfeatures") as watcher:
        burning(LOAD)
        array = slurm.submit(JOB, f"--array=1-{JOBS}", "-w", slurm.node, "--mem=10", "-t", "7")
        until(lambda: len(list(found.iterdir())) == JOBS, 800, 1.0)
        until(lambda: not slurm.run("squeue", "-h", "-j", array), 60, 1.0)
    prologs = [line.split() for line in log.read_text().splitlines()]
    assert [(len(prologs), status) for _, status, _, _ in prologs if status != "0"] == []
    assert len(prologs) == JOBS
    took = sorted(float(ended) - float(started) for _, _, started, ended in prologs)
    told = {path.name: path.read_text().splitlines() for path in found.iterdir()}
    at_once = [job_id for job_id, lines in told.items() if set(lines[3].split()) >= FIRST_LINE]
    asked_at_once = [job_id for job_id, lines in told.items() if set(lines[3].split()) >= FIRST_LINE | ASKED]
    asked = [name for name, keys in watcher.seen.items() if keys >= FIRST_LINE | ASKED]
    after = hook_failures(slurm_exporter)
    print(
        f"{JOBS} jobs at load {os.getloadavg()[0]:.0f}: prologs took {statistics.median(took):.3f} s in the"
        f" median, {took[-1]:.3f} s at most; {len(at_once)} jobs had at once what the environment tells,"
        f" {len(asked_at_once)} what had to be asked, {len(asked)} had it in their life;"
        f" failures counted: { {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)} }"
    )
    assert took[-1] < PROMISED_SECS
    for job_id, lines in told.items():
        assert lines[:3] == [
            f"{slurm.features}/machinefeatures",
            f"{slurm.features}/jobfeatures/slurm-{job_id}",
            f"{slurm.features}/jobstatus/slurm-{job_id}",
        ]
    assert len(at_once) >= 0.99 * JOBS
    assert watcher.lost == []


def hook_failures(exporter) -> dict[str, float]:
    return exporter.series("batch_features_hook_failures_by_reason_total")


def test_the_watcher_sees_what_is_lost(tmp_path):
    job = tmp_path / "slurm-1"
    job.mkdir()
    (job / "job_id").touch()
    (job / "wall_limit_secs").touch()
    with Watcher(tmp_path) as watcher:
        deadline = time.monotonic() + 240
        while len(watcher.seen.get("slurm-1", ())) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        (job / "wall_limit_secs").unlink()
        while not watcher.lost and time.monotonic() < deadline:
            time.sleep(0.01)
    assert watcher.lost[0] == ("slurm-1", {"wall_limit_secs"})
