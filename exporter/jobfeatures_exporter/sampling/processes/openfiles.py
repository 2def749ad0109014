"""Counts how many files the processes of jobs have open.

Only the profile ``process-exporter`` needs the counts. It offers metrics under the names that another
program, process-exporter, gives them, so that dashboards made for that program work here, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.measured import OpenFiles
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text
from jobfeatures_exporter.sampling.processes.members import find_thread

_LIMIT = re.compile(r"^Max open files +([0-9]{1,20}|unlimited) ", re.MULTILINE)


def parse_open_limit(text: str) -> int | None:
    """Return the soft limit of open files in /proc/PID/limits; None if unlimited. See proc_pid_limits(5).

    Raises ParseError if malformed.
    """
    match = _LIMIT.search(text)
    if match is None:
        raise ParseError("no line Max open files", source="limits", text=text)
    return None if match[1] == "unlimited" else int(match[1])


class OpenFileBook:
    """Counts the open descriptors of processes at each sample; reads the limit of each process only once."""

    def __init__(self, procfs: str, unreadable: Unreadable) -> None:
        self._procfs = procfs
        self._unreadable = unreadable
        self._limits: dict[tuple[int, int], int | None] = {}  # by pid and start

    def update(self, processes: Iterable[ProcessSample]) -> dict[int, OpenFiles]:
        """Return how many descriptors each process has open, and its limit, by pid.

        Processes that we may not read are left out.
        """
        found: dict[int, OpenFiles] = {}
        limits: dict[tuple[int, int], int | None] = {}
        for each in processes:
            thread = find_thread(self._procfs, each, self._unreadable)
            folder, key = thread or f"{self._procfs}/{each.pid}", (each.pid, each.start_ticks)
            try:
                if key in self._limits:
                    limit = self._limits[key]
                else:
                    limit = parse_open_limit(read_text(f"{folder}/limits"))
                # Since Linux 6.2 the size is the number; before that it is 0, as for a process without any.
                opened = os.stat(f"{folder}/fd").st_size or len(os.listdir(f"{folder}/fd"))
            except (OSError, ParseError) as error:
                self._unreadable.add("process_files", error)
                continue
            limits[key] = limit
            found[each.pid] = OpenFiles(opened, limit)
        self._limits = limits
        return found
