"""One look at the node, again and again: processes, control groups and jobs brought together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from exporter.sampling.accumulate import CpuAccumulator, CpuTicks
from exporter.sampling.attribution import Membership, ProcessJobs, compute_epoch
from exporter.sampling.cgroup import JobCgroup, JobCgroups
from exporter.sampling.descriptors import DescriptorBudget, Unreadable
from exporter.sampling.jobbook import JobBook
from exporter.sampling.members import Members
from exporter.sampling.processes import ProcessScanner
from exporter.sampling.procfs import read_node
from exporter.sampling.sluid import SluidResolver
from exporter.snapshot import GroupKey, JobSample, ProcessSample, Snapshot, UnitKey, WorkKey
from jobfeatures.clock import Clock
from jobfeatures.model import Job, JobKey

# Within a sample a process group is its bare number: most processes have no
# job, and a number hashes faster than a record.
_Key = JobKey | UnitKey | int


class Sampler:
    """Takes snapshots of the node. One thread calls `sample`; a snapshot may go to any.

    `jobs` returns the jobs known at the time, for those that name processes or
    sessions. With `node_name`, control groups that name another node (several
    emulated on one host) are ignored, their processes count as without a job;
    else all count, and a job on two of them is summed. `cgroup_root` is the
    path at which the batch systems' control groups begin, other than ``/``
    where the node is itself a container.

    The processes and threads of a job include its slurmstepd, which is in its
    control groups. Memory of a job without control groups is the sum over its
    processes, in which shared pages count once for each.
    """

    def __init__(
        self,
        *,
        procfs: str = "/proc",
        cgroup: str = "/sys/fs/cgroup",
        clock: Clock,
        jobs: Callable[[], Mapping[JobKey, Job]],
        node_name: str | None = None,
        cgroup_root: str = "",
    ) -> None:
        self._procfs = procfs
        self._clock = clock
        self._jobs = jobs
        self._node_name = node_name
        self._unreadable = Unreadable()
        budget = DescriptorBudget()
        self._scanner = ProcessScanner(procfs, budget=budget, unreadable=self._unreadable)
        self._cgroups = JobCgroups(cgroup, budget, self._unreadable, prefix=cgroup_root)
        self._members = Members(procfs, self._unreadable, root=cgroup_root)
        self._process_jobs = ProcessJobs()
        self._sluids = SluidResolver(procfs, self._unreadable)
        self._accumulator: CpuAccumulator[_Key] = CpuAccumulator()
        self._book = JobBook(self._members)
        self._processes: Mapping[int, ProcessSample] = {}
        self._epoch: int | None = None

    def sample(self) -> Snapshot:
        """Take one look at the node. What cannot be read is left out and counted."""
        taken_at_secs, started_secs = self._clock.now_secs(), self._clock.monotonic_secs()
        node = read_node(self._procfs, self._unreadable)
        if self._epoch is None and node.boot_time_secs is not None:
            # Once only: the kernel derives the boot time from the clock, and groups must keep their names.
            self._epoch = compute_epoch(node.boot_time_secs)
        processes = self._scan()
        self._members.update(processes)
        self._cgroups.update(self._is_here)
        keys, jobs = self._attribute(processes)
        return Snapshot(
            taken_at_secs=taken_at_secs,
            duration_secs=self._clock.monotonic_secs() - started_secs,
            node=node,
            jobs=jobs,
            processes=processes,
            keys=keys,
            epoch=self._epoch,
            unreadable=dict(self._unreadable.counts),
        )

    def close(self) -> None:
        """Close all descriptors."""
        self._scanner.close()
        self._cgroups.close()

    def _scan(self) -> Mapping[int, ProcessSample]:
        try:
            self._processes = self._scanner.scan()
        except OSError as error:  # nothing is known to have ended: what was there stays
            self._unreadable.add("process_list", error)
        return self._processes

    def _is_here(self, membership: Membership) -> bool:
        return self._node_name is None or membership.node in {None, self._node_name}

    def _attribute(
        self, processes: Mapping[int, ProcessSample]
    ) -> tuple[dict[int, _Key], dict[WorkKey, JobSample]]:
        """Return whose each process is, and what each job and each process group without one uses."""
        batch = {pid: each for pid, each in self._members.attributed.items() if self._is_here(each)}
        numbers = self._resolve_sluids(batch, processes)
        keys: dict[int, _Key] = {}
        if self._epoch is not None:
            keys = {pid: process.pgid for pid, process in processes.items()}
        keys.update(self._process_jobs.update(processes, self._jobs()))
        for pid, membership in batch.items():
            keys[pid] = _job_key(membership, numbers)
        cgroups: dict[JobKey, list[JobCgroup]] = {}
        for cgroup in self._cgroups:
            cgroups.setdefault(_job_key(cgroup.directory.membership, numbers), []).append(cgroup)
        members: dict[_Key, list[ProcessSample]] = {}
        for pid, key in keys.items():
            members.setdefault(key, []).append(processes[pid])
        return keys, self._records(members, cgroups, self._accumulator.update(processes, keys))

    def _resolve_sluids(
        self, batch: Mapping[int, Membership], processes: Mapping[int, ProcessSample]
    ) -> Mapping[str, str]:
        directories = [cgroup.directory.membership for cgroup in self._cgroups]
        by_sluid: dict[str, list[ProcessSample]] = {
            each.sluid: [] for each in directories if each.sluid is not None
        }
        for pid, membership in batch.items():
            if membership.sluid is not None:
                by_sluid.setdefault(membership.sluid, []).append(processes[pid])
        numbered = {each.job_id for each in directories if each.job_id is not None}
        return self._sluids.update(by_sluid, numbered)

    def _records(
        self,
        members: Mapping[_Key, Sequence[ProcessSample]],
        cgroups: Mapping[JobKey, Sequence[JobCgroup]],
        ticks: Mapping[_Key, CpuTicks],
    ) -> dict[WorkKey, JobSample]:
        records: dict[WorkKey, JobSample] = {}
        for key in [*cgroups, *(each for each in members if each not in cgroups)]:
            if isinstance(key, JobKey):
                records[key] = self._book.job(key, cgroups.get(key, ()), members.get(key, ()), ticks.get(key))
            elif isinstance(key, UnitKey):
                records[key] = self._book.unit(key, members[key], ticks[key])
            elif self._epoch is not None:
                group = GroupKey(key, self._epoch)
                records[group] = self._book.unit(group, members[key], ticks[key])
        self._book.forget_others(records.keys())
        return records


def _job_key(membership: Membership, numbers: Mapping[str, str]) -> JobKey:
    """Return the identity of a job; a SLUID stands for itself until its number is known."""
    if membership.job_id is not None:
        return JobKey(membership.batch_system, membership.job_id)
    sluid = membership.sluid or ""
    return JobKey(membership.batch_system, numbers.get(sluid, sluid))
