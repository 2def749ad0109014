"""The processes of a job as a tree. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jobfeatures_exporter.snapshot import ProcessSample

MAX_PROCESSES = 200


class Placed(NamedTuple):
    """One process, so deep below the first of its job."""

    process: ProcessSample
    depth: int


def make_tree(processes: Iterable[ProcessSample], most: int = MAX_PROCESSES) -> list[Placed]:
    """Return processes in the order of a tree, children below their parents, `most` at most.

    Parents come from several reads, so that a circle of them is possible: what
    is not reached from a first process stands at the end.
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
