"""What setup.py notes of the checkout that it builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


def note(folder: Path) -> Path:
    """Run the step in a folder that has setup.py alone; return the file that it writes."""
    pytest.importorskip("setuptools")
    shutil.copy(ROOT / "setup.py", folder)
    command = [sys.executable, "setup.py", "-q", "note_revision", "--build-lib", "built"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "built/jobfeatures/revision.txt"


def test_an_installed_copy_of_a_checkout_knows_its_commit(tmp_path: Path) -> None:
    author = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    for _ in range(2):  # what an earlier build has left is not believed
        environ = {**os.environ, **author}
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True, env=environ)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
        assert note(tmp_path).read_text() == head


def test_without_a_checkout_no_commit_is_noted(tmp_path: Path) -> None:
    assert not note(tmp_path).exists()
