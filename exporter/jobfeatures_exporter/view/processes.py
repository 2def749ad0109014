"""Lists the processes of a job as a tree, with the CPUs that each process uses now. No I/O."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample, Snapshot
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC

MAX_PROCESSES = 200


class Placed(NamedTuple):
    """A process, and its depth below the root of its tree."""

    process: ProcessSample
    depth: int


def make_tree(processes: Iterable[ProcessSample], most: int = MAX_PROCESSES) -> list[Placed]:
    """Return the processes, at most `most`, each followed by its children.

    Parent pids are read at different moments, so there may be cycles. Processes that cannot be reached from a
    root of the tree come last.
    """
    every = {each.pid: each for each in processes}
    children: dict[int, list[ProcessSample]] = {}
    for each in sorted(every.values(), key=lambda each: (each.start_ticks, each.pid)):
        children.setdefault(each.ppid if each.ppid in every and each.ppid != each.pid else 0, []).append(each)
    made: dict[int, Placed] = {}
    waiting = [(each, 0) for each in reversed(children.get(0, []))]
    rest = list(every.values())
    while len(made) < min(most, len(every)):
        if not waiting:
            waiting = [next((each, 0) for each in rest if each.pid not in made)]
        each, depth = waiting.pop()
        if each.pid in made:
            continue
        made[each.pid] = Placed(each, depth)
        waiting += [(child, depth + 1) for child in reversed(children.get(each.pid, []))]
    return list(made.values())


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """A process, its depth in the tree of processes, and the CPUs it used between two samples.

    `cpus_now` is None if the process is in the later sample only.
    """

    process: ProcessSample
    depth: int
    cpus_now: float | None = None


def list_processes(now: Snapshot, before: Snapshot | None, key: JobKey) -> list[LiveProcess]:
    """Return a job's processes with the CPUs they use, each followed by its children.

    CPUs are computed from the snapshots `now` and `before`.
    """
    own = [process for pid, process in now.processes.items() if now.keys.get(pid) == key]
    elapsed_secs = 0.0 if before is None else now.read_at_secs - before.read_at_secs
    earlier = {} if before is None else before.processes
    ticks = elapsed_secs * TICKS_PER_SEC
    return [
        LiveProcess(each, depth, _compute_cpus(earlier.get(each.pid), each, ticks))
        for each, depth in make_tree(own, sys.maxsize)
    ]


def _compute_cpus(before: ProcessSample | None, now: ProcessSample, ticks: float) -> float | None:
    if before is None or before.start_ticks != now.start_ticks or ticks <= 0:
        return None
    used = now.user_ticks + now.system_ticks - before.user_ticks - before.system_ticks
    return max(0, used) / ticks
