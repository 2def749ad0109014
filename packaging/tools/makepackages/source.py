"""Builds wheel and source archive, and collects the wheels of all libraries."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from makepackages.files import settle_archive

OLDEST_GLIBC = (2, 17)
NEWEST_GLIBC = (2, 28)  # that of RHEL 8: wheels that need a newer one are not used


def copy_checkout(checkout: Path, target: Path) -> None:
    """Copy the project without what git ignores, so that no stale files get into a package."""
    if (checkout / ".git").exists():
        command = ["git", "-C", str(checkout), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        files = [checkout / name for name in names if name]
    else:  # an unpacked source archive
        left_out = {"build", "dist", "__pycache__"}
        everything = [each for each in checkout.rglob("*") if each.is_symlink() or each.is_file()]
        files = [each for each in everything if not left_out & set(each.relative_to(checkout).parts)]
    for file in files:
        if file.is_symlink() or file.is_file():  # skip files that were removed without a commit
            copy = target / file.relative_to(checkout)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy, follow_symlinks=False)


def note_revision(checkout: Path, target: Path) -> None:
    """Write the commit of a checkout to the file in which the programs look for it, if it is known."""
    command = ["git", "-C", str(checkout), "rev-parse", "--verify", "HEAD"]
    try:
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return
    (target / "jobfeatures/revision.txt").write_text(found, encoding="ascii")


def build_distributions(checkout: Path, out: Path, epoch: int) -> tuple[Path, Path]:
    """Build the source archive, and from it the wheel; return wheel and archive."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(checkout)],
        check=True,
        env=environ,
        stdout=subprocess.DEVNULL,
    )
    [wheel] = out.glob("*.whl")
    [archive] = out.glob("*.tar.gz")
    settle_archive(archive, epoch)
    return wheel, archive


def collect_wheels(wheel: Path, extras: str, target: Path) -> list[Path]:
    """Download the wheels that a wheel needs, for this architecture and an old C library; return them all."""
    machine = platform.machine()
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(NEWEST_GLIBC[1], OLDEST_GLIBC[1] - 1, -1)]
    python = f"{sys.version_info.major}{sys.version_info.minor}"
    wanted = f"{wheel}[{extras}]" if extras else str(wheel)
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--only-binary=:all:",
        "--dest",
        str(target),
    ]
    command += ["--python-version", python, "--implementation", "cp"]
    command += ["--abi", f"cp{python}", "--abi", "abi3", "--abi", "none"]
    for tag in [*tags, f"manylinux2014_{machine}"]:
        command += ["--platform", tag]
    subprocess.run([*command, wanted], check=True)
    return sorted(target.glob("*.whl"))
