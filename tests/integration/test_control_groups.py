"""Real control groups, made by hand in the shapes of batch systems that cannot be had here."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import is_removed

ROOT = Path("/sys/fs/cgroup")
LOOP = "while :; do :; done"


@pytest.fixture
def tops():
    """Return the directories below which a job's groups are made: of each controller on v1, one on v2."""
    if os.geteuid() != 0:
        pytest.skip("making control groups needs root")
    found = [ROOT] if (ROOT / "cgroup.controllers").exists() else [ROOT / "cpuacct", ROOT / "memory"]
    if not all(os.access(top, os.W_OK) for top in found):
        pytest.skip(f"no control groups can be made in {ROOT}")
    return found


@pytest.fixture
def join(tops, until):
    """Return a function that makes a group and moves a process there; all is removed at the end."""
    made: list[Path] = []

    def join(path: str, pid: int) -> None:
        for top in tops:
            group = top
            for part in path.split("/"):
                group = group / part
                if not group.exists():
                    group.mkdir()
                    made.append(group)
            (group / "cgroup.procs").write_text(f"{pid}\n")

    yield join
    for group in reversed(made):
        until(lambda group=group: is_removed(group), 10)


@pytest.fixture
def run(join):
    """Return a function that starts a process in a session of its own; all are ended before their groups."""
    started = []

    def run(*argv: str) -> subprocess.Popen:
        started.append(subprocess.Popen(argv, start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):  # a test ended it
            os.killpg(process.pid, 9)
        process.wait()


@pytest.fixture
def start(start_exporter, tmp_path):
    def start(*flags: str):
        return start_exporter(
            "--batch.sources", "", "--features.root", str(tmp_path / "f"), "--sample.interval", "1s",
            "--jobs.retain", "0s", *flags,
        )  # fmt: skip

    return start


def check(exporter, until, batch_system: str, job_id: str) -> None:
    """Check that a job is counted by the kernel, and that its time grows."""
    job = {"batch_system": batch_system, "job_id": job_id}
    info = until(lambda: exporter.series("batch_job_info", **job))
    assert dict(next(iter(info)))["accounting"] == "cgroup"
    until(lambda: list(exporter.series("batch_job_processes", **job).values()) == [1])
    until(lambda: sum(exporter.series("batch_job_cpu_seconds_total", **job).values()) > 1)


@pytest.mark.parametrize(
    ("path", "batch_system", "job_id"),
    [
        ("pbs_jobs.service/jobid/987001[2].server", "pbs", "987001[2]"),
        ("pbs_jobs.service/jobs/987002.server", "pbs", "987002"),
        ("torque/987003.batch.host", "torque", "987003"),
        ("lsf/jobfeatureslab/job.987004.5.1700000000", "lsf", "987004"),
    ],
)
def test_the_kernel_counts_for_a_job_of_any_system(join, run, start, until, path, batch_system, job_id):
    process = run("sh", "-c", LOOP)
    join(path, process.pid)
    exporter = start()
    check(exporter, until, batch_system, job_id)


def test_a_slot_is_shown_as_the_job_of_its_starter(join, run, start, until, tmp_path):
    """The starter is a shell of that name; its child joins the slot's group."""
    starter = tmp_path / "condor_starter"
    shutil.copy("/bin/bash", starter)
    execute = tmp_path / "execute"
    parent = run(str(starter), "-c", f"({LOOP}) & wait")
    scratch = execute / f"dir_{parent.pid}"
    scratch.mkdir(parents=True)
    (scratch / ".job.ad").write_text('ClusterId = 987005\nProcId = 3\nCmd = "/bin/sh"\n')
    (scratch / ".machine.ad").write_text('Name = "slot1_1@lab"\n')
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    [child] = until(lambda: children.read_text().split())
    join("htcondor/condor_lab_execute_slot1_1@lab", int(child))
    exporter = start("--htcondor.execute-directory", str(execute))
    check(exporter, until, "htcondor", "987005.3")
    assert not exporter.series("batch_job_info", batch_system="htcondor", job_id="slot1_1@lab")


def test_a_group_that_a_job_makes_below_its_own_does_not_make_it_another(join, run, start, until):
    process = run("sh", "-c", LOOP)
    join("torque/987006.server/torque/987007.server", process.pid)
    exporter = start()
    check(exporter, until, "torque", "987006")
    assert not exporter.series("batch_job_info", job_id="987007")


@pytest.mark.parametrize(
    ("path", "number"),
    [("torque/987008.batch.host", 987008), ("pbs_jobs.service/jobid/987009[2].server", None)],
)
def test_a_job_is_told_in_sonars_format_by_its_number_or_else_by_its_process_group(join, run, path, number):
    """While the job works: it has used CPU time between the two looks."""
    process = run("sh", "-c", LOOP)
    join(path, process.pid)
    argv = [
        sys.executable,
        "-m",
        "jobfeatures_exporter",
        "sonar",
        "sample",
        "--cluster",
        "hpc.example.org",
        "--sonar.batch-only",
    ]
    done = subprocess.run(
        [*argv, "--no-sonar.exclude-system-jobs"], capture_output=True, text=True, check=True, timeout=240
    )
    jobs = json.loads(done.stdout)["data"]["attributes"]["jobs"]
    [job] = [each for each in jobs if process.pid in {found.get("pid") for found in each["processes"]}]
    assert job["job"] == (number or process.pid)
    assert ("epoch" in job) == (number is None)
    assert job["processes"][0]["cpu_util"] > 0  # how much is up to what else the machine does
