"""Which processes are read at a sample: all of the node, or with sums in the kernel a few of jobs."""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.layout.hierarchy import JobDirectory
from jobfeatures_exporter.sampling.processes.attributor import Attributor
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from jobfeatures_exporter.sampling.stages.kernellooks import KernelLooks
from jobfeatures_exporter.sampling.stages.values import LastLook, Listed, ProcessesRead

ALL_AGAIN_LOOKS = 64  # every so many samples all processes are read even if the kernel's sums suffice


class ProcessReading:
    """Reads processes, and what attributing them requires."""

    def __init__(
        self,
        scanner: ProcessScanner,
        attributor: Attributor,
        kernel: KernelLooks | None,
        unreadable: Unreadable,
        *,
        always_all: bool,
    ) -> None:
        self._scanner = scanner
        self._attributor = attributor
        self._kernel = kernel
        self._unreadable = unreadable
        self._always_all = always_all or kernel is None
        self._looks = 0
        self._processes: Mapping[int, ProcessSample] = {}  # of the last complete list

    def begin(self, *, wants_all: bool) -> ProcessesRead | None:
        """Begin a sample; return all processes if these are wanted or due, else None.

        They are read before the control groups: a group made meanwhile is then found, with its processes.
        """
        self._looks += 1
        is_due = self._always_all or self._looks % ALL_AGAIN_LOOKS == 1 or self._attributor.needs_all
        return self._read_all() if wants_all or is_due else None

    def read_sums(self, listed: Listed) -> Mapping[str, Sums]:
        """Return the kernel's sums by the control groups' `cpu_source`; empty without sums in the kernel."""
        if self._kernel is None:
            return {}
        also = [each.directory for those in listed.gone.values() for each in those]
        return self._kernel.sums([*listed.groups.directories, *also])

    def read_due(
        self, listed: Listed, sums: Mapping[str, Sums], jobs: Mapping[JobKey, Job], last: LastLook
    ) -> ProcessesRead:
        """Return the processes of jobs that are due; all of the node if the sums do not suffice."""
        suffices = all(
            each.counts_memory
            and each.directory.cpu_source in sums
            and not each.directory.membership.is_shared
            for each in listed.groups.groups
        )
        named = {key for key, job in jobs.items() if job.processes or job.sessions}
        grouped = {last.key_of.get(each.cpu_source) for each in listed.groups.directories}
        if self._kernel is None or not suffices or not named <= grouped:
            return self._read_all()
        pids = self._kernel.due(listed.groups.directories, lambda each: _is_settled(each, last))
        processes = self._scanner.glance(pids)
        self._attributor.read(processes, are_all=False)
        self._scanner.close()  # its open descriptors only pay off in consecutive samples of all processes
        return ProcessesRead(processes, are_all=False)

    def _read_all(self) -> ProcessesRead:
        try:
            self._processes = self._scanner.scan()
        except OSError as error:  # no process is known to have ended: keep the last list
            self._unreadable.add("process_list", error)
        self._attributor.read(self._processes)
        return ProcessesRead(self._processes, are_all=True)


def _is_settled(directory: JobDirectory, last: LastLook) -> bool:
    """Return whether job and user of a control group are known without reading its processes."""
    key, membership = last.key_of.get(directory.cpu_source), directory.membership
    sample = None if key is None else last.jobs.get(key)
    if key is None or sample is None:
        is_stranger = directory.cpu_source in last.key_of and key is None
        return is_stranger and membership.job_id is not None  # else it gets a job's id with its processes
    has_number = membership.job_id is not None or key.job_id != membership.name
    return has_number and (sample.uid is not None or not sample.processes)
