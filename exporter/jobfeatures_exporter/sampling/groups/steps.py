"""The steps of jobs, each in its own control group below the job's, where the batch system makes such."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Sequence

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import StepSample
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup
from jobfeatures_exporter.sampling.groups.ledger import CounterLedger
from jobfeatures_exporter.sampling.layout.hierarchies import STEPS
from jobfeatures_exporter.sampling.layout.hierarchy import UNIFIED, JobDirectory, find_inode
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes, compute_memory_sum

_PATTERNS = {
    system: re.compile(rf"{steps}([A-Za-z0-9_.+-]{{1,64}})\Z") for system, steps in STEPS.items() if steps
}
_CONTROLLERS = ("cpuacct", "memory", UNIFIED)


class StepBook:
    """Reads the steps of jobs: at each sample call `read` for each job, then `forget_others`."""

    def __init__(self, budget: DescriptorBudget, unreadable: Unreadable) -> None:
        self._budget = budget
        self._unreadable = unreadable
        self._groups: dict[str, JobCgroup] = {}  # by path
        self._ledgers: dict[tuple[JobKey, str], CounterLedger] = {}
        self._read: set[object] = set()  # paths and keys of the steps in this sample

    def forget_others(self) -> None:
        """Forget the steps that were not read since the last call."""
        for path in self._groups.keys() - self._read:
            self._groups.pop(path).close()
        for step in self._ledgers.keys() - self._read:
            del self._ledgers[step]
        self._read.clear()

    def begin_run(self, key: JobKey) -> None:
        """Leave what a job's steps have used so far to its earlier run."""
        for (job, _), ledger in self._ledgers.items():
            if job == key:
                ledger.begin_run()

    def read(self, key: JobKey, cgroups: Sequence[JobCgroup]) -> tuple[StepSample, ...]:
        """Return the usage of each step of a job, summed over all control groups of the job."""
        steps: dict[str, list[JobCgroup]] = {}
        for job in cgroups:
            for name, directory in self._find(job.directory).items():
                self._read.add(directory.path)
                group = self._groups.get(directory.path)
                if group is None or group.directory != directory:
                    if group is not None:
                        group.close()
                    group = JobCgroup(directory, self._budget, self._unreadable)
                    self._groups[directory.path] = group
                steps.setdefault(name, []).append(group)
        return tuple(self._sample(key, name, groups) for name, groups in sorted(steps.items()))

    def close(self) -> None:
        """Close all descriptors."""
        for group in self._groups.values():
            group.close()
        self._groups.clear()

    def _find(self, job: JobDirectory) -> dict[str, JobDirectory]:
        pattern = _PATTERNS.get(job.membership.batch_system)
        if pattern is None:
            return {}
        found: dict[str, dict[str, str]] = {}
        inodes: dict[str, dict[str, int]] = {}
        for controller in _CONTROLLERS:
            if controller not in job.groups:
                continue
            try:
                with os.scandir(job.groups[controller]) as entries:
                    for entry in entries:
                        match = pattern.match(entry.name)
                        if match and entry.is_dir(follow_symlinks=False):
                            found.setdefault(match[1], {})[controller] = entry.path
                            inodes.setdefault(match[1], {})[controller] = entry.inode()
            except OSError as error:
                self._unreadable.add("job_steps", error)
                for known in (each.directory for each in self._groups.values()):
                    match = pattern.match(known.path.removeprefix(f"{job.path}/"))
                    if match and controller in known.groups:
                        path = known.groups[controller]
                        inode = find_inode(path, known.inodes[controller])
                        if inode is not None:
                            found.setdefault(match[1], {})[controller] = path
                            inodes.setdefault(match[1], {})[controller] = inode
        return {
            name: JobDirectory(
                path=f"{job.path}/{STEPS[job.membership.batch_system]}{name}",
                membership=job.membership,
                groups=groups,
                inodes=inodes[name],
            )
            for name, groups in found.items()
        }

    def _sample(self, key: JobKey, name: str, groups: Sequence[JobCgroup]) -> StepSample:
        self._read.add((key, name))
        ledger = self._ledgers.setdefault((key, name), CounterLedger(2, resets=False))
        uses = [(group, *group.read_use()) for group in groups]
        counted: dict[Hashable, CpuTimes | None] = {
            group.directory.cpu_source: cpu for group, cpu, _ in uses if group.counts_cpu
        }
        cpu = ledger.update(counted) if counted else None
        memories = [memory for group, _, memory in uses if group.counts_memory]
        return StepSample(
            step=name,
            user_cpu_secs=None if cpu is None else round(cpu[0], 9),
            system_cpu_secs=None if cpu is None else round(cpu[1], 9),
            memory=compute_memory_sum(memories) if memories else MemoryBytes(),
        )
