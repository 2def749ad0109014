"""The folder of a test run in memory, and those that killed runs have left there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PREFIX = "jf-run-"


def make_folder(parent: str | Path) -> tuple[str, Callable[[], None]]:
    """Take away the folders of runs that are no more; return one of our own, and what takes that away.

    Whoever lives holds a lock on its folder, which the kernel ends with the process.
    """
    remove_dead(parent)
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(held, fcntl.LOCK_EX)

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)

    return folder, remove


def remove_dead(parent: str | Path) -> None:
    """Take away the folders that nobody has locked and that are ours; one that is being made is young and empty."""
    for folder in Path(parent).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                found = os.fstat(descriptor)
                is_made = bool(os.listdir(descriptor)) or time.time() - found.st_mtime > 60
                if found.st_uid == os.geteuid() and is_made:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
