from dataclasses import replace

from jobfeatures.records.model import Alias, JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    BlockIo,
    FigureSource,
    JobSample,
    ProcessSample,
    Scheduling,
    StepSample,
)
from jobfeatures_exporter.sampling.groups.endings import complete, emptied, find_first_processes, keep_counts

KEY, OTHER = JobKey("slurm", "1"), JobKey("slurm", "2")


def process(pid, ppid, command="x", state="S"):
    return ProcessSample(
        pid=pid, ppid=ppid, pgid=pid, session=pid, start_ticks=1, command=command, state=state, user_ticks=0,
        system_ticks=0, children_user_ticks=0, children_system_ticks=0, threads=1, resident_bytes=0,
        virtual_bytes=0,
    )  # fmt: skip


def test_first_processes_are_the_batch_systems_children_and_those_whose_parent_is_elsewhere():
    all_of_them = [
        process(10, 1, "slurmstepd"), process(11, 10, "bash"), process(12, 11), process(13, 2),
        process(14, 99), process(15, 10, state="Z"),
    ]  # fmt: skip
    processes = {each.pid: each for each in [*all_of_them, process(1, 0), process(2, 1)]}
    keys = dict.fromkeys(range(10, 16), KEY) | {2: OTHER}
    assert list(find_first_processes(KEY, all_of_them, processes, keys)) == [11, 13, 14]


LAST = JobSample(
    key=KEY, accounting=FigureSource.CGROUP, user_cpu_secs=5.0, system_cpu_secs=None, oom_kills=0, processes=3,
    memory=MemoryBytes(anon=7, peak=9, limit=10), pressure_secs={("io", "some"): 1.0}, cgroup="/x",
    cgroup_version=1, block_io=BlockIo(read_bytes=1, written_bytes=1, reads=1, writes=1), cpus=2,
)  # fmt: skip


def test_the_last_record_is_completed_and_none_of_its_figures_falls():
    now = JobSample(
        key=KEY, accounting=FigureSource.PROCESSES, user_cpu_secs=4.0, system_cpu_secs=1.0, oom_kills=2,
        memory=MemoryBytes(peak=10), pressure_secs={("cpu", "some"): 2.0},
    )  # fmt: skip
    done = complete(LAST, now)
    assert (done.user_cpu_secs, done.system_cpu_secs, done.oom_kills, done.processes) == (5.0, 1.0, 2, 3)
    assert done.memory == MemoryBytes(anon=7, peak=10, limit=10)
    assert done.pressure_secs == {("io", "some"): 1.0, ("cpu", "some"): 2.0}
    assert done.block_io == LAST.block_io


def test_of_a_job_of_which_nothing_is_left_no_gauge_stays_but_its_peak():
    step = StepSample(step="0", user_cpu_secs=5.0, system_cpu_secs=1.0, memory=MemoryBytes(anon=7, peak=8))
    gone = emptied(
        replace(LAST, threads=9, scheduling=Scheduling(1.0, 2, 3, 4, 5, 6), steps=(step,), in_group=True)
    )
    assert (gone.processes, gone.threads, gone.cpus, gone.in_group) == (0, 0, None, False)
    assert gone.memory == MemoryBytes(peak=9)
    assert gone.steps == (replace(step, memory=MemoryBytes(peak=8)),)
    assert gone.scheduling == Scheduling(1.0, 2, 3, 4, 0, 0)
    assert (gone.user_cpu_secs, gone.oom_kills, gone.block_io) == (5.0, 0, LAST.block_io)


def test_what_has_outlived_its_groups_keeps_their_counts_and_its_own_memory():
    now = JobSample(
        key=KEY, accounting=FigureSource.PROCESSES, memory=MemoryBytes(anon=1), processes=1, user_cpu_secs=0.1
    )
    kept = keep_counts(now, replace(LAST, alias=Alias("slot", "slot1_1@h")))
    assert kept.alias == Alias("slot", "slot1_1@h")  # a label, which does not change at the end
    assert (kept.processes, kept.user_cpu_secs, kept.oom_kills, kept.cpus) == (1, 5.0, 0, None)
    assert kept.memory == MemoryBytes(anon=1, peak=9), "no limit holds any more"
    assert (kept.accounting, kept.cgroup, kept.cgroup_version) == (FigureSource.CGROUP, "/x", 1)
