"""Sums what a job's processes use by their command. No I/O.

Processes choose their command names, so the number of names has to be bounded: the commands with the most CPU
time and those with the most memory are reported by name, all others together as `OTHER`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jobfeatures_exporter.model.snapshot import CommandSample, ProcessSample, RunKey
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC
from jobfeatures_exporter.sampling.processes.accumulate import CpuAccumulator

OTHER = "other"
NAMED = 4  # commands and programs reported by name during a job's lifetime, as a multiple of `top`

FindProgram = Callable[[ProcessSample], "str | None"]  # its path


class _Command:
    """The live processes of one command in one sample."""

    __slots__ = ("example", "increase", "processes", "resident_bytes", "ticks")

    def __init__(self, example: ProcessSample | None = None) -> None:
        self.example = example
        self.ticks = 0  # of the live processes, since they were first seen
        self.increase = 0
        self.resident_bytes = 0
        self.processes = 0


class _Counts:
    """The counters of one run of a job, in clock ticks; none decreases while it is reported."""

    def __init__(self) -> None:
        self.named: dict[str, int] = {}
        self.other: int | None = None  # None until there are others
        self.programs: dict[str, int] = {}  # of the named commands, by path
        self._path_of: dict[str, str] = {}  # a command keeps the program that it was first seen with

    def update(self, commands: Mapping[str, _Command], top: int) -> None:
        for name in _highest(commands, top):
            if name not in self.named and (len(self.named) < NAMED * top or self._make_room(commands)):
                self.named[name] = 0
        for name, command in commands.items():
            if name in self.named:
                self.named[name] += command.increase
            else:
                self.other = (self.other or 0) + command.increase

    def add_to_programs(self, commands: Mapping[str, _Command], top: int, find: FindProgram) -> None:
        """Add what was counted for commands to their programs, by path, as far as these are known."""
        for name in commands.keys() & self.named.keys():
            command = commands[name]
            path, counted = self._path_of.get(name), command.increase
            if path is None and command.example is not None:
                path, counted = find(command.example), self.named[name]
            if path is not None and (path in self.programs or len(self.programs) < NAMED * top):
                self._path_of[name] = path
                self.programs[path] = self.programs.get(path, 0) + counted

    def _make_room(self, commands: Mapping[str, _Command]) -> bool:
        """Move the command with the least time among those without processes to `other`."""
        ended = [name for name in self.named if name not in commands]
        if not ended:
            return False
        least = min(ended, key=lambda name: (self.named[name], name))
        self.other = (self.other or 0) + self.named.pop(least)
        self._path_of.pop(least, None)
        return True


class CommandBook:
    """What each job's commands have used, from one sample to the next.

    The CPU time of a new command starts with what it used since the previous sample. It is kept until this
    execution of the job ends. If the command has no processes left and another command needs its place, its
    time is added to `OTHER`.
    """

    def __init__(self, top: int) -> None:
        self._top = top
        self._accumulator: CpuAccumulator[tuple[RunKey, str]] = CpuAccumulator(
            brings_life=lambda _last, _now: False
        )
        self._seen: dict[tuple[RunKey, str], int] = {}
        self._counts: dict[RunKey, _Counts] = {}

    def update(
        self,
        processes: Mapping[int, ProcessSample],
        members: Mapping[RunKey, Sequence[ProcessSample]],
        find_program: FindProgram | None = None,
    ) -> dict[RunKey, tuple[CommandSample, ...]]:
        """Add a sample; return the commands of each run of a job in `members`, and forget other runs.

        `processes` has all processes by pid, `members` those of each run. `find_program` returns the path of
        a process's program; if given, `programs` is updated too.
        """
        totals = self._accumulator.update(
            processes, {each.pid: (key, each.command) for key, group in members.items() for each in group}
        )
        by_job: dict[RunKey, dict[str, _Command]] = {key: {} for key in members}
        for key, group in members.items():
            for process in group:
                command = by_job[key].setdefault(process.command, _Command(process))
                command.processes += 1
                command.resident_bytes += process.resident_bytes
        seen = {}
        for (key, name), ticks in totals.items():
            command = by_job[key][name]
            command.ticks = seen[key, name] = ticks.user + ticks.system
            command.increase = command.ticks - self._seen.get((key, name), 0)
        self._seen = seen
        self._counts = {key: self._counts.get(key) or _Counts() for key in by_job}
        for key, counts in self._counts.items():
            counts.update(by_job[key], self._top)
            if find_program is not None:
                counts.add_to_programs(by_job[key], self._top, find_program)
        return {key: self._samples(counts, by_job[key]) for key, counts in self._counts.items()}

    @property
    def programs(self) -> dict[RunKey, dict[str, float]]:
        """Return the CPU seconds by program's path for each run of a job; they never decrease."""
        return {
            key: {path: ticks / TICKS_PER_SEC for path, ticks in counts.programs.items()}
            for key, counts in self._counts.items()
        }

    def _samples(self, counts: _Counts, commands: Mapping[str, _Command]) -> tuple[CommandSample, ...]:
        none = _Command()
        samples = [
            self._sample(name, ticks, [commands.get(name, none)]) for name, ticks in counts.named.items()
        ]
        if counts.other is not None:
            rest = [command for name, command in commands.items() if name not in counts.named]
            samples.append(self._sample(OTHER, counts.other, rest))
        return tuple(samples)

    def _sample(self, name: str, ticks: int, commands: Sequence[_Command]) -> CommandSample:
        return CommandSample(
            command=name,
            cpu_secs=ticks / TICKS_PER_SEC,
            resident_bytes=sum(each.resident_bytes for each in commands),
            processes=sum(each.processes for each in commands),
        )


def _highest(commands: Mapping[str, _Command], top: int) -> dict[str, None]:
    """Return the commands with the most CPU time and those with the most memory, except any named `OTHER`."""
    names = sorted(name for name in commands if name != OTHER)
    by_time = sorted(names, key=lambda name: -commands[name].ticks)[:top]
    by_memory = sorted(names, key=lambda name: -commands[name].resident_bytes)[:top]
    return dict.fromkeys([*by_time, *by_memory])
