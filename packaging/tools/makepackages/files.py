"""Files and folders: copying, compressing, and normalising them for reproducible packages."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path

SUMS = "SHA256SUMS"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.py[co]", "generate.py", ".*")


def files_of(folder: Path) -> list[Path]:
    """Return the regular files below a folder."""
    return sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder with its links; do nothing if it does not exist."""
    if source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=LEFT_OUT)
    elif source.is_file():
        shutil.copy(source, target)  # a script remains one that can be run


def put(made: Path, folder: Path) -> Path:
    """Copy a file into a folder atomically: it appears there complete or not at all."""
    partial = Path(shutil.copy(made, folder / f".{made.name}.part"))
    return partial.replace(folder / made.name)


def write_checksums(folder: Path) -> Path:
    """List the files in a folder with their digests, as `sha256sum --check` reads them."""
    found = sorted(
        each for each in folder.iterdir() if each.is_file() and each.name[0] != "." and each.name != SUMS
    )
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in found]
    made = folder / SUMS
    made.write_text("".join(lines), encoding="utf-8")
    return made


def compress(file: Path) -> None:
    """Replace a file with its gzip form, without name and time in the header."""
    file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
    file.unlink()


def settle(root: Path, epoch: int) -> None:
    """Give all files standard modes and one timestamp, so that the same source gives the same package."""
    for path in sorted(root.rglob("*"), reverse=True):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def settle_archive(archive: Path, epoch: int) -> None:
    """Rewrite a source archive sorted, with one timestamp and no owners, which setuptools would record."""
    with tarfile.open(archive) as old:
        members = sorted(old.getmembers(), key=lambda each: each.name)
        with io.BytesIO() as made:
            with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as new:
                for each in members:
                    each.mtime, each.uid, each.gid, each.uname, each.gname, each.pax_headers = (
                        epoch,
                        0,
                        0,
                        "",
                        "",
                        {},
                    )
                    each.mode = 0o755 if each.isdir() or each.mode & 0o100 else 0o644
                    new.addfile(each, old.extractfile(each) if each.isfile() else None)
            data = gzip.compress(made.getvalue(), 9, mtime=epoch)
    archive.write_bytes(data)
