"""Makes one record per job from control groups, processes and accumulated times.

Its counters never decrease during a run; docs/evidence.md says when another one begins.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from jobfeatures.batch.groups import Membership
from jobfeatures.records.combining import min_known, sum_all
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    Accounting,
    GroupKey,
    JobSample,
    ProcessIo,
    ProcessSample,
    Scheduling,
    UnitKey,
    WorkKey,
)
from jobfeatures_exporter.sampling.bpf.byjob import Figures
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup
from jobfeatures_exporter.sampling.groups.endings import complete, emptied, keep_counts
from jobfeatures_exporter.sampling.groups.ledger import JobLedger
from jobfeatures_exporter.sampling.groups.steps import StepBook
from jobfeatures_exporter.sampling.host.procfs import TICKS_PER_SEC
from jobfeatures_exporter.sampling.layout.hierarchies import name_place
from jobfeatures_exporter.sampling.layout.hierarchy import UNIFIED
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes, compute_memory_sum
from jobfeatures_exporter.sampling.processes.accumulate import CpuTicks
from jobfeatures_exporter.sampling.processes.members import Members
from jobfeatures_exporter.sampling.stages.jobruns import JobRun, JobRuns, path_uids
from jobfeatures_exporter.sampling.stages.values import Attributed, Counted, LastLook, Listed, LookFacts

_NETWORK = Figures._fields.index("received_bytes")
_IO_OF = attrgetter(*ProcessIo._fields)  # `Figures` has fields of the same names
_ASLEEP = frozenset("SIT")  # without those that wait for storage or for a CPU


class JobRecorder:
    """Makes the records of jobs, and drops the state of jobs that have ended."""

    def __init__(self, members: Members, steps: StepBook | None, *, tells_io: bool) -> None:
        self._members = members
        self._tells_io = tells_io
        self.counts_huge_pages = False  # whether a job's huge pages are known by its processes alone
        self._steps = steps
        self._runs = JobRuns(members, steps)
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
        self._runs.forget_others(records.keys())
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
        """Return the record of a job that has control groups, processes, both, or none any more.

        CPU time is what the kernel counted for the job's control groups, else the sum over its processes,
        with that of children that were waited for; the same holds for memory, independently.
        """
        run = self._runs.present(key, cgroups, processes, facts)
        is_frozen = bool(cgroups) and all(not each.has_gone and each.freezing.read() for each in cgroups)
        if run.last is not None and self._stands_still(run, cgroups, processes, io, facts):
            if run.last.is_frozen != is_frozen:
                run.last = replace(run.last, is_frozen=is_frozen)
            return run.last
        heard = facts.heard
        ledger = run.ledger
        figures = [(each, each.read(facts.signs, heard.get(each.directory.cpu_source))) for each in cgroups]
        by_cpu: dict[Hashable, CpuTimes | None] = {
            each.directory.source("cpuacct", UNIFIED): read.cpu for each, read in figures if each.counts_cpu
        }
        run.by_cgroup = run.by_cgroup or bool(by_cpu)
        counted = ledger.cpu.update(by_cpu)
        by_process = None if ticks is None else ledger.ticks.update({"": ticks})
        cpu = _seconds(counted, 1) if run.by_cgroup else _seconds(by_process, TICKS_PER_SEC)
        if cpu is not None:
            run.reported = cpu = run.reported.or_more(cpu)
        counters = ledger.counters.update(
            {
                each.directory.cpu_source: (each.directory, read.counters, each.has_gone)
                for each, read in figures
            },
            facts.other_devices,
        )
        sets = [read.cpus for _, read in figures if read.cpus is not None]
        numbers = None if not sets else sets[0] if len(sets) == 1 else sets[0].union(*sets[1:])
        peaks: dict[bool, dict[str, int | None]] = {True: {}, False: {}}
        for each, read in figures:
            if each.counts_memory:
                peaks[each.has_gone][each.directory.source("memory", UNIFIED)] = read.memory.peak
        for source, peak in peaks[True].items():
            ledger.peak({source: peak})
        memories = [read.memory for each, read in figures if each.counts_memory and not each.has_gone]
        memory = compute_memory_sum(memories) if memories else self._members.memory(processes)
        memory = memory._replace(
            hugetlb=self._huge_pages(memory.hugetlb, cgroups, processes, facts),
            limit=_find_limit(memory, facts.jobs.get(key)),
            peak=ledger.peak(peaks[False]),
        )
        transfers = None if io is None else ledger.process_io.update({"": io})
        reported: dict[str, Any] = {
            "processes": len(processes),
            "threads": sum([process.threads for process in processes]),
            "process_io": None if transfers is None else ProcessIo._make(transfers),
        }
        reported.update(_summed(ledger, cgroups, facts))
        reported["process_io"] = _no_lower(reported["process_io"], run.io) if self._tells_io else None
        run.io = reported["process_io"] or run.io
        memberships = [each.directory.membership for each in cgroups] or self._memberships(processes)
        nodes = {each.node for each in memberships}
        run.place = next((name_place(each.parent) for each in memberships), run.place)
        if memberships:
            is_shared = any(each.is_shared for each in memberships)  # such a name may have an @
            run.own_place = "" if is_shared else key.job_id.partition("@")[2]
        if run.uid is None or (len(cgroups) > 1 and len(path_uids(cgroups)) > 1):
            uid = self._runs.uid(cgroups, processes, facts.sums)
            run.uid = run.uid if uid is None else uid
        sample = JobSample(
            key=key,
            run=run.number,
            accounting=Accounting.CGROUP if run.by_cgroup else Accounting.PROCESSES,
            user_cpu_secs=None if cpu is None else cpu.user_secs,
            system_cpu_secs=None if cpu is None else cpu.system_secs,
            memory=memory,
            uid=run.uid,
            node=nodes.pop() if len(nodes) == 1 else None,
            place=run.own_place or run.place or "",
            alias=next((each.alias for each in memberships if each.alias is not None), None),
            cpus=None if numbers is None else len(numbers),
            cpu_numbers=numbers,
            core_nanosecs=_sum_cores(ledger, cgroups, numbers) if facts.reads_cores and cgroups else {},
            steps=() if self._steps is None else self._steps.read(key, cgroups),
            **reported,
            **counters,
            cgroup=cgroups[0].directory.path if cgroups else None,
            cgroup_version=cgroups[0].directory.version if cgroups else None,
            in_group=bool(memberships),
            is_frozen=is_frozen,
        )
        has_groups = not all(each.has_gone for each in cgroups)
        if run.last is not None and not has_groups:
            sample = keep_counts(sample, run.last)  # its remaining processes have outlived its groups
        if sample.processes:
            run.has_come = run.is_over
        else:
            sample = sample if has_groups else emptied(sample)
            if not run.has_come:
                ledger.mark()
            run.is_over = run.told is not None and key not in facts.jobs
        if cgroups or not sample.processes:
            run.last = sample
        return sample

    def _huge_pages(
        self,
        said: int | None,
        cgroups: Sequence[JobCgroup],
        processes: Sequence[ProcessSample],
        facts: LookFacts,
    ) -> int | None:
        """Return the bytes in huge pages of a job: `said` with its memory, else by other counts of them.

        Several processes may share a page, but no job has more than the node. None: unknown, or the node has
        no huge pages.
        """
        if facts.huge_pages is None:
            return said or None
        in_use = sum(facts.huge_pages.values())
        if said is None and in_use:
            living = [each for each in cgroups if not each.has_gone]
            said = sum_all([each.read_huge_pages(facts.huge_pages) for each in living])
            if said is None:
                self.counts_huge_pages = True
                if not facts.has_all_processes:
                    return None
                said = self._members.memory(processes).hugetlb
        return min(said or 0, in_use)

    def _stands_still(
        self,
        run: JobRun,
        cgroups: Sequence[JobCgroup],
        processes: Sequence[ProcessSample],
        io: ProcessIo | None,
        facts: LookFacts,
    ) -> bool:
        """Return whether none of a job's threads has run since the last sample, nor waits for storage.

        Then nothing has changed except memory that the kernel reclaimed. Without sums in the kernel, the
        states of its processes and unchanged CPU time are the evidence.
        """
        if not cgroups and not processes:
            before, run.seen = run.seen, ()
            return before == ()
        if len(cgroups) != 1 or run.uid is None or self._steps is not None:
            run.seen = None
            return False
        source = cgroups[0].directory.cpu_source
        sums = facts.sums.get(source)
        seen = (source, sums, io, None if sums is not None else processes)
        before, run.seen = run.seen, seen
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

    def _memberships(self, processes: Sequence[ProcessSample]) -> set[Membership]:
        found = (self._members.attributed.get(process.pid) for process in processes)
        return {membership for membership in found if membership is not None}


def _find_limit(memory: MemoryBytes, job: Job | None) -> int | None:
    """Return the limit that a job meets first; one above counts if it leaves less than the job was given."""
    given = None if job is None else job.limits.memory_bytes
    above = memory.limit_above
    if above is not None and isinstance(given, int) and above >= given:
        above = None
    return min_known(memory.limit, above)


def _summed(ledger: JobLedger, cgroups: Sequence[JobCgroup], facts: LookFacts) -> dict[str, Any]:
    """Return the fields from the kernel's sums of a job; none if a control group has no sums."""
    found = ((each, facts.sums.get(each.directory.cpu_source)) for each in cgroups)
    sums = [(each, known) for each, known in found if known is not None]
    row = ledger.done.update({each.directory.cpu_source: known.figures for each, known in sums})
    there = [known for each, known in sums if not each.has_gone]
    if row is None or not sums or len(there) < sum([not each.has_gone for each in cgroups]):
        return {}
    done = Figures._make(row)
    counts = {
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
    if not there:
        return counts
    processes, threads = sum([each.processes for each in there]), sum([each.threads for each in there])
    return {**counts, "processes": processes, "threads": threads}


def _no_lower(now: ProcessIo | None, reported: ProcessIo | None) -> ProcessIo | None:
    """Return the maximum of each figure: the way in which a job's processes are counted may have changed."""
    if now is None or reported is None or now == reported:
        return now
    return ProcessIo(*map(max, now, reported))


def _seconds(row: Sequence[float] | None, per_sec: int) -> CpuTimes | None:
    # Rounded to what the kernel counts: differences of two runs have residues.
    return None if row is None else CpuTimes(round(row[0] / per_sec, 9), round(row[1] / per_sec, 9))


def _sum_cores(
    ledger: JobLedger, cgroups: Sequence[JobCgroup], numbers: frozenset[int] | None
) -> dict[int, int]:
    used = {each.directory.source("cpuacct"): each.read_core_usage() for each in cgroups}
    return {
        cpu: nanosecs for cpu, nanosecs in enumerate(ledger.cores(used)) if numbers is None or cpu in numbers
    }
