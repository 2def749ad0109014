"""A constructed cluster of which everything is known: queue, nodes, shares, the quality of its schedule."""

from __future__ import annotations

from jobfeatures.records.administration import (
    AdministrationAnswer,
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
    Cluster,
    ClusterNode,
    Job,
    JobKey,
    JobState,
    JobTable,
    Partition,
)
from jobfeatures.records.schedulequality import Histogram, ScheduleQuality, UserQuality, Verdict
from tests.exporter.madenode import NOW


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


def make_administration() -> tuple[AdministrationAnswer, ...]:
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
