"""Counts of what hooks could not do, also on a full disk."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobfeatures.errors import ConfigurationError, ParseError, SourceError, UnsafePathError
from jobfeatures.publish.failures import SPARE_BYTES, count_failure, read_failures
from jobfeatures.publish.folders import EXPORTS, FAILURES
from jobfeatures.publish.hookreasons import ACTIONS, PAIRS, REASONS, reason_of
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey

LIBRARY = Path(__file__).parents[3] / "packaging/common/hook.sh"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of its own, of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "jobfeatures-test", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small tmpfs")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def read(tree: FeatureTree) -> dict[tuple[str, str], int]:
    return {pair: count for pair, count in tree.hook_failures().items() if count}


def test_counts_are_by_action_and_reason(tmp_path: Path) -> None:
    tree = FeatureTree(str(tmp_path))
    assert tree.hook_failures() == dict.fromkeys(PAIRS, 0)
    with tree.folder(FAILURES) as folder:
        for _ in range(3):
            count_failure(folder, "publish", "timeout")
        count_failure(folder, "remove", "enospc")
        assert read_failures(folder) == tree.hook_failures()
    assert read(tree) == {("publish", "timeout"): 3, ("remove", "enospc"): 1}


@pytest.mark.program
def test_a_full_disk_is_counted_too(small_disk: Path) -> None:
    tree = FeatureTree(str(small_disk))
    tree.hook_failures()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "filler").write_bytes(b"x" * 2**20)
    with pytest.raises(OSError, match="No space left"):
        tree.write_lines(EXPORTS, JobKey("slurm", "7"), "x" * 5000)
    say = f". {LIBRARY}; hook_root={small_disk}; for n in 1 2 3; do hook_count publish enospc; done; wait"
    subprocess.run(["bash", "-pc", say], check=True, stdin=subprocess.DEVNULL, timeout=30)
    with tree.folder(FAILURES) as folder:
        count_failure(folder, "remove", "enospc")
    deadline = time.monotonic() + 60  # nobody waits for the shell's
    while read(tree).get(("publish", "enospc")) != 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert read(tree) == {("publish", "enospc"): 3, ("remove", "enospc"): 1}


def test_space_is_set_aside_again_before_it_is_used_up(small_disk: Path) -> None:
    tree = FeatureTree(str(small_disk))
    tree.hook_failures()
    with tree.folder(FAILURES) as folder:
        for _ in range(SPARE_BYTES - 10):
            count_failure(folder, "publish", "other")
    tree.hook_failures()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "filler").write_bytes(b"x" * 2**20)
    with tree.folder(FAILURES) as folder:
        for _ in range(100):
            count_failure(folder, "publish", "other")
    assert read(tree) == {("publish", "other"): SPARE_BYTES + 90}


@pytest.mark.parametrize("there", ["link", "folder", "pipe", "second name"])
def test_what_is_no_count_of_ours_is_not_told(there: str, tmp_path: Path) -> None:
    tree = FeatureTree(str(tmp_path))
    tree.hook_failures()
    path = tmp_path / "failures/publish.other"
    path.unlink()
    if there == "link":
        path.symlink_to("/etc/passwd")
    elif there == "folder":
        path.mkdir()
    elif there == "pipe":
        os.mkfifo(path)
    else:
        (tmp_path / "other").write_text("12345")
        os.link(tmp_path / "other", path)
    assert set(PAIRS) - set(tree.hook_failures()) == {("publish", "other")}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "x"), "enospc"),
        (OSError(errno.EDQUOT, "x"), "enospc"),
        (PermissionError(errno.EACCES, "x"), "write"),
        (UnsafePathError("x"), "write"),
        (ConfigurationError("x", "y"), "configuration"),
        (ParseError("x"), "environment"),
        (SourceError("x"), "other"),
        (ValueError("x"), "other"),
    ],
)
def test_each_error_has_a_reason(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
    assert reason in REASONS


def test_every_reason_that_the_shell_counts_is_one_of_ours() -> None:
    counted = set(re.findall(r'hook_count "\$\w+" ([a-z]+)', LIBRARY.read_text()))
    assert counted == {"command", "daemon", "other", "timeout"}
    assert counted <= set(REASONS)
    assert set(ACTIONS) == {action for action, _ in PAIRS}
