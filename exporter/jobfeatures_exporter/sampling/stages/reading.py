"""Chooses and reads the processes of a sample: all of the node or, if eBPF sums what jobs use, only a few."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from jobfeatures.batch.processes import ActiveJob, JobProcesses
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from jobfeatures_exporter.sampling.processes.members import Members
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from jobfeatures_exporter.sampling.stages.kernelsampler import KernelSampler
from jobfeatures_exporter.sampling.stages.values import LastSample, ListedGroups, ProcessesRead

ALL_AGAIN_SAMPLES = 64  # every so many samples all processes are read even if the kernel's sums suffice


class ProcessReading:
    """Reads processes, and what is needed to attribute them to jobs.

    `finders` read batch systems' own files, which name jobs.
    """

    def __init__(
        self,
        scanner: ProcessScanner,
        members: Members,
        finders: Collection[JobProcesses],
        kernel: KernelSampler | None,
        unreadable: Unreadable,
        *,
        always_all: bool,
    ) -> None:
        self._scanner = scanner
        self._members = members
        self._finders = finders
        self._kernel = kernel
        self._unreadable = unreadable
        self._always_all = always_all or kernel is None
        self._samples = 0
        self._processes: Mapping[int, ProcessSample] = {}  # of the last complete list
        self._active: Mapping[JobKey, ActiveJob] = MappingProxyType({})  # likewise

    @property
    def needs_all(self) -> bool:
        """Return whether this node has a batch system whose jobs can only be found among all processes."""
        return any(each.is_here for each in self._finders)

    def read_all(self, *, is_wanted: bool) -> ProcessesRead | None:
        """Begin a sample; return all processes of the node if they are wanted or due, else None.

        They are read before the control groups, so that the group of each process read is in the list of
        groups.
        """
        self._samples += 1
        is_due = self._always_all or self._samples % ALL_AGAIN_SAMPLES == 1 or self.needs_all
        return self._read_all() if is_wanted or is_due else None

    def read_sums(self, listed: ListedGroups) -> Mapping[str, Sums]:
        """Return eBPF's sums of jobs' control groups by `JobDirectory.unique_name`; empty without eBPF."""
        if self._kernel is None:
            return {}
        also = [each for those in listed.gone.values() for each in those]
        return self._kernel.sums([*listed.groups.directories, *also])

    def read_due(
        self, listed: ListedGroups, sums: Mapping[str, Sums], jobs: Mapping[JobKey, Job], last: LastSample
    ) -> ProcessesRead:
        """Return the jobs' processes due in this sample; all of the node if `sums` do not suffice."""
        directories = listed.groups.directories
        suffices = all(
            each.counts_memory and each.unique_name in sums and not each.membership.is_shared
            for each in directories
        )
        named = {key for key, job in jobs.items() if job.processes or job.sessions}
        grouped = {last.key_of.get(each.unique_name) for each in directories}
        if self._kernel is None or not suffices or not named <= grouped:
            return self._read_all()
        processes = self._scanner.glance(self._kernel.due(directories, lambda each: _is_settled(each, last)))
        self._scanner.close()  # its open descriptors only pay off in consecutive samples of all processes
        return self._with_owners(processes, are_all=False)

    def _read_all(self) -> ProcessesRead:
        try:
            self._processes = self._scanner.scan()
        except OSError as error:  # no process is known to have ended: keep the last list
            self._unreadable.add("process_list", error)
        self._active = {}
        for finder in self._finders:
            self._active = {**self._active, **finder.update(self._processes)}
        return self._with_owners(self._processes, are_all=True)

    def _with_owners(self, processes: Mapping[int, ProcessSample], *, are_all: bool) -> ProcessesRead:
        owners = self._members.update(processes, are_all=are_all, groups=self.needs_all)
        return ProcessesRead(processes, are_all, owners._replace(active=self._active))


def _is_settled(directory: JobDirectory, last: LastSample) -> bool:
    """Return whether job and user of a control group are known without reading its processes."""
    key, membership = last.key_of.get(directory.unique_name), directory.membership
    sample = None if key is None else last.jobs.get(key)
    if key is None or sample is None:
        is_ignored = directory.unique_name in last.key_of and key is None
        return is_ignored and membership.job_id is not None  # else it gets a job's id with its processes
    has_number = membership.job_id is not None or key.job_id != membership.name
    return has_number and (sample.uid is not None or not sample.processes)
