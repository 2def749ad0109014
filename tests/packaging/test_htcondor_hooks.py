"""The job wrapper of HTCondor, run as condor_starter runs it: with a job's environment, by a stand-in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.packaging.hooks import NO_PROXY_CASES, NO_PROXY_LINES

WRAPPER = Path(__file__).parents[2] / "packaging" / "htcondor" / "jobwrapper.sh"
ADS = Path(__file__).parents[1] / "fixtures" / "htcondor"
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
LINES = (
    "export MACHINEFEATURES=/run/jobfeatures/machinefeatures\n"
    "export JOBFEATURES=/run/jobfeatures/jobfeatures/htcondor-4711.3%40submit.example.org\n"
    "export JOBSTATUS=/run/jobfeatures/jobstatus/htcondor-4711.3%40submit.example.org\n"
)

pytestmark = [pytest.mark.program, pytest.mark.skipif(not SHELLS, reason="no POSIX shell is here")]


@pytest.fixture(params=SHELLS)
def run(request, tmp_path):
    """Return a function that starts a job through the wrapper; the job is `env` where nothing else is said."""

    def run(*job, stdin="", **environment):
        environ = {
            "PATH": "/nonexistent",
            "_CONDOR_JOB_AD": str(ADS / "job.ad"),
            "_CONDOR_MACHINE_AD": str(ADS / "machine.ad"),
            "_CONDOR_SCRATCH_DIR": str(tmp_path / "scratch"),
            "JOBFEATURES_FEATURES_ROOT": str(tmp_path / "features"),
            "JOBFEATURES_COMMAND": "/nonexistent/jobfeatures",
            "JOBFEATURES_HOOK_TIMEOUT": "0",
            **environment,
        }
        argv = [shutil.which(request.param), WRAPPER, *(job or (shutil.which("env"),))]
        return subprocess.run(
            argv, env=environ, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.fixture
def exports(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "features" / "exports").mkdir(parents=True)
    return tmp_path / "features" / "exports" / "htcondor-4711.3%40submit.example.org"


def told(done):
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split("=", 1) for line in done.stdout.splitlines())
    return {name: lines[name] for name in ("MACHINEFEATURES", "JOBFEATURES", "JOBSTATUS") if name in lines}


def test_a_job_is_told_what_the_daemon_has_published(run, exports):
    exports.write_text(LINES)
    assert told(run()) == {
        "MACHINEFEATURES": "/run/jobfeatures/machinefeatures",
        "JOBFEATURES": "/run/jobfeatures/jobfeatures/htcondor-4711.3%40submit.example.org",
        "JOBSTATUS": "/run/jobfeatures/jobstatus/htcondor-4711.3%40submit.example.org",
    }


def test_a_job_of_another_schedd_with_its_number_is_not_this_one(run, exports, tmp_path):
    ad = (ADS / "job.ad").read_text()
    assert "submit.example.org#" in ad
    path = tmp_path / "ad"
    path.write_text(ad.replace("submit.example.org#", "schedd2@submit.example.org#"))
    exports.write_text(LINES)
    exports.with_name("htcondor-4711.3").write_text(LINES)
    assert told(run(_CONDOR_JOB_AD=str(path))) == {}
    own = LINES.replace("4711.3%40", "4711.3%40schedd2%40")
    exports.with_name("htcondor-4711.3%40schedd2%40submit.example.org").write_text(own)
    assert told(run(_CONDOR_JOB_AD=str(path)))["JOBFEATURES"].endswith("%40schedd2%40submit.example.org")


@pytest.mark.parametrize(
    ("old", "bound"),
    [
        ({}, "/m:/m:ro,/j:/j:ro"),
        ({"SINGULARITY_BIND": "/a b:$(id)"}, "/a b:$(id),/m:/m:ro,/j:/j:ro"),
        ({"SINGULARITY_BIND": "/m:/m:ro,/j:/j:ro,/x"}, "/m:/m:ro,/j:/j:ro,/x"),
    ],
)
def test_what_containers_see_is_appended_to_what_the_job_binds(run, exports, old, bound):
    exports.write_text(LINES + "export SINGULARITY_BIND=/m:/m:ro,/j:/j:ro\n")
    done = run(**old)
    assert f"SINGULARITY_BIND={bound}" in done.stdout.splitlines()
    assert told(done).keys() == {"MACHINEFEATURES", "JOBFEATURES", "JOBSTATUS"}
    assert "_jobfeatures" not in done.stdout


def test_containers_of_a_job_that_another_job_has_submitted_bind_no_folders_of_that(run, exports):
    ours = "/r/machinefeatures:/r/machinefeatures:ro,/r/jobfeatures/htcondor-4:/r/jobfeatures/htcondor-4:ro"
    exports.write_text(f"{LINES}export APPTAINER_BIND={ours}\n")
    done = run(APPTAINER_BIND=f"/x y,{ours.replace('htcondor-4', 'htcondor-3')},/z:$(id)")
    assert f"APPTAINER_BIND=/x y,/z:$(id),{ours}" in done.stdout.splitlines()
    assert "_jobfeatures" not in done.stdout


@pytest.mark.parametrize(("had", "has"), NO_PROXY_CASES)
def test_a_job_asks_our_address_without_a_proxy(run, exports, had, has):
    exports.write_text(NO_PROXY_LINES)
    values = dict(line.split("=", 1) for line in run(**had).stdout.splitlines())
    assert (values["no_proxy"], values["NO_PROXY"]) == has


def test_it_wins_over_what_the_user_has_set(run, exports):
    exports.write_text(LINES)
    assert told(run(JOBFEATURES="/home/alice"))["JOBFEATURES"].endswith(
        "htcondor-4711.3%40submit.example.org"
    )


def test_the_job_keeps_its_environment_arguments_and_streams(run, exports):
    exports.write_text(LINES)
    script = "import os, sys; print(sys.argv[1:], sys.stdin.read(), sorted(os.environ)); sys.exit(7)"
    own = {
        "line": "1",
        "job": "2",
        "root": "3",
        "limit": "4",
        "lines": "5",
        "own": "6",
        "tenths": "7",
        "command": "8",
    }
    done = run(sys.executable, "-c", script, "a b", "$(x)", "", "*", stdin="given", **own)
    assert done.returncode == 7
    assert done.stdout.startswith("['a b', '$(x)', '', '*'] given [")
    assert all(f"'{name}'" in done.stdout for name in own)
    assert "_jobfeatures" not in done.stdout
    values = run(**own).stdout.splitlines()
    assert {f"{name}={value}" for name, value in own.items()} <= set(values)


def test_lines_that_come_late_are_waited_for(run, exports):
    timer = threading.Timer(
        0.3, lambda: (exports.with_suffix(".x").write_text(LINES), exports.with_suffix(".x").rename(exports))
    )
    timer.start()
    assert len(told(run(JOBFEATURES_HOOK_TIMEOUT="50"))) == 3
    timer.join()


@pytest.mark.parametrize("limit", ["", "-1", "x", "1;exit 9", "0.5", "99999", "08"])
def test_a_limit_that_is_none_is_replaced(run, exports, limit):
    exports.write_text(LINES)
    assert len(told(run(JOBFEATURES_HOOK_TIMEOUT=limit))) == 3


@pytest.mark.parametrize(
    "line",
    [
        "export LD_PRELOAD=/x", "export JOBFEATURES_X=/x", " export JOBFEATURES=/x", "export JOBFEATURES=/x\x1b[31m",
        "unset PATH", "$(touch was-run)", "-n", "", "export PATH=/x",
    ],
)  # fmt: skip
def test_other_lines_are_left_out(run, exports, line, tmp_path):
    exports.write_text(f"{line}\nexport JOBSTATUS=/good $(id) `id` \\n\n")
    done = run()
    assert told(done) == {"JOBSTATUS": "/good $(id) `id` \\n"}
    assert "LD_PRELOAD" not in done.stdout
    assert "JOBFEATURES_X" not in done.stdout
    assert not list(tmp_path.rglob("was-run"))


@pytest.mark.parametrize(
    "ad",
    [
        None, "", "ClusterId = 1\n", "ClusterId = x\nProcId = 0\n", "ClusterId = 1\nClusterId = 4711\nProcId = 3\n",
        'ClusterId = 4711\nProcId = 3"; touch was-run "\n', "\0\0",
    ],
)  # fmt: skip
def test_without_a_plain_id_the_job_starts_and_is_told_nothing(run, exports, ad, tmp_path):
    exports.write_text(LINES)
    path = tmp_path / "ad"
    if ad is not None:
        path.write_text(ad)
    assert told(run(_CONDOR_JOB_AD=str(path))) == {}


def test_outside_of_htcondor_the_command_starts(run, exports):
    assert told(run(_CONDOR_JOB_AD="", _CONDOR_SCRATCH_DIR="")) == {}


@pytest.mark.parametrize("body", ["exit 1", "echo no >&2; exit 3", "echo noise", "kill -9 $$"])
def test_a_command_that_fails_does_not_fail_the_job(run, exports, tmp_path, body):
    command = tmp_path / "jobfeatures"
    command.write_text(f"#!/bin/sh\n{body}\n")
    command.chmod(0o755)
    assert told(run(JOBFEATURES_COMMAND=str(command))) == {}


def test_a_command_that_hangs_is_ended(run, exports, tmp_path):
    command = tmp_path / "jobfeatures"
    command.write_text("#!/bin/sh\nexec sleep 50\n")
    command.chmod(0o755)
    assert told(run(JOBFEATURES_COMMAND=str(command), JOBFEATURES_HOOK_TIMEOUT="0")) == {}


def test_a_link_in_place_of_the_own_folder_is_not_used(run, exports, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "scratch" / ".jobfeatures").symlink_to(tmp_path / "elsewhere")
    assert told(run(JOBFEATURES_COMMAND=shutil.which("true"))) == {}
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_where_no_daemon_publishes_the_job_publishes_for_itself(run, tmp_path):
    (tmp_path / "scratch").mkdir()
    command = tmp_path / "jobfeatures"
    root = Path(__file__).parents[2]
    command.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m jobfeatures "$@"\n')
    command.chmod(0o755)
    told_now = told(run(JOBFEATURES_COMMAND=str(command), JOBFEATURES_HOOK_TIMEOUT="50"))
    folder = Path(told_now["JOBFEATURES"])
    assert (
        folder
        == tmp_path / "scratch" / ".jobfeatures" / "jobfeatures" / "htcondor-4711.3%40submit.example.org"
    )
    assert (folder / "max_rss_bytes").read_text().strip() == "2097152000"
    assert Path(told_now["MACHINEFEATURES"]).is_dir()
    assert os.access(told_now["JOBSTATUS"], os.W_OK)


def test_a_job_that_cannot_be_started_is_no_error_of_the_wrapper(run, exports, tmp_path):
    # HTCondor starts the jobs of a wrapper with an error again without end
    done = run("/nonexistent/job", _CONDOR_WRAPPER_ERROR_FILE=str(tmp_path / "error"))
    assert done.returncode == 127
    assert not (tmp_path / "error").exists()


def test_the_script_has_no_syntax_error_and_can_be_run():
    subprocess.run(["sh", "-n", WRAPPER], check=True)
    assert os.access(WRAPPER, os.X_OK)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_script_is_clean_under_shellcheck():
    done = subprocess.run(["shellcheck", WRAPPER], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
