"""Jobs from a job wrapper's environment; fixtures as in test_jobad.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.batch.htcondor.prolog import job_from_prolog, job_id_of
from jobfeatures.batch.htcondor.site import ask_in_prolog
from jobfeatures.cli import main
from jobfeatures.errors import ParseError
from tests.configured import settings_for
from tests.running import own_folder

FOLDER = Path(__file__).parents[3] / "fixtures" / "htcondor"
ENVIRON = {"_CONDOR_JOB_AD": str(FOLDER / "job.ad"), "_CONDOR_MACHINE_AD": str(FOLDER / "machine.ad")}


def test_the_ads_in_the_environment_give_the_job():
    job = job_from_prolog(ENVIRON, node_name="wn1")
    assert (job.key, job.allocated_cpus, job.limits.wall_secs) == (
        ("htcondor", "4711.3@submit.example.org"),
        8,
        3600,
    )
    assert job.uid == (os.geteuid() or None)
    assert job_id_of(ENVIRON) == "4711.3@submit.example.org"


def test_without_a_machine_ad_less_is_known():
    job = job_from_prolog({**ENVIRON, "_CONDOR_MACHINE_AD": "/nonexistent"}, node_name="wn1")
    assert (job.allocated_cpus, job.gpus) == (8, ())


@pytest.mark.parametrize(
    "path", [None, "", "/nonexistent", "/", str(FOLDER / "status.json"), str(FOLDER / "machine.ad")]
)
def test_without_a_job_ad_there_is_no_job(path):
    environ = {} if path is None else {"_CONDOR_JOB_AD": path}
    for ask in (job_id_of, lambda environ: job_from_prolog(environ, node_name=None)):
        with pytest.raises(ParseError):
            ask(environ)


def test_a_site_s_own_limits_are_read_again(monkeypatch, tmp_path):
    ad = tmp_path / "job.ad"
    ad.write_text("ClusterId = 1\nProcId = 0\nWalltime = 60\n")
    monkeypatch.setenv("_CONDOR_JOB_AD", str(ad))
    job = job_from_prolog(os.environ, node_name="n")
    assert ask_in_prolog(job, settings_for("htcondor"), node_name="n", timeout_secs=1.0) is None
    config = settings_for("htcondor", htcondor_wall_limit_attributes="Walltime")
    assert ask_in_prolog(job, config, node_name="n", timeout_secs=1.0).limits.wall_secs == 60


def test_the_commands_publish_and_take_away_by_the_ads(monkeypatch, tmp_path):
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "features"
    own_folder(root)
    assert main(["publish", "--strict", "--features.root", str(root)]) == 0
    published = {
        path.name: path.read_text().strip()
        for path in (root / "jobfeatures" / "htcondor-4711.3%40submit.example.org").iterdir()
    }
    assert published.items() >= {
        "allocated_cpu": "8", "job_id": "4711.3", "jobstart_secs": "1795246000", "wall_limit_secs": "3600",
        "cpu_limit_secs": "28800", "max_rss_bytes": "2097152000", "scratch_limit_bytes": "21474836480",
    }.items()  # fmt: skip
    assert main(["remove", "--strict", "--features.root", str(root)]) == 0
    assert not (root / "jobfeatures" / "htcondor-4711.3%40submit.example.org").exists()


@pytest.mark.program
def test_a_wrapper_imports_nothing_heavy():
    code = "import sys, jobfeatures.commands.publish, jobfeatures.batch.htcondor; print(*sys.modules)"
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    heavy = {
        "xml",
        "subprocess",
        "socket",
        "selectors",
        "datetime",
        "shutil",
        "json.tool",
        "classad2",
        "watchdog",
    }
    assert heavy & set(done.stdout.split()) == set()
