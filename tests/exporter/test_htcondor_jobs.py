"""The whole way of a job of HTCondor but for HTCondor: a stand-in for its starter, the daemon, the job wrapper."""

import shutil
import subprocess
from pathlib import Path

import pytest

from jobfeatures.records.model import JobKey, JobState
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from tests.running import started, until

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]
WRAPPER = ROOT / "packaging" / "htcondor" / "jobwrapper.sh"
ADS = ROOT / "tests" / "fixtures" / "htcondor"
SLEEP = shutil.which("sleep")
KEY = JobKey("htcondor", "4711.3@submit.example.org")


@pytest.fixture
def execute(tmp_path):
    path = tmp_path / "execute"
    path.mkdir()
    path.chmod(0o755)
    return path


@pytest.fixture
def daemon(tmp_path, execute):
    flags = {
        "features.root": str(tmp_path / "features"),
        "batch.sources": "htcondor",
        "htcondor.execute_directory": str(execute),
        "htcondor.condor_status": "/nonexistent/condor_status",
        "sample.interval": "100ms",
        "jobs.retain": "0s",
    }
    made = Daemon(load_config(ExporterConfig, flags=flags, environ={}))
    made.start()
    until(lambda: made.is_ready)
    yield made
    made.stop()


@pytest.fixture
def starter(tmp_path):
    """A process that is called condor_starter."""
    program = tmp_path / "condor_starter"
    shutil.copy(SLEEP, program)
    with started([program, "600"]) as process:
        until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[1] == "(condor_starter)")
        yield process


def test_a_job_is_published_as_its_scratch_directory_appears_and_told_by_the_wrapper(
    daemon, starter, execute, tmp_path
):
    scratch = execute / f"dir_{starter.pid}"
    scratch.mkdir()
    for name in ("job.ad", "machine.ad"):
        shutil.copy(ADS / name, scratch / f".{name}")
    environ = {
        "_CONDOR_JOB_AD": str(scratch / ".job.ad"),
        "_CONDOR_SCRATCH_DIR": str(scratch),
        "JOBFEATURES_FEATURES_ROOT": str(tmp_path / "features"),
        "JOBFEATURES_COMMAND": "/nonexistent",
        "JOBFEATURES_HOOK_TIMEOUT": "60",
    }
    command = [WRAPPER, "/bin/sh", "-c", 'cat "$JOBFEATURES/wall_limit_secs" "$JOBFEATURES/allocated_cpu"']
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["3600", "8"])
    known = tmp_path / "features" / "jobfeatures" / f"starter.{starter.pid}"  # by STARTER_JOB_ENVIRONMENT
    assert until(lambda: known.exists() and (known / "allocated_cpu").read_text()) == "8\n"
    text = until(
        lambda: (
            (page := daemon.exposition(openmetrics=False).decode())
            and 'job_id="4711.3@submit.example.org"' in page
            and page
        )
    )
    assert 'batch_system="htcondor"' in text

    starter.kill()
    starter.wait()
    shutil.rmtree(scratch)
    until(
        lambda: not (tmp_path / "features" / "jobfeatures" / "htcondor-4711.3%40submit.example.org").exists()
    )
    assert not known.is_symlink()
    job = daemon.board.job(KEY)
    assert job is None or job.state is JobState.UNKNOWN  # how it ended its schedd knows
