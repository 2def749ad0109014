"""Keeps totals of what processes have used, including processes that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import CommandSample, JobSample, ProcessIo, WorkKey
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.processes.accumulate import CpuAccumulator, CpuTicks
from jobfeatures_exporter.sampling.processes.attribution import Key
from jobfeatures_exporter.sampling.processes.bycommand import CommandBook
from jobfeatures_exporter.sampling.processes.processio import ProcessIoBook
from jobfeatures_exporter.sampling.processes.programs import read_program
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.sampling.stages.values import Attributed, ProcessesRead, ProcessTotals


class ByCommand(NamedTuple):
    """What each job's commands have used, and the CPU seconds of each job's programs, by program's path."""

    commands: Mapping[JobKey, tuple[CommandSample, ...]] = MappingProxyType({})
    programs: Mapping[JobKey, Mapping[str, float]] = MappingProxyType({})


class ProcessCounting:
    """Keeps totals of CPU time and, if settings demand it, of input and output and by command."""

    def __init__(self, settings: SamplerSettings, budget: DescriptorBudget, unreadable: Unreadable) -> None:
        self._accumulator: CpuAccumulator[Key] = CpuAccumulator(brings_life=self._brings_life)
        self._aliases: Mapping[JobKey, JobKey] = {}
        self._find_program = partial(read_program, settings.procfs)
        top, with_io = settings.top_commands, settings.process_io
        self._io = ProcessIoBook(settings.procfs, budget, unreadable, self._brings_life) if with_io else None
        self._by_command = CommandBook(top) if top else None

    @property
    def needs_all(self) -> bool:
        """Return whether all of the node's processes have to be read at each sample."""
        return self._by_command is not None

    def count(self, read: ProcessesRead, sums: Mapping[str, Sums], found: Attributed) -> ProcessTotals:
        """Return totals up to this sample: CPU time, and input and output of jobs without eBPF's `sums`."""
        of_jobs, self._aliases = found.of_jobs(), found.aliases
        ticks: Mapping[Key, CpuTicks] = {}
        if read.are_all:
            ticks = self._accumulator.update(read.processes, found.keys, found.groups.keys())
        io: Mapping[JobKey, ProcessIo] = {}
        if self._io is not None:
            unsummed = {found.key_of[source] for source in found.key_of.keys() - sums.keys()}
            unsummed |= {job for job in of_jobs if not found.groups.get(job)}
            io = self._io.update({job: of_jobs[job] for job in unsummed if job is not None})
        return ProcessTotals(ticks, io)

    def by_command(
        self,
        read: ProcessesRead,
        found: Attributed,
        jobs: Mapping[WorkKey, JobSample],
        *,
        with_programs: bool = False,
    ) -> ByCommand:
        """Return what each job's commands have used up to this sample; empty unless settings demand it."""
        if self._by_command is None:
            return ByCommand()
        members = {(key, jobs[key].run): those for key, those in found.of_jobs().items()}
        find = self._find_program if with_programs else None
        counted = self._by_command.update(read.processes, members, find)
        programs = self._by_command.programs if with_programs else {}
        return ByCommand(
            {key: each for (key, _), each in counted.items()},
            {key: each for (key, _), each in programs.items() if each},
        )

    def _brings_life(self, last: Key, now: Key | None) -> bool:
        """Return whether a process was the present key's all along: not if it was another job's."""
        was_of_job = isinstance(last, JobKey) and isinstance(now, JobKey)
        return not was_of_job or (last, now) in self._aliases.items()

    def close(self) -> None:
        """Close all descriptors."""
        if self._io is not None:
            self._io.close()
