"""Reads the ads in the scratch directories below HTCondor's folder EXECUTE.

A condor_starter writes its job's ad to ``dir_PID/.job.ad`` and its slot's ad to ``dir_PID/.machine.ad``
before the job starts, where PID is its own process id. Both stay unchanged until the job has ended. Newer
starters may use a subdirectory. Only HTCondor writes into EXECUTE, but files in a scratch directory may be
the user's.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection
from typing import BinaryIO, NamedTuple

from jobfeatures.batch.processes import read_real_uid
from jobfeatures.formats.classad.ad import ClassAd
from jobfeatures.formats.classad.longform import CUT, parse_ad
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened, read_owned

STARTER_COMMAND = "condor_starter"
MAX_AD_BYTES = 2**24  # without lines of more than MAX_LINE_BYTES: a user's attribute must not cost the job
MAX_LINE_BYTES = 2**18
MAX_FILE_BYTES = 2**28
MAX_NAME_BYTES = 1024
FOLDERS = ("", "scratch/", "htcondor/")  # the second and third with STARTER_NESTED_SCRATCH

_SCRATCH = re.compile(r"dir_([1-9][0-9]{0,9})", re.ASCII)
_UIDS = re.compile(rb"^Uid:([\t 0-9]+)$", re.MULTILINE)
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class Ads(NamedTuple):
    """The ads of a job and its slot in a scratch directory. `is_proven`: no user could have written them."""

    job: ClassAd
    machine: ClassAd
    is_proven: bool


def list_scratch(execute: str) -> dict[int, str]:
    """Return the names of the directories ``dir_PID`` in `execute`, by PID. Raises OSError if unreadable."""
    return {int(match[1]): name for name in os.listdir(execute) if (match := _SCRATCH.fullmatch(name))}


def find_execute(procfs: str, pid: int, trusted: Collection[int] = (0,)) -> str | None:
    """Return the folder EXECUTE of a condor_starter: the one above the scratch directory in which it works.

    Slots may have their own EXECUTE (SLOT<N>_EXECUTE), and so may a second startd. None if the process works
    elsewhere, or if its real uid is not one of `trusted`: any user can call a program condor_starter. Raises
    OSError if its files in /proc cannot be read, ParseError if they are malformed.
    """
    if read_real_uid(procfs, pid) not in trusted:
        return None
    found = re.match(rf"(/.+)/dir_{pid}(?:/|\Z)", os.readlink(f"{procfs}/{pid}/cwd"))
    return found[1] if found else None


def find_owner(execute: str) -> int:
    """Return the uid of the owner of the folder EXECUTE. Raises OSError, also if everyone may write to it."""
    found = os.stat(execute)
    if found.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "writable by others (chmod go-w)", execute)
    return found.st_uid


def read_ads(path: str, trusted: Collection[int]) -> Ads:
    """Return the job's ad and the slot's ad in the scratch directory `path`.

    Raises OSError if a file cannot be read, or if its owner is neither one of the uids `trusted` nor the
    owner of the directory; ParseError if an ad is malformed.
    """
    directory = os.lstat(path)
    if not stat.S_ISDIR(directory.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    owner = directory
    if folder := _find_folder(path):
        owner = os.lstat(f"{path}/scratch")
        if not stat.S_ISDIR(os.lstat(f"{path}/{folder}".rstrip("/")).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    owners = {*trusted, directory.st_uid, owner.st_uid}
    job, writer = _read_ad(f"{path}/{folder}.job.ad", owners)
    machine, _ = _read_ad(f"{path}/{folder}.machine.ad", owners)
    return Ads(job, machine, {writer, directory.st_uid} <= set(trusted))


def _find_folder(path: str) -> str:
    """Return which of `FOLDERS`, relative to the scratch directory, has the ads; "" if none has."""
    return next((each for each in FOLDERS if os.path.lexists(f"{path}/{each}.job.ad")), "")


def find_job_uid(path: str, procfs: str, pid: int, trusted: Collection[int]) -> int | None:
    """Return the uid of the job with the scratch directory `path`; None if not known yet.

    `pid` is the job's condor_starter. A starter that can change its user writes the ads before it gives the
    directory to the job's user: until then the directory belongs to one of the `trusted` uids of HTCondor.
    Raises OSError if the directory or the starter has gone.
    """
    uid = os.lstat(f"{path}/scratch" if _find_folder(path) else path).st_uid
    return None if uid in trusted and (uid == 0 or _can_change_user(procfs, pid)) else uid


def _can_change_user(procfs: str, pid: int) -> bool:
    """Return whether root is among the user ids of a process, as for a starter that root's master started."""
    with opened(f"{procfs}/{pid}/status", _FLAGS) as file:
        found = _UIDS.search(os.read(file, 4096))
    return found is None or b"0" in found[1].split()


def read_one_ad(path: str) -> ClassAd:
    """Return the ad in a file.

    Raises OSError (EFBIG if larger than `MAX_AD_BYTES`), and ParseError if the ad is malformed.
    """
    return parse_ad(read_lines(path, MAX_AD_BYTES)[0].decode("utf-8", "replace"), source=path)


def _read_ad(path: str, owners: Collection[int]) -> tuple[ClassAd, int]:
    data, owner = read_owned(path, owners, MAX_AD_BYTES, read_lines)
    return parse_ad(data.decode("utf-8", "replace"), source=path), owner


def read_lines(path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return a file's content without the values of lines over MAX_LINE_BYTES, and its stat result.

    Raises OSError; with EFBIG if more than MAX_FILE_BYTES were read, or more than `max_bytes` remain.
    """
    content, left = bytearray(), MAX_FILE_BYTES
    with opened(path, READ_UNFOLLOWED) as descriptor, open(descriptor, "rb", closefd=False) as file:
        found = os.fstat(descriptor)
        while line := file.readline(MAX_LINE_BYTES):
            left -= len(line)
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                line, left = _cut(line, file, left)
            content += line
            if len(content) > max_bytes or left < 0:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return bytes(content), found


def _cut(begin: bytes, file: BinaryIO, left: int) -> tuple[bytes, int]:
    """Read a long line to its end; return it without its value, and how many of `left` bytes remain.

    A string that does not end on the line remains open: what follows is the user's text and no attribute.
    """
    name, _, value = begin[:MAX_NAME_BYTES].partition(b"=")
    quotes, piece, end = 0, begin, b""
    while piece:
        seen = end[-1:] + piece  # a backslash before the quote may be the end of the last piece
        quotes += piece.count(b'"') - seen.count(b'\\"')
        end = (end + piece)[-4:]
        piece = b"" if end.endswith(b"\n") or left < 0 else file.readline(MAX_LINE_BYTES)
        left -= len(piece)
    is_text = quotes == 1 and value.lstrip().startswith(b'"') and end.rstrip().endswith(b'\\"')
    return name + (b'= "\n' if quotes % 2 and not is_text else f"= {CUT}\n".encode()), left


def is_starter(procfs: str, pid: int) -> bool:
    """Return whether a process is a condor_starter. Raises OSError if its stat file cannot be read."""
    try:
        with opened(f"{procfs}/{pid}/stat", _FLAGS) as file:
            head = os.read(file, 256)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return head.partition(b"(")[2].rpartition(b")")[0] == STARTER_COMMAND.encode()
