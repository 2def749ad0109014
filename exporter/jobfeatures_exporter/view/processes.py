"""The processes of a job as a tree. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jobfeatures_exporter.snapshot import ProcessSample

MAX_PROCESSES = 200


class Placed(NamedTuple):
    """One process, and its depth below the root of its tree."""

    process: ProcessSample
    depth: int


def make_tree(processes: Iterable[ProcessSample], most: int = MAX_PROCESSES) -> list[Placed]:
    """Return at most `most` processes in tree order, children after their parents.

    Parent pids are read at different moments, so cycles are possible: processes not
    reachable from a root come last.
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
