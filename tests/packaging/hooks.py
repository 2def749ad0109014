"""What the tests of hook scripts share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

MakeCommand = Callable[[str], Path]  # makes a stand-in for the command of lines of bash


def processes_with(mark: str) -> list[int]:
    """Return the living processes that have the word in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
            state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in environ.split(b"\0") and state != "Z":
            found.append(int(name))
    return found


def wait_until_none_is_left(mark: str) -> list[int]:
    """Return what still lives after 5 seconds: the kernel and syslog may take a moment."""
    for _ in range(500):
        if not (left := processes_with(mark)):
            return []
        time.sleep(0.01)
    return left
