"""The spool directory of an execution daemon: where it is, which jobs it holds, and files nobody else wrote.

``active_jobs/<job>.<task>`` is made by sge_execd for each job and taken away when the job has been reported.
Its files belong to the daemon's administrator, but for some that belong to the job's user.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection

from jobfeatures.batch.gridengine.basics import is_active_name
from jobfeatures.errors import ParseError
from jobfeatures.privatefile import read_owned

EXECD_COMMAND = "sge_execd"
SHEPHERD_COMMAND = "sge_shepherd"
ACTIVE = "active_jobs"
MAX_FILE_BYTES = 2**22
MAX_TASKS = 4096  # of parallel jobs, in one job's directory

_NUMBER = re.compile(rb"[ \t]*([1-9][0-9]{0,9})[ \t]*\n?")


def list_active(spool: str) -> tuple[frozenset[str], frozenset[int]]:
    """Return the directories that are named as jobs' are, and who may own files in them.

    Raises OSError, EPERM where others may write.
    """
    top = os.stat(f"{spool}/{ACTIVE}")
    if top.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "others may write here", spool)
    return frozenset(filter(is_active_name, os.listdir(f"{spool}/{ACTIVE}"))), frozenset({0, top.st_uid})


def list_tasks(path: str) -> list[str]:
    """Return the folders of a parallel job's tasks here, which `qrsh -inherit` started. Raises OSError."""
    with os.scandir(path) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(names)[:MAX_TASKS]


def list_folders(path: str) -> list[str]:
    """Return the directory of a job and those of its tasks here. Raises OSError."""
    return [path, *(f"{path}/{name}" for name in list_tasks(path))]


def read_config(path: str, owners: Collection[int]) -> str:
    """Return the `config` of a job's or its task's directory, "" while it is not written. Raises OSError."""
    for folder in list_folders(path):
        try:
            return read_owned(f"{folder}/config", owners, MAX_FILE_BYTES)[0].decode("utf-8", "replace")
        except FileNotFoundError:
            continue
    return ""


def parse_number(data: bytes) -> int | None:
    """Return the number in `addgrpid` or `pid`, None while it is not written yet. Raises ParseError."""
    if not data.strip():
        return None
    match = _NUMBER.fullmatch(data)
    if match is None or int(match[1]) >= 2**32:
        raise ParseError("not a number", source=ACTIVE, text=data.decode("utf-8", "replace"))
    return int(match[1])


def read_number(path: str, owners: Collection[int]) -> int | None:
    """Return the number in a file of the daemon's. Raises OSError or ParseError."""
    return parse_number(read_owned(path, owners, MAX_FILE_BYTES)[0])


def find_spool(procfs: str) -> str | None:
    """Return the working directory of the running sge_execd, which is root's; None where none runs."""
    try:
        names = os.listdir(procfs)
    except OSError:
        return None
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"{procfs}/{name}/comm", "rb") as file:
                if file.read(64).rstrip(b"\n") != EXECD_COMMAND.encode():
                    continue
            with open(f"{procfs}/{name}/status", "rb") as file:
                if b"\nUid:\t0\t" in file.read(65536):
                    return os.readlink(f"{procfs}/{name}/cwd")
        except OSError:  # it has ended, or is not ours to look at
            continue
    return None


def is_shepherd(pid: int, procfs: str) -> bool:
    """Return whether a shepherd lives under this number; True as well where that cannot be found out."""
    try:
        with open(f"{procfs}/{pid}/comm", "rb") as file:
            return file.read(64).startswith(SHEPHERD_COMMAND.encode())
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
