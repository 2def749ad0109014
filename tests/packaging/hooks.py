"""What the tests of hook scripts share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

MakeCommand = Callable[[str], Path]  # makes a stand-in for the command of lines of bash

NO_PROXY_LINES = "export no_proxy=127.0.0.1\nexport NO_PROXY=127.0.0.1\n"
# What a job has of the two variables, and what it has with an address of ours: nothing that it had is lost.
NO_PROXY_CASES = [
    ({}, ("127.0.0.1", "127.0.0.1")),
    ({"no_proxy": ""}, ("127.0.0.1", "127.0.0.1")),
    ({"no_proxy": ".cern.ch,a"}, (".cern.ch,a,127.0.0.1", ".cern.ch,a,127.0.0.1")),
    ({"NO_PROXY": "*.cern.ch"}, ("*.cern.ch,127.0.0.1", "*.cern.ch,127.0.0.1")),
    ({"no_proxy": "a", "NO_PROXY": "b"}, ("a,127.0.0.1", "b,127.0.0.1")),
    ({"no_proxy": "a,127.0.0.1", "NO_PROXY": "127.0.0.10"}, ("a,127.0.0.1", "127.0.0.10,127.0.0.1")),
    ({"no_proxy": "*"}, ("*", "*")),
]


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
    """Return what still lives after a minute: the kernel and syslog may take a moment."""
    for _ in range(6000):
        if not (left := processes_with(mark)):
            return []
        time.sleep(0.01)
    return left
