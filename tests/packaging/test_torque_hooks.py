"""Torque's prologue, epilogue and profile snippet, run with stand-ins for the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.hooks import NO_PROXY_CASES, NO_PROXY_LINES, MakeCommand

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "packaging" / "torque"
ARGUMENTS = (
    "123[4].batch",
    "root",
    "root",
    "train",
    "nodes=1:ppn=4,walltime=03:00:00,mem=8gb",
    "batch",
    "phys",
)
HOOKS = ["prologue.sh", "epilogue.sh"]

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("bash") is None, reason="the hooks are bash scripts"),
]


def run_hook(
    script: str, command: Path | str, *arguments: str, limit: str = "5", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a hook as pbs_mom does: nearly nothing in the environment, and its streams are the job's output."""
    return subprocess.run(
        [SCRIPTS / script, *(arguments or ARGUMENTS)],
        env={
            "JOBFEATURES_COMMAND": str(command),
            "JOBFEATURES_HOOK_TIMEOUT": limit,
            "JOBFEATURES_SETTINGS": "/nonexistent/settings",
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def is_silent(done: subprocess.CompletedProcess[str]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_prologue_hands_its_arguments_over(command: MakeCommand, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert is_silent(
        run_hook("prologue.sh", command(f"echo $* >{log}; env | grep -E '^(PBS|TORQUE)' | sort >>{log}"))
    )
    first, *others = log.read_text().splitlines()
    values = dict(line.split("=", 1) for line in others)
    assert first == "publish --batch torque --strict"
    assert abs(int(values.pop("TORQUE_START")) - log.stat().st_mtime) < 60
    assert values == {
        "PBS_JOBID": "123[4].batch",
        "TORQUE_USER": "root",
        "TORQUE_UID": "0",
        "TORQUE_JOB_NAME": "train",
        "TORQUE_LIMITS": "nodes=1:ppn=4,walltime=03:00:00,mem=8gb",
        "TORQUE_QUEUE": "batch",
        "TORQUE_ACCOUNT": "phys",
    }


def test_the_epilogue_takes_away(command: MakeCommand, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert is_silent(run_hook("epilogue.sh", command(f'echo "$*" "$PBS_JOBID" >{log}')))
    assert log.read_text() == "remove --batch torque --strict 123[4].batch\n"


@pytest.mark.parametrize("script", HOOKS)
@pytest.mark.parametrize("body", ["echo no space left >&2; exit 1", "echo much; kill -KILL $$", "exit 3"])
def test_a_failure_does_not_fail_the_hook_and_prints_nothing(
    script: str, body: str, command: MakeCommand
) -> None:
    assert is_silent(run_hook(script, command(body)))


@pytest.mark.parametrize("script", HOOKS)
def test_a_missing_command_or_argument_does_not_fail_the_hook(script: str, tmp_path: Path) -> None:
    assert is_silent(run_hook(script, tmp_path / "absent"))
    assert is_silent(run_hook(script, tmp_path))
    assert is_silent(run_hook(script, tmp_path / "absent", ""))


@pytest.mark.parametrize("script", HOOKS)
@pytest.mark.parametrize(
    "body", ["exec sleep 300", "trap '' TERM INT HUP; while :; do sleep 1; done", "sleep 300 & wait"]
)
def test_a_command_that_hangs_is_ended_at_the_limit(script: str, body: str, command: MakeCommand) -> None:
    assert is_silent(run_hook(script, command(body), limit="1"))  # its run is limited to less than 300 s


@pytest.mark.parametrize("limit", ["", "soon", "-1", "99999", "1.5.2"])
def test_a_limit_that_is_none_is_two_seconds(limit: str, command: MakeCommand, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert is_silent(
        run_hook("prologue.sh", command(f'echo "$JOBFEATURES_HOOK_TIMEOUT" >{log}'), limit=limit)
    )
    assert log.read_text() == "2\n"


def test_settings_are_read_if_nobody_else_can_write_them(command: MakeCommand, tmp_path: Path) -> None:
    log, settings = tmp_path / "log", tmp_path / "settings"
    settings.write_text("JOBFEATURES_FEATURES_ROOT=/somewhere\n")
    path = command(f'echo "$JOBFEATURES_FEATURES_ROOT" >{log}')
    for mode, expected in ((0o644, "/somewhere\n"), (0o664, "\n"), (0o646, "\n")):
        settings.chmod(mode)
        assert is_silent(run_hook("prologue.sh", path, JOBFEATURES_SETTINGS=str(settings)))
        assert log.read_text() == expected


def test_arguments_are_not_evaluated(command: MakeCommand, tmp_path: Path) -> None:
    log = tmp_path / "log"
    hostile = ("1.s", "$(touch x)", "g", "a b;`id`", "x=$(id)", "q", "-n")
    assert is_silent(
        run_hook("prologue.sh", command(f'echo "$TORQUE_JOB_NAME|$TORQUE_LIMITS" >{log}'), *hostile)
    )
    assert log.read_text() == "a b;`id`|x=$(id)\n"


def test_the_whole_way_from_the_prologue_to_the_variables(command: MakeCommand, tmp_path: Path) -> None:
    root, home = tmp_path / "features", tmp_path / "torque"
    (home / "aux").mkdir(parents=True)
    (home / "aux" / "123[4].batch").write_text("n1.example.org\n" * 4)
    path = command(
        f"export JOBFEATURES_FEATURES_ROOT={root} JOBFEATURES_TORQUE_HOME={home} JOBFEATURES_NODE_NAME=n1"
        f' PYTHONPATH={ROOT}\nexec {sys.executable} -m jobfeatures "$@" --hook.timeout 20'
    )
    arguments = (ARGUMENTS[0], "nobody-here", *ARGUMENTS[2:])
    assert is_silent(run_hook("prologue.sh", path, *arguments, limit="20"))
    told = run_profile(root, "123[4].batch")
    folder = Path(told["JOBFEATURES"])
    assert folder == root / "jobfeatures" / "torque-123%5B4%5D"
    values = {name: (folder / name).read_text().strip() for name in os.listdir(folder)}
    assert values["job_id"] == "123[4]"
    assert values["allocated_cpu"] == "4"
    assert values["wall_limit_secs"] == "10800"
    assert values["cpu_limit_secs"] == str(4 * 10800)
    assert values["max_rss_bytes"] == str(8 * 2**30)
    assert is_silent(run_hook("epilogue.sh", path, limit="20"))
    assert not folder.exists()
    assert not (root / "exports/torque-123%5B4%5D").exists()


# ---------------------------------------------------------------- profile.sh


def run_profile(
    root: Path, job_id: str | None, environment: str | None = "PBS_BATCH", **more: str
) -> dict[str, str]:
    """Return the variables that a login shell has behind the snippet, as well as any it should not have."""
    given = {"JOBFEATURES_FEATURES_ROOT": str(root), "PATH": os.environ["PATH"]}
    if job_id is not None:
        given["PBS_JOBID"] = job_id
    if environment is not None:
        given["PBS_ENVIRONMENT"] = environment
    given_too = {**given, **more}
    done = subprocess.run(
        ["sh", "-uc", f'. "{SCRIPTS}/profile.sh"; set | cut -d= -f1 >{root}.names; exec env'],
        env=given_too,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert not {"_jobfeatures", "_line", "_hosts", "_old"} & set(Path(f"{root}.names").read_text().split())
    pairs = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return {
        name: value for name, value in pairs.items() if name not in {*given, "PWD", "OLDPWD", "SHLVL", "_"}
    }


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    folder = tmp_path / "features" / "exports"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize(("had", "has"), NO_PROXY_CASES)
def test_a_job_asks_our_address_without_a_proxy(
    had: dict[str, str], has: tuple[str, str], exports: Path
) -> None:
    (exports / "torque-7").write_text(NO_PROXY_LINES)
    values = run_profile(exports.parent, "7.batch.example.org", **had)
    assert (values["no_proxy"], values["NO_PROXY"]) == has


def test_only_lines_that_are_expected_are_taken_and_none_is_evaluated(exports: Path) -> None:
    (exports / "torque-7").write_text(
        "export MACHINEFEATURES=/a b\nexport JOBFEATURES=$(id)\nexport LD_PRELOAD=/x\nJOBSTATUS=/x\n"
        "export JOBSTATUS=/x\x1b\nexport JOBSTATUS_URL=http://x/?a=b"
    )
    assert run_profile(exports.parent, "7.batch.example.org") == {
        "MACHINEFEATURES": "/a b",
        "JOBFEATURES": "$(id)",
        "JOBSTATUS_URL": "http://x/?a=b",
    }


@pytest.mark.parametrize("job_id", [None, "", "../7", "7/", "7 8", "x7"])
def test_a_shell_without_a_job_or_lines_gets_nothing(job_id: str | None, exports: Path) -> None:
    (exports / "torque-7").write_text("export JOBFEATURES=/a\n")
    assert run_profile(exports.parent, job_id) == {}


@pytest.mark.parametrize(("job_id", "name"), [("8.batch", "torque-8"), ("8[3].batch", "torque-8%5B3%5D")])
def test_a_job_whose_lines_are_missing_is_told_where_its_features_are_to_be(
    job_id: str, name: str, exports: Path
) -> None:
    root = exports.parent
    assert run_profile(root, job_id) == {
        "MACHINEFEATURES": f"{root}/machinefeatures",
        "JOBFEATURES": f"{root}/jobfeatures/{name}",
        "JOBSTATUS": f"{root}/jobstatus/{name}",
    }


def test_a_shell_that_is_no_job_gets_nothing(exports: Path) -> None:
    (exports / "torque-7").write_text("export JOBFEATURES=/a\n")
    assert run_profile(exports.parent, "7.batch", None) == {}


# ---------------------------------------------------------------- all scripts


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_have_no_syntax_error_and_are_clean_under_shellcheck(path: Path) -> None:
    shell = "sh" if path.name == "profile.sh" else "bash"
    subprocess.run([shell, "-n", path], check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
