"""Counts hook failures: one file per action and reason, one byte per failure.

Several hooks may append at once, without a lock. The daemon preallocates space behind each file's end, so
that a hook that fails because the disk is full is counted too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat

from jobfeatures.publish.hookreasons import PAIRS
from jobfeatures.system.privatefile import closing, opened

SPARE_BYTES = 4096  # preallocated behind the end of each file

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE, fallocate(2)
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def read_failures(folder: int) -> dict[tuple[str, str], int]:
    """Return the numbers of hook failures by action and reason, and reserve disk space for further ones.

    `folder` is the descriptor of the open folder of counts. Raises OSError if a count cannot be read.
    """
    found: dict[tuple[str, str], int] = {}
    for action, reason in PAIRS:
        with contextlib.suppress(_NotOursError):
            found[action, reason] = _read_count(folder, f"{action}.{reason}")
    return found


def count_failure(folder: int, action: str, reason: str) -> None:
    """Count a hook's failure by its action ("publish" or "remove") and reason.

    `folder` is the descriptor of the open folder of counts. Raises OSError if the count cannot be written.
    """
    with opened(f"{action}.{reason}", _FLAGS | os.O_CREAT, folder, 0o600) as file:
        os.write(file, b".")


class _NotOursError(Exception):
    """Something else has the name of a counter's file."""


def _read_count(folder: int, name: str) -> int:
    try:
        descriptor = os.open(name, _FLAGS | os.O_CREAT, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):  # a link, a folder, a pipe
            raise _NotOursError from None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return 0  # it never existed, and cannot be created now
        raise
    with closing(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise _NotOursError
        if status.st_blocks * 512 - status.st_size < SPARE_BYTES // 2:
            # If this fails (unsupported, or no space left), counting goes on without spare space.
            _libc.fallocate(descriptor, _KEEP_SIZE, status.st_size, SPARE_BYTES)
        return status.st_size
