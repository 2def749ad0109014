"""The hook scripts of LSF, run with stand-ins for the command and for LSF."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobfeatures.records.model import JobKey
from tests.packaging.hooks import NO_PROXY_CASES, NO_PROXY_LINES

SCRIPTS = Path(__file__).parents[2] / "packaging" / "lsf"
HOOKS = ["preexec.sh", "postexec.sh"]
JOB = {  # as the manual's list of variables says; constructed
    "LSB_JOBID": "123",
    "LSB_JOBINDEX": "4",
    "LSFUSER": "alice",
    "LSB_QUEUE": "normal",
    "LSB_JOBNAME": "a b[1-9]",
    "LSB_MCPU_HOSTS": "n1 4 n2 2",
    "LSB_DJOB_NUMPROC": "6",
}
Make = Callable[..., Path]

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("bash") is None, reason="the hooks are bash scripts"),
]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that makes settings which name a stand-in for the command."""

    def make_settings(body: str, **settings: str) -> Path:
        command = tmp_path / "jobfeatures"
        command.write_text(f"#!/bin/bash -p\n{body}\n")
        command.chmod(0o755)
        path = tmp_path / "settings"
        values = {"JOBFEATURES_COMMAND": str(command), "JOBFEATURES_HOOK_TIMEOUT": "60", **settings}
        path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        path.chmod(0o644)
        return path

    return make_settings


def run_hook(script: str, settings: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a hook as LSF does: through sh, in the job's environment, and wait for its end."""
    return subprocess.run(
        ["/bin/sh", "-c", f"{SCRIPTS / script} {settings}"],
        env={"PATH": "/bin /usr/bin /sbin /usr/sbin", **JOB, **environment},
        cwd="/tmp",  # as LSF does
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "arguments"),
    [("preexec.sh", "publish --batch lsf --strict"), ("postexec.sh", "remove --batch lsf --strict")],
)
def test_the_command_is_told_of_the_job(script: str, arguments: str, make: Make, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = run_hook(script, make(f'echo "$*" >{log}; env | grep -E "^LS" | sort >>{log}'))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    first, *rest = log.read_text().splitlines()
    assert first == arguments
    assert rest == sorted(f"{name}={value}" for name, value in JOB.items())


@pytest.mark.parametrize("script", HOOKS)
def test_what_the_user_put_into_the_environment_is_not_used(script: str, make: Make, tmp_path: Path) -> None:
    log, evil = tmp_path / "log", tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    evil.chmod(0o755)
    hostile = {
        "JOBFEATURES_COMMAND": str(evil),
        "JOBFEATURES_SETTINGS": str(evil),
        "JOBFEATURES_CONFIG_FILE": str(evil),
        "JOBFEATURES_FEATURES_ROOT": "/etc",
        "BASH_ENV": str(evil),
        "ENV": str(evil),
        "PYTHONPATH": str(tmp_path),
        "PYTHONSTARTUP": str(evil),
        "BASH_FUNC_printf%%": f"() {{ touch {tmp_path}/was-run; }}",
        "IFS": "/",
        "SHELLOPTS": "xtrace",
        "LSB_DJOB_HOSTFILE": str(evil),
    }
    settings = make(f"env >{log}")
    done = run_hook(script, settings, **hostile)
    assert done.returncode == 0
    assert not (tmp_path / "was-run").exists()
    names = {line.partition("=")[0] for line in log.read_text().splitlines()}
    assert names <= {
        *JOB,
        "PATH",
        "LC_ALL",
        "PWD",
        "SHLVL",
        "_",
        "JOBFEATURES_COMMAND",
        "JOBFEATURES_HOOK_TIMEOUT",
    }
    assert f"JOBFEATURES_COMMAND={tmp_path}/jobfeatures" in log.read_text()


@pytest.mark.parametrize("script", HOOKS)
def test_a_failure_is_told_and_does_not_fail_the_hook(script: str, make: Make) -> None:
    done = run_hook(script, make("echo no space left >&2; exit 1"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "job 123[4]: " in done.stderr
    assert "failed (1): no space left" in done.stderr


@pytest.mark.parametrize("script", HOOKS)
@pytest.mark.parametrize("missing", ["/nonexistent/jobfeatures", "/"])
def test_a_missing_command_does_not_fail_the_hook(script: str, missing: str, make: Make) -> None:
    done = run_hook(script, make("exit 0", JOBFEATURES_COMMAND=missing))
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
def test_a_command_that_hangs_is_ended(script: str, body: str, make: Make) -> None:
    done = run_hook(script, make(body, JOBFEATURES_HOOK_TIMEOUT="0.3"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "took longer than 0.3 s" in done.stderr


@pytest.mark.parametrize("limit", ["0", "-1", "forever", "'1;exit 9'", "99999"])
def test_a_limit_that_is_no_limit_is_replaced(limit: str, make: Make) -> None:
    done = run_hook("preexec.sh", make("exit 0", JOBFEATURES_HOOK_TIMEOUT=limit))
    assert done.returncode == 0
    assert "2 is used" in done.stderr


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_settings_that_others_can_write_are_not_read(mode: int, make: Make, tmp_path: Path) -> None:
    settings = make("exit 0")
    settings.write_text(f"touch {tmp_path}/was-read\n")
    settings.chmod(mode)
    done = run_hook("preexec.sh", settings)
    assert done.returncode == 0
    assert "is ignored" in done.stderr
    assert not (tmp_path / "was-read").exists()


def test_broken_settings_do_not_fail_the_hook(make: Make) -> None:
    settings = make("exit 0")
    for text in ("exit 3", "set -e; false", "if then"):
        settings.write_text(text + "\n")
        assert run_hook("preexec.sh", settings).returncode == 0


def test_without_a_job_the_hook_ends_well(make: Make) -> None:
    done = run_hook("preexec.sh", make('echo "no job" >&2; exit 1'), LSB_JOBID="", LSB_JOBINDEX="")
    assert done.returncode == 0
    assert "job ?" in done.stderr


# ---------------------------------------------------------------- the job starter


def run_starter(
    root: Path, *command: str, shell: str = "/bin/sh", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Start a job as LSF does: the starter with the job's command behind it, through sh."""
    values = {**JOB, "PATH": "/usr/bin:/bin", "JOBFEATURES_FEATURES_ROOT": str(root), **environment}
    return subprocess.run(
        [shell, SCRIPTS / "jobstarter.sh", *command],
        env={name: value for name, value in values.items() if value != "unset"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    folder = tmp_path / "exports"
    folder.mkdir()
    lines = "".join(
        f"export {name}=/run/{name}\n" for name in ("MACHINEFEATURES", "JOBFEATURES", "JOBSTATUS")
    )
    path = folder / JobKey("lsf", "123[4]").directory_name
    path.write_text(lines)
    return path


SHELLS = [each for each in ("/bin/sh", "/bin/dash", "/bin/bash") if os.access(each, os.X_OK)]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_job_finds_its_variables_and_its_arguments_as_they_were(
    shell: str, exports: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job script"
    job.write_text('#!/bin/sh\necho "$MACHINEFEATURES $JOBFEATURES $JOBSTATUS"\nprintf "<%s>" "$@"\nexit 7\n')
    job.chmod(0o755)
    done = run_starter(tmp_path, str(job), "a b", "", "$x;'", shell=shell)
    assert done.stdout == "/run/MACHINEFEATURES /run/JOBFEATURES /run/JOBSTATUS\n<a b><><$x;'>"
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("had", "has"), NO_PROXY_CASES)
def test_a_job_asks_our_address_without_a_proxy(
    had: dict[str, str], has: tuple[str, str], shell: str, exports: Path, tmp_path: Path
) -> None:
    exports.write_text(NO_PROXY_LINES)
    done = run_starter(tmp_path, "sh", "-c", 'echo "$no_proxy"; echo "$NO_PROXY"', shell=shell, **had)
    assert tuple(done.stdout.splitlines()) == has


@pytest.mark.usefixtures("exports")
def test_a_script_that_is_not_executable_is_read_by_a_shell(tmp_path: Path) -> None:
    job = tmp_path / "1795264260.123"
    job.write_text('echo "$JOBFEATURES $1"\n')
    assert run_starter(tmp_path, str(job), "x").stdout == "/run/JOBFEATURES x\n"


def test_a_job_that_is_no_array_is_found_by_its_number(exports: Path, tmp_path: Path) -> None:
    exports.rename(exports.with_name(JobKey("lsf", "123").directory_name))
    done = run_starter(tmp_path, "printenv", "JOBFEATURES", LSB_JOBINDEX="0")
    assert done.stdout == "/run/JOBFEATURES\n"


@pytest.mark.parametrize(
    "environment",
    [
        {"LSB_JOBID": "7;unset"},
        {"LSB_JOBID": ""},
        {"LSB_JOBID": "../123"},
        {"LSB_JOBINDEX": "$(id)"},
    ],
)
def test_a_job_without_prepared_lines_starts_all_the_same(
    environment: dict[str, str], exports: Path, tmp_path: Path
) -> None:
    done = run_starter(tmp_path, "sh", "-c", 'echo "<$JOBFEATURES>"', **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "<>\n", "")


@pytest.mark.parametrize(
    ("job_id", "index", "name"), [("124", "0", "lsf-124"), ("123", "5", "lsf-123%5B5%5D")]
)
def test_a_job_whose_lines_are_missing_is_told_where_its_features_are_to_be(
    job_id: str, index: str, name: str, tmp_path: Path
) -> None:
    told = "$MACHINEFEATURES $JOBFEATURES $JOBSTATUS"
    done = run_starter(tmp_path, "sh", "-c", f'echo "{told}"', LSB_JOBID=job_id, LSB_JOBINDEX=index)
    assert (
        done.stdout
        == f"{tmp_path}/machinefeatures {tmp_path}/jobfeatures/{name} {tmp_path}/jobstatus/{name}\n"
    )


@pytest.mark.parametrize(
    "hostile",
    [
        "export LD_PRELOAD=/x",
        "touch was-run",
        "export JOBFEATURES=/x\x1b[0m",
        "export JOBFEATURES_X=/x",
        "-n",
        "",
    ],
)
def test_other_lines_are_left_out(hostile: str, exports: Path, tmp_path: Path) -> None:
    exports.write_text(f"{hostile}\nexport JOBSTATUS=/good\n")
    done = run_starter(tmp_path, "env")
    assert "JOBSTATUS=/good" in done.stdout.splitlines()
    assert not {"LD_PRELOAD", "JOBFEATURES", "JOBFEATURES_X", "_line", "_value", "_key"} & {
        line.partition("=")[0] for line in done.stdout.splitlines()
    }


def test_values_are_not_evaluated(exports: Path, tmp_path: Path) -> None:
    exports.write_text("export JOBFEATURES=$(touch was-run)`id`*\n")
    assert run_starter(tmp_path, "printenv", "JOBFEATURES").stdout == "$(touch was-run)`id`*\n"


def test_what_is_no_file_is_not_waited_for(exports: Path, tmp_path: Path) -> None:
    exports.unlink()
    os.mkfifo(exports)
    assert run_starter(tmp_path, "echo", "started").stdout == "started\n"


def test_a_command_that_is_not_there_fails_as_it_would_alone(exports: Path, tmp_path: Path) -> None:
    assert run_starter(tmp_path, "/nonexistent/job").returncode == 127
    assert run_starter(tmp_path).returncode == 0


OUTCOMES = [  # commands of jobs, as a shell reads them: exit status without a starter, and behind it where another
    ("/nonexistent/job", 127, None),
    ("./not-executable", 126, None),
    ("./folder", 126, None),
    ("./no-interpreter", 127, None),
    ("./no-first-line", 5, None),
    ("./not-executable.shell", 126, 5),  # LSF's own file, which LSF would give to a shell
    ("sh -c 'exit 3'; exit 4", 4, None),
    ("sh -c 'exit 3' && false", 3, None),
    ("sh -c 'kill -TERM $$'", 143, None),
    ("printf '<%s>' 'a b' '' '*' '\"'", 0, None),
    ("pwd", 0, None),
    ("cd / && pwd", 0, 127),  # the starter gets a shell's word for a program
    ("A=1 sh -c 'exit $A'", 1, 127),
    ("(exit 3)", 3, 2),
]


@pytest.mark.parametrize(("command", "alone", "behind"), OUTCOMES)
def test_what_a_starter_changes_of_how_jobs_end(
    command: str, alone: int, behind: int | None, exports: Path, tmp_path: Path
) -> None:
    """Constructed after IBM's manual: LSF's shell runs the queue's starter with the job's command behind it."""
    (tmp_path / "folder").mkdir()
    texts = {"not-executable": "exit 5", "not-executable.shell": "exit 5", "no-first-line": "exit 5"}
    for name, text in {**texts, "no-interpreter": "#!/nonexistent/interpreter"}.items():
        (tmp_path / name).write_text(f"{text}\n")
        (tmp_path / name).chmod(0o644 if name.startswith("not") else 0o755)
    environ = {
        **JOB,
        "PATH": "/usr/bin:/bin",
        "JOBFEATURES_FEATURES_ROOT": str(tmp_path),
        "LSB_JOBFILENAME": "./not-executable.",
    }

    def ends(line: str) -> tuple[int, str]:
        argv = ["/bin/sh", "-c", f"{line}\nexit $?"]
        done = subprocess.run(argv, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    found, without = ends(f"{SCRIPTS / 'jobstarter.sh'} {command}"), ends(command)
    assert without[0] == alone
    assert found == (without if behind is None else (behind, ""))


# ---------------------------------------------------------------- with the command itself


def test_a_job_is_published_told_and_removed(make: Make, tmp_path: Path) -> None:
    root = tmp_path / "root"
    settings = make(
        f'PYTHONPATH={Path(__file__).parents[2]} exec {sys.executable} -m jobfeatures "$@"',
        JOBFEATURES_FEATURES_ROOT=str(root),
        JOBFEATURES_NODE_NAME="n1",
        JOBFEATURES_HOOK_TIMEOUT="20",
    )
    done = run_hook("preexec.sh", settings)
    assert done.returncode == 0
    folder = root / "jobfeatures" / JobKey("lsf", "123[4]").directory_name
    assert (folder / "allocated_cpu").read_text() == "4\n"
    assert (folder / "job_id").read_text() == "123[4]\n"
    told = run_starter(root, "printenv", "JOBFEATURES").stdout
    assert told == f"{folder}\n"
    run_hook("postexec.sh", settings)
    assert not folder.exists()


# ---------------------------------------------------------------- all scripts

ALL = sorted(SCRIPTS.glob("*.sh"))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_scripts_have_no_syntax_error_and_can_be_run(path: Path) -> None:
    subprocess.run(["bash", "-n", path], check=True)
    assert os.access(path, os.X_OK)


def test_the_hooks_are_one_script_under_two_names() -> None:
    assert (SCRIPTS / "preexec.sh").read_bytes() == (SCRIPTS / "postexec.sh").read_bytes()


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_scripts_are_clean_under_shellcheck(path: Path) -> None:
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
