"""The hook scripts of Slurm, run with stand-ins for the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.hooks import NO_PROXY_CASES, NO_PROXY_LINES, MakeCommand, wait_until_none_is_left
from tests.running import until

SCRIPTS = Path(__file__).parents[2] / "packaging" / "slurm"
LABS = Path(__file__).parents[1] / "labs"
HOOKS = ["prolog.sh", "epilog.sh"]

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("bash") is None, reason="the hooks are bash scripts"),
]


def run_hook(
    script: str, command: Path | str, mark: str, *, limit: str = "60", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a hook as slurmd does: nearly nothing in the environment, and its streams are read to their end."""
    name, _, value = mark.partition("=")
    return subprocess.run(
        [SCRIPTS / script],
        env={
            name: value,
            "SLURM_JOB_ID": "7",
            "JOBFEATURES_COMMAND": str(command),
            "JOBFEATURES_HOOK_TIMEOUT": limit,
            "JOBFEATURES_SETTINGS": "/nonexistent/settings",
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "arguments"),
    [("prolog.sh", "publish --batch slurm --strict"), ("epilog.sh", "remove --batch slurm --strict")],
)
def test_the_command_is_run_with_the_hooks_environment(
    script: str, arguments: str, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    done = run_hook(script, command(f'echo "$* $SLURM_JOB_ID" >{log}'), mark)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert log.read_text() == f"{arguments} 7\n"


@pytest.mark.parametrize("script", HOOKS)
def test_a_failure_is_told_and_does_not_fail_the_hook(script: str, command: MakeCommand, mark: str) -> None:
    done = run_hook(script, command("echo no space left >&2; exit 1"), mark)
    assert (done.returncode, done.stdout) == (0, "")
    assert "job 7" in done.stderr
    assert "failed (1): no space left" in done.stderr


@pytest.mark.parametrize("script", HOOKS)
def test_a_missing_command_does_not_fail_the_hook(script: str, mark: str, tmp_path: Path) -> None:
    for missing in (tmp_path / "absent", tmp_path):
        done = run_hook(script, missing, mark)
        assert (done.returncode, done.stdout) == (0, "")
        assert f"no command {missing}" in done.stderr


@pytest.mark.parametrize("script", HOOKS)
def test_a_command_that_cannot_be_started_does_not_fail_the_hook(
    script: str, command: MakeCommand, mark: str
) -> None:
    broken = command("")
    broken.write_text("#!/nonexistent/interpreter\n")
    done = run_hook(script, broken, mark)
    assert (done.returncode, done.stdout) == (0, "")
    assert "failed (12" in done.stderr


@pytest.mark.parametrize("script", HOOKS)
@pytest.mark.parametrize(
    "body",
    [
        "sleep 60",
        "exec sleep 60",
        "trap '' TERM INT HUP; while :; do sleep 1; done",
        "setsid sleep 60 & sleep 60 & wait",
        "(trap '' TERM; sleep 60) | cat",
        "while :; do echo much; done",
        "kill -STOP $$",
    ],
)
def test_a_command_that_hangs_is_ended_with_all_it_started(
    script: str, body: str, command: MakeCommand, mark: str
) -> None:
    done = run_hook(script, command(body), mark, limit="0.3")
    assert (done.returncode, done.stdout) == (0, "")
    assert "took longer than 0.3 s" in done.stderr
    assert wait_until_none_is_left(mark) == []


@pytest.mark.parametrize("script", HOOKS)
def test_what_the_command_prints_never_reaches_standard_output(
    script: str, command: MakeCommand, mark: str
) -> None:
    done = run_hook(
        script, command("echo export LD_PRELOAD=/tmp/x; echo print hello; echo 0 fine; exit 4"), mark
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "failed (4)" in done.stderr
    assert "LD_PRELOAD" not in done.stderr


@pytest.mark.parametrize("script", HOOKS)
def test_complaints_are_one_plain_line_of_bounded_length(
    script: str, command: MakeCommand, mark: str
) -> None:
    done = run_hook(script, command(r"printf 'a\033[31m\nb\r%5000s' x >&2; exit 1"), mark)
    assert len(done.stderr) < 1200
    assert done.stderr.count("\n") == 1
    assert done.stderr.rstrip("\n").isprintable()


@pytest.mark.parametrize("script", HOOKS)
def test_a_process_left_behind_by_the_command_does_not_hold_the_hooks_streams(
    script: str, command: MakeCommand, mark: str
) -> None:
    body = "setsid sleep 60 >/dev/null 2>&1 </dev/null & exit 0"
    done = run_hook(script, command(body), mark)  # would run into its timeout
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("limit", ["", "0", "-1", "forever", "1;exit 9", "$(exit 9)", "99999"])
def test_a_limit_that_is_no_limit_is_replaced(limit: str, command: MakeCommand, mark: str) -> None:
    done = run_hook("prolog.sh", command("exit 0"), mark, limit=limit)
    assert done.returncode == 0
    assert ("2 is used" in done.stderr) == bool(limit)


def test_a_limit_may_carry_its_unit(command: MakeCommand, mark: str) -> None:
    done = run_hook("prolog.sh", command("sleep 60"), mark, limit="0.2s")
    assert "took longer than 0.2 s" in done.stderr


@pytest.mark.parametrize("script", HOOKS)
def test_settings_are_read_and_passed_on(
    script: str, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    settings = tmp_path / "settings"
    program = command(f"echo $JOBFEATURES_EXTRA >{log}")
    settings.write_text(f"echo noise\nJOBFEATURES_COMMAND={program}\nJOBFEATURES_EXTRA=yes\n")
    settings.chmod(0o644)
    done = run_hook(script, "/nonexistent/command", mark, JOBFEATURES_SETTINGS=str(settings))
    assert (done.returncode, done.stdout) == (0, "")
    assert log.read_text() == "yes\n"


@pytest.mark.parametrize("text", ["exit 3", "set -e; false", "if then", "set -u; echo $nothing_of_the_kind"])
def test_broken_settings_do_not_fail_the_hook(
    text: str, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings"
    settings.write_text(text + "\n")
    settings.chmod(0o600)
    done = run_hook("prolog.sh", command("exit 1"), mark, JOBFEATURES_SETTINGS=str(settings))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_settings_that_others_can_write_are_not_read(
    mode: int, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings"
    settings.write_text(f"touch {tmp_path}/was-read\n")
    settings.chmod(mode)
    done = run_hook("prolog.sh", command("exit 0"), mark, JOBFEATURES_SETTINGS=str(settings))
    assert done.returncode == 0
    assert "is ignored" in done.stderr
    assert not (tmp_path / "was-read").exists()


def test_settings_of_somebody_else_are_not_read(command: MakeCommand, mark: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    if os.geteuid() == 0:
        settings.write_text(f"touch {tmp_path}/was-read\n")
        settings.chmod(0o644)
        os.chown(settings, 65534, 65534)
    else:
        settings = Path("/etc/hostname")  # root's, and not ours
    done = run_hook("prolog.sh", command("exit 0"), mark, JOBFEATURES_SETTINGS=str(settings))
    assert "is ignored" in done.stderr
    assert not (tmp_path / "was-read").exists()


def test_functions_and_startup_files_of_the_environment_are_not_used(
    command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    startup = tmp_path / "startup"
    startup.write_text("echo startup; exit 5\n")
    hostile = {
        "BASH_ENV": str(startup),
        "ENV": str(startup),
        "BASH_FUNC_printf%%": "() { echo function; exit 6; }",
    }
    done = run_hook("prolog.sh", command("exit 1"), mark, **hostile)
    assert (done.returncode, done.stdout) == (0, "")
    assert "failed (1)" in done.stderr


@pytest.mark.parametrize("script", HOOKS)
def test_what_would_change_python_or_the_linker_is_not_passed_on(
    script: str, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    hostile = {"PYTHONPATH": "/evil", "PYTHONSTARTUP": "/evil", "LD_LIBRARY_PATH": "/evil", "LD_AUDIT": ""}
    done = run_hook(script, command(f'echo "${{!PYTHON@}}${{!LD_@}}." >{log}'), mark, **hostile)
    assert (done.returncode, log.read_text()) == (0, ".\n")


@pytest.mark.parametrize(
    ("context", "script", "action"),
    [
        ("prolog_slurmd", "epilog.sh", "publish"),
        ("epilog_slurmd", "prolog.sh", "remove"),
        ("", "prolog.sh", "publish"),
        ("", "epilog.sh", "remove"),
    ],
)
def test_slurmd_tells_which_hook_it_runs_and_else_the_script_s_name_does(
    context: str, script: str, action: str, command: MakeCommand, mark: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    environ = {"SLURM_SCRIPT_CONTEXT": context} if context else {}
    run_hook(script, command(f"echo $1 >{log}"), mark, **environ)
    assert log.read_text() == f"{action}\n"


# ---------------------------------------------------------------- task prolog


def run_task_prolog(
    root: Path, job_id: str | None = "7", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    environ = {"JOBFEATURES_FEATURES_ROOT": str(root), "PATH": "/nonexistent", **environment}
    if job_id is not None:
        environ["SLURM_JOB_ID"] = job_id
    return subprocess.run(
        [SCRIPTS / "taskprolog.sh"],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    folder = tmp_path / "exports"
    folder.mkdir()
    return folder / "slurm-7"


def test_a_task_is_told_the_prepared_lines_without_any_program(exports: Path, tmp_path: Path) -> None:
    lines = (
        b"export MACHINEFEATURES=/run/jobfeatures/machinefeatures\n"
        b"export JOBFEATURES=/run/jobfeatures/jobfeatures/slurm-7\n"
        b"export JOBSTATUS=/run/jobfeatures/jobstatus/slurm-7\n"
    )
    exports.write_bytes(lines)
    done = run_task_prolog(tmp_path)  # its PATH leads nowhere
    assert (done.returncode, done.stdout, done.stderr) == (0, lines, b"")


@pytest.mark.parametrize(
    ("size", "here", "told"),
    [
        ("2", 8, 8),
        ("3", 9, 9),
        ("2", 7, 7),
        ("2", 9, 7),
        ("", 8, 7),
        ("x", 8, 7),
        ("0", 8, 7),
        ("$(id)", 8, 7),
    ],
)
def test_a_task_of_a_heterogeneous_job_is_told_of_the_component_on_its_node(
    size: str, here: int, told: int, exports: Path, tmp_path: Path
) -> None:
    """Slurm tells each of them the number of the first component."""
    exports.with_name(f"slurm-{here}").write_bytes(b"export JOBFEATURES=/%d\n" % here)
    done = run_task_prolog(tmp_path, SLURM_HET_SIZE=size)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert (
        f"export JOBFEATURES=/{told}"
        if told == here
        else f"export JOBFEATURES={tmp_path}/jobfeatures/slurm-7"
    ) in lines


def test_a_task_is_told_nothing_of_another_cluster_s_job_of_its_number(exports: Path, tmp_path: Path) -> None:
    lines = b"export JOBFEATURES=/x\n"
    exports.write_bytes(lines)
    exports.with_name("slurm-7@other").touch()
    assert run_task_prolog(tmp_path, SLURM_CLUSTER_NAME="other").stdout == b""
    assert run_task_prolog(tmp_path, SLURM_CLUSTER_NAME="one").stdout == lines
    assert run_task_prolog(tmp_path).stdout == lines


def test_paths_and_addresses_may_come_together(exports: Path, tmp_path: Path) -> None:
    lines = b"".join(
        b"export %s%s=/x\n" % (name, suffix)
        for suffix in (b"", b"_URL")
        for name in (b"MACHINEFEATURES", b"JOBFEATURES", b"JOBSTATUS")
    )
    exports.write_bytes(lines)
    assert run_task_prolog(tmp_path).stdout == lines


@pytest.mark.parametrize(
    ("old", "told"),
    [
        (None, b"export APPTAINER_BIND=/m:/m:ro,/j:/j:ro\n"),
        ("", b"export APPTAINER_BIND=/m:/m:ro,/j:/j:ro\n"),
        ("/data,/a b:$x", b"export APPTAINER_BIND=/data,/a b:$x,/m:/m:ro,/j:/j:ro\n"),
        ("/data,/m:/m:ro,/j:/j:ro,/x", b""),  # set by the task prolog of the batch script
        ("/data\nexport JOBFEATURES=/else", b""),
    ],
)
def test_what_containers_see_is_appended_to_what_the_job_binds(
    old: str | None, told: bytes, exports: Path, tmp_path: Path
) -> None:
    exports.write_bytes(b"export APPTAINER_BIND=/m:/m:ro,/j:/j:ro\n")
    environ = {} if old is None else {"APPTAINER_BIND": old}
    done = run_task_prolog(tmp_path, **environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, told, b"")


def test_containers_of_a_job_that_another_job_has_submitted_bind_no_folders_of_that(
    exports: Path, tmp_path: Path
) -> None:
    """sbatch in a job, as chains of jobs do, hands its environment on; a bind of what is gone ends apptainer."""
    root = tmp_path
    machine, job = (f"{root}/{each}" for each in ("machinefeatures", f"jobfeatures/{exports.name}"))
    ours, theirs = (
        f"{machine}:{machine}:ro,{each}:{each}:ro" for each in (job, f"{root}/jobfeatures/slurm-3")
    )
    exports.write_text(f"export APPTAINER_BIND={ours}\n")
    old = f"/data,{theirs},{root}/jobstatus/slurm-3:{root}/jobstatus/slurm-3,/x"
    done = run_task_prolog(tmp_path, APPTAINER_BIND=old, SINGULARITY_BIND=old)
    told = [f"export APPTAINER_BIND=/data,/x,{ours}", "export SINGULARITY_BIND=/data,/x"]
    assert done.stdout.decode().splitlines() == told
    exports.unlink()
    assert "export APPTAINER_BIND=/data,/x" in run_task_prolog(tmp_path, APPTAINER_BIND=old).stdout.decode()


@pytest.mark.parametrize(("had", "has"), NO_PROXY_CASES)
def test_a_task_asks_our_address_without_a_proxy(
    had: dict[str, str], has: tuple[str, str], exports: Path, tmp_path: Path
) -> None:
    exports.write_text(NO_PROXY_LINES)
    told = run_task_prolog(tmp_path, **had).stdout.decode().splitlines()
    values = had | dict(line.removeprefix("export ").split("=", 1) for line in told)
    assert (values["no_proxy"], values["NO_PROXY"]) == has


def test_a_last_line_without_its_end_counts(exports: Path, tmp_path: Path) -> None:
    exports.write_bytes(b"export JOBFEATURES=/a")
    assert run_task_prolog(tmp_path).stdout == b"export JOBFEATURES=/a\n"


@pytest.mark.parametrize(
    "hostile",
    [
        b"export LD_PRELOAD=/tmp/x",
        b"print hello",
        b"unset PATH",
        b" export JOBFEATURES=/x",
        b"export  JOBFEATURES=/x",
        b"EXPORT JOBFEATURES=/x",
        b"export JOBFEATURES=/x\rexport LD_PRELOAD=/tmp/x",
        b"export JOBFEATURES_X=/x",
        b"export JOBFEATURES=/x\x1b[31m",
        b"\xff\xfe",
        b"$(touch was-run)",
        b"-n",
        b"",
    ],
)
def test_other_lines_are_left_out(hostile: bytes, exports: Path, tmp_path: Path) -> None:
    exports.write_bytes(b"export JOBSTATUS=/good\n" + hostile + b"\nexport MACHINEFEATURES=/good\n")
    done = run_task_prolog(tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"export JOBSTATUS=/good\nexport MACHINEFEATURES=/good\n"


def test_values_are_not_evaluated(exports: Path, tmp_path: Path) -> None:
    exports.write_bytes(b"export JOBFEATURES=$(touch /tmp/x)`id`\\n%s\n")
    assert run_task_prolog(tmp_path).stdout == b"export JOBFEATURES=$(touch /tmp/x)`id`\\n%s\n"


def test_an_endless_file_is_read_to_its_sixteenth_line(exports: Path, tmp_path: Path) -> None:
    exports.write_bytes(b"export JOBFEATURES=/a\n" * 1000)
    assert run_task_prolog(tmp_path).stdout.count(b"\n") == 16


@pytest.mark.parametrize("job_id", [None, "", "7/../7", "7 ", "x", "../exports/slurm-7"])
def test_what_is_no_job_is_told_nothing(job_id: str | None, exports: Path, tmp_path: Path) -> None:
    exports.write_bytes(b"export JOBFEATURES=/a\n")
    done = run_task_prolog(tmp_path, job_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("there", ["nothing", "folder", "pipe"])
def test_a_task_whose_lines_are_missing_is_told_where_its_features_are_to_be(
    there: str, exports: Path, tmp_path: Path
) -> None:
    if there == "folder":
        exports.mkdir()
    elif there == "pipe":
        os.mkfifo(exports)  # it is not waited for
    done = run_task_prolog(tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        f"export MACHINEFEATURES={tmp_path}/machinefeatures\n"
        f"export JOBFEATURES={tmp_path}/jobfeatures/slurm-7\n"
        f"export JOBSTATUS={tmp_path}/jobstatus/slurm-7\n"
    )


# ---------------------------------------------------------------- all scripts

ALL = sorted([*SCRIPTS.glob("*.sh"), *LABS.glob("slurm/*.sh"), *LABS.glob("uml/*.sh")])


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_have_no_syntax_error_and_can_be_run(path: Path) -> None:
    subprocess.run(["bash", "-n", path], check=True)
    assert os.access(path, os.X_OK)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_are_clean_under_shellcheck(path: Path) -> None:
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# ---------------------------------------------------------------- two clusters below one root


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: hooks run what root alone can write")
@pytest.mark.parametrize("other", ["other", "../../x", "ü" + 300 * "/"])  # slurmd lets through all of them
def test_of_two_clusters_jobs_of_one_number_the_second_gets_nothing_and_takes_nothing_away(
    tmp_path: Path, other: str
) -> None:
    """With the real command: what slurmd, slurmstepd and users see."""
    root = tmp_path / "root"
    (root / "failures").mkdir(parents=True, mode=0o700)
    (root / "failures/publish.cluster").touch(0o600)
    environ = {
        "JOBFEATURES_FEATURES_ROOT": str(root),
        "JOBFEATURES_HOOK_ASK": "never",
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_USER": "alice",
        "SLURM_JOB_CPUS_PER_NODE": "2",
    }

    command = shutil.copy(Path(sys.executable).parent / "jobfeatures", tmp_path)
    os.chmod(command, 0o755)  # pip's has the umask

    def hook(script: str, cluster: str) -> str:
        more = {**environ, "SLURM_CLUSTER_NAME": cluster}
        done = run_hook(script, command, "X=1", limit="20", **more)
        assert (done.returncode, done.stdout) == (0, "")
        return done.stderr

    def told(cluster: str) -> bytes:
        return run_task_prolog(root, SLURM_CLUSTER_NAME=cluster).stdout

    features = root / "jobfeatures/slurm-7/allocated_cpu"
    hook("prolog.sh", "one")
    assert "gets no features: another cluster's job has this number" in hook("prolog.sh", other)
    until(lambda: (root / "failures/publish.cluster").stat().st_size == 1)
    assert (b"slurm-7" in told("one"), told(other)) == (True, b"")
    hook("epilog.sh", other)
    assert features.read_text() == "2\n"
    hook("epilog.sh", "one")
    assert not features.exists()
    hook("prolog.sh", other)
    assert b"slurm-7" in told(other)
