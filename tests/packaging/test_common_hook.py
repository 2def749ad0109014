"""What the hooks of all batch systems have in common, as it is installed and by itself."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import ParseError
from tests.packaging.hooks import wait_until_none_is_left
from tests.running import until

PACKAGING = Path(__file__).parents[2] / "packaging"
LIBRARY = PACKAGING / "common" / "hook.sh"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as oardodo gives")
HOOKS = [
    ("slurm", "prolog.sh", "publish"),
    ("slurm", "epilog.sh", "remove"),
    ("gridengine", "prolog.sh", "publish"),
    ("gridengine", "epilog.sh", "remove"),
    ("lsf", "preexec.sh", "publish"),
    ("lsf", "postexec.sh", "remove"),
    ("torque", "prologue.sh", "publish"),
    ("torque", "epilogue.sh", "remove"),
    pytest.param("oar", "prologue.sh", "publish", marks=AS_ROOT),
    pytest.param("oar", "epilogue.sh", "remove", marks=AS_ROOT),
]
# Grid Engine's hook looks at the folder of who runs it; this shell stays, since it has more to do.
CALLER = 'cd "$1" && shift && "$@"; exit $?'

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("bash") is None, reason="the hooks are bash scripts"),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the file into which the stand-in for the command writes its arguments."""
    command = tmp_path / "jobfeatures"
    command.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/log\n')
    command.chmod(0o755)
    settings = tmp_path / "settings"
    settings.write_text(f"JOBFEATURES_COMMAND={command}\nJOBFEATURES_HOOK_TIMEOUT=20\n")
    settings.chmod(0o644)
    return tmp_path / "log"


def run_hook(path: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a hook of any batch system for job 7."""
    folder = tmp_path / "7.1"
    folder.mkdir(exist_ok=True)
    argument = "7.server" if path.name.endswith("logue.sh") else str(tmp_path / "settings")
    return subprocess.run(
        ["bash", "-c", CALLER, "caller", folder, path, argument],
        env={
            **dict.fromkeys(("SLURM_JOB_ID", "JOB_ID", "LSB_JOBID"), "7"),
            "SGE_JOB_SPOOL_DIR": str(folder),
            "JOBFEATURES_SETTINGS": str(tmp_path / "settings"),
            "PATH": os.environ["PATH"],
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("system", "script", "action"), HOOKS)
def test_a_script_that_was_installed_has_all_it_needs_beside_it(
    system: str, script: str, action: str, log: Path, tmp_path: Path
) -> None:
    aim = tmp_path / "opt" / system
    subprocess.run(["install", "-D", "-t", aim, *(PACKAGING / system).glob("*.sh")], check=True)
    assert not any(path.is_symlink() for path in aim.iterdir())
    assert run_hook(aim / script, tmp_path).returncode == 0
    assert log.read_text() == f"{action} --batch {system} --strict\n"


@pytest.mark.parametrize(("system", "script", "action"), HOOKS)
def test_a_link_to_a_script_needs_nothing_beside_it(
    system: str, script: str, action: str, log: Path, tmp_path: Path
) -> None:
    link = tmp_path / "hooks.d" / script
    link.parent.mkdir()
    link.symlink_to(PACKAGING / system / script)
    assert run_hook(link, tmp_path).returncode == 0
    assert log.read_text() == f"{action} --batch {system} --strict\n"


@pytest.mark.parametrize("mode", [0o775, 0o757])
@pytest.mark.parametrize(("system", "script", "action"), HOOKS)
def test_a_command_that_others_could_have_written_is_not_run(
    system: str, script: str, action: str, mode: int, log: Path, tmp_path: Path
) -> None:
    (tmp_path / "jobfeatures").chmod(mode)
    done = run_hook(PACKAGING / system / script, tmp_path)
    assert done.returncode == 0
    if system == "slurm":  # others print nothing
        assert "jobfeatures is not run: users other than root could have written it" in done.stderr
    assert not log.exists()


def test_a_script_that_is_run_by_its_bare_name_is_found(log: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-p", "prolog.sh"],
        cwd=PACKAGING / "slurm",
        env={"SLURM_JOB_ID": "7", "JOBFEATURES_SETTINGS": str(tmp_path / "settings")},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert log.read_text() == "publish --batch slurm --strict\n"


@pytest.mark.parametrize("library", ["absent", "folder", "broken", "empty"])
@pytest.mark.parametrize(("system", "script", "action"), HOOKS)
def test_a_script_without_the_file_beside_it_says_so_and_does_not_fail(
    system: str, script: str, action: str, library: str, log: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(PACKAGING / system / script, alone)
    if library == "folder":
        (alone / "hook.sh").mkdir()
    elif library in ("broken", "empty"):
        (alone / "hook.sh").write_text("if then\n" if library == "broken" else "")
    done = run_hook(alone / script, tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert ("hook.sh" in done.stderr or "hook_" in done.stderr) == (
        system not in {"oar", "torque"}
    )  # which print nothing
    assert not log.exists()


# ---------------------------------------------------------------- by itself


def run_library(text: str, tmp_path: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run bash with the functions of the library and some lines behind it."""
    return subprocess.run(
        ["bash", "-pc", f". {LIBRARY}\nhook_job=7\nhook_settings {tmp_path}/settings\n{text}"],
        env={"PATH": path + os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_what_cannot_be_killed_is_left_behind_and_holds_no_stream(log: Path, tmp_path: Path) -> None:
    # as where the kernel holds a process: no signal has an effect until the test lets it go
    (tmp_path / "jobfeatures").write_text(
        f"#!/bin/sh\nwhile [ -d {tmp_path}/held ]; do sleep 0.05; done\necho gone >{log}\n"
    )
    held = tmp_path / "held"
    held.mkdir()
    try:
        done = run_library("kill() { :; }\nhook_limit=0.2 hook_run publish x; echo $?", tmp_path)
    finally:
        held.rmdir()
    assert done.stdout == "1\n"
    assert "job 7: publish took longer than 0.2 s" in done.stderr


def test_a_command_ends_with_the_script_that_began_it(log: Path, tmp_path: Path) -> None:
    """A batch system may kill an epilog and run it again: what the first one began must not remove a later run's."""
    mark = f"JOBFEATURES_TEST={tmp_path}"
    (tmp_path / "jobfeatures").write_text(f"#!/bin/sh\necho begun >>{log}\nsleep 30\n")
    environ = {
        "SLURM_JOB_ID": "7", "JOBFEATURES_SETTINGS": str(tmp_path / "settings"),
        "JOBFEATURES_FEATURES_ROOT": str(tmp_path), "JOBFEATURES_TEST": str(tmp_path),
    }  # fmt: skip
    process = subprocess.Popen(
        [PACKAGING / "slurm" / "epilog.sh"], env=environ, start_new_session=True, stderr=subprocess.DEVNULL
    )
    until(log.exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert wait_until_none_is_left(mark) == []


def test_nobody_waits_for_syslog(log: Path, tmp_path: Path, sockets: Path) -> None:
    stuck = tmp_path / "bin"
    stuck.mkdir()
    for name in ("logger", "timeout"):
        (stuck / name).write_text(f"#!/bin/sh\nwhile [ -d {stuck} ]; do sleep 0.05; done\n")
        (stuck / name).chmod(0o755)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
            syslog.bind(str(sockets / "log"))
            done = run_library(f"hook_log={sockets}/log; hook_say err stuck", tmp_path, path=f"{stuck}:")
    finally:
        shutil.rmtree(stuck)
    assert (done.returncode, done.stderr) == (0, "jobfeatures: job 7: stuck\n")


@pytest.mark.parametrize(("body", "status"), [("exit 0", "0"), ("exit 3", "1"), ("echo said >&2", "0")])
def test_a_run_says_whether_it_succeeded(body: str, status: str, log: Path, tmp_path: Path) -> None:
    (tmp_path / "jobfeatures").write_text(f"#!/bin/sh\n{body}\n")
    assert run_library("hook_run publish x; echo $?", tmp_path).stdout == f"{status}\n"


REASONS = [
    ("exit 3", "other"),
    ('echo level=error msg=\\"no space\\" reason=enospc >&2; exit 1', "enospc"),
    ("echo level=warning msg=late reason=limits >&2", "limits"),
    ("echo reason=of-a-name >&2; exit 1", "other"),
    ("exit 127", "command"),
    ("sleep 60", "timeout"),
    (None, "command"),
]


@pytest.mark.parametrize(("body", "reason"), REASONS)
@pytest.mark.parametrize("action", ["publish", "remove"])
def test_a_failure_leaves_a_byte_for_the_daemon_by_its_reason(
    action: str, body: str | None, reason: str, log: Path, tmp_path: Path
) -> None:
    command = tmp_path / "jobfeatures"
    if body is None:
        command.unlink()
    else:
        command.write_text(f"#!/bin/sh\n{body}\n")
    fail = f"hook_root={tmp_path}/root\n"
    fail += f"hook_limit={0.2 if body == 'sleep 60' else 20}\nhook_run {action} x\n"
    run_library(fail, tmp_path)
    folder = tmp_path / "root/failures"
    assert not folder.exists(), "the daemon's to make"
    made = tmp_path / "root/made"  # in one piece: what the first run left behind may still look for it
    made.mkdir(parents=True)
    (made / f"{action}.{reason}").touch()
    made.rename(folder)
    for count in (1, 2):
        run_library(fail, tmp_path)
        wait_for(folder / f"{action}.{reason}", count)
    assert {path.name for path in folder.iterdir()} - {"messages"} == {f"{action}.{reason}"}


def test_a_reason_that_the_daemon_does_not_count_is_another_one(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "root/failures"
    folder.mkdir(parents=True)
    run_library(f"hook_root={tmp_path}/root; hook_count publish invented", tmp_path)
    wait_for(folder / "publish.other", 1)


def test_nobody_waits_for_the_byte(log: Path, tmp_path: Path) -> None:
    # as where the folder's file system hangs: nobody ever reads this pipe
    (tmp_path / "jobfeatures").write_text("#!/bin/sh\nexit 3\n")
    folder = tmp_path / "root/failures"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "publish.other")
    try:
        done = run_library(f"hook_root={tmp_path}/root\nhook_run publish x\necho $?", tmp_path)
    finally:
        with open(folder / "publish.other", "rb", buffering=0):  # let the writer go
            pass
    assert done.stdout == "1\n"


@pytest.mark.parametrize(
    ("said", "status", "priority"),
    [
        ("level=info msg=x", 0, "info"),
        ("level=warning msg=x", 0, "warning"),
        ("level=error msg=x", 0, "err"),
        ("level=info msg=x", 1, "err"),
    ],
)
def test_what_the_command_says_reaches_syslog_with_its_severity(
    said: str, status: int, priority: str, log: Path, tmp_path: Path, sockets: Path
) -> None:
    (tmp_path / "jobfeatures").write_text(f"#!/bin/sh\necho '{said}' >&2; exit {status}\n")
    tools, told = tmp_path / "bin", tmp_path / "told"
    tools.mkdir()
    (tools / "logger").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >{told}.new; mv {told}.new {told}\n')
    (tools / "logger").chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(sockets / "log"))
        run_library(f"hook_log={sockets}/log; hook_run publish x", tmp_path, path=f"{tools}:")
        wait_for(told, 1)
    assert f"-p daemon.{priority} -- job 7: " in told.read_text()
    assert said in told.read_text()


def test_without_syslog_complaints_are_kept_in_a_file_and_news_are_not(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "root/failures"
    folder.mkdir(parents=True)
    say = f"hook_log=/nonexistent; hook_root={tmp_path}/root; "
    run_library(f"{say} hook_say info news; hook_say err 'no space'", tmp_path)
    wait_for(folder / "messages", 1)
    assert re.fullmatch(
        r"[0-9-]+T[0-9:]+[+-][0-9]{4} err job 7: no space\n", (folder / "messages").read_text()
    )


def test_the_file_of_complaints_is_bounded(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "root/failures"
    folder.mkdir(parents=True)
    (folder / "messages").write_text("".join(f"{number}\n" for number in range(2000)))
    run_library(f"hook_root={tmp_path}/root; hook_note err x", tmp_path)
    lines = (folder / "messages").read_text().splitlines()
    assert (len(lines), lines[0]) == (1001, "1000")


def wait_for(path: Path, size: int) -> None:
    """Wait for a file of a size: nobody else does."""
    deadline = time.monotonic() + 60
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < deadline, f"{path} has no {size} bytes"
        time.sleep(0.01)


def test_a_limit_that_is_not_set_is_not_handed_on(log: Path, tmp_path: Path) -> None:
    (tmp_path / "settings").write_text(f"JOBFEATURES_COMMAND={tmp_path}/jobfeatures\n")
    (tmp_path / "jobfeatures").write_text(f'#!/bin/sh\necho "<$JOBFEATURES_HOOK_TIMEOUT>" >{log}\n')
    assert run_library('hook_run publish x; echo "$hook_limit"', tmp_path).stdout == "2\n"
    assert log.read_text() == "<>\n"


def test_run_by_mistake_it_does_nothing(tmp_path: Path) -> None:
    done = subprocess.run([LIBRARY], env={}, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# ---------------------------------------------------------------- what the daemon is told


class Recording(dict[str, str]):
    """An environment that keeps which variables were asked for."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, name: str, default: object = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize(
    ("system", "script", "ids"),
    [
        ("slurm", "prolog.sh", {"SLURM_JOB_ID": "7"}),
        ("lsf", "preexec.sh", {"LSB_JOBID": "7"}),
        ("gridengine", "prolog.sh", {"JOB_ID": "7"}),
        ("torque", "prologue.sh", {"PBS_JOBID": "7.server"}),
        ("oar", "prologue.sh", {"OAR_JOB_ID": "7"}),
    ],
)
def test_the_daemon_is_told_every_variable_that_it_reads_and_no_other(
    system: str, script: str, ids: dict[str, str]
) -> None:
    environ = Recording(ids)
    SYSTEMS[system].job_from_prolog(environ, node_name="n1", note=print)
    empty = Recording({})
    with contextlib.suppress(ParseError):  # the other names of an id
        SYSTEMS[system].job_from_prolog(empty, node_name="n1", note=print)
    text = (PACKAGING / system / script).read_text().replace("\\\n", " ")
    told = set(re.findall(r"\b[A-Z][A-Z_0-9]+\b", " ".join(re.findall(r"hook_do (?!remove)[^|\n]*", text))))
    assert told - {"SLURMD_NODENAME"} == (environ.asked | empty.asked) - {"SLURMD_NODENAME"}
