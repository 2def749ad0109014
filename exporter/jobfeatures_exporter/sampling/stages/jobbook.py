"""Makes a record of each job from its control groups, its processes and their totals. No I/O.

Counters never decrease within a run of a job; docs/evidence.md says when a run begins.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from jobfeatures.batch.groups import Membership
from jobfeatures.records.combining import min_known
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    FigureSource,
    GroupKey,
    JobSample,
    ProcessIo,
    ProcessSample,
    Scheduling,
    StepSample,
    UnitKey,
    WorkKey,
)
from jobfeatures_exporter.sampling.bpf.byjob import TaskUsage
from jobfeatures_exporter.sampling.groups.endings import complete, emptied, keep_counts
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.ledger import CounterLedger, JobLedger
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC
from jobfeatures_exporter.sampling.layout.hierarchies import name_place
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, JobDirectory
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes, compute_memory_sum
from jobfeatures_exporter.sampling.processes.accumulate import CpuTicks
from jobfeatures_exporter.sampling.processes.attribution import Owners
from jobfeatures_exporter.sampling.stages.jobruns import JobRuns, find_uid, path_uids
from jobfeatures_exporter.sampling.stages.values import (
    Attributed,
    GroupReading,
    JobReading,
    LastSample,
    NodeReading,
    ProcessTotals,
    Readings,
)

_OF_PROCESSES = ("processes", "threads", "process_io", "scheduling", "network")  # fields of `JobSample`
_NETWORK = TaskUsage._fields.index("received_bytes")
_IO_OF = attrgetter(*ProcessIo._fields)  # `TaskUsage` has fields of the same names


class JobRecorder:
    """Makes the records of jobs from what was read, and forgets jobs that have ended."""

    def __init__(self, *, tells_io: bool, tells_network: bool) -> None:
        self._tells_io, self._tells_network = tells_io, tells_network
        self._runs = JobRuns()
        self._units: dict[UnitKey | GroupKey, tuple[CpuTicks, JobSample]] = {}

    def records(
        self,
        found: Attributed,
        counted: ProcessTotals,
        readings: Readings,
        node: NodeReading,
        jobs: Mapping[JobKey, Job],
        last: LastSample,
    ) -> tuple[Mapping[WorkKey, JobSample], Mapping[JobKey, JobSample]]:
        """Return the record of each job, unit and process group, and the final records of ended jobs.

        `jobs` are those that batch systems report to be on this node.
        """
        final: dict[JobKey, JobSample] = {}
        for key, reading in readings.ended.items():
            if (before := last.jobs.get(key)) is not None:
                final[key] = complete(before, self.job(key, reading, found, counted, node, jobs.get(key)))
        records: dict[WorkKey, JobSample] = {
            key: self.job(key, reading, found, counted, node, jobs.get(key))
            for key, reading in readings.jobs.items()
        }
        known, self._units = self._units, {}
        for unit, memory in readings.memory.items():
            own = unit if isinstance(unit, UnitKey) else unit.pgid
            processes, ticks = found.members[own], counted.ticks[own]
            record = _make_unit(unit, processes, ticks, memory, found.owners, known.get(unit))
            records[unit] = record
            self._units[unit] = ticks, record
        self._runs.forget_others(records.keys())
        return records, final

    def job(
        self,
        key: JobKey,
        reading: JobReading,
        found: Attributed,
        counted: ProcessTotals,
        node: NodeReading,
        job: Job | None,
    ) -> JobSample:
        """Return the record of a job, which may have control groups, processes, both, or none any more.

        CPU time is what the kernel counts for its groups, else the sum over its processes and the children
        that were waited for. The same holds, independently, for memory.
        """
        groups, processes = reading.groups, found.members.get(key, ())
        run = self._runs.present(key, reading, processes, found.owners, job)
        if run.last is not None and reading.is_still:
            if run.last.is_frozen != reading.is_frozen:
                run.last = replace(run.last, is_frozen=reading.is_frozen)
            return run.last
        ledger = run.ledger
        by_cpu: dict[Hashable, CpuTimes | None] = {
            each.directory.source("cpuacct", UNIFIED): each.figures.cpu
            for each in groups
            if each.directory.counts_cpu or each.figures.cpu is not None  # read before a removal
        }
        run.by_cgroup = run.by_cgroup or bool(by_cpu)
        by_group = ledger.cpu.update(by_cpu)
        ticks, io = counted.ticks.get(key), counted.io.get(key)
        by_process = None if ticks is None else ledger.ticks.update({"": ticks})
        cpu = _seconds(by_group, 1) if run.by_cgroup else _seconds(by_process, TICKS_PER_SEC)
        if cpu is not None:
            run.reported = cpu = run.reported.or_more(cpu)
        counters = ledger.counters.update(
            {
                each.directory.unique_name: (each.directory, each.figures.counters, each.has_gone)
                for each in groups
            },
            node.other_devices,
        )
        sets = [each.figures.cpus for each in groups if each.figures.cpus is not None]
        numbers = None if not sets else sets[0] if len(sets) == 1 else sets[0].union(*sets[1:])
        transfers = None if io is None else ledger.process_io.update({"": io})
        reported: dict[str, Any] = {
            "processes": len(processes),
            "threads": sum([process.threads for process in processes]),
            "process_io": None if transfers is None else ProcessIo._make(transfers),
        }
        reported.update(_summed(ledger, groups, tells_network=self._tells_network))
        reported["process_io"] = _no_lower(reported["process_io"], run.io) if self._tells_io else None
        if reading.hides_processes:
            reported.update(dict.fromkeys(_OF_PROCESSES))
        run.io = reported["process_io"] or run.io
        memberships = [each.directory.membership for each in groups] or _memberships(processes, found.owners)
        nodes = {each.node for each in memberships}
        run.place = next((name_place(each.parent) for each in memberships), run.place)
        if memberships:
            is_shared = any(each.is_shared for each in memberships)  # such a name may have an @
            run.own_place = "" if is_shared else key.job_id.partition("@")[2]
        if run.uid is None or (len(groups) > 1 and len(path_uids(groups)) > 1):
            uid = find_uid(groups, processes, found.owners)
            run.uid = run.uid if uid is None else uid
        sample = JobSample(
            key=key,
            run=run.number,
            accounting=FigureSource.CGROUP if run.by_cgroup else FigureSource.PROCESSES,
            user_cpu_secs=None if cpu is None else cpu.user_secs,
            system_cpu_secs=None if cpu is None else cpu.system_secs,
            memory=_find_memory(ledger, reading, job),
            uid=run.uid,
            node=nodes.pop() if len(nodes) == 1 else None,
            place=run.own_place or run.place or "",
            alias=next((each.alias for each in memberships if each.alias is not None), None),
            cpus=None if numbers is None else len(numbers),
            cpu_numbers=numbers,
            core_nanosecs=_sum_cores(ledger, groups, numbers),
            steps=make_steps(ledger, reading.steps),
            **reported,
            **counters,
            cgroup=groups[0].directory.path if groups else None,
            cgroup_version=groups[0].directory.version if groups else None,
            in_group=bool(memberships),
            is_frozen=reading.is_frozen,
        )
        has_groups = not all(each.has_gone for each in groups)
        if run.last is not None and not has_groups:
            sample = keep_counts(sample, run.last)  # its remaining processes have outlived its groups
        if sample.processes:
            run.has_come = run.is_over
        else:
            sample = sample if has_groups else emptied(sample)
            if not run.has_come:
                ledger.mark()
            run.is_over = run.known is not None and job is None
        if groups or not sample.processes:
            run.last = sample
        return sample


def _make_unit(
    key: UnitKey | GroupKey,
    processes: Sequence[ProcessSample],
    ticks: CpuTicks,
    memory: MemoryBytes,
    owners: Owners,
    last: tuple[CpuTicks, JobSample] | None,
) -> JobSample:
    """Return the record of processes without a job; the `last` one if nothing has changed."""
    uid = owners.uids.get(processes[0].pid)
    if last is not None and last[0] is ticks and last[1].memory is memory and last[1].uid == uid:
        return last[1]
    return JobSample(
        key=key,
        accounting=FigureSource.PROCESSES,
        user_cpu_secs=ticks.user / TICKS_PER_SEC,
        system_cpu_secs=ticks.system / TICKS_PER_SEC,
        memory=memory,
        processes=len(processes),
        threads=sum(process.threads for process in processes),
        uid=uid,
    )


def _memberships(processes: Sequence[ProcessSample], owners: Owners) -> set[Membership]:
    found = (owners.memberships.get(process.pid) for process in processes)
    return {membership for membership in found if membership is not None}


def _find_memory(ledger: JobLedger, reading: JobReading, job: Job | None) -> MemoryBytes:
    """Return the memory of a job, with the limit that it meets first and the peak of its run."""
    peaks: dict[bool, dict[str, int | None]] = {True: {}, False: {}}
    for each in reading.groups:
        if each.directory.counts_memory or each.figures.memory.peak is not None:  # likewise
            peaks[each.has_gone][each.directory.source("memory", UNIFIED)] = each.figures.memory.peak
    for source, highest in peaks[True].items():
        ledger.peak({source: highest})
    memory, limit, peak = reading.memory, _find_limit(reading.memory, job), ledger.peak(peaks[False])
    if (limit, peak) == (memory.limit, memory.peak):
        return memory
    return memory._replace(limit=limit, peak=peak)


def make_steps(
    ledger: JobLedger, steps: Mapping[str, Sequence[tuple[JobDirectory, GroupFigures]]]
) -> tuple[StepSample, ...]:
    """Return what each step of a job has used, summed over the control groups of the step."""
    ledgers = ledger.steps(steps)
    return tuple(_make_step(name, groups, ledgers[name]) for name, groups in steps.items())


def _make_step(
    name: str, groups: Sequence[tuple[JobDirectory, GroupFigures]], ledger: CounterLedger
) -> StepSample:
    counted: dict[Hashable, CpuTimes | None] = {
        group.unique_name: figures.cpu for group, figures in groups if group.counts_cpu
    }
    cpu = _seconds(ledger.update(counted), 1) if counted else None
    memories = [figures.memory for group, figures in groups if group.counts_memory]
    return StepSample(
        step=name,
        user_cpu_secs=None if cpu is None else cpu.user_secs,
        system_cpu_secs=None if cpu is None else cpu.system_secs,
        memory=compute_memory_sum(memories) if memories else MemoryBytes(),
    )


def _find_limit(memory: MemoryBytes, job: Job | None) -> int | None:
    """Return the limit that a job meets first; one above counts if it leaves less than the job was given."""
    given = None if job is None else job.limits.memory_bytes
    above = memory.limit_above
    if above is not None and isinstance(given, int) and above >= given:
        above = None
    return min_known(memory.limit, above)


def _summed(ledger: JobLedger, groups: Sequence[GroupReading], *, tells_network: bool) -> dict[str, Any]:
    """Return the fields from the kernel's sums of a job; none if a control group has no sums."""
    sums = [(each, each.sums) for each in groups if each.sums is not None]
    row = ledger.done.update({each.directory.unique_name: known.figures for each, known in sums})
    there = [known for each, known in sums if not each.has_gone]
    if row is None or not sums or len(there) < sum([not each.has_gone for each in groups]):
        return {}
    done = TaskUsage._make(row)
    counts = {
        "process_io": ProcessIo._make(_IO_OF(done)),
        "network": row[_NETWORK:] if tells_network else None,
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
    ledger: JobLedger, groups: Sequence[GroupReading], numbers: frozenset[int] | None
) -> dict[int, int]:
    if all(each.core_nanosecs is None for each in groups):
        return {}
    used = {each.directory.source("cpuacct"): each.core_nanosecs or () for each in groups}
    return {
        cpu: nanosecs for cpu, nanosecs in enumerate(ledger.cores(used)) if numbers is None or cpu in numbers
    }
