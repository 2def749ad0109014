"""What processes have used in all, with those that have ended, at each sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.processes.accumulate import CpuAccumulator
from jobfeatures_exporter.sampling.processes.attributor import Key
from jobfeatures_exporter.sampling.processes.bycommand import CommandBook
from jobfeatures_exporter.sampling.processes.processio import ProcessIoBook
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.sampling.values import Attributed, Counted, ProcessesRead

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.exits.taskstats import ExitRecords


class ProcessCounting:
    """Accumulates CPU time, and where settings ask for them transfers and commands."""

    def __init__(self, settings: SamplerSettings, budget: DescriptorBudget, unreadable: Unreadable) -> None:
        self._accumulator: CpuAccumulator[Key] = CpuAccumulator()
        self._exits: ExitRecords | None = None
        if settings.taskstats:
            from jobfeatures_exporter.sampling.exits.taskstats import subscribe

            self._exits = subscribe(unreadable)
        top, with_io = settings.top_commands, settings.process_io
        self._io = ProcessIoBook(settings.procfs, budget, unreadable) if with_io else None
        self._by_command = CommandBook(top) if top else None

    @property
    def needs_all(self) -> bool:
        """Return whether all processes have to be read at each sample."""
        return self._exits is not None or self._by_command is not None

    @property
    def exit_records(self) -> dict[str, int]:
        """Return the number of exit records since our start, by result."""
        return {} if self._exits is None else dict(self._exits.results)

    def begin(self) -> None:
        """Fetch the exit records of processes that have ended before the coming sample."""
        if self._exits is not None:
            self._exits.take()

    def count(
        self, read: ProcessesRead, sums: Mapping[str, Sums], found: Attributed, boot_time_secs: float | None
    ) -> Counted:
        """Return the totals up to this sample; what the kernel has `sums` of is left to these."""
        of_jobs = found.of_jobs()
        commands = {} if self._by_command is None else self._by_command.update(read.processes, of_jobs)
        ticks = self._accumulator.update(read.processes, found.keys) if read.are_all else {}
        if self._exits is not None:
            of_batch = {pid: key for pid, key in found.keys.items() if isinstance(key, JobKey)}
            ticks = self._exits.update(read.processes, of_batch, ticks, boot_time_secs=boot_time_secs)
        io = {}
        if self._io is not None:
            unsummed = {found.key_of[source] for source in found.key_of.keys() - sums.keys()}
            unsummed |= of_jobs.keys() - found.groups.keys()
            io = self._io.update({job: of_jobs[job] for job in unsummed if job is not None})
        return Counted(ticks, io, commands)

    def close(self) -> None:
        """Close all descriptors."""
        for each in (self._io, self._exits):
            if each is not None:
                each.close()
