"""What runs in the kernel is what its source says: the object in the tree, compiled once more."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "packaging/bpf.sh"
SOURCE = "exporter/jobfeatures_exporter/sampling/bpf/sums.bpf.c"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        None in map(shutil.which, ("clang-14", "llvm-strip-14")),
        reason="clang 14 is not installed (Debian 12: clang-14, llvm-14)",
    ),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the script, the source and the object: where it is compiled does not matter."""
    (tmp_path / "packaging").mkdir()
    shutil.copy(ROOT / SCRIPT, tmp_path / SCRIPT)
    shutil.copytree((ROOT / SOURCE).parent, (tmp_path / SOURCE).parent)
    return tmp_path


def check(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tree / SCRIPT, "--check"], capture_output=True, text=True)


def test_the_object_in_the_tree_has_the_bytes_that_its_source_gives(tree):
    done = check(tree)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("was", "becomes"),
    [("checks.threads++;", "checks.threads += 2;"), ("/* A sleeping task", "\n/* A sleeping task")],
)
def test_a_source_that_has_changed_is_told_until_the_object_is_made_anew(was, becomes, tree):
    source = tree / SOURCE
    text = source.read_text()
    assert text.count(was) == 1
    source.write_text(text.replace(was, becomes))
    done = check(tree)
    assert done.returncode == 1
    assert "sums.bpf.o is not what sums.bpf.c gives: run packaging/bpf.sh" in done.stderr
    subprocess.run([tree / SCRIPT], check=True)
    assert check(tree).returncode == 0


def test_another_version_of_the_compiler_is_refused(tree, tmp_path, monkeypatch):
    other = tmp_path / "bin/clang-14"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'clang version 14.0.5'\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    done = check(tree)
    assert done.returncode == 1
    assert "clang version 14.0.5 makes other bytes than clang version 14.0.6" in done.stderr
