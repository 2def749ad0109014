"""A real Slurm's jobs of a node, of which neither a control group nor a hook tells the daemon."""

import os
import subprocess

import pytest

from jobfeatures.batch.slurm.source import make_source
from jobfeatures.records.model import JobKey, JobState
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.startup import sitesays
from jobfeatures_exporter.startup.doctor import examine
from jobfeatures_exporter.startup.findings import Mark
from jobfeatures_exporter.state.daemongroups import HIDDEN
from tests.configured import changed, configured, settings_for
from tests.integration.conftest import until
from tests.integration.slurmdaemons import CONTROLLER, Daemons


@pytest.fixture
def source(slurm, monkeypatch):
    """Return the node's source, which nobody tells of jobs."""
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    return make_source(settings_for("slurm", batch_refresh_secs=0.5), SystemClock(), slurm.node)


@pytest.fixture
def without_contain(slurm):
    """Have slurmd start no step for a job that runs nothing."""
    daemons = Daemons(slurm)
    for name in (CONTROLLER, daemons.node_daemon):
        daemons.stop(name)
    daemons.set(PrologFlags="Alloc")
    for name in (CONTROLLER, daemons.node_daemon):
        daemons.start(name)
    daemons.resume()
    yield
    daemons.restore()


def test_a_job_is_known_by_slurmd_s_folder_alone(slurm, source, without_hooks):
    job_id = slurm.submit("sleep 60")
    slurm.wait(job_id, "RUNNING")
    table = until(lambda: (found := source.poll_jobs(())) and found.jobs and found, 30, 0.5)
    job = table.jobs[JobKey("slurm", job_id)]
    assert (job.state, job.user) == (JobState.RUNNING, "alice")
    assert table.groupless == frozenset()
    slurm.cancel_all()
    until(lambda: not any(job.state.is_on_node for job in source.poll_jobs(()).jobs.values()), 60, 0.5)


def test_a_job_without_a_step_is_known_by_the_cpus_that_it_has(slurm, source, without_hooks, without_contain):
    assert not source.poll_jobs(()).jobs
    command = ["runuser", "-u", "alice", "--", "salloc", "-n1", "-w", slurm.node, "--no-shell", "-D", "/tmp"]
    said = subprocess.run(
        command, env={**os.environ, **slurm.environ}, capture_output=True, text=True, timeout=240
    )
    [job_id] = [word for word in said.stderr.split("\n")[0].split() if word.isdigit()]
    slurm.submitted.append(job_id)
    slurm.wait(job_id, "RUNNING")
    key = JobKey("slurm", job_id)
    table = until(lambda: (found := source.poll_jobs(())) and key in found.jobs and found, 30, 0.6)
    assert table.jobs[key].state is JobState.RUNNING
    assert table.groupless == {key}


def test_doctor_asks_slurm_for_jobs_that_nothing_here_shows(
    slurm, source, without_hooks, tmp_path, monkeypatch
):
    """As where hidepid hides slurmd, and its control groups are not where they are looked for."""
    monkeypatch.setattr(sitesays, "STARTING_SECS", 0.0)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    nothing = configured(path_cgroup=str(tmp_path), path_procfs=str(tmp_path))
    job_id = slurm.submit("sleep 60")
    slurm.wait(job_id, "RUNNING")
    until(lambda: source.poll_jobs(()).jobs, 30, 0.5)

    def said(config: ExporterConfig) -> list[tuple[Mark, str, str]]:
        config = changed(config, batch_sources=("slurm",), node_name=slurm.node)
        return [(each.mark, each.words, each.remedy) for each in examine(config) if each.what == "slurm jobs"]

    words = f"job {job_id} of 1 running here: no control group is found; slurmd is not seen"
    assert said(nothing) == [(Mark.WRONG, words, HIDDEN)]
    assert said(ExporterConfig()) == []
