"""A constructed node of which everything is known: processes, cards, jobs, one that has ended."""

from __future__ import annotations

from jobfeatures.records.model import (
    UNLIMITED,
    Alias,
    Job,
    JobKey,
    JobState,
    Limits,
)
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.hardware import SysinfoSample
from jobfeatures_exporter.model.measured import BoardSample, MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    BlockIo,
    CommandSample,
    CpuSecs,
    DiskSample,
    FigureSource,
    GpuCard,
    GpuProcess,
    GpuSample,
    GroupKey,
    JobGpu,
    JobSample,
    KernelChecks,
    NodeSample,
    ProcessIo,
    ProcessReader,
    ProcessSample,
    Scheduling,
    Snapshot,
    StepSample,
)

NOW = 1_800_000_000.0


def make_processes() -> list[ProcessSample]:
    """Return two processes of a job, a child of the other, and one without a job."""
    return [
        ProcessSample(
            pid=pid,
            ppid=ppid,
            pgid=pgid,
            session=pgid,
            start_ticks=5000 + pid,
            command=command,
            state="S",
            user_ticks=100 * pid,
            system_ticks=7,
            children_user_ticks=0,
            children_system_ticks=0,
            threads=3,
            resident_bytes=4096 * pid,
            virtual_bytes=2**20,
        )
        for pid, ppid, pgid, command in (
            (100, 1, 100, "bash"),
            (101, 100, 100, 'a "b"\n'),
            (321, 1, 321, "sshd"),
        )
    ]


# What a card counts on request.
GPU_COUNTS = {
    ("profiled",): 600.5,
    ("busy", "sm"): 300.25,
    ("busy", "tensor"): 120.5,
    ("link", "pcie", "receive"): 2.0**31,
    ("ecc", "corrected"): 3,
    ("lifetime_ecc", "corrected"): 17,
    ("remapped", "uncorrected"): 1,
    ("xids",): 2,
    ("xid", "79"): 2,
    ("clock_reason", "power_cap"): 40.5,
    ("clock_reason", "hardware_thermal"): 0.0,
}


def make_gpus() -> tuple[GpuSample, ...]:
    """Return a card of which everything is known, and an instance of which little is."""
    card = GpuCard(
        uuid="GPU-1111",
        index=0,
        minor=1,
        address="00000000:3B:00.0",
        manufacturer="NVIDIA",
        model="NVIDIA A100-SXM4-40GB",
        architecture="Ampere",
        driver="550.54.15",
        firmware="92.00.19",
        memory_bytes=2**35,
    )
    return (
        GpuSample(
            card=card,
            taken_at_secs=NOW - 2,
            fan_percent=30,
            performance_state=2,
            memory_used_bytes=2**33,
            ce_util_percent=50,
            temperature_celsius=45,
            power_watts=250.5,
            power_limit_watts=400,
            ce_clock_mhz=1410,
            memory_clock_mhz=1215,
            energy_joules=5000.5,
            busy_secs=12.5,
            processes=(GpuProcess(pid=100), GpuProcess(pid=77)),
            counts=GPU_COUNTS,
            flags={"remap_pending": True, "remap_failed": False, "xids_watched": True},
        ),
        GpuSample(card=GpuCard(uuid="MIG-2222", parent_uuid="GPU-1111"), taken_at_secs=NOW - 20, failing=15),
    )


def make_snapshot() -> Snapshot:
    """Return a node of two cores with a Slurm job, a spool job, one that no source knows, and a process group."""
    core = CpuSecs(10.5, 0.25, 3, 100, 1, 0, 0.5, 0)
    memory = {"MemTotal": 2**34, "MemFree": 2**33, "MemAvailable": 12 * 2**30, "SwapTotal": 0, "Ignored": 5}
    samples = [
        JobSample(
            key=JobKey("slurm", "12"),
            accounting=FigureSource.CGROUP,
            user_cpu_secs=1234.5,
            system_cpu_secs=6.25,
            energy_joules=1500.25,
            board_joules={"dcmi": 4100.5, "pdu": 4428.54},
            work={"instructions": 5e12, "cycles": 4e12, "cache_misses": 3e9, "flops": 2.5e12},
            alias=Alias("sluid", "s5K1KKYAYG5D00"),
            cpus=4,
            cpu_numbers=frozenset(range(4)),
            cgroup_version=2,
            oom_kills=1,
            memory_limit_hits=174,
            throttled_secs=2.5,
            block_io=BlockIo(read_bytes=2**33, written_bytes=4096, reads=70, writes=1),
            scheduling=Scheduling(
                waiting_secs=86.25,
                major_faults=17,
                voluntary_switches=4012,
                involuntary_switches=390,
                running=3,
                blocked=1,
            ),
            network=(10_000, 20, 3_000_000, 2_000),
            process_io=ProcessIo(
                read_bytes=2**34,
                written_bytes=8192,
                data_read_bytes=2**33,
                data_written_bytes=4096,
                data_cancelled_bytes=0,
            ),
            pressure_secs={("cpu", "some"): 12.5, ("io", "full"): 0.25},
            steps=(
                StepSample(
                    step="batch",
                    user_cpu_secs=1200.5,
                    system_cpu_secs=6,
                    memory=MemoryBytes(anon=90, charged=140, peak=180),
                ),
                StepSample(step="extern"),
            ),
            memory=MemoryBytes(
                anon=100,
                file=50,
                shmem=0,
                kernel=7,
                sock=3,
                hugetlb=0,
                swap=0,
                charged=160,
                reclaimable=50,
                limit=2**20,
                high=2**19,
                peak=200,
            ),
            memory_high_hits=6,
            processes=5,
            threads=9,
            uid=6001,
        ),
        JobSample(
            key=JobKey("spool", 'pilot "7"\\\n'),
            accounting=FigureSource.PROCESSES,
            user_cpu_secs=0.5,
            system_cpu_secs=None,
            memory=MemoryBytes(anon=4096),
            cpu_numbers=frozenset({1, 5}),
            processes=1,
            threads=1,
        ),
        JobSample(
            key=JobKey("slurm", "99"),
            processes=1,
            accounting=FigureSource.CGROUP,
            uid=6002,
            cpu_numbers=frozenset({1, 2, 3}),
        ),
        JobSample(key=GroupKey(321, 216_000_000), accounting=FigureSource.PROCESSES, processes=2, threads=2),
    ]
    return Snapshot(
        reopened=0,
        taken_at_secs=NOW - 0.25,
        duration_secs=0.002,
        node=NodeSample(
            boot_time_secs=1_799_000_000,
            cpu=core,
            cores={0: core, 1: CpuSecs(0, 0, 0, 200, 0, 0, 0, 0)},
            memory_bytes=memory,
            load1=0.5,
            load5=0.25,
            load15=0.125,
            runnable_entities=3,
            oom_kills=7,
            existing_entities=136,
            disks={
                "sda": DiskSample(
                    major=8, minor=0, stats=(10, 0, 80, 5, 20, 0, 160, 7, 0, 1500, 12), whole=True
                ),
                "sda1": DiskSample(major=8, minor=1, stats=(9, 0, 72, 5, 20, 0, 160, 7, 0, 9, 12)),
            },
            pressure_secs={("memory", "some"): 1.5, ("memory", "full"): 0.0},
            energy_joules={"package-0": 4000.5, "dram-0": 250.0, "psys": 6000.0},
            work_up={"instructions": True, "cycles": True, "cache_misses": True, "flops": True},
            board=BoardSample(
                watts={"dcmi": 220.0, "pdu": 237.6},
                joules={"dcmi": 9000.5, "pdu": 9720.54},
                up={"dcmi": True, "hwmon": False},
            ),
        ),
        jobs={sample.key: sample for sample in samples},
        processes={sample.pid: sample for sample in make_processes()},
        keys={100: JobKey("slurm", "12"), 101: JobKey("slurm", "12"), 321: 321},
        epoch=216_000_000,
        commands={
            JobKey("slurm", "12"): (
                CommandSample(command='a "b"\n', cpu_secs=1.5, resident_bytes=4096, processes=1),
                CommandSample(command="make", cpu_secs=7.25, resident_bytes=0, processes=0),
                CommandSample(command="other", cpu_secs=0.5, resident_bytes=8192, processes=4),
            )
        },
        gpus=make_gpus(),
        job_gpus=(
            JobGpu(
                key=JobKey("slurm", "12"),
                uuid="GPU-1111",
                allocated=True,
                busy_secs=6.25,
                energy_joules=2500.25,
                memory_bytes=2**32,
                ce_util_percent=25,
                counts=GPU_COUNTS,
            ),
            JobGpu(key=JobKey("spool", 'pilot "7"\\\n'), uuid="MIG-2222", allocated=True),
        ),
        gpu_unattributed={"GPU-1111": 1, "MIG-2222": 0},
        gpu_drivers={"nvidia": True, "amd": False},
        reader=ProcessReader("bpf"),
        no_network="",
        kernel_checks=KernelChecks(full=0, without_storage=3, tails=1, threads=412, misses=0),
        unreadable={"stat:EACCES": 2},
    )


def make_jobs() -> dict[JobKey, Job]:
    """Return what the batch systems know: an unlimited job and one that has ended are among them."""
    jobs = [
        Job(
            key=JobKey("slurm", "12"),
            state=JobState.RUNNING,
            name='weird | "name" ü',
            user="alice",
            uid=6001,
            account="physics",
            partition="batch",
            start_secs=int(NOW) - 600,
            allocated_cpus=4,
            limits=Limits(wall_secs=3600, cpu_secs=14_400, memory_bytes=2**31),
            array_job_id="10",
            restarts=1,
            array_task_id="2",
            allocated_gpus=1,
        ),
        Job(
            key=JobKey("spool", 'pilot "7"\\\n'),
            state=JobState.RUNNING,
            user="bob",
            uid=6002,
            start_secs=int(NOW) - 1000,
            allocated_cpus=8,
            limits=Limits(wall_secs=UNLIMITED),
        ),
        Job(key=JobKey("slurm", "11"), state=JobState.COMPLETED, user="alice"),
    ]
    return {job.key: job for job in jobs}


def make_ended() -> dict[JobKey, EndedJob]:
    """Return a job that ended a minute ago."""
    key = JobKey("slurm", "8")
    sample = JobSample(key=key, accounting=FigureSource.CGROUP, user_cpu_secs=77.5, system_cpu_secs=1.25)
    job = Job(key=key, state=JobState.COMPLETED, user="alice", uid=6001, allocated_cpus=2)
    return {key: EndedJob(sample, job, NOW - 60)}


def make_sysinfo() -> SysinfoSample:
    """Return a node of two sockets, each a NUMA node."""
    return SysinfoSample(
        taken_at_secs=NOW - 100,
        os_name="Linux",
        os_release="6.1.0-25-amd64",
        architecture="x86_64",
        sockets=2,
        cores_per_socket=4,
        physical_cores=8,
        threads_per_core=2,
        cpu_model='Made Up "9000"',
        memory_bytes=2**34,
        numa_distances=((10, 21), (21, 10)),
    )
