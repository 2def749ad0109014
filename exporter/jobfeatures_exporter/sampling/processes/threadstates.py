"""Counts the threads of processes by their state, for metrics with names of other exporters."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable, read_file
from jobfeatures_exporter.sampling.processes.scan import parse_process_stat


def read_thread_states(
    procfs: str, processes: Iterable[ProcessSample], unreadable: Unreadable
) -> dict[int, Mapping[str, int]]:
    """Return how many threads each process has in each state, by pid and letter (see proc_pid_stat(5)).

    A process whose threads cannot all be read is left out; one that has ended has an empty mapping. The state
    of a process with one thread is taken from its sample, without reading.
    """
    found: dict[int, Mapping[str, int]] = {}
    for process in processes:
        if process.threads < 2:
            found[process.pid] = {process.state: 1}
            continue
        try:
            found[process.pid] = _count(f"{procfs}/{process.pid}/task")
        except (OSError, ParseError) as error:
            unreadable.add("process_threads", error)
            if isinstance(error, OSError) and error.errno in VANISHED:
                found[process.pid] = {}
    return found


def _count(folder: str) -> Counter[str]:
    states: Counter[str] = Counter()
    for thread in os.listdir(folder):
        try:
            states[parse_process_stat(read_file(f"{folder}/{thread}/stat")).state] += 1
        except OSError as error:
            if error.errno not in VANISHED:
                raise
    return states
