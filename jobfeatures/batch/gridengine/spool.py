"""Finds the execution daemon's spool directory, lists its jobs, and reads files that trusted users wrote.

sge_execd creates ``active_jobs/<job>.<task>`` for each job and removes it once the job has been reported. Its
files belong to the daemon's administrator, except for some that belong to the job's user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Collection

from jobfeatures.batch.gridengine.basics import parse_job_id
from jobfeatures.errors import ParseError
from jobfeatures.system.privatefile import read_owned

EXECD_COMMAND = "sge_execd"
SHEPHERD_COMMAND = "sge_shepherd"
ACTIVE = "active_jobs"
MAX_FILE_BYTES = 2**22
MAX_TASKS = 4096  # of a parallel job, in its directory

_NUMBER = re.compile(rb"[ \t]*([1-9][0-9]{0,9})[ \t]*\n?")


def list_active(spool: str) -> tuple[frozenset[str], frozenset[int]]:
    """Return the names of the job directories in `spool`, and the uids whose files in them are trusted.

    Raises OSError; EPERM if others may write to `spool`.
    """
    top = os.stat(f"{spool}/{ACTIVE}")
    if top.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "writable by others (chmod go-w)", spool)
    names = os.listdir(f"{spool}/{ACTIVE}")
    return frozenset(name for name in names if parse_job_id(name, "")), frozenset({0, top.st_uid})


def list_folders(path: str) -> list[str]:
    """Return the paths of a job's directory and of its tasks started by `qrsh -inherit`.

    Raises OSError if the job's directory cannot be listed.
    """
    with os.scandir(path) as entries:
        tasks = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return [path, *(f"{path}/{name}" for name in tasks[:MAX_TASKS])]


def read_config(path: str, owners: Collection[int]) -> str:
    """Return the text of the file ``config`` in a job's directory, or in that of one of its tasks.

    "" until the daemon has written it. Raises OSError, also if its owner is not one of the uids `owners`.
    """
    for folder in list_folders(path):
        with contextlib.suppress(FileNotFoundError):
            return read_owned(f"{folder}/config", owners, MAX_FILE_BYTES)[0].decode("utf-8", "replace")
    return ""


def parse_number(data: bytes) -> int | None:
    """Return the number in the content of a file ``addgrpid`` or ``pid``; None if it is still empty.

    Raises ParseError if it is malformed.
    """
    if not data.strip():
        return None
    match = _NUMBER.fullmatch(data)
    if match is None or int(match[1]) >= 2**32:
        raise ParseError("not a number", source=ACTIVE, text=data.decode("utf-8", "replace"))
    return int(match[1])


def read_number(path: str, owners: Collection[int]) -> int | None:
    """Return the number in a file ``addgrpid`` or ``pid``; None until the daemon has written it.

    Raises ParseError; OSError also if the file's owner is not one of the uids `owners`.
    """
    with contextlib.suppress(FileNotFoundError):
        return parse_number(read_owned(path, owners, MAX_FILE_BYTES)[0])
    return None


def find_spool(procfs: str) -> str | None:
    """Return the working directory of the running sge_execd, a process of root; None if none runs."""
    try:
        names = os.listdir(procfs)
    except OSError:
        return None
    for name in filter(str.isdigit, names):
        with contextlib.suppress(OSError):  # it has ended, or access is denied
            with open(f"{procfs}/{name}/comm", "rb") as file:
                if file.read(64).rstrip(b"\n") != EXECD_COMMAND.encode():
                    continue
            with open(f"{procfs}/{name}/status", "rb") as file:
                if b"\nUid:\t0\t" in file.read(65536):
                    return os.readlink(f"{procfs}/{name}/cwd")
    return None


def is_shepherd(pid: int, procfs: str) -> bool:
    """Return whether this pid is a live shepherd; True also if that cannot be determined."""
    try:
        with open(f"{procfs}/{pid}/comm", "rb") as file:
            return file.read(64).startswith(SHEPHERD_COMMAND.encode())
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
