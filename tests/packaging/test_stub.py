"""What stands in a hook's place when the package has gone and a batch system still names the hook."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUB = ROOT / "packaging/scripts/stub.sh"

pytestmark = pytest.mark.program


@pytest.fixture
def run(tmp_path):
    """Return what runs the stub under the name of a hook."""

    def call(name, *arguments, **environ):
        hook = tmp_path / name
        shutil.copy(STUB, hook)
        hook.chmod(0o755)
        return subprocess.run(
            [hook, *arguments], capture_output=True, text=True, env={**os.environ, **environ}
        )

    return call


@pytest.mark.parametrize(
    "name", ["prolog.sh", "taskprolog.sh", "epilog.sh", "prologue.sh", "preexec.sh", "postexec.sh"]
)
def test_a_hook_ends_with_0_and_prints_nothing(run, name):
    done = run(name, "7", "alice")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["jobwrapper.sh", "jobstarter.sh"])
def test_what_starts_a_job_starts_it_with_its_words_and_its_environment_and_gives_its_status(run, name):
    script = 'printf "%s|" "$@" "$LD_LIBRARY_PATH" "$PATH"; exit 3'
    done = run(name, "/bin/sh", "-c", script, "x", "a b", "", LD_LIBRARY_PATH="/of/the/job")
    assert (done.returncode, done.stdout) == (3, f"a b||/of/the/job|{os.environ['PATH']}|")
    assert done.stderr == ""


def test_the_job_starter_reads_a_script_that_is_not_executable_as_it_always_did(run, tmp_path):
    (tmp_path / "job").write_text('echo "$1"\n')
    assert run("jobstarter.sh", tmp_path / "job", "x").stdout == "x\n"
    assert run("jobstarter.sh").returncode == 0


def test_every_script_that_has_to_start_a_job_is_one_whose_stub_does():
    starters = {
        each.name for each in ROOT.glob("packaging/*/*.sh") if 'exec "$@"' in each.read_text() and each.parent.name != "scripts"
    }  # fmt: skip
    assert starters == {"jobwrapper.sh", "jobstarter.sh"}
    assert all(f"\n{name}) " in STUB.read_text() or f"\n{name})\n" in STUB.read_text() for name in starters)
