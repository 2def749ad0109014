"""The processes of a job as a tree. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jobfeatures_exporter.snapshot import ProcessSample

MAX_PROCESSES = 200


@dataclass(frozen=True, slots=True)
class ProcessView:
    """One process, so deep below the first of its job; CPU time is its own, without its children's."""

    pid: int
    depth: int
    command: str  # empty is withheld
    state: str
    cpu_secs: float
    resident_bytes: int
    threads: int
    arguments: str = ""


def make_tree(
    processes: Iterable[ProcessSample],
    *,
    ticks_a_second: float,
    name_of: Callable[[str], str],
    arguments_of: Callable[[ProcessSample], str],
    most: int = MAX_PROCESSES,
) -> list[ProcessView]:
    """Return processes in the order of a tree, children below their parents, `most` at most.

    Parents come from several reads, so that a circle of them is possible: what
    is not reached from a first process stands at the end.
    """
    every = {each.pid: each for each in processes}
    children: dict[int, list[ProcessSample]] = {}
    for each in sorted(every.values(), key=lambda each: (each.start_ticks, each.pid)):
        children.setdefault(each.ppid if each.ppid in every and each.ppid != each.pid else 0, []).append(each)
    made: dict[int, ProcessView] = {}
    waiting = [(each, 0) for each in reversed(children.get(0, []))]
    rest = list(every.values())
    while len(made) < min(most, len(every)):
        if not waiting:
            waiting = [next((each, 0) for each in rest if each.pid not in made)]
        each, depth = waiting.pop()
        if each.pid in made:
            continue
        made[each.pid] = ProcessView(
            each.pid,
            depth,
            name_of(each.command),
            each.state,
            (each.user_ticks + each.system_ticks) / ticks_a_second,
            each.resident_bytes,
            each.threads,
            arguments_of(each),
        )
        waiting += [(child, depth + 1) for child in reversed(children.get(each.pid, []))]
    return list(made.values())
