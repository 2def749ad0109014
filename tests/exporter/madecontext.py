"""One context in which every metric has a sample."""

from __future__ import annotations

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.drains.drain import Announced, Drain, Drains
from jobfeatures.features.machine import Machine
from jobfeatures.publish.drainbook import DrainView
from jobfeatures.publish.hookreasons import PAIRS
from jobfeatures.publish.publisher import PublisherStatus
from jobfeatures.records.model import (
    JobKey,
    JobTable,
)
from jobfeatures.status.board import StatusView
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures_exporter.cluster.sums import compute_cluster_sums, compute_queue_sums
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.missing import DaemonGroups, JobsWithoutGroup, Reason
from jobfeatures_exporter.model.snapshot import (
    Kind,
)
from jobfeatures_exporter.model.statuses import LastReload, ListenerStatus, SinkStatus, WebStatus
from tests.exporter.madecluster import make_administration, make_cluster, make_queue, make_schedule
from tests.exporter.madenode import NOW, make_ended, make_jobs, make_snapshot, make_sysinfo


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
        publisher=PublisherStatus(
            2,
            1,
            {**dict.fromkeys(PAIRS, 0), ("publish", "enospc"): 3, ("publish", "limits"): 9},
            contradictions=1,
        ),
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
        missing_groups=JobsWithoutGroup(
            {JobKey("slurm", "14"): Reason.FOUND, JobKey("slurm", "15"): Reason.EXPECTED},
            {"slurm": DaemonGroups("slurmd", "/site.slice/slurmd.service", ("/site.slice/jobs",))},
        ),
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
