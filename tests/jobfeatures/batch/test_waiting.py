"""A job whose program waits for its end is asked about each minute: `jobfeatures run` itself, and who reads its lock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.batch.questions import AskedJobs
from jobfeatures.batch.waiting import WaitedFor
from jobfeatures.client import Features
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits
from tests.running import until

KEY = JobKey("slurm", "12")
REFRESH_SECS = 300.0


@pytest.fixture
def job(tmp_path: Path) -> Path:
    made = tmp_path / "jobfeatures/slurm-12"
    made.mkdir(parents=True)
    made.chmod(0o555)  # the job may only read it
    return made


@pytest.fixture
def waited_for(tmp_path: Path) -> WaitedFor:
    return WaitedFor("slurm", str(tmp_path))


def test_of_jobs_that_run_waits_for_answers_are_a_minute_old_at_most_and_of_others_as_before(
    job: Path, waited_for: WaitedFor
) -> None:
    asked = AskedJobs("slurm", str.isdigit, refresh_secs=REFRESH_SECS, waited_for=waited_for)

    def is_asked(now_secs: float) -> bool:
        due = asked.begin({KEY}, (), now_secs=now_secs, taken_at_secs=now_secs)
        state = {"state": JobState.RUNNING, "limits": Limits(wall_secs=UNLIMITED)}
        asked.keep([Job(key=KEY, **state)] if due else [], (), (), None)
        return bool(due)

    assert is_asked(0)
    assert not is_asked(60)
    features = Features(job=str(job))
    features.watch()
    assert is_asked(120)
    assert not is_asked(130)
    assert is_asked(180)
    features.watch()
    assert is_asked(240)
    del features


@pytest.mark.program
def test_run_is_seen_from_its_beginning_to_its_end(job: Path, waited_for: WaitedFor) -> None:
    assert "12" not in waited_for
    command = [
        *(sys.executable, "-m", "jobfeatures", "run", "--signal", "USR1@60", "--"),
        *("sh", "-c", "sleep 1000 & echo $!; read line; exit 3"),
    ]
    environ = {**os.environ, "JOBFEATURES": str(job)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environ, **pipes) as run:
        child = run.stdout.readline().strip()
        until(lambda: "12" in waited_for)
        assert "13" not in waited_for
        held = [os.readlink(each) for each in Path(f"/proc/{child}/fd").iterdir()]
        assert str(job) not in held  # else it would count as waiting when run has long ended
        run.communicate("\n", timeout=60)
    assert run.returncode == 3
    assert "12" not in waited_for


def test_a_directory_that_takes_the_other_s_place_is_locked_at_the_next_reading(
    job: Path, waited_for: WaitedFor
) -> None:
    features = Features(job=str(job))
    features.watch()
    job.rename(job.with_name("old"))
    assert "12" not in waited_for
    features.watch()  # there is none
    job.mkdir()
    features.watch()
    assert "12" in waited_for


@pytest.mark.parametrize("name", ["slurm-13", "slurm-14"])
def test_what_is_no_directory_of_ours_is_not_waited_for(job: Path, waited_for: WaitedFor, name: str) -> None:
    job.with_name("slurm-13").symlink_to(job)
    job.with_name("slurm-14").write_text("")
    features = Features(job=str(job))
    features.watch()
    assert name.removeprefix("slurm-") not in waited_for
    assert "../jobfeatures/slurm-12" not in waited_for
