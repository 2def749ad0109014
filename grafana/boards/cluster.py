"""The whole cluster: nodes, queue, and how much of what is given away is used."""

from __future__ import annotations

from grafana.board import Placed, Row, cluster_variable, dashboard, line, node_link, variable
from grafana.panels import (
    ANY_IS_BAD,
    ANY_IS_WORTH_A_LOOK,
    FULLNESS,
    GREEN,
    GREY,
    NO_JOBS,
    OF_CLUSTER,
    ORANGE,
    RED,
    USEFULNESS,
    Json,
    colored,
    gpu_busy,
    gpu_parts,
    query,
    running,
    running_rate,
    stat,
    steps,
    timeseries,
)
from grafana.tables import Column, Label, table

RATE = "$__rate_interval"
P = f'{OF_CLUSTER},partition=~"$partition"'
ALLOCATED_CPUS = running("batch_job_allocated_cpus", OF_CLUSTER)
OF_JOBS = f'{OF_CLUSTER},batch_system!~"{NO_JOBS}"'
USED_CPUS = running_rate("batch_job_cpu_seconds_total", OF_JOBS)
INFO = running("batch_job_info", OF_CLUSTER)
KIND_COLORS = [colored("allocated", GREEN), colored("idle", "blue"), colored("other", GREY)]
NO_CONTROLLER = "no controller is scraped"
IN_EACH = "A node of several partitions counts in each: choose one."
JOB_IN_EACH = "A job that may start in several partitions counts in each."


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "cluster",
        "Batch: cluster and queue",
        "Nodes and queue as the batch system tells them to the controller, beside what jobs make of what they get.",
        ["cluster"],
        [
            cluster_variable(),
            variable(
                "partition", "Partition", 'batch_cluster_nodes{cluster=~"$cluster"}',
                "Partitions, or queues. A node of two counts in both.",
            ),
        ],
        [
            Row("Now", _now()),
            Row("Partitions and nodes", _partitions()),
            Row("Capacity", _capacity()),
            Row("Queue", _queue()),
            Row("Given and used", _used()),
        ],
    )  # fmt: skip


def _now() -> list[Placed]:
    return line(
        stat("Nodes", f"Nodes that the batch system knows. {IN_EACH}", f"sum(batch_cluster_nodes{{{P}}})", empty=NO_CONTROLLER),
        stat("Down", f"Nodes that the batch system calls down. {IN_EACH}", f'sum(batch_cluster_nodes{{{P},state="DOWN"}})',
             thresholds=ANY_IS_BAD, empty="–"),
        stat("Draining", f"Nodes that take no more jobs. {IN_EACH}", f'sum(batch_cluster_nodes_flagged{{{P},flag="DRAIN"}})',
             thresholds=ANY_IS_WORTH_A_LOOK, empty="–"),
        stat("CPUs allocated", f"Of all CPUs, those of nodes that start no jobs included. {IN_EACH}",
             f'sum(batch_cluster_cpus{{{P},kind="allocated"}}) / sum(batch_cluster_cpus{{{P}}})', "percentunit",
             decimals=0),
        stat("CPUs used", "CPUs that jobs keep busy, of those that they have, on all nodes that are scraped.",
             f"sum({USED_CPUS}) / sum({ALLOCATED_CPUS})",
             "percentunit", thresholds=USEFULNESS, empty="no jobs", decimals=0),
        stat("Jobs running", "Jobs that have nodes.", f'sum(batch_queue_jobs{{{P},state="RUNNING"}})'),
        stat("Jobs waiting", f"Jobs that could start if there were room. {JOB_IN_EACH}", f"sum(batch_queue_waiting_jobs{{{P}}})"),
        stat("Longest wait", "Of the job that could have started first.", f"max(batch_queue_oldest_wait_seconds{{{P}}})",
             "s", thresholds=steps(GREEN, (86400, ORANGE), (604800, RED))),
        height=4,
    )  # fmt: skip


def _partitions() -> list[Placed]:
    key = "cluster, batch_system, partition"

    def of_kind(metric: str, kind: str) -> str:
        return f'sum by ({key}) ({metric}{{{P},kind="{kind}"}})'

    allocated, free = (of_kind("batch_cluster_cpus", kind) for kind in ("allocated", "idle"))
    up = {
        "type": "value",
        "options": {"0": {"text": "closed", "color": RED}, "1": {"text": "open", "color": GREEN}},
    }
    node = "cluster, instance"
    busy = f'sum by ({node}) (rate(batch_node_cpu_seconds_total{{{OF_CLUSTER},mode!~"idle|iowait"}}[{RATE}]))'
    memory = f"sum by ({node}) (batch_node_memory_bytes{{{OF_CLUSTER}"
    return [
        *line(
            table(
                "Partitions", "What each partition has, what of it is taken, and who waits for it.",
                [Label("partition", "Partition"), Label("cluster", "Cluster", width=90), Label("batch_system", "System", hidden=True)],
                [
                    Column("Takes jobs", f"max by ({key}) (batch_cluster_partition_up{{{P}}})", thresholds=steps(RED, (1, GREEN)),
                           mappings=(up,)),
                    Column("Nodes", f"sum by ({key}) (batch_cluster_nodes{{{P}}})"),
                    Column("CPUs free", free),
                    Column("CPUs taken", f"{allocated} / ({allocated} + {free})", "percentunit", FULLNESS, gauge=True,
                           low=0, high=1, decimals=0),
                    Column("Running", f'sum by ({key}) (batch_queue_jobs{{{P},state="RUNNING"}})'),
                    Column("Waiting", f"sum by ({key}) (batch_queue_waiting_jobs{{{P}}})"),
                    Column("Longest wait", f"max by ({key}) (batch_queue_oldest_wait_seconds{{{P}}})", "s"),
                ],
                sort="Partition", descending=False, empty=NO_CONTROLLER,
            ),
            height=5,
        ),
        *line(
            table(
                "Nodes", "Nodes that are scraped. A node's name leads to its page.",
                [Label("instance", "Node", (node_link(),)), Label("cluster", "Cluster", width=90)],
                [
                    Column("Cores", f"max by ({node}) (batch_node_cores{{{OF_CLUSTER}}})", width=70),
                    Column("Jobs", f"count by ({node}) ({INFO})", width=70),
                    Column("CPUs busy", f"{busy} / sum by ({node}) (batch_node_cores{{{OF_CLUSTER}}})", "percentunit", FULLNESS,
                           gauge=True, low=0, high=1, decimals=0),
                    Column("Memory used", f'1 - {memory},kind="available"}}) / {memory},kind="total"}})', "percentunit",
                           FULLNESS, gauge=True, low=0, high=1, decimals=0),
                    Column("Draining", f"max by ({node}) (batch_node_draining{{{OF_CLUSTER}}})", width=80,
                           thresholds=ANY_IS_WORTH_A_LOOK, mappings=(
                               {"type": "value", "options": {"0": {"text": "no"}, "1": {"text": "yes"}}},)),
                ],
                sort="Node", descending=False, empty="no node is scraped",
            ),
            height=7,
        ),
    ]  # fmt: skip


def _capacity() -> list[Placed]:
    def by_kind(metric: str) -> list[Json]:
        return [query(f"sum by (kind) ({metric}{{{P}}})", "{{kind}}")]

    why = f"allocated; idle: jobs may get it; other: of nodes that start no jobs. {IN_EACH}"
    return line(
        timeseries("CPUs", f"CPUs by kind: {why}", by_kind("batch_cluster_cpus"), "none", stacked=True,
                   overrides=KIND_COLORS, empty=NO_CONTROLLER),
        timeseries("Memory", f"Memory by kind: {why}", by_kind("batch_cluster_memory_bytes"), "bytes", stacked=True,
                   overrides=KIND_COLORS, empty=NO_CONTROLLER),
        timeseries("GPUs", f"Cards by kind: {why}", by_kind("batch_cluster_gpus"), "none", stacked=True,
                   overrides=KIND_COLORS, empty="none, or not accounted for"),
        timeseries("Nodes by state", f"Nodes by what the batch system calls them. {IN_EACH}",
                   [query(f"sum by (state) (batch_cluster_nodes{{{P}}})", "{{state}}")], "none", stacked=True,
                   overrides=[colored("DOWN", RED)], empty=NO_CONTROLLER),
    )  # fmt: skip


def _queue() -> list[Placed]:
    return [
        *line(
            timeseries("Jobs by state", f"Jobs that have not ended; each task of an array is one. {JOB_IN_EACH}",
                       [query(f"sum by (state) (batch_queue_jobs{{{P}}})", "{{state}}")], "none", stacked=True,
                       empty=NO_CONTROLLER),
            timeseries("CPUs requested by waiting jobs", f"By partition: what would be needed to start all of them. {JOB_IN_EACH}",
                       [query(f'sum by (partition) (batch_queue_cpus{{{P},state="PENDING"}})', "{{partition}}")], "none",
                       stacked=True, empty=NO_CONTROLLER),
            timeseries("Why jobs wait", f"Pending jobs by the batch system's word for why they do not run. {JOB_IN_EACH}",
                       [query(f"sum by (reason) (batch_queue_pending_jobs{{{P}}})", "{{reason}}")], "none", stacked=True,
                       empty="no job waits"),
        ),
        *line(
            timeseries("Longest wait", "Of the job of each partition that could have started first.",
                       [query(f"max by (partition) (batch_queue_oldest_wait_seconds{{{P}}}) / 3600", "{{partition}}")], "h",
                       empty="no job waits"),
            timeseries("Mean wait so far", "Of jobs that could start; those on hold are left out.",
                       [query(f"sum by (partition) (batch_queue_wait_job_seconds{{{P}}})"
                              f" / (sum by (partition) (batch_queue_waiting_jobs{{{P}}}) > 0) / 3600", "{{partition}}")], "h",
                       empty="no job waits"),
            timeseries("Jobs that could start", f"Pending jobs that are allowed to start, by partition. {JOB_IN_EACH}",
                       [query(f"sum by (partition) (batch_queue_waiting_jobs{{{P}}})", "{{partition}}")], "none",
                       stacked=True, empty=NO_CONTROLLER),
        ),
    ]  # fmt: skip


def _used() -> list[Placed]:
    c = OF_CLUSTER
    return line(
        timeseries("CPUs given and used", "On all nodes that are scraped: what jobs keep busy, what they have, what there is.",
                   [
                       query(f"sum({USED_CPUS})", "used by jobs"),
                       query(f"sum({ALLOCATED_CPUS})", "allocated"),
                       query(f"sum(batch_node_allocatable_cpus{{{c}}})", "all"),
                   ], "none", empty="no node is scraped"),
        timeseries("Memory given and used", "On all nodes that are scraped.",
                   [
                       query(f"sum({running('batch_job_memory_charged_bytes', OF_JOBS)})", "used by jobs"),
                       query(f"sum({running('batch_job_allocated_memory_bytes', c)})", "allocated"),
                       query(f'sum(batch_node_memory_bytes{{{c},kind="total"}})', "all"),
                   ], "bytes", empty="no node is scraped"),
        timeseries("GPUs given and used", "Cards that compute, that jobs have, that there are.",
                   [
                       query(f"sum({gpu_busy(c)})", "busy"),
                       query(f"sum({gpu_parts(c)})", "allocated"),
                       query(f'count(batch_gpu_info{{{c},parent=""}})', "all"),
                   ], "none", empty="no GPUs"),
    )  # fmt: skip
