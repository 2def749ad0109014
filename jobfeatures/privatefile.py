"""Files that hold secrets: nobody but their owner may read them."""

from __future__ import annotations

import os
import stat

from jobfeatures.errors import ParseError, UnsafePathError

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_private(path: str, max_bytes: int) -> bytes:
    """Return what a file holds.

    Raises OSError, ParseError for one that is too long, and UnsafePathError
    for what is not a file of ours or root's that nobody else can read.
    """
    file = os.open(path, _FILE)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise UnsafePathError(f"{path}: is not a file of root or of this user")
        if found.st_mode & 0o077:
            raise UnsafePathError(f"{path}: others than its owner can read or write it")
        content = os.read(file, max_bytes + 1)
    finally:
        os.close(file)
    if len(content) > max_bytes:
        raise ParseError(f"is longer than {max_bytes} bytes", source=path)
    return content
