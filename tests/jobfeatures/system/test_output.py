"""What commands do whose output nobody can take, as processes."""

import os
import subprocess
import sys

import pytest

from jobfeatures import client


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Have a job with one key."""
    monkeypatch.delenv("MACHINEFEATURES", raising=False)
    monkeypatch.setenv("JOBFEATURES", str(tmp_path))
    (tmp_path / "x").write_text("1\n")
    return tmp_path


@pytest.mark.program
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [
        "-m jobfeatures get x",
        "-m jobfeatures --version",
        f"{client.__file__} remaining --default 5",
        "-m jobfeatures_exporter --version",
        "-m jobfeatures_exporter check-config --no-features.publish",
    ],
)
def test_a_full_disk_is_told_in_a_line(here, command, unbuffered):
    def say(to):
        return subprocess.run(
            f"{sys.executable} {command} {to}",
            shell=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )

    full = say(">/dev/full")
    assert "Traceback" not in full.stderr
    assert full.stderr.count("standard output: cannot write: No space left on device\n") == 1
    assert full.returncode == 1
    assert "Traceback" not in say(">&-").stderr
    assert "Traceback" not in say(">/dev/full 2>&1").stderr
