"""OAR's prologue and epilogue, run with stand-ins for the command and for oardodo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.hooks import MakeCommand

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "packaging" / "oar"
HOOKS = ["prologue.sh", "epilogue.sh"]

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("bash") is None, reason="the hooks are bash scripts"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as oardodo gives"),
]


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    path = tmp_path / "10"
    path.write_text("oar1\noar1\noar2\n")
    return path


def run_hook(
    script: str, command: Path, *arguments: object, limit: str = "5", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPTS / script, *map(str, arguments)],
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
        check=False,
    )


def is_silent(done: subprocess.CompletedProcess[str]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_as_root_the_prologue_hands_over_what_it_was_told(
    command: MakeCommand, nodes: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    path = command(f"echo $* >{log}; env | grep ^OAR_ | sort >>{log}")
    arguments = ("10", "root", nodes, "240", "fit $(id)", "physics")
    assert is_silent(run_hook("prologue.sh", path, *arguments))
    first, *others = log.read_text().splitlines()
    values = dict(line.split("=", 1) for line in others)
    assert first == "publish --batch oar --strict"
    assert abs(int(values.pop("OAR_HOOK_START")) - log.stat().st_mtime) < 60
    assert values == {
        "OAR_JOB_ID": "10",
        "OAR_USER": "root",
        "OAR_HOOK_UID": "0",
        "OAR_JOB_WALLTIME_SECONDS": "240",
        "OAR_JOB_NAME": "fit $(id)",
        "OAR_PROJECT_NAME": "physics",
        "OAR_HOOK_NODES": "oar1 oar1 oar2",
    }


@pytest.mark.parametrize("is_link", [False, True])
def test_the_prologue_tells_the_start_that_the_daemon_reads(
    command: MakeCommand, nodes: Path, tmp_path: Path, is_link: bool
) -> None:
    log, file = tmp_path / "log", tmp_path / "root_10.env"
    file.touch()
    os.utime(file, (5, 1795336598))
    if is_link:
        file.rename(tmp_path / "other")
        file.symlink_to("other")
    assert is_silent(run_hook("prologue.sh", command(f'echo "$OAR_HOOK_START" >{log}'), "10", "root", nodes))
    assert (int(log.read_text()) == 1795336598) is not is_link


def test_the_epilogue_takes_away(command: MakeCommand, nodes: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert is_silent(run_hook("epilogue.sh", command(f'echo "$*" "$OAR_JOB_ID" >{log}'), "10", "root", nodes))
    assert log.read_text() == "remove --batch oar --strict 10\n"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder into which everybody may look; pytest's own are its user's."""
    with tempfile.TemporaryDirectory(prefix="jf-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run_as_nobody(
    folder: Path, oardodo: str | None, *arguments: str, wall: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a copy of the prologue as OAR does, as a user who is not root, with a stand-in for oardodo."""
    text = (SCRIPTS / "prologue.sh").read_text()
    script = folder / "prologue.sh"
    script.write_text(text.replace("PATH=/usr/local/sbin", f"PATH={folder}:/usr/local/sbin"))
    if oardodo is not None:
        (folder / "oardodo").write_text(f"#!/bin/sh\n{oardodo}\n")
        (folder / "oardodo").chmod(0o755)
    script.chmod(0o755)
    wall = {"OAR_JOB_WALLTIME_SECONDS": "9"} if wall is None else wall
    environment = {"OAR_JOB_NAME": "a b", "OAR_PROJECT_NAME": "p", **wall}
    return subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", "bash", "-p", script, *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.parametrize(
    ("more", "wall"),
    [((), None), (("9",), None), (("9",), {})],
    ids=["OAR 2.5", "OAR 2.6, with the wall limit", "OAR 2.6, a job of type cosystem"],
)
def test_as_oar_s_user_it_has_oardodo_run_it_with_what_only_it_knows(
    more: tuple[str, ...], wall: dict[str, str] | None, open_folder: Path
) -> None:
    log = open_folder / "log"
    log.touch()
    log.chmod(0o666)
    oardodo = f'printf "%s|" "$@" >{log}; exit 3'
    assert is_silent(run_as_nobody(open_folder, oardodo, "10", "alice", "/x/10", *more, wall=wall))
    assert log.read_text() == f"{open_folder}/prologue.sh|10|alice|/x/10|9|a b|p|"


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_without_oardodo_or_where_that_is_not_root_it_ends_well(open_folder: Path) -> None:
    assert is_silent(run_as_nobody(open_folder, None, "10", "alice", "/x/10"))
    assert is_silent(run_as_nobody(open_folder, 'exec bash -p "$@"', "10", "alice", "/x/10"))
    assert is_silent(run_as_nobody(open_folder, None))


@pytest.mark.parametrize("script", HOOKS)
@pytest.mark.parametrize(
    "body",
    ["echo no space left >&2; exit 1", "kill -KILL $$", "trap '' TERM INT HUP; while :; do sleep 1; done"],
)
def test_a_failure_or_a_command_that_hangs_does_not_fail_the_hook(
    script: str, body: str, command: MakeCommand, nodes: Path
) -> None:
    assert is_silent(run_hook(script, command(body), "10", "alice", nodes, limit="1"))


@pytest.mark.parametrize("script", HOOKS)
def test_a_missing_command_argument_or_file_does_not_fail_the_hook(
    script: str, command: MakeCommand, tmp_path: Path
) -> None:
    assert is_silent(run_hook(script, tmp_path / "absent", "10", "alice", "/nonexistent"))
    assert is_silent(run_hook(script, tmp_path))
    assert is_silent(run_hook(script, command("exit 0"), "", "", ""))


def test_the_whole_way_from_the_prologue_to_the_epilogue(
    command: MakeCommand, nodes: Path, tmp_path: Path
) -> None:
    root = tmp_path / "features"
    path = command(
        f"export JOBFEATURES_FEATURES_ROOT={root} JOBFEATURES_NODE_NAME=oar1 PYTHONPATH={ROOT}\n"
        f'exec {sys.executable} -m jobfeatures "$@" --hook.timeout 20'
    )
    arguments = ("10", "nobody-here", nodes, "240", "fit", "physics")
    assert is_silent(run_hook("prologue.sh", path, *arguments, limit="20"))
    folder = root / "jobfeatures" / "oar-10"
    values = {name: (folder / name).read_text().strip() for name in os.listdir(folder)}
    assert values["job_id"] == "10"
    assert values["allocated_cpu"] == "2"
    assert values["wall_limit_secs"] == "240"
    assert values["cpu_limit_secs"] == "480", "of this node"
    assert is_silent(run_hook("epilogue.sh", path, "10", "nobody-here", nodes, limit="20"))
    assert not folder.exists()


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_have_no_syntax_error_and_are_clean_under_shellcheck(path: Path) -> None:
    subprocess.run(["bash", "-n", path], check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
