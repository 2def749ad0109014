"""Reads steps of jobs, if the batch system gives each step a control group of its own below the job's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.layout.hierarchies import STEPS
from jobfeatures_exporter.sampling.layout.hierarchy import find_inode
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, JobDirectory

_PATTERNS = {
    system: re.compile(rf"{steps}([A-Za-z0-9_.+-]{{1,64}})\Z") for system, steps in STEPS.items() if steps
}
_CONTROLLERS = ("cpuacct", "memory", UNIFIED)


class StepReader:
    """Reads the steps of jobs. At each sample, call `read` for each job, then `forget_others`."""

    def __init__(self, budget: DescriptorBudget, unreadable: Unreadable) -> None:
        self._budget = budget
        self._unreadable = unreadable
        self._groups: dict[str, JobCgroup] = {}  # by path
        self._read: set[str] = set()  # paths of the steps in this sample

    def forget_others(self) -> None:
        """Forget all steps that `read` has not read since the last call of `forget_others`."""
        for path in self._groups.keys() - self._read:
            self._groups.pop(path).close()
        self._read.clear()

    def read(self, jobs: Sequence[JobDirectory]) -> Mapping[str, Sequence[tuple[JobDirectory, GroupFigures]]]:
        """Return the groups of each step by the step's name, each with its CPU time and memory.

        `jobs` are the control groups of one job.
        """
        steps: dict[str, list[tuple[JobDirectory, GroupFigures]]] = {}
        for job in jobs:
            for name, directory in self._find(job).items():
                self._read.add(directory.path)
                group = self._groups.get(directory.path)
                if group is None or group.directory != directory:
                    if group is not None:
                        group.close()
                    group = JobCgroup(directory, self._budget, self._unreadable)
                    self._groups[directory.path] = group
                cpu, memory = group.read_use()
                steps.setdefault(name, []).append((group.directory, GroupFigures(memory, cpu)))
        return dict(sorted(steps.items()))

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
