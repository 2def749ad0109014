"""One context in which every metric has a sample."""

from __future__ import annotations

import pytest

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.drains.drain import Announced, Drain, Drains
from jobfeatures.features.machine import Machine
from jobfeatures.publish.drainbook import DrainView
from jobfeatures.publish.publisher import PublisherStatus
from jobfeatures.records.administration import (
    Answer,
    Cycles,
    FairShare,
    FairShares,
    Licence,
    Licences,
    Requests,
    Reservation,
    Reservations,
    Scheduler,
    UserRequests,
)
from jobfeatures.records.model import (
    UNLIMITED,
    Cluster,
    ClusterNode,
    Job,
    JobKey,
    JobState,
    JobTable,
    Limits,
    Partition,
)
from jobfeatures.records.schedulequality import Histogram, ScheduleQuality, UserQuality, Verdict
from jobfeatures.status.board import StatusView
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures_exporter.cluster.sums import compute_cluster_sums, compute_queue_sums
from jobfeatures_exporter.context import Context, LastReload
from jobfeatures_exporter.node import hookrequests
from jobfeatures_exporter.sampling.measured import BoardSample
from jobfeatures_exporter.scrape.listenercounts import ListenerStatus, WebStatus
from jobfeatures_exporter.sinks.keeper import SinkStatus
from jobfeatures_exporter.snapshot import (
    Accounting,
    BlockIo,
    CommandSample,
    CpuSecs,
    DiskSample,
    GpuCard,
    GpuProcess,
    GpuSample,
    GroupKey,
    JobGpu,
    JobSample,
    KernelChecks,
    Kind,
    MemoryBytes,
    NodeSample,
    ProcessIo,
    ProcessReader,
    ProcessSample,
    Scheduling,
    Snapshot,
    StepSample,
    SysinfoSample,
)
from jobfeatures_exporter.state.retention import EndedJob

NOW = 1_800_000_000.0


@pytest.fixture
def note_made(monkeypatch):
    """Return a function that keeps what a module makes of a class: (module, name) → the list of what it has made."""

    def note(module, name):
        made, real = [], getattr(module, name)

        def make(*parts, **more):
            made.append(real(*parts, **more))
            return made[-1]

        monkeypatch.setattr(module, name, make)
        return made

    return note


@pytest.fixture(autouse=True, scope="session")
def hooks_are_served_by_nobody():
    """Give daemons a process for hooks that only waits for their end: the real one costs more than most tests."""
    hookrequests.COMMAND = ("/bin/sh", "-c", "exec cat >/dev/null")


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
            accounting=Accounting.CGROUP,
            user_cpu_secs=1234.5,
            system_cpu_secs=6.25,
            energy_joules=1500.25,
            board_joules={"dcmi": 4100.5, "pdu": 4428.54},
            work={"instructions": 5e12, "cycles": 4e12, "cache_misses": 3e9, "flops": 2.5e12},
            sluid="s5K1KKYAYG5D00",
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
                anon=100, file=50, shmem=0, kernel=7, swap=0, charged=157, limit=2**20, peak=200
            ),
            processes=5,
            threads=9,
            uid=6001,
        ),
        JobSample(
            key=JobKey("spool", 'pilot "7"\\\n'),
            accounting=Accounting.PROCESSES,
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
            accounting=Accounting.CGROUP,
            uid=6002,
            cpu_numbers=frozenset({1, 2, 3}),
        ),
        JobSample(key=GroupKey(321, 216_000_000), accounting=Accounting.PROCESSES, processes=2, threads=2),
    ]
    return Snapshot(
        kept_files={"always": 40, "rarely": 2},
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
        exit_records={"counted": 40, "elsewhere": 300, "unknown": 1},
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


def make_queue() -> JobTable:
    """Return a queue: running, pending in two partitions as an array, held, and ended."""
    jobs = [
        Job(
            key=JobKey("slurm", str(number)),
            state=state,
            partition=partition,
            submit_secs=int(NOW) - 500,
            eligible_secs=None if reason == "JobHeldUser" else int(NOW) - 400,
            total_cpus=4,
            total_nodes=1,
            total_gpus=gpus,
            tasks=tasks,
            reason=reason,
        )
        for number, state, partition, gpus, tasks, reason in (
            (20, JobState.RUNNING, "gpu", 2, 1, None),
            (21, JobState.PENDING, "gpu,batch", None, 10, "Resources"),
            (22, JobState.PENDING, "batch", None, 1, "JobHeldUser"),
            (23, JobState.PENDING, "batch", None, 1, "Nodes required for job are DOWN, DRAINED or reserved"),
            (24, JobState.COMPLETED, "batch", None, 1, None),
        )
    ]
    return JobTable(
        source="slurm", jobs={job.key: job for job in jobs}, taken_at_secs=NOW - 20, complete=True
    )


def make_cluster() -> Cluster:
    """Return three nodes, one in two partitions and one in none."""
    names = ("n1", "n2", "old")
    states = (("MIXED",), ("IDLE", "DRAIN"), ("DOWN", "NOT_RESPONDING"))
    return Cluster(
        source="slurm",
        taken_at_secs=NOW - 10,
        partitions=(
            Partition(name="batch", nodes=("n1", "n2"), state="UP"),
            Partition(name="gpu", nodes=("n1",), state="DOWN"),
        ),
        nodes=tuple(
            ClusterNode(
                name=name,
                states=each,
                cpus=8,
                allocated_cpus=6 if name == "n1" else 0,
                memory_bytes=2**34,
                allocated_memory_bytes=2**30 if name == "n1" else 0,
                gpus=4 if name == "n1" else None,
                allocated_gpus=2 if name == "n1" else None,
                features=("avx512", "ib") if name == "n1" else ("ib",),
                reason="health_check" if name == "n2" else "",
            )
            for name, each in zip(names, states, strict=True)
        ),
    )


def make_administration() -> tuple[Answer, ...]:
    """Return what administrators look at; names are hostile."""
    told = {"source": "slurm", "taken_at_secs": NOW - 5}
    cycles = Cycles(
        count=54, last_secs=0.0125, mean_secs=0.5, max_secs=2.25, mean_depth_jobs=97, queue_jobs=6
    )
    return (
        Scheduler(
            threads=3,
            queued={"agent": 0, "accounting": 5},
            jobs={"submitted": 31, "started": 30, "completed": 28, "canceled": 1, "failed": 0},
            backfilled_jobs=7,
            cycles={"main": cycles, "backfill": Cycles(count=0)},
            types=(Requests("REQUEST_JOB_INFO", 120, 4.5), Requests("REQUEST_PING", 3, 0.001)),
            users=(UserRequests("root", 100, 2.5), UserRequests('b"b\\\n', 23, 2.25)),
            **told,
        ),
        Licences(
            licences=(
                Licence(name="matlab@flexhost", total=20, used=3, free=17, reserved=0),
                Licence(name="old", total=2, used=2),
            ),
            **told,
        ),
        FairShares(
            shares=(
                FairShare(account="physics", shares_ratio=0.5, usage_ratio=0.75, usage_secs=7500),
                FairShare(
                    account="physics",
                    user='b"b\\\n',
                    shares_ratio=1.0,
                    usage_ratio=1.0,
                    usage_secs=7500,
                    factor=0.25,
                ),
            ),
            **told,
        ),
        Reservations(
            reservations=(
                Reservation(
                    name="maint 'x'\n",
                    start_secs=int(NOW) + 3600,
                    end_secs=int(NOW) + 7200,
                    nodes=2,
                    cores=16,
                    is_maintenance=True,
                ),
            ),
            **told,
        ),
    )


def make_schedule() -> ScheduleQuality:
    """Return the quality of a schedule with two users, one of whom was late."""
    users = (("alice", 4, 3, 700, 2800), ('b"b\\\n', 1, 0, 0, 0))
    return ScheduleQuality(
        source="slurm",
        taken_at_secs=NOW - 15,
        begin_secs=int(NOW) - 7 * 86_400,
        share_cpus=8.5,
        jobs=5,
        violated=3,
        tardiness_secs=700,
        weighted_tardiness_cpu_secs=2800,
        users=2,
        veet_quantiles={0.0: 0.0, 0.5: 0.375, 1.0: 0.75},
        unfinished={Verdict.CERTAINLY_LATE: 1, Verdict.NOT_LATE: 4},
        unsettled_jobs=2,
        skipped={"never_started": 1},
        wait_secs={
            "batch": Histogram((60, 3600), (3, 4, 6), 20_000),
            "gpu": Histogram((60, 3600), (0, 1, 1), 61),
        },
        slowdown={"batch": Histogram((1, 1.5), (1, 2, 6), 40.25)},
        top_users=tuple(
            UserQuality(
                user=user,
                share_cpus=8.5,
                jobs=jobs,
                violated=violated,
                tardiness_secs=tardiness,
                weighted_tardiness_cpu_secs=weighted,
            )
            for user, jobs, violated, tardiness, weighted in users
        ),
    )


def make_ended() -> dict[JobKey, EndedJob]:
    """Return a job that ended a minute ago."""
    key = JobKey("slurm", "8")
    sample = JobSample(key=key, accounting=Accounting.CGROUP, user_cpu_secs=77.5, system_cpu_secs=1.25)
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
        threads_per_core=2,
        cpu_model='Made Up "9000"',
        memory_bytes=2**34,
        numa_distances=((10, 21), (21, 10)),
    )


def make_context() -> Context:
    """Return the context of a scrape at `NOW`."""
    status = JobStatus(
        used_cpu=5,
        last_job_start=int(NOW) - 600,
        first_exp_job_end=int(NOW) - 60,
        last_exp_job_end=int(NOW) + 5000,
        last_max_job_end=int(NOW) + 6000,
        add_uncom_time=500,
        add_final_exp_waste=1200,
        can_postpone_last_job=False,
        priority_factor=1,
    )
    table = JobTable(
        source="slurm", jobs=make_jobs(), taken_at_secs=NOW - 30, complete=True, clock_ahead_secs=0.0
    )
    return Context(
        now_secs=NOW,
        snapshot=make_snapshot(),
        jobs=make_jobs(),
        statuses={
            JobKey("spool", 'pilot "7"\\\n'): StatusView(status, NOW - 20),
            JobKey("slurm", "12"): StatusView(),
        },
        status_violations={"unsafe": 3, "lock_timeout": 0},
        sources=(
            KeeperStatus("slurm", table, failures=1, rejected=2),
            KeeperStatus("spool", None, failures=4, last_error="no such folder", failing_since_secs=NOW - 90),
        ),
        reload=LastReload(successful=False, success_secs=NOW - 86400),
        publisher=PublisherStatus(2, 1, {("publish", "enospc"): 3, ("remove", "timeout"): 0}),
        feature_answers={200: 41, 404: 2},
        machine=Machine(total_cpus=2, hs06="20"),
        drains=DrainView(
            Drains(
                Drain(int(NOW) + 7200, int(NOW) - 50, "root"),
                {JobKey("slurm", "12"): Drain(int(NOW) + 1800, int(NOW) - 40, "root")},
            ),
            Announced({"slurm": True}, {"slurm": int(NOW) + 3600}),
        ),
        cpu_rates={JobKey("slurm", "12"): 2.5},
        ended=make_ended(),
        queues=(compute_queue_sums(make_queue()),),
        clusters=(compute_cluster_sums(make_cluster()),),
        schedules=(make_schedule(),),
        administration=make_administration(),
        kinds=frozenset(Kind),
        sysinfo=make_sysinfo(),
        sinks=(
            SinkStatus("http", {"sample": 12, "sysinfo": 1}, {"sample": 3}, 1, 2, 1, 4, NOW - 40),
            SinkStatus("tree", failed={"sample": 1}),
        ),
        faulty={"sample": 1},
        sonar_unreadable={"process_io_eacces": 7},
        web=WebStatus(
            listeners=(
                ListenerStatus(
                    name="metrics",
                    connections=3,
                    answers={200: 70, 401: 2},
                    rejected={"password": 2, "idle": 0},
                ),
                ListenerStatus(name="sonar", answers={429: 1}),
            ),
            file_failures=1,
            file_is_good=False,
        ),
    )


@pytest.fixture
def context() -> Context:
    return make_context()


@pytest.fixture
def queue() -> JobTable:
    return make_queue()


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()
