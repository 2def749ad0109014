"""A small simulated kernel, which knows the truth, and what happens in it by chance."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from jobfeatures_exporter.model.snapshot import ProcessIo, ProcessSample
from jobfeatures_exporter.sampling.processes.accumulate import IoReading


@dataclass
class Task:
    pid: int
    parent: Task | None
    start: int
    key: str
    user: int = 0
    system: int = 0
    children_user: int = 0
    children_system: int = 0
    zombie: bool = False
    subreaper: bool = False
    ignores_children: bool = False
    children: list[Task] = field(default_factory=list)


class Kernel:
    """Processes that fork, run, exit, are reaped or reparented, as wait(2) and prctl(2) have it."""

    def __init__(self) -> None:
        self._starts = itertools.count(1)
        self.tasks: dict[int, Task] = {}
        self.truth: dict[str, list[int]] = {}
        self.init = self._make(1, None, "system")
        self.init.subreaper = True

    def _make(self, pid: int, parent: Task | None, key: str) -> Task:
        task = Task(pid, parent, next(self._starts), key)
        self.tasks[pid] = task
        self.truth.setdefault(key, [0, 0])
        if parent is not None:
            parent.children.append(task)
        return task

    def fork(self, parent: Task, pid: int, key: str | None = None) -> Task:
        return self._make(pid, parent, key or parent.key)

    def run(self, task: Task, user: int, system: int) -> None:
        task.user += user
        task.system += system
        self.truth[task.key][0] += user
        self.truth[task.key][1] += system

    def exit(self, task: Task) -> None:
        task.zombie = True
        heir = task.parent
        while not heir.subreaper:
            heir = heir.parent
        for child in task.children:
            child.parent = heir
            heir.children.append(child)
        orphans, task.children = task.children, []
        if task.parent.ignores_children:
            self._release(task)
        for child in orphans:
            if child.zombie and heir is self.init:
                self.reap(child)

    def reap(self, task: Task) -> None:
        task.parent.children_user += task.user + task.children_user
        task.parent.children_system += task.system + task.children_system
        self._release(task)

    def _release(self, task: Task) -> None:
        task.parent.children.remove(task)
        del self.tasks[task.pid]

    def look(self) -> tuple[dict[int, ProcessSample], dict[int, str]]:
        samples = {
            pid: ProcessSample(
                pid=pid, ppid=task.parent.pid if task.parent else 0, pgid=pid, session=pid, start_ticks=task.start,
                command="x", state="Z" if task.zombie else "S", user_ticks=task.user, system_ticks=task.system,
                children_user_ticks=task.children_user, children_system_ticks=task.children_system, threads=1,
                resident_bytes=0, virtual_bytes=0,
            )
            for pid, task in self.tasks.items()
        }  # fmt: skip
        return samples, {pid: task.key for pid, task in self.tasks.items()}

    def look_at_io(self) -> tuple[dict[int, IoReading], dict[int, str]]:
        """Look at the jobs only; what a process has of its children is in its own counters, as in /proc/PID/io."""
        readings = {
            pid: IoReading(
                pid, task.parent.pid, task.start, "Z" if task.zombie else "S",
                ProcessIo(
                    read_bytes=task.user + task.children_user, written_bytes=task.system + task.children_system,
                    data_read_bytes=0, data_written_bytes=0, data_cancelled_bytes=0,
                ),
            )
            for pid, task in self.tasks.items()
            if task is not self.init
        }  # fmt: skip
        return readings, {pid: self.tasks[pid].key for pid in readings}


class Life:
    """What happens by chance to the processes of a kernel: 150 steps, a look about every eighth."""

    def __init__(self, seed: int, *, orderly: bool) -> None:
        self._random = random.Random(seed)
        self._orderly = orderly  # every exit is reaped at once by a parent that lives on
        self.kernel = Kernel()
        self.kernel.fork(self.kernel.init, 2, "job")

    def looks(self) -> Iterator[None]:
        """Stop wherever somebody looks."""
        for _ in range(150):
            tasks = [task for task in self.kernel.tasks.values() if task is not self.kernel.init]
            if self._random.random() < 0.12:
                yield
            elif tasks:
                self._step(self._random.choice(tasks))

    def _step(self, task: Task) -> None:
        kernel, chance = self.kernel, self._random.random()
        if task.zombie:
            kernel.reap(task)
        elif chance < 0.3:
            pid = self._random.randrange(3, 12)
            if pid not in kernel.tasks:
                other = not self._orderly and self._random.random() < 0.2
                kernel.fork(task, pid, "job2" if other else None)
        elif chance < 0.65:
            kernel.run(task, self._random.randrange(50), self._random.randrange(50))
        elif chance < 0.95:
            if not self._orderly:
                kernel.exit(task)
            elif task.parent is not kernel.init and not task.children:
                kernel.exit(task)
                kernel.reap(task)
        elif not self._orderly:
            setattr(task, self._random.choice(["ignores_children", "subreaper"]), True)
