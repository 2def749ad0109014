"""A node with one job of everything, in round numbers, for values that are computed by hand."""

import pytest

from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.hardware import SysinfoSample
from jobfeatures_exporter.model.measured import MemoryBytes, OpenFiles
from jobfeatures_exporter.model.snapshot import (
    BlockIo,
    CpuSecs,
    FigureSource,
    GpuCard,
    GpuSample,
    JobGpu,
    JobSample,
    NodeSample,
    ProcessIo,
    ProcessSample,
    Scheduling,
    Snapshot,
    StepSample,
)

NOW = 1_800_000_000.0
V2 = JobKey("slurm", "1234")
V1 = JobKey("slurm", "77")
PBS = JobKey("pbs", "5")
BARE = JobKey("spool", "no-group")


def process(pid, command, *, state="S", threads=1, start_ticks=5000, resident=4096):
    return ProcessSample(
        pid=pid, ppid=1, pgid=pid, session=pid, start_ticks=start_ticks, command=command, state=state,
        user_ticks=100, system_ticks=7, children_user_ticks=0, children_system_ticks=0, threads=threads,
        resident_bytes=resident, virtual_bytes=2**20,
    )  # fmt: skip


def make_samples():
    memory = MemoryBytes(
        anon=1000, file=200, shmem=30, kernel=4, swap=50, charged=1234, limit=2**31, peak=2000
    )
    return [
        JobSample(
            key=V2,
            accounting=FigureSource.CGROUP,
            user_cpu_secs=60.5,
            system_cpu_secs=2.25,
            memory=memory,
            processes=3,
            threads=9,
            uid=6001,
            memory_limit_hits=4,
            memory_ooms=3,
            block_io=BlockIo(read_bytes=10, written_bytes=20, reads=3, writes=4),
            process_io=ProcessIo(
                read_bytes=999,
                written_bytes=998,
                data_read_bytes=700,
                data_written_bytes=600,
                data_cancelled_bytes=0,
            ),
            pressure_secs={
                ("cpu", "some"): 3.5,
                ("cpu", "full"): 1.5,
                ("memory", "full"): 0.25,
                ("io", "some"): 7.0,
            },
            cpus=8,
            cpu_numbers=frozenset(range(8)),
            scheduling=Scheduling(1.5, 17, 400, 30, 2, 0),
            steps=(
                StepSample(step="batch", user_cpu_secs=10.0, system_cpu_secs=0.5, memory=memory),
                StepSample(step="0", user_cpu_secs=50.5),
            ),
            cgroup="/system.slice/slurmstepd.scope/job_1234",
            cgroup_version=2,
        ),
        JobSample(
            key=V1,
            accounting=FigureSource.CGROUP,
            user_cpu_secs=1.0,
            system_cpu_secs=None,
            memory=memory,
            uid=6002,
            memory_limit_hits=4,
            cpu_numbers=frozenset({7, 8}),
            core_nanosecs={7: 700_000_001, 8: 300_000_000},
            cgroup="/slurm/uid_6002/job_77",
            cgroup_version=1,
        ),
        JobSample(
            key=PBS,
            accounting=FigureSource.CGROUP,
            memory=MemoryBytes(anon=5),
            cpu_numbers=frozenset({0}),
            processes=1,
            cgroup='/pbs_jobs.service/jobid/5.ser"ver',
            cgroup_version=1,
        ),
        JobSample(
            key=BARE,
            accounting=FigureSource.PROCESSES,
            user_cpu_secs=1.0,
            processes=1,
            threads=1,
            cpu_numbers=frozenset({9}),
        ),
    ]


def make_context():
    card = GpuCard(uuid="GPU-aa", index=0, minor=3, model="H200", memory_bytes=2**37)
    mig_parent = GpuCard(uuid="GPU-bb", index=1, minor=4, model="H200", memory_bytes=2**37)
    mig = GpuCard(
        uuid="MIG-cc", parent_uuid="GPU-bb", instance_id=9, model="H200 MIG 1g.18gb", memory_bytes=2**34
    )
    samples = make_samples()
    processes = [
        process(100, "slurmstepd"),
        process(101, "slurm_script"),
        process(102, "python3", state="R", threads=4, start_ticks=12_345, resident=10_000),
        process(103, "python3", state="D", threads=3, start_ticks=22_345, resident=20_000),
    ]
    return Context(
        now_secs=NOW,
        node_name="node1",
        snapshot=Snapshot(
            taken_at_secs=NOW - 1,
            duration_secs=0.01,
            node=NodeSample(
                boot_time_secs=1_799_000_000,
                cpu=CpuSecs(100.5, 1, 20, 5000, 3, 0.25, 0.5, 0),
                cores={number: CpuSecs(number + 0.5, 0, 0.25, 600, 9, 0, 0, 0) for number in range(10)},
                memory_bytes={"MemTotal": 2**37, "MemFree": 2**35, "MemAvailable": 2**36, "Cached": 1},
                energy_joules={"package-0": 4000.5, "package-1": 3000.0, "dram-0": 250.0, "psys": 6000.0},
            ),
            jobs={each.key: each for each in samples},
            processes={each.pid: each for each in processes},
            keys={each.pid: V2 for each in processes},
            open_files={each.pid: OpenFiles(each.pid - 90, 1024) for each in processes},
            programs={V2: {"/cvmfs/soft/bin/python3.11": 61.5, "/usr/bin/bash": 90.0, "/usr/bin/make": 59.0}},
            thread_states={100: {"S": 1}, 101: {"S": 1}, 102: {"R": 1, "S": 3}, 103: {"S": 2, "D": 1}},
            gpus=(
                GpuSample(
                    card=card,
                    taken_at_secs=NOW,
                    fan_percent=30.0,
                    memory_used_bytes=2**33,
                    ce_util_percent=97.0,
                    memory_busy_percent=31.0,
                    temperature_celsius=65.0,
                    power_watts=351.5,
                ),
                GpuSample(card=mig_parent, taken_at_secs=NOW, power_watts=70.25),
                GpuSample(card=mig, taken_at_secs=NOW, memory_used_bytes=2**20),
            ),
            job_gpus=(
                JobGpu(key=V2, uuid="GPU-aa", allocated=True),
                JobGpu(key=V2, uuid="MIG-cc", memory_bytes=5),
                JobGpu(key=V2, uuid="GPU-gone"),
            ),
        ),
        sysinfo=SysinfoSample(
            taken_at_secs=NOW, os_name="Linux", os_release="6.1", architecture="x86_64", threads_per_core=2
        ),
        jobs={
            V2: Job(key=V2, state=JobState.RUNNING, user="alice", uid=6001, account="phys", allocated_cpus=8),
            V1: Job(key=V1, state=JobState.RUNNING, user="bob", uid=6002),
        },
    )


@pytest.fixture
def context():
    return make_context()
