"""The hook script of Grid Engine, run by a stand-in for the shepherd, with stand-ins for the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.hooks import NO_PROXY_CASES, NO_PROXY_LINES, MakeCommand, wait_until_none_is_left

SCRIPTS = Path(__file__).parents[2] / "packaging" / "gridengine"
HOOKS = ["prolog.sh", "epilog.sh"]

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("bash") is None, reason="the hooks are bash scripts"),
]

# Works in the job's folder, has the daemon's environment, and runs the hook elsewhere with the job's.
SHEPHERD = """
import json, os, subprocess, sys
folder, script, environ = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
os.chdir(folder)
done = subprocess.run([script], env=environ, cwd="/", stdin=subprocess.DEVNULL, timeout=30)
sys.exit(done.returncode)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the spool folder of job 7, which is no array."""
    path = tmp_path / "spool/active_jobs/7.1"
    path.mkdir(parents=True)
    (path / "config").write_text("job_id=7\nja_task_id=0\nnjob_args=1\njob_arg1=x\nja_task_id=3\n")
    (path / "environment").write_text("JOB_ID=7\nUSER=alice\n")
    return path


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """Return a folder of features with what job 7 and two tasks are to be told."""
    path = tmp_path / "features/exports"
    path.mkdir(parents=True)
    for name in ("gridengine-7", "gridengine-7.3"):
        (path / name).write_text(f"export JOBFEATURES=/f/{name}\nexport JOBSTATUS=/s/{name}\n")
    return path


def run_hook(
    script: str,
    folder: Path,
    command: Path | str,
    mark: str,
    *,
    limit: str = "5",
    job: dict[str, str] | None = None,
    works_in: Path | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run a hook as a shepherd does. `environment` is the daemon's, `job` adds to the job's."""
    name, _, value = mark.partition("=")
    environ = {"JOB_ID": "7", "SGE_JOB_SPOOL_DIR": str(folder), "SGE_TASK_ID": "undefined", **(job or {})}
    root = folder.parents[2] / "features"
    return subprocess.run(
        [
            *(sys.executable, "-S", "-c", SHEPHERD),
            *(str(works_in or folder), str(SCRIPTS / script), json.dumps(environ)),
        ],
        env={
            name: value,
            "JOBFEATURES_COMMAND": str(command),
            "JOBFEATURES_HOOK_TIMEOUT": limit,
            "JOBFEATURES_SETTINGS": "/nonexistent/settings",
            "JOBFEATURES_FEATURES_ROOT": str(root),
            "SGE_ROOT": "/opt/sge",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("prolog.sh", "publish --batch gridengine --strict"),
        ("epilog.sh", "remove --batch gridengine --strict"),
    ],
)
def test_the_command_is_told_the_job_and_nothing_else_of_its_environment(
    script: str, arguments: str, folder: Path, command: MakeCommand, exports: Path, mark: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    hostile = {
        "PATH": "/nonexistent",
        "IFS": "7",
        "SGE_ROOT": "/tmp/evil",
        "PYTHONPATH": "/tmp/evil",
        "JOBFEATURES_COMMAND": "/bin/false",
        "JOBFEATURES_SETTINGS": "/tmp/evil",
        "JOBFEATURES_FEATURES_ROOT": "/tmp/evil",
        "BASH_ENV": "/tmp/evil",
        "BASH_FUNC_printf%%": "() { echo function; exit 6; }",
    }
    program = command(f'echo "$*" >{log}; env | sort >>{log}')
    done = run_hook(script, folder, program, mark, job=hostile)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    told, *environ = log.read_text().splitlines()
    assert told == arguments
    values = dict(line.partition("=")[::2] for line in environ)
    assert values["JOB_ID"] == "7"
    assert values["SGE_TASK_ID"] == "undefined"
    assert values["SGE_JOB_SPOOL_DIR"] == str(folder)
    assert values["SGE_ROOT"] == "/opt/sge"
    assert values["JOBFEATURES_FEATURES_ROOT"] == str(tmp_path / "features")
    assert "PYTHONPATH" not in values
    assert "/tmp/evil" not in log.read_text()


def test_the_job_finds_the_prepared_lines_in_its_environment(
    folder: Path, command: MakeCommand, exports: Path, mark: str
) -> None:
    done = run_hook("prolog.sh", folder, command("exit 0"), mark)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "environment").read_text() == (
        "JOB_ID=7\nUSER=alice\nJOBFEATURES=/f/gridengine-7\nJOBSTATUS=/s/gridengine-7\n"
    )


@pytest.mark.parametrize(("had", "has"), NO_PROXY_CASES)
def test_a_job_asks_our_address_without_a_proxy(
    had: dict[str, str], has: tuple[str, str], folder: Path, command: MakeCommand, exports: Path, mark: str
) -> None:
    (exports / "gridengine-7").write_text(NO_PROXY_LINES)
    environment = folder / "environment"
    environment.write_text("".join(f"{name}={value}\n" for name, value in had.items()))
    run_hook("prolog.sh", folder, command("exit 0"), mark)
    values = dict(line.split("=", 1) for line in environment.read_text().splitlines())
    assert (values["no_proxy"], values["NO_PROXY"]) == has


@pytest.mark.parametrize("script", HOOKS)
def test_the_job_s_error_file_is_spared_of_news(
    script: str, folder: Path, command: MakeCommand, exports: Path, mark: str
) -> None:
    done = run_hook(script, folder, command("echo published >&2"), mark)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_epilog_changes_no_environment(
    folder: Path, command: MakeCommand, exports: Path, mark: str
) -> None:
    run_hook("epilog.sh", folder, command("exit 0"), mark)
    assert (folder / "environment").read_text() == "JOB_ID=7\nUSER=alice\n"


@pytest.mark.parametrize(
    "hostile",
    [
        b"export LD_PRELOAD=/tmp/x",
        b"LD_PRELOAD=/tmp/x",
        b"export  JOBFEATURES=/x",
        b"export JOBFEATURES=/x\rLD_PRELOAD=/tmp/x",
        b"export JOBFEATURES_X=/x",
        b"\xff\xfe",
        b"$(touch was-run)",
    ],
)
def test_other_lines_are_left_out(
    hostile: bytes, folder: Path, command: MakeCommand, exports: Path, mark: str
) -> None:
    (exports / "gridengine-7").write_bytes(b"export JOBSTATUS=/good\n" + hostile + b"\n")
    run_hook("prolog.sh", folder, command("exit 0"), mark)
    assert (folder / "environment").read_text() == "JOB_ID=7\nUSER=alice\nJOBSTATUS=/good\n"


def test_a_task_of_an_array_is_known_by_its_number(
    folder: Path, command: MakeCommand, exports: Path, mark: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    task = folder.rename(folder.with_name("7.3"))
    (task / "config").write_text("job_id=7\nja_task_id=3\njob_arg1=\nja_task_id=0\n")
    run_hook("prolog.sh", task, command(f"echo $JOB_ID.$SGE_TASK_ID >{log}"), mark, job={"SGE_TASK_ID": "9"})
    assert log.read_text() == "7.3\n"
    assert "JOBFEATURES=/f/gridengine-7.3\n" in (task / "environment").read_text()


@pytest.mark.parametrize("script", HOOKS)
@pytest.mark.parametrize(
    "job",
    [
        {"JOB_ID": ""},
        {"JOB_ID": "8"},
        {"JOB_ID": "7;x"},
        {"JOB_ID": "07"},
        {"SGE_JOB_SPOOL_DIR": ""},
        {"SGE_JOB_SPOOL_DIR": "/tmp"},
        {"SGE_JOB_SPOOL_DIR": "active_jobs/7.1"},
    ],
)
def test_a_job_that_is_not_its_shepherds_is_refused(
    script: str, job: dict[str, str], folder: Path, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    done = run_hook(script, folder, command(f"touch {tmp_path}/was-run"), mark, job=job)
    assert (done.returncode, done.stdout) == (0, "")
    assert "not run for a job by its shepherd" in done.stderr
    assert not (tmp_path / "was-run").exists()


def test_a_folder_in_which_the_shepherd_does_not_work_is_refused(
    folder: Path, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    other = tmp_path / "other/active_jobs/7.1"
    shutil.copytree(folder, other)
    done = run_hook("prolog.sh", other, command(f"touch {tmp_path}/was-run"), mark, works_in=folder)
    assert "not run for a job by its shepherd" in done.stderr
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("kind", ["link", "absent", "pipe"])
def test_an_environment_that_is_no_file_is_not_written_to(
    kind: str, folder: Path, command: MakeCommand, exports: Path, mark: str, tmp_path: Path
) -> None:
    (folder / "environment").unlink()
    aim = tmp_path / "aim"
    aim.write_text("")
    if kind == "link":
        (folder / "environment").symlink_to(aim)
    elif kind == "pipe":
        os.mkfifo(folder / "environment")
    done = run_hook("prolog.sh", folder, command("exit 0"), mark)
    assert done.returncode == 0
    assert "is not told where its features are" in done.stderr
    assert aim.read_text() == ""


def test_a_job_whose_features_were_not_published_is_told_where_they_are_to_be(
    folder: Path, command: MakeCommand, mark: str
) -> None:
    done = run_hook("prolog.sh", folder, command("echo no space left >&2; exit 1"), mark)
    assert (done.returncode, done.stdout) == (0, "")
    assert "failed (1): no space left" in done.stderr
    root = folder.parents[2] / "features"
    assert (folder / "environment").read_text().splitlines()[-3:] == [
        f"MACHINEFEATURES={root}/machinefeatures",
        f"JOBFEATURES={root}/jobfeatures/gridengine-7",
        f"JOBSTATUS={root}/jobstatus/gridengine-7",
    ]


@pytest.mark.parametrize("script", HOOKS)
def test_a_missing_command_does_not_fail_the_hook(script: str, folder: Path, mark: str) -> None:
    for missing in (folder / "absent", folder):
        done = run_hook(script, folder, missing, mark)
        assert (done.returncode, done.stdout) == (0, "")
        assert f"no command {missing}" in done.stderr


@pytest.mark.parametrize("script", HOOKS)
@pytest.mark.parametrize(
    "body",
    [
        "sleep 60",
        "trap '' TERM INT HUP; while :; do sleep 1; done",
        "setsid sleep 60 & sleep 60 & wait",
        "while :; do echo much; done",
        "kill -STOP $$",
    ],
)
def test_a_command_that_hangs_is_ended_with_all_it_started(
    script: str, body: str, folder: Path, command: MakeCommand, mark: str
) -> None:
    done = run_hook(script, folder, command(body), mark, limit="0.3")
    assert (done.returncode, done.stdout) == (0, "")
    assert "took longer than 0.3 s" in done.stderr
    assert wait_until_none_is_left(mark) == []


@pytest.mark.parametrize("limit", ["", "0", "forever", "$(exit 9)", "99999"])
def test_a_limit_that_is_no_limit_is_replaced(
    limit: str, folder: Path, command: MakeCommand, exports: Path, mark: str
) -> None:
    done = run_hook("prolog.sh", folder, command("exit 0"), mark, limit=limit)
    assert done.returncode == 0
    assert ("2 is used" in done.stderr) == bool(limit)


def test_settings_are_read_and_passed_on(
    folder: Path, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    log, settings = tmp_path / "log", tmp_path / "settings"
    program = command(f"echo $JOBFEATURES_EXTRA >{log}")
    settings.write_text(f"echo noise\nJOBFEATURES_COMMAND={program}\nJOBFEATURES_EXTRA=yes\n")
    settings.chmod(0o644)
    done = run_hook("prolog.sh", folder, "/nonexistent", mark, JOBFEATURES_SETTINGS=str(settings))
    assert (done.returncode, done.stdout) == (0, "")
    assert log.read_text() == "yes\n"


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_settings_that_others_can_write_are_not_read(
    mode: int, folder: Path, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings"
    settings.write_text(f"touch {tmp_path}/was-read\n")
    settings.chmod(mode)
    done = run_hook("epilog.sh", folder, command("exit 0"), mark, JOBFEATURES_SETTINGS=str(settings))
    assert "is ignored" in done.stderr
    assert not (tmp_path / "was-read").exists()


ALL = sorted([*SCRIPTS.glob("*.sh"), *(Path(__file__).parents[1] / "labs/gridengine").glob("*.sh")])


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_have_no_syntax_error_and_can_be_run(path: Path) -> None:
    subprocess.run(["bash", "-n", path], check=True)
    assert os.access(path, os.X_OK)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_are_clean_under_shellcheck(path: Path) -> None:
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
