"""Decides whether standard output takes colours, and what to do once it cannot be written any more."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from jobfeatures.system.exitstatus import FAILED

# Of an error without a file's name, as only writing to an open file gives it.
_UNWRITABLE = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def has_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether to write colours: to a terminal, unless NO_COLOR is set (no-color.org) or TERM=dumb."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def is_about_output(error: OSError) -> bool:
    """Return whether the error says that standard output could not be written."""
    return error.filename is None and error.errno in _UNWRITABLE


def give_up_output(error: OSError, complain: Callable[[str], None]) -> int:
    """Discard all later standard output, since writing it failed; return the exit status of a failure.

    `complain` is called with a message, unless the output's reader has ended (a closed pipe).
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    if error.errno != errno.EPIPE:
        with contextlib.suppress(OSError):  # the same disk
            complain(f"standard output: cannot write: {error.strerror}")
    return FAILED


def end_output(status: int, complain: Callable[[str], None]) -> int:
    """Flush standard output, and return the exit status: `status`, or that of a failure to write."""
    if sys.stdout is None:  # it was closed from the beginning
        return status
    try:
        sys.stdout.flush()
    except OSError as error:
        return status or give_up_output(error, complain)
    return status
