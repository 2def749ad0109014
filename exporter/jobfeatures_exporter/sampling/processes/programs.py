"""Finds the program that a process runs, for metrics with names of other exporters."""

from __future__ import annotations

import os

from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.descriptors import read_file

MAX_BYTES = 256  # users choose paths, and each stands on every page


def read_program(procfs: str, process: ProcessSample) -> str | None:
    """Return the path of a process's program, see proc_pid_exe(5); invalid UTF-8 becomes U+FFFD.

    None if the path is longer than `MAX_BYTES` or cannot be read (only root can for other users' processes),
    or if the process has started another command since its sample.
    """
    folder = f"{procfs}/{process.pid}"
    try:
        path = os.readlink(os.fsencode(f"{folder}/exe")).removesuffix(b" (deleted)")
        command = read_file(f"{folder}/comm")
    except OSError:
        return None
    is_same = command.removesuffix(b"\n").decode("utf-8", "replace") == process.command
    return path.decode("utf-8", "replace") if is_same and len(path) <= MAX_BYTES else None
