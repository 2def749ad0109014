"""A real Grid Engine: its jobs have no control groups, and are found by their group and their shepherd."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

LABS = Path(__file__).parents[1] / "labs/gridengine"
SYSTEM_PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


@dataclass
class GridEngine:
    """A running cell. Users run its commands with a clean environment."""

    environ: dict[str, str]
    submitted: list[str] = field(default_factory=list)

    def run(self, *command: str, user: str = "alice", stdin: str | None = None) -> str:
        environ = {"HOME": f"/home/{user}", "USER": user, "PATH": "/usr/bin:/bin", **self.environ}
        argv = [shutil.which("runuser", path=SYSTEM_PATH), "-u", user, "--", *command]
        done = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=60, cwd="/", input=stdin
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str, user: str = "alice") -> str:
        """Submit a job and return its number."""
        output = self.run(
            "qsub", "-terse", "-wd", f"/home/{user}", "-o", "/dev/null", "-j", "y", *options,
            user=user, stdin=f"#!/bin/bash\n{script}\n",
        )  # fmt: skip
        number = re.match(r"\d+", output)[0]
        self.submitted.append(number)
        return number

    def delete_all(self) -> None:
        for number in self.submitted:
            subprocess.run(["qdel", number], env={**os.environ, **self.environ}, capture_output=True)


@pytest.fixture(scope="module")
def lab():
    """Start Grid Engine once; stop it at the end unless it was running before."""
    if os.geteuid() != 0:
        pytest.skip("a private Grid Engine needs root: execd starts jobs as other users")
    if not Path("/usr/lib/gridengine/sge_execd").exists():
        pytest.skip("Grid Engine is not installed: tests/labs/gridengine/install.sh")
    up = subprocess.run([LABS / "up.sh"], capture_output=True, text=True, timeout=180)
    assert up.returncode == 0, up.stdout + up.stderr
    environ = dict(re.findall(r"(SGE_\w+)=(\S+)", Path(re.search(r"\. (\S+)$", up.stdout)[1]).read_text()))
    yield environ
    if "already up" not in up.stdout:
        subprocess.run([LABS / "down.sh"], capture_output=True, timeout=120, check=False)


@pytest.fixture
def gridengine(lab):
    found = GridEngine(lab)
    yield found
    found.delete_all()


@pytest.fixture(params=["found", "stated"])
def exporter(request, gridengine, start_exporter, tmp_path):
    """Return the daemon, which finds execd's directory by itself or is told."""
    flags = ["--batch.sources", "", "--features.root", str(tmp_path / "f"), "--sample.interval", "1s",
             "--jobs.retain", "0s"]  # fmt: skip
    if request.param == "stated":
        [spool] = Path(gridengine.environ["SGE_ROOT"]).glob("spool/execd/*/active_jobs")
        flags += ["--gridengine.spool-directory", str(spool.parent)]
    return start_exporter(*flags)


def of(job_id: str) -> dict[str, str]:
    return {"batch_system": "gridengine", "job_id": job_id}


def test_a_job_of_two_processes_is_seen_with_its_user_and_its_cpu_time_and_seen_to_end(
    gridengine, exporter, until
):
    number = gridengine.submit("(while :; do :; done) & sleep 60")
    # at first there may be the shepherd alone, which does not tell whose job it is
    until(lambda: exporter.series("batch_job_info", accounting="processes", uid="6001", **of(number)))
    # the shepherd, the script, the loop and the sleep
    until(lambda: list(exporter.series("batch_job_processes", **of(number)).values()) == [4])
    [first] = exporter.series("batch_job_cpu_seconds_total", mode="user", **of(number)).values()
    until(
        lambda: (
            exporter.series("batch_job_cpu_seconds_total", mode="user", **of(number)).popitem()[1]
            > first + 0.5
        )
    )
    [anon] = exporter.series("batch_job_memory_bytes", component="anon", **of(number)).values()
    assert anon > 0
    gridengine.run("qdel", number)
    until(lambda: not exporter.series("batch_job_info", **of(number)))


def test_the_tasks_of_an_array_are_jobs_of_their_own(gridengine, exporter, until):
    number = gridengine.submit("sleep 60", "-t", "2-3", user="bob")
    for task in ("2", "3"):
        until(lambda task=task: exporter.series("batch_job_info", uid="6002", **of(f"{number}.{task}")))
    assert not exporter.series("batch_job_info", **of(number))


def pids_of(*argv: str) -> list[int]:
    """Return the processes with this command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() == "\0".join((*argv, "")).encode():
                found.append(int(pid))
    return found


def test_a_process_that_leaves_its_session_and_its_parent_stays_the_jobs(gridengine, exporter, until):
    mark = f"0.{time.monotonic_ns()}"  # sleep adds its arguments up
    number = gridengine.submit(f"setsid sh -c 'sleep 61 {mark} & exit'; sleep 60")
    until(lambda: list(exporter.series("batch_job_processes", **of(number)).values()) == [4])
    [orphan] = pids_of("sleep", "61", mark)
    stat = Path(f"/proc/{orphan}/stat").read_text().rpartition(")")[2].split()
    assert stat[1] == "1"  # its parent has ended


def test_what_the_user_runs_beside_the_job_is_not_the_jobs(gridengine, exporter, until):
    """Not even with the job's number in its environment, which is what a user may write."""
    ahead = gridengine.submit("sleep 60", "-h")
    beside = subprocess.Popen(
        [shutil.which("runuser", path=SYSTEM_PATH), "-u", "alice", "--", "sleep", "60"],
        env={"PATH": "/usr/bin:/bin", "JOB_ID": ahead, "SGE_TASK_ID": "undefined"},
    )
    try:
        gridengine.run("qrls", ahead)
        # the shepherd, the script and its sleep
        until(lambda: list(exporter.series("batch_job_processes", **of(ahead)).values()) == [3])
        beside_too = gridengine.submit("sleep 60")  # a look that is certainly later
        until(lambda: exporter.series("batch_job_info", **of(beside_too)))
        assert list(exporter.series("batch_job_processes", **of(ahead)).values()) == [3]
    finally:
        beside.terminate()
        beside.wait()
