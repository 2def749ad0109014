"""Makes one record per job from control groups, processes and accumulated times; keeps counters monotonic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.bpf.byjob import Figures, Sums
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup
from jobfeatures_exporter.sampling.groups.cgroupfiles import compute_memory_sum
from jobfeatures_exporter.sampling.groups.endings import SHEPHERD_COMMANDS, complete, keep_counts
from jobfeatures_exporter.sampling.groups.steps import StepBook
from jobfeatures_exporter.sampling.host.procfs import TICKS_PER_SEC
from jobfeatures_exporter.sampling.ledger import CounterLedger, JobCounters
from jobfeatures_exporter.sampling.processes.accumulate import NO_CPU_TIME, CpuLedger, CpuTicks, CpuTimes
from jobfeatures_exporter.sampling.processes.members import Members
from jobfeatures_exporter.sampling.values import Attributed, Counted, LastLook, Listed, LookFacts
from jobfeatures_exporter.snapshot import (
    Accounting,
    GroupKey,
    JobSample,
    ProcessIo,
    ProcessSample,
    Scheduling,
    UnitKey,
    WorkKey,
)

EXTERN_STEP = "extern"
_NETWORK = Figures._fields.index("received_bytes")
_IO_OF = attrgetter(*ProcessIo._fields)  # `Figures` has fields of the same names
_ASLEEP = frozenset("SIT")  # without those that wait for storage or for a CPU


class _State:
    __slots__ = ("by_cgroup", "counters", "done", "io", "last", "ledger", "owner", "reported", "seen", "uid")

    def __init__(self) -> None:
        self.owner: str | int | None = None  # SLUID or uid in the control group's path
        self.counters = JobCounters()
        self.done = CounterLedger(len(Figures._fields))
        self.io: ProcessIo | None = None
        self.ledger = CpuLedger()
        self.by_cgroup = False  # once the kernel has counted CPU time for the job, always True
        self.reported = NO_CPU_TIME
        self.uid: int | None = None
        self.last: JobSample | None = None  # the last record made with control groups
        self.seen: tuple[object, ...] | None = None  # what `_stands_still` compares


class JobRecorder:
    """Makes the records of jobs, and drops the state of jobs that have ended."""

    def __init__(self, members: Members, steps: StepBook | None, *, tells_io: bool) -> None:
        self._members = members
        self._tells_io = tells_io
        self._steps = steps
        self._states: dict[JobKey, _State] = {}
        self._units: dict[UnitKey | GroupKey, tuple[CpuTicks, JobSample, Sequence[ProcessSample]]] = {}

    def records(
        self,
        found: Attributed,
        counted: Counted,
        listed: Listed,
        last: LastLook,
        facts: LookFacts,
        epoch: int | None,
    ) -> tuple[Mapping[WorkKey, JobSample], Mapping[JobKey, JobSample]]:
        """Return the record of each job, unit and process group, and the final ones of jobs that have ended.

        Without `epoch` process groups have no records.
        """
        groups, members, ticks = dict(found.groups), found.members, counted.ticks
        final: dict[JobKey, JobSample] = {}
        for job, gone in listed.gone.items():
            if job in groups or job in members:
                groups[job] = [*groups.get(job, ()), *gone]
            elif (before := last.jobs.get(job)) is not None:
                final[job] = complete(before, self.job(job, gone, (), None, None, facts))
        records: dict[WorkKey, JobSample] = {}
        for key in [*groups, *(each for each in members if each not in groups)]:
            if isinstance(key, JobKey):
                of_job = groups.get(key, ()), members.get(key, ())
                records[key] = self.job(key, *of_job, ticks.get(key), counted.io.get(key), facts)
            elif isinstance(key, UnitKey):
                records[key] = self.unit(key, members[key], ticks[key])
            elif epoch is not None:
                group = GroupKey(key, epoch)
                records[group] = self.unit(group, members[key], ticks[key])
        if self._steps is not None:
            self._steps.forget_others()
        for ended in self._states.keys() - records.keys():
            del self._states[ended]
        for over in self._units.keys() - records.keys():
            del self._units[over]
        return records, final

    def job(
        self,
        key: JobKey,
        cgroups: Sequence[JobCgroup],
        processes: Sequence[ProcessSample],
        ticks: CpuTicks | None,
        io: ProcessIo | None,
        facts: LookFacts,
    ) -> JobSample:
        """Return the record of a job that has control groups, processes or both.

        CPU time is what the kernel counted for the job's control groups, else the sum over its processes,
        with that of children that were waited for; the same holds for memory, independently.
        """
        state = self._state(key, cgroups, processes, facts)
        if state.last is not None and self._stands_still(state, cgroups, processes, io, facts):
            return state.last
        heard = facts.heard
        figures = [(each, each.read(facts.signs, heard.get(each.directory.cpu_source))) for each in cgroups]
        by_cpu = {each.directory.cpu_source: read.cpu for each, read in figures if each.counts_cpu}
        counted = state.ledger.update(by_cpu)
        state.by_cgroup = state.by_cgroup or bool(by_cpu)
        cpu = counted if state.by_cgroup else _seconds(ticks)
        if cpu is not None:
            state.reported = cpu = state.reported.or_more(cpu)
        counters = state.counters.update(
            {each.directory.cpu_source: read.counters for each, read in figures}, facts.other_devices
        )
        sets = [read.cpus for _, read in figures if read.cpus is not None]
        numbers = None if not sets else sets[0] if len(sets) == 1 else sets[0].union(*sets[1:])
        memories = [read.memory for each, read in figures if each.counts_memory and not each.has_gone]
        peaks = [read.memory.peak for each, read in figures if each.has_gone and read.memory.peak]
        memory = compute_memory_sum(memories) if memories else self._members.memory(processes)
        if peaks:
            memory = memory._replace(peak=max(memory.peak or 0, *peaks))
        reported: dict[str, Any] = {
            "processes": len(processes),
            "threads": sum([process.threads for process in processes]),
            "process_io": io,
        }
        if facts.sums and cgroups:
            reported.update(_summed(state, cgroups, facts))
        reported["process_io"] = _no_lower(reported["process_io"], state.io) if self._tells_io else None
        state.io = reported["process_io"] or state.io
        memberships = [each.directory.membership for each in cgroups] or self._memberships(processes)
        nodes = {each.node for each in memberships}
        if state.uid is None or (len(cgroups) > 1 and len(_path_uids(cgroups)) > 1):
            uid = self._uid(cgroups, processes, facts.sums)
            state.uid = state.uid if uid is None else uid
        sample = JobSample(
            key=key,
            accounting=Accounting.CGROUP if state.by_cgroup else Accounting.PROCESSES,
            user_cpu_secs=None if cpu is None else cpu.user_secs,
            system_cpu_secs=None if cpu is None else cpu.system_secs,
            memory=memory,
            uid=state.uid,
            node=nodes.pop() if len(nodes) == 1 else None,
            sluid=next((each.sluid for each in memberships if each.sluid is not None), None),
            slot=next((each.slot for each in memberships if each.slot is not None), None),
            cpus=None if numbers is None else len(numbers),
            cpu_numbers=numbers,
            core_nanosecs=_sum_cores(cgroups, numbers) if facts.reads_cores else {},
            steps=() if self._steps is None else self._steps.read(key, cgroups),
            **reported,
            **counters,
            cgroup=cgroups[0].directory.path if cgroups else None,
            cgroup_version=cgroups[0].directory.version if cgroups else None,
            in_group=bool(memberships),
        )
        if state.last is not None and all(each.has_gone for each in cgroups):
            sample = keep_counts(sample, state.last)  # its remaining processes have outlived its groups
        if cgroups:
            state.last = sample
        return sample

    def _state(
        self, key: JobKey, cgroups: Sequence[JobCgroup], processes: Sequence[ProcessSample], facts: LookFacts
    ) -> _State:
        """Return the state of a job; a new one if the id was another user's or another run's before."""
        named = (each.directory.membership for each in cgroups)
        owner = next((found for each in named if (found := each.sluid or each.uid) is not None), None)
        state = self._states.get(key)
        is_other = state is not None and owner is not None and state.owner not in {None, owner}
        if state is not None and state.uid and state.last is not None and not state.last.processes:
            # Its group was empty before, so it may have been reused for another user's job.
            is_other = is_other or (self._uid(cgroups, processes, facts.sums) or state.uid) != state.uid
        if state is None or is_other:
            if state is not None and self._steps is not None:
                self._steps.forget(key)
            state = self._states[key] = _State()
        state.owner = owner if state.owner is None else state.owner
        return state

    def _stands_still(
        self,
        state: _State,
        cgroups: Sequence[JobCgroup],
        processes: Sequence[ProcessSample],
        io: ProcessIo | None,
        facts: LookFacts,
    ) -> bool:
        """Return whether none of a job's threads has run since the last sample, nor waits for storage.

        Then nothing has changed except memory that the kernel reclaimed. Without sums in the kernel, the
        states of its processes and unchanged CPU time are the evidence.
        """
        if len(cgroups) != 1 or state.uid is None or self._steps is not None:
            state.seen = None
            return False
        source = cgroups[0].directory.cpu_source
        sums = facts.sums.get(source)
        seen = (source, sums, io, None if sums is not None else processes)
        before, state.seen = state.seen, seen
        if seen != before or source in facts.heard:
            return False
        if sums is not None:
            return not (sums.running or sums.blocked) and cgroups[0].stands_still(cpu=False)
        sleep = all(each.threads == 1 and each.state in _ASLEEP for each in processes)
        return sleep and bool(processes) and cgroups[0].stands_still(cpu=True)

    def unit(self, key: UnitKey | GroupKey, processes: Sequence[ProcessSample], ticks: CpuTicks) -> JobSample:
        """Return the record of processes without a job; the same object if nothing has changed."""
        uid = self._members.uid(processes[0].pid)
        last = self._units.get(key)
        if last is not None and last[0] is ticks and last[1].uid == uid and last[2] == processes:
            return last[1]
        record = JobSample(
            key=key,
            accounting=Accounting.PROCESSES,
            user_cpu_secs=ticks.user / TICKS_PER_SEC,
            system_cpu_secs=ticks.system / TICKS_PER_SEC,
            memory=self._members.memory(processes),
            processes=len(processes),
            threads=sum(process.threads for process in processes),
            uid=uid,
        )
        if self._members.memory_failed:
            self._units.pop(key, None)
        else:
            self._units[key] = (ticks, record, processes)
        return record

    def _uid(
        self, cgroups: Sequence[JobCgroup], processes: Sequence[ProcessSample], summed: Mapping[str, Sums]
    ) -> int | None:
        """Return the uid of a job's user, from its groups' paths if these agree, else from its processes."""
        uids = _path_uids(cgroups)
        if len(uids) == 1 and (uid := uids.pop()) is not None:
            return uid
        for each in cgroups:
            sums = summed.get(each.directory.cpu_source)
            if sums is not None and sums.user is not None:
                return sums.user
        owners = set()
        for process in processes:
            membership = self._members.attributed.get(process.pid)
            if membership is not None and membership.uid is not None:
                return membership.uid
            if process.command in SHEPHERD_COMMANDS:
                continue
            owner = self._members.uid(process.pid)
            if owner:  # not root: any job may run set-user-ID programs
                return owner
            if membership is None or membership.step != EXTERN_STEP:
                owners.add(owner)
        return 0 if 0 in owners else None

    def _memberships(self, processes: Sequence[ProcessSample]) -> set[Membership]:
        found = (self._members.attributed.get(process.pid) for process in processes)
        return {membership for membership in found if membership is not None}


def _summed(state: _State, cgroups: Sequence[JobCgroup], facts: LookFacts) -> dict[str, Any]:
    """Return the fields from the kernel's sums of a job; none if a control group has no sums."""
    living = [each.directory.cpu_source for each in cgroups if not each.has_gone]
    sums = {
        source: found
        for source in (each.directory.cpu_source for each in cgroups)
        if (found := facts.sums.get(source)) is not None
    }
    row = state.done.update({source: each.figures for source, each in sums.items()})
    if row is None or any(source not in sums for source in living):
        return {}
    done, there = Figures._make(row), [sums[source] for source in living]
    return {
        "processes": sum([each.processes for each in there]),
        "threads": sum([each.threads for each in there]),
        "process_io": ProcessIo._make(_IO_OF(done)),
        "network": row[_NETWORK:] if facts.counts_network else None,
        "scheduling": Scheduling(
            waiting_secs=done.waiting / 1e9,
            major_faults=done.major_faults,
            voluntary_switches=done.voluntary_switches,
            involuntary_switches=done.involuntary_switches,
            running=sum([each.running for each in there]),
            blocked=sum([each.blocked for each in there]),
        ),
    }


def _path_uids(cgroups: Sequence[JobCgroup]) -> set[int | None]:
    return {each.directory.membership.uid for each in cgroups}


def _no_lower(now: ProcessIo | None, reported: ProcessIo | None) -> ProcessIo | None:
    """Return the maximum of each figure: the way in which a job's processes are counted may have changed."""
    if now is None or reported is None or now == reported:
        return now
    return ProcessIo(*map(max, now, reported))


def _seconds(ticks: CpuTicks | None) -> CpuTimes | None:
    if ticks is None:
        return None
    return CpuTimes(ticks.user / TICKS_PER_SEC, ticks.system / TICKS_PER_SEC)


def _sum_cores(cgroups: Sequence[JobCgroup], numbers: frozenset[int] | None) -> dict[int, int]:
    used: dict[int, int] = {}
    for cgroup in cgroups:
        for cpu, nanosecs in enumerate(cgroup.read_core_usage()):
            if numbers is None or cpu in numbers:
                used[cpu] = used.get(cpu, 0) + nanosecs
    return used
