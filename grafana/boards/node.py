"""A node: how full it is, and which jobs fill it."""

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
    starts_and_ends,
    user_link,
    variable,
)
from grafana.panels import (
    ANY_IS_BAD,
    ANY_IS_WORTH_A_LOOK,
    FULLNESS,
    GREEN,
    GREY,
    NO_JOBS,
    OF_NODE,
    ORANGE,
    RED,
    Json,
    colored,
    line_over_stack,
    links_of,
    query,
    running,
    running_rate,
    stat,
    steps,
    timeseries,
)
from grafana.tables import Column, Label, table

RATE = "$__rate_interval"
BUSY = f'sum(rate(batch_node_cpu_seconds_total{{{OF_NODE},mode!~"idle|iowait"}}[{RATE}]))'
ALLOCATED_CPUS = running("batch_job_allocated_cpus", OF_NODE)
ALLOCATED_MEMORY = running("batch_job_allocated_memory_bytes", OF_NODE)
CHARGED = running("batch_job_memory_charged_bytes", OF_NODE)
INFO = running("batch_job_info", OF_NODE)
ROW_KEY = "cluster, instance, batch_system, job_id"
JOB = "{{job_id}} on {{instance}}"


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "node",
        "Batch: node",
        "How full a node is, which jobs fill it, how long they stay, and when the node goes away.",
        ["node"],
        [
            cluster_variable(),
            variable(
                "instance",
                "Node",
                'batch_node_cores{cluster=~"$cluster"}',
                "Nodes, by the address scraped.",
                everything=False,
            ),
        ],
        [
            Row("Now", _now()),
            Row("Jobs here", _jobs()),
            Row("The whole node", _whole()),
            Row("Leaving", _leaving()),
        ],
        annotations=starts_and_ends(OF_NODE, enable=False),
    )


def _now() -> list[Placed]:
    return line(
        stat("Jobs", "Jobs that run on these nodes.", f"count({INFO})", empty="none"),
        stat(
            "CPUs allocated",
            "CPUs that jobs have, of those that jobs may get.",
            f"sum({ALLOCATED_CPUS}) / sum(batch_node_allocatable_cpus{{{OF_NODE}}})",
            "percentunit",
            empty="no jobs",
        ),
        stat(
            "CPUs busy",
            "CPU time of everything on the node, neither idle nor waiting for disks, of all cores.",
            f"{BUSY} / sum(batch_node_cores{{{OF_NODE}}})",
            "percentunit",
        ),
        stat(
            "Memory used",
            "Memory that is not available to new work.",
            f'1 - sum(batch_node_memory_bytes{{{OF_NODE},kind="available"}})'
            f' / sum(batch_node_memory_bytes{{{OF_NODE},kind="total"}})',
            "percentunit",
            thresholds=FULLNESS,
        ),
        stat(
            "Power",
            "What processors, their memory and GPUs draw, where the node can tell.",
            f'sum(rate(batch_node_energy_joules_total{{{OF_NODE},domain!="psys"}}[{RATE}]))'
            f" + (sum(batch_gpu_power_watts{{{OF_NODE}}}) or vector(0))",
            "watt",
            empty="not told",
        ),
        stat(
            "Draining",
            "Nodes of these that take no more jobs, or have a time to go.",
            f"sum(max by (cluster, instance, node) (batch_node_draining{{{OF_NODE}}}))",
            thresholds=ANY_IS_WORTH_A_LOOK,
        ),
        stat(
            "OOM kills",
            "Processes that the kernel killed when memory ran out in the time shown.",
            f"sum(increase(batch_node_oom_kills_total{{{OF_NODE}}}[$__range]))",
            thresholds=ANY_IS_BAD,
            decimals=0,
        ),
        stat(
            "Up for",
            "Time since the node that was booted last.",
            f"time() - max(batch_node_boot_time_seconds{{{OF_NODE}}})",
            "s",
        ),
        height=4,
    )


def _jobs() -> list[Placed]:
    rate = f"sum by ({ROW_KEY}) ({running_rate('batch_job_cpu_seconds_total', OF_NODE)})"
    memory = f"max by ({ROW_KEY}) ({CHARGED})"
    limit = f"max by ({ROW_KEY}) (batch_job_memory_limit_bytes{{{OF_NODE}}})"
    cpus = f"max by ({ROW_KEY}) ({ALLOCATED_CPUS})"
    return [
        *line(
            table(
                "Jobs",
                "Every job on these nodes: what it has, what it uses of that, and how long it still runs. A job's "
                "number leads to its page.",
                [
                    Label("job_id", "Job", (job_link(),), 90),
                    Label("instance", "Node", (node_link(),), 120),
                    Label("user", "User", (user_link(),), 90),
                    Label("partition", "Partition", width=90),
                    Label("name", "Name"),
                    Label("cluster", "Cluster", width=80),
                    Label("batch_system", "System", hidden=True),
                ],
                [
                    Column(
                        "Info",
                        f"max by ({ROW_KEY}, user, partition, name) ({INFO})",
                        hidden=True,
                    ),
                    Column("CPUs", cpus, width=70),
                    Column(
                        "CPU use",
                        f"{rate} / {cpus}",
                        "percentunit",
                        steps(RED, (0.25, ORANGE), (0.6, GREEN)),
                        gauge=True,
                        low=0,
                        high=1,
                        decimals=0,
                    ),
                    Column("Memory", memory, "bytes", width=90),
                    Column(
                        "Of its limit",
                        f"{memory} / {limit}",
                        "percentunit",
                        FULLNESS,
                        gauge=True,
                        low=0,
                        high=1,
                        decimals=0,
                    ),
                    Column(
                        "Ends in",
                        f'min by ({ROW_KEY}) (batch_job_remaining_seconds{{{OF_NODE},basis="minimum"}})',
                        "s",
                        steps(RED, (0, ORANGE), (1800, "text")),
                        width=100,
                    ),
                ],
                sort="Job",
                descending=False,
                empty="no jobs",
            ),
        ),
        *line(
            timeseries(
                "CPUs used by job",
                "CPUs that each job keeps busy, stacked, under the CPUs that are allocated.",
                [
                    query(
                        f"sum by ({ROW_KEY}) (rate(batch_job_cpu_seconds_total{{{OF_NODE}}}[{RATE}]))", JOB
                    ),
                    query(f"sum({ALLOCATED_CPUS})", "allocated"),
                ],
                "none",
                stacked=True,
                overrides=[line_over_stack("allocated")],
                links=links_of(dict([job_link(OF_SERIES)])),
                empty="no jobs",
                many=True,
            ),
            timeseries(
                "Memory by job",
                "Memory that the kernel counts against each job, page cache included, under what the batch system "
                "gave to all.",
                [
                    query(f"{CHARGED}", JOB),
                    query(f"sum({ALLOCATED_MEMORY})", "allocated"),
                ],
                "bytes",
                stacked=True,
                overrides=[line_over_stack("allocated")],
                links=links_of(dict([job_link(OF_SERIES)])),
                empty="no jobs",
                many=True,
            ),
        ),
    ]


def _memory(kind: str) -> str:
    return f'sum(batch_node_memory_bytes{{{OF_NODE},kind="{kind}"}})'


def _whole() -> list[Placed]:
    by_mode = f'sum by (mode) (rate(batch_node_cpu_seconds_total{{{OF_NODE},mode!="idle"}}[{RATE}]))'
    return [
        *line(
            timeseries(
                "CPU by mode",
                "Cores in use by what the kernel says they do. iowait is idle time in which something waits for disks.",
                [query(by_mode, "{{mode}}"), query(f"sum(batch_node_cores{{{OF_NODE}}})", "cores")],
                "none",
                stacked=True,
                overrides=[line_over_stack("cores"), colored("iowait", GREY), colored("user", GREEN)],
            ),
            timeseries(
                "Load",
                "Load average over one and fifteen minutes, and threads that run or would, beside the cores.",
                [
                    query(f'sum(batch_node_load{{{OF_NODE},minutes="1"}})', "1 minute"),
                    query(f'sum(batch_node_load{{{OF_NODE},minutes="15"}})', "15 minutes"),
                    query(f"sum(batch_node_runnable_threads{{{OF_NODE}}})", "runnable threads"),
                    query(f"sum(batch_node_cores{{{OF_NODE}}})", "cores"),
                ],
                "none",
                overrides=[line_over_stack("cores")],
            ),
            timeseries(
                "Memory",
                "What is in use, what is page cache or buffers and could be given back, and what is free.",
                [
                    query(f"{_memory('total')} - {_memory('available')}", "used"),
                    query(f"{_memory('available')} - {_memory('free')}", "can be given back"),
                    query(_memory("free"), "free"),
                    query(_memory("total"), "total"),
                ],
                "bytes",
                stacked=True,
                overrides=[line_over_stack("total")],
            ),
        ),
        *line(
            timeseries(
                "Pressure",
                "Share of time in which at least one task (some), or all that had work (full), stalled waiting for CPUs, "
                "memory or disks.",
                [
                    query(
                        f"avg by (resource, share) (rate(batch_node_pressure_seconds_total{{{OF_NODE}}}[{RATE}]))",
                        "{{resource}} {{share}}",
                    )
                ],
                "percentunit",
            ),
            timeseries(
                "Disks",
                "What whole disks read and, below zero, write.",
                [
                    query(
                        f"sum by (instance, device) (rate(batch_node_disk_read_bytes_total{{{OF_NODE}}}[{RATE}]))",
                        "{{instance}} {{device}} read",
                    ),
                    query(
                        f"-sum by (instance, device) (rate(batch_node_disk_written_bytes_total{{{OF_NODE}}}[{RATE}]))",
                        "{{instance}} {{device}} written",
                    ),
                ],
                "Bps",
                low=None,
            ),
            timeseries(
                "Disks busy",
                "Share of time in which a disk had something to do.",
                [
                    query(
                        f"rate(batch_node_disk_io_time_seconds_total{{{OF_NODE}}}[{RATE}])",
                        "{{instance}} {{device}}",
                    ),
                ],
                "percentunit",
                high=1,
            ),
        ),
        *line(
            timeseries(
                "Power by part",
                "What processors and their memory draw by the kernel's counters, cards by their driver's, and the "
                "whole machine by its sensors.",
                [
                    query(
                        f"rate(batch_node_energy_joules_total{{{OF_NODE}}}[{RATE}])",
                        "{{instance}} {{domain}}",
                    ),
                    query(f"sum by (instance) (batch_gpu_power_watts{{{OF_NODE}}})", "{{instance}} GPUs"),
                    query(f"batch_node_power_watts{{{OF_NODE}}}", "{{instance}} machine by {{sensor}}"),
                ],
                "watt",
                empty="the node does not tell",
            ),
            timeseries(
                "Processes and threads",
                "Processes of the node, and of its jobs; threads, those of the kernel included.",
                [
                    query(f"sum(batch_node_processes{{{OF_NODE}}})", "processes"),
                    query(f"sum(batch_node_threads{{{OF_NODE}}})", "threads"),
                    query(
                        f'sum(batch_job_processes{{{OF_NODE},batch_system!~"{NO_JOBS}"}})',
                        "processes of jobs",
                    ),
                ],
                "none",
            ),
        ),
    ]


def _leaving() -> list[Placed]:
    remaining = f'batch_job_remaining_seconds{{{OF_NODE},basis="minimum"}}'
    return line(
        timeseries(
            "Time left by job",
            "Time until each job ends by the first of its limits, its own estimate and a shutdown.",
            [query(f"max by ({ROW_KEY}) ({remaining}) / 3600", JOB)],
            "h",
            links=links_of(dict([job_link(OF_SERIES)])),
            many=True,
            low=None,
            empty="no jobs with a known end",
        ),
        timeseries(
            "Wasted if it drained, or if all were killed",
            "CPU time that would stay idle until the last job is gone, and that would be lost if all jobs were killed.",
            [
                query(
                    f"sum(max by (cluster, instance, node) (batch_node_draining_waste_core_seconds{{{OF_NODE}}})) / 3600",
                    "draining",
                ),
                query(
                    f"sum(max by (cluster, instance, node) (batch_node_kill_waste_core_seconds{{{OF_NODE}}})) / 3600",
                    "killing",
                ),
            ],
            "suffix:core h",
            empty="not known of every job",
        ),
    )
