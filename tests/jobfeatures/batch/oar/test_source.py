"""OAR's files on a node: constructed after those of OAR 2.5.9, captured from OAR 2.6.1."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.oar import source as oar_source
from jobfeatures.batch.oar.source import OarSource, WithFiles, parse_environment
from jobfeatures.errors import SourceError
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limits
from jobfeatures.system.clock import SystemClock
from tests.configured import settings_for

LINES = """export OAR_JOBID='10'
export OAR_USER='nobody_here'
export OAR_JOB_NAME='fit'
export OAR_PROJECT_NAME='physics'
export OAR_JOB_WALLTIME='0:4:0'
export OAR_JOB_WALLTIME_SECONDS='240'
export OAR_NODEFILE=$OAR_FILE_NODES
"""
KEY = JobKey("oar", "10")
CAPTURED = Path(__file__).parents[3] / "fixtures/oar/node-2.6.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "oar"
    path.mkdir()
    (path / "nobody_here_10.env").write_text(LINES)
    os.utime(path / "nobody_here_10.env", (1795336598.7, 1795336598.7))
    (path / "10").write_text("oar1.site\noar1.site\noar2.site\n")
    (path / "10_resources").write_text(" core = '2' , host = 'oar1' \n")
    (path / "pid_of_oarexec_for_jobId_10").write_text("11397")
    return path


def source(folder: Path, *, booted_secs: int = 1795336000) -> OarSource:
    proc = folder.parent / "proc"
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"cpu  1 2 3\nbtime {booted_secs}\nprocesses 7\n")
    config = settings_for("oar", oar_directory=str(folder), path_procfs=str(proc))
    return OarSource(config, SystemClock(), "oar1")


def test_a_job_is_told_by_its_files(folder: Path) -> None:
    table = source(folder).poll_jobs(())
    assert table.jobs == {
        KEY: Job(
            key=KEY,
            state=JobState.RUNNING,
            name="fit",
            user="nobody_here",
            account="physics",
            start_secs=1795336598,
            nodes=("oar1.site", "oar2.site"),
            total_cpus=3,
            allocated_cpus=2,
            limits=Limits(wall_secs=240, cpu_secs=720),
        )
    }
    assert (table.complete, table.gone) == (True, {})
    assert source(folder).read_job("10") == table.jobs[KEY]
    assert source(folder).read_job("11") is None


@pytest.fixture
def captured(folder: Path) -> OarSource:
    shutil.rmtree(folder)
    shutil.copytree(CAPTURED, folder)
    return source(folder, booted_secs=0)


def test_the_files_of_oar_2_6_tell_the_jobs(captured: OarSource) -> None:
    table = captured.poll_jobs(())
    assert table.complete
    found = {key.job_id: job for key, job in table.jobs.items()}
    plain, imitating = found["1"], found["16"]
    assert (plain.name, plain.user, plain.account) == ('weird | "name" ü', "alice", "physics")
    assert (plain.allocated_cpus, plain.limits) == (2, Limits(wall_secs=1620, cpu_secs=3240))
    assert (imitating.name, imitating.account) == (None, "default")


def test_jobs_of_an_array_name_it_and_its_first_one_if_another_is_here(
    captured: OarSource, folder: Path
) -> None:
    def arrays() -> dict[str, tuple[str | None, str | None]]:
        jobs = captured.poll_jobs(()).jobs
        return {key.job_id: (job.array_job_id, job.array_task_id) for key, job in jobs.items()}

    assert arrays() == {"1": (None, None), "2": ("2", "1"), "3": ("2", "2"), "16": (None, None)}
    assert (captured.read_job("3") or plain_job()).array_task_id == "2"
    (folder / "bob_3.env").unlink()
    assert arrays()["2"] == (None, None)  # as a plain job has it


@pytest.mark.parametrize("changed", ["OAR_ARRAYID='x'", "OAR_ARRAYINDEX='x'", "OAR_ARRAYINDEX='1'"])
def test_no_array_is_made_up(changed: str, folder: Path) -> None:
    """A job that is resubmitted keeps the array of its first run, with index 1."""
    lines = {"OAR_ARRAYID": "OAR_ARRAYID='7'", "OAR_ARRAYINDEX": "OAR_ARRAYINDEX='2'"}
    lines[changed.partition("=")[0]] = changed
    more = "".join(f"export {line}\n" for line in lines.values())
    (folder / "nobody_here_10.env").write_text(LINES + more)
    assert source(folder).poll_jobs(()).jobs[KEY].array_job_id is None


def plain_job() -> Job:
    return Job(key=KEY, state=JobState.RUNNING)


def test_a_folder_that_is_too_full_is_no_answer(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(oar_source, "MAX_FILES", 3)
    asked = source(folder)
    with pytest.raises(SourceError, match="more than 3 files"):
        asked.poll_jobs({KEY})


def test_a_job_whose_files_have_gone_has_ended_and_one_without_any_proves_nothing(folder: Path) -> None:
    asked = source(folder)
    asked.poll_jobs(())
    (folder / "nobody_here_10.env").unlink()
    table = asked.poll_jobs({KEY, JobKey("oar", "11")})
    assert table.jobs == {}
    assert set(table.gone or ()) == {KEY}
    first = table.gone
    assert asked.poll_jobs({KEY}).gone == first
    assert asked.poll_jobs(()).gone == {}


def test_a_file_from_before_the_node_was_started_keeps_no_job(folder: Path) -> None:
    """A node that crashed could not take it away."""
    late = 1795336598 + 3600
    assert source(folder, booted_secs=late).poll_jobs((), {KEY}).jobs == {}
    assert set(source(folder, booted_secs=late).poll_jobs((), {KEY}).gone or ()) == {KEY}
    assert source(folder, booted_secs=late).poll_jobs({KEY}).jobs.keys() == {
        KEY
    }  # clocks lie, processes do not
    known = source(folder, booted_secs=late)
    (folder.parent / "proc/stat").write_text("cpu\n")
    assert known.poll_jobs(()).jobs.keys() == {KEY}


def test_a_job_that_never_had_files_has_ended_where_nothing_of_it_lives(folder: Path) -> None:
    """It ended while no daemon ran; its directory or its empty control group is still there."""
    asked, other = source(folder), JobKey("oar", "11")
    table = asked.poll_jobs((), {other, KEY, JobKey("slurm", "12")})
    assert set(table.gone or ()) == {other}
    assert asked.poll_jobs((), {other}).gone == table.gone
    assert source(folder).poll_jobs({other}, {other}).gone == {}


def test_a_name_that_imitates_a_line_is_not_believed() -> None:
    name = "x'\nexport OAR_JOB_WALLTIME_SECONDS='999999"
    told = parse_environment(LINES.replace("'fit'", f"'{name}'"))
    assert "OAR_JOB_WALLTIME_SECONDS" not in told
    assert told["OAR_PROJECT_NAME"] == "physics"


def test_a_file_that_cannot_be_read_costs_no_other_job(folder: Path) -> None:
    (folder / "alice_11.env").write_text("")
    (folder / "11").write_text("no host!\n")
    (folder / "alice_12.env").symlink_to("nobody_here_10.env")
    table = source(folder).poll_jobs(())
    assert table.jobs.keys() == {KEY, JobKey("oar", "11"), JobKey("oar", "12")}
    assert not table.complete
    assert len(table.rejected) == 2


def test_a_folder_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        source(tmp_path / "absent").poll_jobs(())
    with pytest.raises(SourceError, match="No such file"):
        source(tmp_path / "absent").read_job("1")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(name.startswith("OAR_") for name in parse_environment(text))


class Role:
    """Stands in for the controller role."""

    def poll_jobs(self, seen: object, claimed: object = ()) -> JobTable:
        del seen, claimed
        states = {"10": JobState.RUNNING, "11": JobState.RUNNING, "12": JobState.SUSPENDED}
        jobs = {
            key: Job(key=key, state=state) for each, state in states.items() if (key := JobKey("oar", each))
        }
        return JobTable(source="oar", jobs=jobs, taken_at_secs=1.0, complete=True)


def test_of_jobs_that_the_controller_role_tells_those_without_files_have_no_group(folder: Path) -> None:
    asked = WithFiles(Role(), source(folder))  # type: ignore[arg-type]
    assert asked.poll_jobs(()).groupless == {JobKey("oar", "11")}  # cosystem or deploy
    shutil.rmtree(folder)
    assert asked.poll_jobs(()).groupless == frozenset()
