"""A user: own jobs, what they have and use, what is wasted, and how punctual they were."""

from __future__ import annotations

from grafana.board import (
    OF_SERIES,
    Placed,
    Row,
    cluster_variable,
    dashboard,
    job_link,
    line,
    node_link,
    user_link,
    variable,
)
from grafana.panels import (
    FULLNESS,
    GPU_KEY,
    JOB_KEY,
    OF_CLUSTER,
    ORANGE,
    RED,
    USEFULNESS,
    Json,
    bars,
    gpu_busy,
    gpu_parts,
    gpu_power,
    gpu_use,
    line_over_stack,
    links_of,
    now,
    query,
    running,
    running_rate,
    stat,
    steps,
    timeseries,
)
from grafana.tables import Column, Label, table
from jobfeatures_exporter.view.thresholds import IDLE_GPU

RATE = "$__rate_interval"
MINE = f'{OF_CLUSTER},user=~"$user"'
INFO = running("batch_job_info", MINE)
# Joined to jobs that have not ended: so are only their figures left.
OWN = f"* on ({JOB_KEY}) group_left (user) {INFO}"
ALLOCATED_CPUS = f"batch_job_allocated_cpus{{{OF_CLUSTER}}}"
ALLOCATED_MEMORY = f"batch_job_allocated_memory_bytes{{{OF_CLUSTER}}}"
CHARGED = f"batch_job_memory_charged_bytes{{{OF_CLUSTER}}}"
GPU_PARTS = gpu_parts(OF_CLUSTER)
KEY = "cluster, instance, batch_system, job_id"
USED_CPUS = running_rate("batch_job_cpu_seconds_total", OF_CLUSTER)
CPU_RATE = f"sum({USED_CPUS} {OWN})"
CPUS = f"sum({ALLOCATED_CPUS} {OWN})"
GPU_SECS = f"sum(batch_job_gpu_utilization_ratio{{{OF_CLUSTER}}} {OWN})"
GPUS = f"sum({GPU_PARTS} {OWN})"
NOBODY = "no jobs"


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "user",
        "Batch: user",
        "The running jobs of one user or several: what they have, use and waste, and how late jobs ended against what "
        "the user may expect.",
        ["user"],
        [
            cluster_variable(),
            variable(
                "user",
                "User",
                'batch_job_info{cluster=~"$cluster"}',
                "Users who have jobs in this time.",
                everything=False,
            ),
        ],
        [
            Row("Now", _now()),
            Row("Jobs", _jobs()),
            Row("Given and used", _used()),
            Row("Waste", _waste()),
            Row("Punctuality", _punctuality()),
        ],
    )


def _now() -> list[Placed]:
    memory = f"sum({CHARGED} {OWN})"
    given = f"sum({ALLOCATED_MEMORY} {OWN})"
    return line(
        stat("Jobs", "Running jobs, one of several nodes counted once.",
             f"count(count by (cluster, batch_system, job_id) ({INFO}))", empty="none"),
        stat("CPUs", "CPUs that the jobs have.", CPUS, empty=NOBODY),
        stat("CPU use", "CPUs kept busy, of those that the jobs have.", f"{CPU_RATE} / {CPUS}", "percentunit",
             thresholds=USEFULNESS, empty=NOBODY, decimals=0),
        stat("Memory use", "Memory counted against the jobs, of what they were given.", f"{memory} / {given}",
             "percentunit", empty=NOBODY, decimals=0),
        stat("GPUs", "Cards that the jobs have.", GPUS, empty="no GPUs"),
        stat("GPU use", "Share of time in which the jobs' cards computed for them.", gpu_use(OF_CLUSTER, f" {OWN}"),
             "percentunit", thresholds=USEFULNESS, empty="no GPUs", decimals=0),
        height=4,
    )  # fmt: skip


def _jobs() -> list[Placed]:
    rate = f"sum by ({KEY}) ({USED_CPUS} {OWN})"
    cpus = f"max by ({KEY}) ({ALLOCATED_CPUS} {OWN})"
    memory = f"max by ({KEY}) ({CHARGED} {OWN})"
    limit = f"max by ({KEY}) (batch_job_memory_limit_bytes{{{OF_CLUSTER}}} {OWN})"
    ends = f'min by ({KEY}) (batch_job_remaining_seconds{{{OF_CLUSTER},basis="minimum"}} {OWN})'
    killed = f"max by ({KEY}) (batch_job_kill_waste_core_seconds{{{OF_CLUSTER}}} {OWN}) / 3600"
    bad = steps(RED, (0.25, ORANGE), (0.6, "green"))
    return line(
        table(
            "Running jobs", "Each job on each of its nodes. A job's number leads to its page.",
            [
                Label("job_id", "Job", (job_link(),), 80), Label("instance", "Node", (node_link(),), 120),
                Label("user", "User", width=80), Label("partition", "Partition", width=90), Label("name", "Name"),
                Label("cluster", "Cluster", width=80), Label("batch_system", "System", hidden=True),
            ],
            [
                Column("Info", f"max by ({KEY}, user, partition, name) ({INFO})", hidden=True),
                Column("CPUs", cpus, width=70),
                Column("CPU use", f"{rate} / {cpus}", "percentunit", bad, gauge=True, low=0, high=1, decimals=0),
                Column("Memory", memory, "bytes", width=90),
                Column("Of its limit", f"{memory} / {limit}", "percentunit", FULLNESS, gauge=True, low=0, high=1,
                       decimals=0),
                Column("Ends in", ends, "s", steps(RED, (0, ORANGE), (1800, "text")), width=100),
                Column("Lost if killed", killed, "suffix:core h", decimals=1, width=120),
            ],
            sort="Job", descending=False, empty=NOBODY,
        ),
        height=10,
    )  # fmt: skip


def _used() -> list[Placed]:
    return line(
        timeseries("CPUs", "CPUs kept busy under those that the jobs have.",
                   [query(CPU_RATE, "used"), query(CPUS, "allocated")], "none",
                   overrides=[line_over_stack("allocated")], empty=NOBODY),
        timeseries("Memory", "Memory counted against the jobs under what they were given.",
                   [
                       query(f"sum({CHARGED} {OWN})", "used"),
                       query(f"sum({ALLOCATED_MEMORY} {OWN})", "allocated"),
                   ], "bytes", overrides=[line_over_stack("allocated")], empty=NOBODY),
        timeseries("GPUs", "Cards in use under those that the jobs have.",
                   [query(GPU_SECS, "used"), query(GPUS, "allocated")], "none",
                   overrides=[line_over_stack("allocated")], empty="no GPUs"),
    )  # fmt: skip


def _waste() -> list[Placed]:
    suspended = f'max_over_time(batch_job_state{{{OF_CLUSTER},state="SUSPENDED"}}[{RATE}])'
    idle = (
        f"(clamp_min({ALLOCATED_CPUS} - on ({JOB_KEY})"
        f" sum by ({JOB_KEY}) ({USED_CPUS}), 0)"
        f" unless on ({JOB_KEY}) {suspended})"
    )
    unused = f"clamp_min({ALLOCATED_MEMORY} - on ({JOB_KEY}) batch_job_memory_peak_bytes{{{OF_CLUSTER}}}, 0)"
    gpus = f"{GPU_PARTS} * on ({GPU_KEY}) group_left () ({gpu_busy(OF_CLUSTER)} < bool {IDLE_GPU})"
    by_job = links_of(dict([job_link(OF_SERIES)]))
    return [
        *line(
            timeseries("CPUs idle, by job", "CPUs that jobs have and leave idle; the ten worst.",
                       [query(f"topk(10, sum by (cluster, batch_system, job_id, name) ({idle} * on ({JOB_KEY})"
                              f" group_left (name) {INFO}))", "{{job_id}} {{name}}")],
                       "none", stacked=True, links=by_job, empty=NOBODY, many=True),
            timeseries("Memory asked and never touched, by job",
                       "What jobs were given beyond the most that they ever had; the ten worst.",
                       [query(f"topk(10, sum by (cluster, batch_system, job_id, name) ({unused} * on ({JOB_KEY})"
                              f" group_left (name) {INFO}))", "{{job_id}} {{name}}")],
                       "bytes", stacked=True, links=by_job, empty=NOBODY, many=True),
        ),
        *line(
            timeseries("GPUs held idle", f"Cards that jobs have and that computed for less than {IDLE_GPU:.0%} of the time.",
                       [query(f"sum by (job_id) (({gpus}) * on ({JOB_KEY}) group_left () {INFO}) > 0", "job {{job_id}}")],
                       "none", stacked=True, empty="none"),
            timeseries("Lost if killed now", "CPU time that would be lost if the jobs were killed, and idle if they drained.",
                       [
                           query(f"sum(batch_job_kill_waste_core_seconds{{{OF_CLUSTER}}} {OWN}) / 3600", "killed"),
                           query(f"sum(batch_job_draining_waste_core_seconds{{{OF_CLUSTER}}} {OWN}) / 3600", "drained"),
                       ], "suffix:core h", empty="not known"),
            timeseries("Power", "What the jobs draw: their part of processors, and their cards.",
                       [
                           query(f'sum(rate(batch_job_energy_joules_total{{{OF_CLUSTER},source="cpu"}}[{RATE}])'
                                 f" * on ({JOB_KEY}) group_left () {INFO})", "cpu"),
                           query(f"sum({gpu_power(OF_CLUSTER, OF_CLUSTER)} * on ({JOB_KEY}) group_left () {INFO})", "gpu"),
                       ],
                       "watt", stacked=True, empty="the nodes do not tell"),
        ),
    ]  # fmt: skip


def _punctuality() -> list[Placed]:
    late = steps("green", (0.05, ORANGE), (0.25, RED))
    veet = f"batch_schedule_user_veet_ratio{{{MINE}}}"
    weighted = f"batch_schedule_user_weighted_tardiness_cpu_seconds_total{{{MINE}}}"
    only = "among the users with most tardiness only"
    return [
        (
            bars("Jobs ended late", "Part of each user's jobs that ended after the time that the default share promises.",
                 [now(f"sort_desc(topk(10, max by (user) ({veet})))", "{{user}}")], "percentunit", thresholds=late, high=1,
                 empty=only, decimals=0, links=links_of(dict([user_link(OF_SERIES)]))),
            8, 9,
        ),
        (
            timeseries("Jobs ended late over time", "The same over time, beside the user in the middle.",
                       [
                           query(f"max by (user) ({veet})", "{{user}}"),
                           query(f'max(batch_schedule_veet_ratio{{{OF_CLUSTER},quantile="0.5"}})', "median of all users"),
                       ], "percentunit", overrides=[line_over_stack("median of all users")], empty=only, many=True),
            8, 9,
        ),
        (
            timeseries("Weighted tardiness", "How much later than promised, times CPUs, added up since the controller's start.",
                       [query(f"sum by (user) ({weighted}) / 3600", "{{user}}")], "suffix:core h", empty=only, many=True),
            8, 9,
        ),
    ]  # fmt: skip
