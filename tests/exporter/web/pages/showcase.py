"""Constructed nodes and clusters for the page: busy, with GPUs, a pilot that reports, a shutdown."""

from __future__ import annotations

import math
from dataclasses import replace

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.drains.drain import Announced, Drain, Drains
from jobfeatures.features.machine import Machine
from jobfeatures.jobs.evidence import Finding, JobObservation, Presence
from jobfeatures.publish.drainbook import DrainView
from jobfeatures.publish.publisher import PublisherStatus
from jobfeatures.records.model import Cluster, ClusterNode, Job, JobKey, JobState, JobTable, Limits, Partition
from jobfeatures.records.schedulequality import ScheduleQuality, UserQuality, Verdict
from jobfeatures.status.board import StatusView
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures_exporter.cluster.overview import ClusterView, compute_cluster_view
from jobfeatures_exporter.cluster.sums import compute_cluster_sums, compute_queue_sums
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.hardware import SysinfoSample
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    CpuSecs,
    FigureSource,
    GpuCard,
    GpuSample,
    JobGpu,
    JobSample,
    NodeSample,
    ProcessSample,
    Snapshot,
)
from jobfeatures_exporter.model.statuses import SinkStatus
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC
from jobfeatures_exporter.scrape.collectors import COLLECTORS, FAILED, SPENT
from jobfeatures_exporter.scrape.collectors.own import process
from jobfeatures_exporter.state.history import History
from jobfeatures_exporter.view.processes import Placed
from jobfeatures_exporter.web.pages.job import JobDetails

NOW = 1_800_000_000.0
GIB = 2**30
MODEL = "NVIDIA H100 80GB HBM3"

# id, name, user, CPUs, share of them used, memory used and given in GiB, hours run and allowed, processes
_JOBS = (
    ("48291_7", "wrf-ensemble", "mweber", 64, 0.97, 141.0, 192, 7.2, 12, 66),
    ("48307", "train-segmentation", "asingh", 16, 0.62, 58.2, 96, 3.1, 24, 21),
    ("48310", "notebook", "lrossi", 8, 0.004, 3.1, 64, 5.4, 8, 6),
    ("48255", "gromacs prod 3", "kto", 16, 0.99, 11.7, 32, 23.85, 24, 17),
    ("48318", "assemble-reads", "mweber", 8, 0.88, 60.9, 64, 1.3, 48, 9),
)


def make_samples() -> list[JobSample]:
    """Return what the jobs use."""
    made = []
    for number, _, _, cpus, share, used, given, hours, _, processes in _JOBS:
        total = cpus * share * hours * 3600
        made.append(
            JobSample(
                key=JobKey("slurm", number),
                accounting=FigureSource.CGROUP,
                user_cpu_secs=total * 0.97,
                system_cpu_secs=total * 0.03,
                memory=MemoryBytes(
                    anon=int(used * GIB),
                    file=int(used * 0.1 * GIB),
                    charged=int(used * 1.1 * GIB),
                    limit=given * GIB,
                ),
                processes=processes,
                threads=processes * 2 + cpus,
            )
        )
    made.append(
        JobSample(
            key=JobKey("spool", "pilot-77"),
            accounting=FigureSource.PROCESSES,
            user_cpu_secs=8 * 0.8 * 4 * 3600,
            system_cpu_secs=210.5,
            memory=MemoryBytes(anon=int(13.4 * GIB)),
            processes=31,
            threads=44,
        )
    )
    return made


def make_jobs() -> dict[JobKey, Job]:
    """Return what the batch systems know of them."""
    jobs = [
        Job(
            key=JobKey("slurm", number),
            state=JobState.RUNNING,
            name=title,
            user=user,
            partition="gpu",
            start_secs=int(NOW - hours * 3600),
            allocated_cpus=cpus,
            allocated_gpus={"48307": 2, "48310": 1, "48255": 1}.get(number),
            limits=Limits(wall_secs=allowed * 3600, memory_bytes=given * GIB),
        )
        for number, title, user, cpus, _, _, given, hours, allowed, _ in _JOBS
    ]
    pilot = Job(
        key=JobKey("spool", "pilot-77"),
        state=JobState.RUNNING,
        name="pilot",
        user="grid012",
        start_secs=int(NOW) - 4 * 3600,
        allocated_cpus=8,
        limits=Limits(wall_secs=48 * 3600, memory_bytes=32 * GIB),
    )
    return {job.key: job for job in (*jobs, pilot)}


def make_history(context: Context, minutes: int = 60) -> History:
    """Return the hour before a context: CPUs in waves, memory that grows, a job that has ended within it."""
    history = History()
    last = context.snapshot
    if last is None:
        return history
    samples = [each for each in last.jobs.values() if isinstance(each.key, JobKey)]
    for minute in range(minutes, -1, -1):
        jobs = {}
        for number, sample in enumerate(samples):
            job = context.jobs.get(sample.key) or Job(key=sample.key)
            at = NOW - 60 * minute
            if job.start_secs is not None and job.start_secs > at:
                continue
            cpus, elapsed = job.allocated_cpus or 1, 3600 - 60 * minute
            used = cpus * (0.7 * elapsed + 150 * math.sin(elapsed / 400 + number))
            held = int((sample.memory.used or 0) * (1 - minute / 150))
            jobs[sample.key] = replace(
                sample,
                user_cpu_secs=1e6 + used,
                system_cpu_secs=0.0,
                memory=MemoryBytes(anon=held),
            )
        node = last.node
        if node is not None and node.cpu is not None:
            busy = 40 * elapsed_of(minute) + 6000 * math.sin(minute / 9)
            node = replace(node, cpu=node.cpu._replace(user=1e7 + busy, idle=1e8 + 88 * elapsed_of(minute)))
        look = replace(last, taken_at_secs=NOW - 60 * minute, read_at_secs=60.0 * (minutes - minute + 1))
        history.update(replace(look, jobs=jobs, node=node), context.jobs, context.ended)
    return history


def elapsed_of(minute: int) -> float:
    return 3600.0 - 60 * minute


def make_process(pid, depth, command, state, cpu_secs, resident_bytes, threads) -> Placed:
    ticks = round(cpu_secs * TICKS_PER_SEC)
    return Placed(
        ProcessSample(pid, 1, 1, 1, 0, command, state, ticks, 0, 0, 0, threads, resident_bytes, 2**40), depth
    )


def make_details(**changes) -> JobDetails:
    """Return what is looked up of a job: a batch script with a tree below it, features, evidence."""
    processes = [
        make_process(4101, 0, "slurm_script", "S", 0.4, 3 * 2**20, 1),
        make_process(4117, 1, "python3", "R", 35_400.0, 2 * GIB, 12),
        make_process(4120, 2, "python3", "S", 12.0, 200 * 2**20, 3),
        make_process(4119, 1, "<b>tee", "S", 0.0, 2**20, 1),
    ]
    told = JobObservation("slurm", NOW - 12, Job(key=JobKey("slurm", "48307")))
    found = {
        "processes": processes,
        "arguments": {4117: "python3 train.py --epochs 90"},
        "features": {
            "JOBFEATURES": [("allocated_cpu", "16"), ("wall_limit_secs", "86400")],
            "MACHINEFEATURES": [("total_cpu", "128")],
        },
        "finding": Finding(Presence.HERE, told),
        "group": "/system.slice/slurmstepd.scope/job_48307",
    }
    return JobDetails(**{**found, **changes})


def make_cards() -> tuple[tuple[GpuSample, ...], tuple[JobGpu, ...]]:
    """Return four cards, one of them idle in the hands of a notebook, and who uses them."""
    use = ((91.0, 61, "48307"), (88.0, 59, "48307"), (0.0, 0.5, "48310"), (74.0, 12, "48255"))
    cards, uses = [], []
    for number, (busy, held, job) in enumerate(use):
        uuid = f"GPU-{number}f3a9c1e"
        card = GpuCard(
            uuid=uuid,
            index=number,
            manufacturer="NVIDIA",
            model=MODEL,
            driver="550.54.15",
            memory_bytes=80 * GIB,
        )
        cards.append(
            GpuSample(
                card=card,
                taken_at_secs=NOW - 2,
                ce_util_percent=busy,
                memory_used_bytes=int(held * GIB),
                temperature_celsius=34 + busy * 0.4,
                power_watts=72 + busy * 6,
                power_limit_watts=700,
            )
        )
        uses.append(
            JobGpu(
                key=JobKey("slurm", job),
                uuid=uuid,
                allocated=True,
                ce_util_percent=busy,
                memory_bytes=int(held * GIB),
                busy_secs=busy * 90.0,
            )
        )
    return tuple(cards), tuple(uses)


def make_busy_node() -> Context:
    """Return a node with everything on it."""
    cards, uses = make_cards()
    samples = make_samples()
    busy = CpuSecs(3e6, 0, 2e5, 1e6, 1e4, 0, 1e3, 0)
    ended = JobSample(
        key=JobKey("slurm", "48301"),
        accounting=FigureSource.CGROUP,
        user_cpu_secs=6100.0,
        system_cpu_secs=40.0,
        memory=MemoryBytes(anon=2 * GIB, charged=2 * GIB, limit=8 * GIB),
    )
    ended_job = Job(
        key=ended.key,
        state=JobState.COMPLETED,
        name="post-process",
        user="kto",
        start_secs=int(NOW) - 1800,
        end_secs=int(NOW) - 60,
        allocated_cpus=4,
    )
    status = JobStatus(
        used_cpu=6,
        last_job_start=int(NOW) - 1900,
        first_exp_job_end=int(NOW) + 1100,
        last_exp_job_end=int(NOW) + 5200,
        last_max_job_end=int(NOW) + 9000,
        add_uncom_time=7200,
        add_final_exp_waste=14400,
        can_postpone_last_job=False,
        priority_factor=3,
    )
    jobs = make_jobs()
    table = JobTable(source="slurm", jobs=jobs, taken_at_secs=NOW - 12, complete=True)
    rates = {JobKey("slurm", number): cpus * share for number, _, _, cpus, share, *_ in _JOBS}
    return Context(
        now_secs=NOW,
        node_name="gpu-a017",
        node_busy_cpus=97.3,
        snapshot=Snapshot(
            taken_at_secs=NOW - 4,
            duration_secs=0.0123,
            node=NodeSample(
                boot_time_secs=int(NOW) - 10**6,
                cpu=busy,
                cores=dict.fromkeys(range(128), busy),
                memory_bytes={"MemTotal": 512 * GIB, "MemAvailable": 201 * GIB, "MemFree": 90 * GIB},
                load1=101.42,
                load5=99.8,
                load15=96.1,
            ),
            jobs={each.key: each for each in samples},
            gpus=cards,
            job_gpus=uses,
            gpu_drivers={"nvidia": True},
        ),
        jobs=jobs,
        statuses={
            JobKey("spool", "pilot-77"): StatusView(status, NOW - 20),
            **{JobKey("slurm", each[0]): StatusView() for each in _JOBS},
        },
        sources=(
            KeeperStatus("hooks", JobTable(source="hooks", jobs={}, taken_at_secs=NOW - 3, complete=False)),
            KeeperStatus("slurm", table),
            KeeperStatus("spool", replace(table, source="spool", jobs={}), failures=2),
        ),
        publisher=PublisherStatus(6, 0),
        machine=Machine(total_cpus=128),
        cpu_rates={**rates, JobKey("spool", "pilot-77"): 5.7},
        ended={ended.key: EndedJob(ended, ended_job, NOW - 60)},
        sysinfo=SysinfoSample(
            taken_at_secs=NOW - 100,
            os_name="Linux",
            os_release="6.1.0-25-amd64",
            architecture="x86_64",
            cpu_model="AMD EPYC 9554 64-Core Processor",
        ),
    )


def make_draining_node() -> Context:
    """Return the same with a shutdown ahead, a source that fails, and a sink."""
    context = make_busy_node()
    failing = replace(
        context.sources[1],
        failures=4,
        last_error="scontrol: Unable to contact slurm controller (connect failure)",
        failing_since_secs=NOW - 240,
    )
    return replace(
        context,
        drains=DrainView(
            Drains(Drain(int(NOW) + 6 * 3600, int(NOW) - 900, "root")), Announced({"slurm": True}, {})
        ),
        sources=(context.sources[0], failing, context.sources[2]),
        sinks=(SinkStatus("http", {"sample": 812, "sysinfo": 1}, {"sample": 3}, 0, 2, 0, 4, NOW - 40),),
        status_violations={"unsafe": 3, "lock_timeout": 0},
    )


def make_silent_node() -> Context:
    """Return a node whose only batch system has never answered; no job is seen."""
    words = (
        "scontrol: not finished after 10 s; its last output: 'scontrol: error: s_p_parse_file: cannot stat file "
        "/etc/slurm/slurm.conf: No such file or directory, retrying in 1sec up to 60sec'"
    )
    slurm = KeeperStatus("slurm", None, failures=3, last_error=words, failing_since_secs=NOW - 190)
    context = make_idle_node()
    return replace(context, sources=(make_busy_node().sources[0], slurm))


def make_unknown_node() -> Context:
    """Return the same with sixteen jobs that control groups show."""
    context = make_silent_node()
    assert context.snapshot is not None
    samples = [
        JobSample(
            key=JobKey("slurm", str(7000 + number)),
            accounting=FigureSource.CGROUP,
            user_cpu_secs=100.0 * number,
            system_cpu_secs=1.0,
            memory=MemoryBytes(anon=number * GIB // 4, file=2 * GIB, charged=number * GIB // 4 + 2 * GIB),
            processes=number,
            threads=number,
            uid=6000 + number,
        )
        for number in range(1, 17)
    ]
    return replace(context, snapshot=replace(context.snapshot, jobs={each.key: each for each in samples}))


def make_late_node() -> Context:
    """Return a busy node with a job past its limit, of which the controller has nothing to say any more."""
    context = make_busy_node()
    late = JobKey("slurm", "48255")
    slurm = context.sources[1]
    assert isinstance(slurm.table, JobTable)
    told = replace(
        slurm.table,
        node_problem="scontrol show node: Slurm knows no node of this name: 'Node gpu-a017 not found'",
    )
    jobs = {**context.jobs, late: Job(key=late, user="kto", name="gromacs prod 3")}
    return replace(
        context, jobs=jobs, sources=(context.sources[0], replace(slurm, table=told), *context.sources[2:])
    )


def make_leftover_node() -> Context:
    """Return a busy node with a job whose end Slurm told five minutes ago while its processes go on."""
    context = make_busy_node()
    key = JobKey("slurm", "48255")
    ended = replace(context.jobs[key], state=JobState.COMPLETED)
    return replace(context, jobs={**context.jobs, key: ended}, leftovers={key: NOW - 300})


def make_idle_node() -> Context:
    """Return a node without jobs and cards; its batch system has answered."""
    context = make_busy_node()
    assert context.snapshot is not None
    snapshot = replace(context.snapshot, jobs={}, gpus=(), job_gpus=(), gpu_drivers={})
    return replace(
        context,
        snapshot=snapshot,
        jobs={},
        ended={},
        statuses={},
        cpu_rates={},
        node_busy_cpus=0.2,
        sources=(
            KeeperStatus("slurm", JobTable(source="slurm", jobs={}, taken_at_secs=NOW - 12, complete=True)),
        ),
    )


def families_of(context: Context, role: str = "node") -> list[Family]:
    """Return the families of all collectors of a role; what they cost and cost us is made up."""
    found: list[Family] = []
    names = [name for name, each in COLLECTORS.items() if role in each.roles]
    for name in names:
        if name != "process":
            found += COLLECTORS[name].families(context)
    found += [Family.single(process.RESIDENT, 62 * 2**20), Family.single(process.CPU, 311.5)]
    if context.snapshot is not None:
        found.append(Family.single(process.SAMPLE, context.snapshot.duration_secs))
    names = "sources", "sinks", "process"
    return [
        *found,
        Family.single(FAILED, 0),
        Family.single(SPENT, 0.00025 * len(names)),
    ]


def make_cluster() -> Cluster:
    """Return a cluster of 60 nodes: a pool of two partitions that share nodes, cards, one for debugging."""
    names = [f"n{number:03}" for number in range(60)]
    nodes = []
    for number, each in enumerate(names):
        states = ("MIXED",) if number % 5 else ("ALLOCATED",)
        used = 128 if number % 5 == 0 else 96 + number % 3 * 8
        if number in (11, 37):
            states, used = ("DOWN", "NOT_RESPONDING"), 0
        elif number in (22, 23, 24):
            states, used = ("MIXED", "DRAIN"), 40
        elif number >= 56:
            states, used = ("IDLE",), 0
        cards = 4 if 40 <= number < 56 else None
        nodes.append(
            ClusterNode(
                name=each,
                states=states,
                cpus=128,
                allocated_cpus=used,
                memory_bytes=512 * GIB,
                allocated_memory_bytes=used * 3 * GIB,
                gpus=cards,
                allocated_gpus=None if cards is None else 4 if number % 3 else 3,
            )
        )
    return Cluster(
        source="slurm",
        taken_at_secs=NOW - 21,
        partitions=(
            Partition(name="batch", nodes=tuple(names[:40]), state="UP"),
            Partition(name="long", nodes=tuple(names[20:40]), state="UP"),
            Partition(name="gpu", nodes=tuple(names[40:56]), state="UP"),
            Partition(name="debug", nodes=tuple(names[56:]), state="DOWN"),
        ),
        nodes=tuple(nodes),
    )


def make_queue() -> JobTable:
    """Return a queue with some hundred jobs, drawn by a fixed rule."""
    jobs = []
    for number in range(330):
        partition = ("batch", "batch", "long", "gpu")[number % 4]
        runs = number < 210
        allowed = (4, 12, 24, 72)[number * 7 % 4] * 3600
        done = int(allowed * (number * 37 % 97) / 100)
        jobs.append(
            Job(
                key=JobKey("slurm", str(48000 + number)),
                state=JobState.RUNNING if runs else JobState.PENDING,
                user=("mweber", "asingh", "kto", "lrossi")[number % 4],
                partition=partition,
                start_secs=int(NOW) - done if runs else None,
                submit_secs=int(NOW) - done - 500 * (number % 40),
                eligible_secs=int(NOW) - 500 * (number % 40),
                total_cpus=(24, 32, 32, 38)[number % 4],
                total_nodes=1,
                total_gpus=2 if partition == "gpu" else None,
                limits=Limits(wall_secs=allowed),
                reason=None if runs else ("Priority", "Resources", "QOSMaxCpuPerUserLimit")[number % 3],
            )
        )
    return JobTable(source="slurm", jobs={job.key: job for job in jobs}, taken_at_secs=NOW - 9, complete=True)


def make_quality() -> ScheduleQuality:
    """Return how good the schedule was to 23 users."""
    users = (
        ("mweber", 212, 61, 91_000, 5.1e6),
        ("asingh", 88, 17, 40_200, 1.2e6),
        ("kto", 31, 3, 2500, 41_000),
    )
    return ScheduleQuality(
        source="slurm",
        taken_at_secs=NOW - 15,
        begin_secs=int(NOW) - 7 * 86_400,
        share_cpus=334,
        jobs=1931,
        violated=214,
        tardiness_secs=381_000,
        weighted_tardiness_cpu_secs=9.4e6,
        users=23,
        veet_quantiles={
            0.0: 0.0,
            0.25: 0.0,
            0.5: 0.041,
            0.75: 0.12,
            0.9: 0.21,
            0.95: 0.264,
            0.99: 0.29,
            1.0: 0.3,
        },
        unfinished={Verdict.CERTAINLY_LATE: 19, Verdict.POSSIBLY_LATE: 55, Verdict.NOT_LATE: 256},
        unsettled_jobs=42,
        top_users=tuple(
            UserQuality(
                user=user,
                share_cpus=334,
                jobs=jobs,
                violated=violated,
                tardiness_secs=late,
                weighted_tardiness_cpu_secs=weighted,
            )
            for user, jobs, violated, late, weighted in users
        ),
    )


def make_cluster_context() -> tuple[Context, tuple[ClusterView, ...]]:
    """Return what a controller knows, and its views."""
    cluster, queue = make_cluster(), make_queue()
    context = Context(
        now_secs=NOW,
        sources=(KeeperStatus("slurm-queue", queue), KeeperStatus("slurm-nodes", cluster)),
        queues=(compute_queue_sums(queue),),
        clusters=(compute_cluster_sums(cluster),),
        schedules=(make_quality(),),
    )
    return context, (compute_cluster_view("slurm", queue, cluster, now_secs=NOW),)
