"""One job: what it was given, what it makes of it, how long it has, and what ending it would waste."""

from __future__ import annotations

from grafana.board import (
    Placed,
    Row,
    cluster_variable,
    dashboard,
    line,
    node_link,
    starts_and_ends,
    user_link,
    variable,
)
from grafana.panels import (
    ANY_IS_BAD,
    FULLNESS,
    GREEN,
    OF_CLUSTER,
    OF_NODE,
    ORANGE,
    RED,
    USEFULNESS,
    Json,
    colored,
    gpu_power,
    gpu_use,
    line_over_stack,
    now,
    query,
    rows_of_shares,
    running,
    running_rate,
    stat,
    steps,
    timeseries,
)
from grafana.tables import Column, Label, table

RATE = "$__rate_interval"
J = f'{OF_CLUSTER},instance=~"$instance",batch_system="$batch_system",job_id="$job_id"'
CPU_RATE = running_rate("batch_job_cpu_seconds_total", J)
CORES = f"sum by (cluster, instance, core) (rate(batch_job_core_cpu_seconds_total{{{J}}}[{RATE}]))"
# Rows stand in the order of their names: 2 before 10 only as 002 before 010.
SORTED_CORES = f'label_replace(label_replace({CORES}, "core", "00$1", "core", "([0-9])"), "core", "0$1", "core", "([0-9]{{2}})")'
ALLOCATED_CPUS = running("batch_job_allocated_cpus", J)
CPUS = f"sum({ALLOCATED_CPUS})"
OFF = "off unless switched on"


def board() -> Json:
    """Return the dashboard."""
    known = 'batch_job_info{cluster=~"$cluster"'
    return dashboard(
        "job",
        "Batch: job",
        "What one job was given and what it makes of it, on all its nodes: CPUs, memory, GPUs, input and "
        "output, time left, and what ending it would waste.",
        ["job"],
        [
            cluster_variable(),
            variable("batch_system", "System", f"{known}}}", "The batch system.", several=False),
            variable(
                "job_id", "Job", f'{known},batch_system="$batch_system"}}', "The job's number; may be typed.",
                several=False,
            ),
            variable(
                "instance", "Node", f'{known},batch_system="$batch_system",job_id="$job_id"}}', "Nodes of the job."
            ),
        ],
        [
            Row("The job", _job()),
            Row("CPUs and memory", _cpus_and_memory()),
            Row("Time left and waste", _time()),
            Row("GPUs and energy", _gpus()),
            Row("Input, output, waiting", _io()),
            Row("Network and file systems", _whole_nodes(), collapsed=True),
            Row("Cores, steps and commands", _parts(), collapsed=True),
        ],
        annotations=starts_and_ends(J, enable=True),
        since="now-3h",
    )  # fmt: skip


def _job() -> list[Placed]:
    memory = f"sum(batch_job_memory_charged_bytes{{{J}}})"
    limit = f"sum(batch_job_memory_limit_bytes{{{J}}} or batch_job_allocated_memory_bytes{{{J}}})"
    return [
        *line(
            stat("User", "Whose job it is.", [now(f"max by (user) (last_over_time(batch_job_info{{{J}}}[$__range]))", "{{user}}")], text=True,
                 empty="not known"),
            stat("Name", "What the user called it.", [now(f"max by (name) (last_over_time(batch_job_info{{{J}}}[$__range]))", "{{name}}")],
                 text=True, empty="none"),
            stat("Partition", "Where it was submitted to.",
                 [now(f"max by (partition) (last_over_time(batch_job_info{{{J}}}[$__range]))", "{{partition}}")], text=True, empty="none"),
            stat("State", "What the batch system says of it.",
                 [now(f"max by (state) (batch_job_state{{{J}}} == 1)", "{{state}}")], text=True, empty="not told"),
            stat("Nodes", "Nodes on which it is seen.", f"count(group by (cluster, instance, node) (last_over_time(batch_job_info{{{J}}}[$__range])))"),
            stat("Runs for", "Time since its start, or until its end.",
                 f"time() - min({running('batch_job_start_time_seconds', J)})"
                 f" or max(last_over_time(batch_job_end_time_seconds{{{J}}}[$__range]))"
                 f" - min(last_over_time(batch_job_start_time_seconds{{{J}}}[$__range]))", "s"),
            height=3,
        ),
        *line(
            stat("CPU use", "CPUs kept busy, of those that it has.", f"sum({CPU_RATE}) / {CPUS}", "percentunit",
                 thresholds=USEFULNESS, decimals=0),
            stat("Memory use", "Memory counted against it, of its limit.", f"{memory} / {limit}", "percentunit",
                 thresholds=FULLNESS, decimals=0),
            stat("GPU use", "Share of time in which its cards computed for it.",
                 gpu_use(J), "percentunit",
                 thresholds=USEFULNESS, empty="no GPUs", decimals=0),
            stat("Ends in", "Time until the first of its limits, its own estimate and a shutdown.",
                 f'min(batch_job_remaining_seconds{{{J},basis="minimum"}})', "s",
                 thresholds=steps(RED, (0, ORANGE), (1800, GREEN)), empty="no limit"),
            stat("Lost if killed", "CPU time that would be lost if it were killed now.",
                 f"sum(batch_job_kill_waste_core_seconds{{{J}}}) / 3600", "suffix:core h", empty="not known"),
            stat("OOM kills", "Its processes that the kernel killed when memory ran out.",
                 f"sum(batch_job_oom_kills_total{{{J}}})", thresholds=ANY_IS_BAD, empty="not told"),
            height=4,
        ),
    ]  # fmt: skip


def _cpus_and_memory() -> list[Placed]:
    component = f'sum by (component) (batch_job_memory_bytes{{{J},component!="swap"}})'
    return [
        *line(
            timeseries(
                "CPUs", "CPUs that it keeps busy, by mode, under those that it has.",
                [
                    query(f"sum by (mode) (rate(batch_job_cpu_seconds_total{{{J}}}[{RATE}]))", "{{mode}}"),
                    query(CPUS, "allocated"),
                ],
                "none", stacked=True,
                overrides=[line_over_stack("allocated"), colored("user", GREEN), colored("system", ORANGE)],
                empty="no such job in this time",
            ),
            timeseries(
                "Memory", "What its memory is made of, under the limit at which the kernel kills, and the highest so far.",
                [
                    query(component, "{{component}}"),
                    query(f"sum(batch_job_memory_limit_bytes{{{J}}})", "limit"),
                    query(f"sum(batch_job_memory_peak_bytes{{{J}}})", "highest so far"),
                ],
                "bytes", stacked=True,
                overrides=[line_over_stack("limit", RED), line_over_stack("highest so far")],
                empty="no such job in this time",
            ),
        ),
        *line(
            timeseries(
                "CPU use by node", "CPUs kept busy, of those that it has on each node.",
                [
                    query(
                        f"sum by (instance) ({CPU_RATE}) / sum by (instance) ({ALLOCATED_CPUS})",
                        "{{instance}}",
                    )
                ],
                "percentunit",
            ),
            timeseries(
                "Memory by node", "Memory that the kernel counts against it on each node.",
                [query(f"sum by (instance) (batch_job_memory_charged_bytes{{{J}}})", "{{instance}}")], "bytes",
            ),
            timeseries(
                "Processes and threads", "Beside the CPUs that it may use: many more threads only wait for each other.",
                [
                    query(f"sum(batch_job_processes{{{J}}})", "processes"),
                    query(f"sum(batch_job_threads{{{J}}})", "threads"),
                    query(f"sum(batch_job_cpuset_cpus{{{J}}})", "CPUs of its cpuset"),
                ],
                "none", overrides=[line_over_stack("CPUs of its cpuset")],
            ),
        ),
        *line(
            timeseries(
                "Instructions per cycle", "Of its programs on each node, where they are counted (work.events).",
                [
                    query(
                        f"sum by (instance) (rate(batch_job_instructions_total{{{J}}}[{RATE}]))"
                        f" / sum by (instance) (rate(batch_job_cycles_total{{{J}}}[{RATE}]))",
                        "{{instance}}",
                    )
                ],
                "none", empty="not counted",
            ),
            timeseries(
                "Floating-point operations", "GFLOP/s of its programs on each node, where they are counted (work.events).",
                [query(f"sum by (instance) (rate(batch_job_floating_point_operations_total{{{J}}}[{RATE}])) / 1e9", "{{instance}}")],
                "none", empty="not counted",
            ),
        ),
    ]  # fmt: skip


def _time() -> list[Placed]:
    key = "cluster, instance, user, partition, account"
    return [
        *line(
            timeseries(
                "Time left", "Until each end that is known: wall limit, CPU limit at the present rate, shutdown, its own "
                "estimate.",
                [query(f'min by (basis) (batch_job_remaining_seconds{{{J},basis!="minimum"}}) / 3600', "{{basis}}")],
                "h", low=None, empty="no end is known",
            ),
            timeseries(
                "Wasted if it ended now", "Draining: idle CPU time until its payloads are done. Killing: work lost. Reported "
                "by the job itself, or estimated.",
                [
                    query(f"sum by (basis) (batch_job_draining_waste_core_seconds{{{J}}}) / 3600", "draining, {{basis}}"),
                    query(f"sum by (basis) (batch_job_kill_waste_core_seconds{{{J}}}) / 3600", "killing, {{basis}}"),
                ],
                "suffix:core h", empty="not known",
            ),
            timeseries(
                "CPUs not used", "CPUs that it has and leaves idle: what it wastes all the time.",
                [query(f"clamp_min({CPUS} - sum({CPU_RATE}), 0)", "idle")], "none",
            ),
            timeseries(
                "What it reports",
                "From its JOBSTATUS: CPUs in use, and the age of what it told, in minutes.",
                [
                    query(f"sum(batch_job_status_used_cpus{{{J}}})", "CPUs it says it uses"),
                    query(f"max(batch_job_status_age_seconds{{{J}}}) / 60", "age in minutes"),
                ],
                "none", empty="it tells nothing",
            ),
        ),
        *line(
            table(
                "Where it runs", "Its share of each node, and when that goes away.",
                [
                    Label("instance", "Node", (node_link(),)), Label("user", "User", (user_link(),)),
                    Label("account", "Account"), Label("partition", "Partition"), Label("cluster", "Cluster", width=90),
                ],
                [
                    Column("Info", f"max by ({key}) (last_over_time(batch_job_info{{{J}}}[$__range]))", hidden=True),
                    Column("CPUs", f"max by (cluster, instance) (last_over_time(batch_job_allocated_cpus{{{J}}}[$__range]))"),
                    Column("Memory given", f"max by (cluster, instance) (last_over_time(batch_job_allocated_memory_bytes{{{J}}}[$__range]))", "bytes"),
                    Column("Wall limit", f"max by (cluster, instance) (last_over_time(batch_job_wall_limit_seconds{{{J}}}[$__range]))", "s"),
                    Column("Started", f"min by (cluster, instance) (last_over_time(batch_job_start_time_seconds{{{J}}}[$__range])) * 1000",
                           "dateTimeAsIso", width=170),
                    Column("Node goes in",
                           f'min by (cluster, instance) (batch_job_remaining_seconds{{{J},basis="shutdown"}})', "s"),
                ],
                sort="Node", descending=False, empty="no such job now",
            ),
            height=5,
        ),
    ]  # fmt: skip


def _gpus() -> list[Placed]:
    def by_card(metric: str) -> list[Json]:
        return [
            query(
                f"{metric} * on (cluster, instance, node, uuid) group_left (index) batch_gpu_info{{{OF_CLUSTER}}}",
                "{{instance}} GPU {{index}}",
            )
        ]

    none = "no GPUs"
    return line(
        timeseries("GPU use", "Share of time in which each card computed for the job.",
                   by_card(f"batch_job_gpu_utilization_ratio{{{J}}}"), "percentunit", high=1, empty=none),
        timeseries("GPU memory", "Memory of each card that its processes use.",
                   by_card(f"batch_job_gpu_memory_bytes{{{J}}}"), "bytes", empty=none),
        timeseries("Power", "What it draws: its part of the processors by CPU time, and its cards.",
                   [
                       query(f'sum(rate(batch_job_energy_joules_total{{{J},source="cpu"}}[{RATE}]))', "cpu"),
                       query(f"sum({gpu_power(J, OF_NODE)})", "gpu"),
                   ],
                   "watt", stacked=True, empty="the nodes do not tell"),
        timeseries("Power of machines", "Its part of what the whole machines draw, by the sensor that tells.",
                   [query(f"sum by (sensor) (rate(batch_job_board_energy_joules_total{{{J}}}[{RATE}]))", "{{sensor}}")],
                   "watt", empty="the nodes do not tell"),
    )  # fmt: skip


def _io() -> list[Placed]:
    def both(read: str, written: str, name: str) -> list[Json]:
        return [
            query(f"sum(rate({read}{{{J}}}[{RATE}]))", f"{name} read"),
            query(f"-sum(rate({written}{{{J}}}[{RATE}]))", f"{name} written"),
        ]

    return line(
        timeseries(
            "Read and written",
            "By system calls (cache, pipes and sockets too), and of that from and to storage; written is below zero.",
            [
                *both("batch_job_io_read_bytes_total", "batch_job_io_written_bytes_total", "calls"),
                *both("batch_job_io_storage_read_bytes_total", "batch_job_io_storage_written_bytes_total", "storage"),
            ],
            "Bps", low=None, empty="not read",
        ),
        timeseries(
            "Block devices", "What its control group moved from and, below zero, to disks of the node.",
            both("batch_job_block_read_bytes_total", "batch_job_block_written_bytes_total", "disks"),
            "Bps", low=None, empty="the kernel does not count it",
        ),
        timeseries(
            "Waiting", "Share of time in which one of its tasks (some), or all that had work (full), stalled waiting for "
            "CPUs, memory or disks.",
            [
                query(f"avg by (resource, share) (rate(batch_job_pressure_seconds_total{{{J}}}[{RATE}]))",
                      "{{resource}} {{share}}"),
            ],
            "percentunit", empty="the kernel does not tell: it does with cgroup v2",
        ),
        timeseries(
            "Short of memory", "Times a second that it ran into its memory limit: the kernel reclaims, and kills where that "
            "does not help.",
            [query(f"sum by (instance) (rate(batch_job_memory_limit_hits_total{{{J}}}[{RATE}]))", "{{instance}}")],
            "none", empty="the kernel does not count it",
        ),
    )  # fmt: skip


def _whole_nodes() -> list[Placed]:
    job = f"batch_job_whole_node{{{J}}}"
    whole = f"group by (cluster, instance) ({job} == 1 and {job} offset {RATE} == 1 and min_over_time({job}[{RATE}]) == 1)"

    def both(inward: str, outward: str, name: str, into: str, out: str, matchers: str = "") -> list[Json]:
        def rate(metric: str) -> str:
            by_node = f"sum by (cluster, instance) (rate({metric}{{{OF_NODE}{matchers}}}[{RATE}]))"
            return f"sum({by_node} * on (cluster, instance) {whole})"

        return [query(rate(inward), f"{name} {into}"), query(f"-{rate(outward)}", f"{name} {out}")]

    none = "no node to itself, or no other exporter"
    files = ("read", "written")
    return line(
        timeseries(
            "Network of its nodes", "Of nodes that it has to itself: what node_exporter counts there; sent is below zero. "
            "IP over InfiniBand is in both. Of all nodes with jobs.network: IP of its own sockets.",
            [
                query(f"sum(rate(batch_job_network_received_bytes_total{{{J}}}[{RATE}]))", "own sockets received"),
                query(f"-sum(rate(batch_job_network_sent_bytes_total{{{J}}}[{RATE}]))", "own sockets sent"),
                *both("node_infiniband_port_data_received_bytes_total", "node_infiniband_port_data_transmitted_bytes_total",
                      "InfiniBand", "received", "sent"),
                *both("node_network_receive_bytes_total", "node_network_transmit_bytes_total", "devices", "received", "sent",
                      r',device!~"lo|(bond|br|cni|docker|dummy|team|tun|veth|virbr).*|.*(\\.|:).*"'),
            ],
            "Bps", low=None, empty=none,
        ),
        timeseries(
            "File systems of its nodes", "Of nodes that it has to itself: what node_exporter, lustre_exporter and "
            "gpfs_exporter count there; written is below zero.",
            [
                *both("node_mountstats_nfs_total_read_bytes_total", "node_mountstats_nfs_total_write_bytes_total", "NFS", *files),
                *both("lustre_read_bytes_total", "lustre_write_bytes_total", "Lustre", *files, ',component="client"'),
                *both("gpfs_perf_read_bytes_total", "gpfs_perf_write_bytes_total", "GPFS", *files),
            ],
            "Bps", low=None, empty=none,
        ),
    )  # fmt: skip


def _parts() -> list[Placed]:
    cores = rows_of_shares(
        "Cores", "How busy the job keeps each of its cores; with the collector cores. On cgroup v2 of cores that no other job "
        "may use, all work on them.", SORTED_CORES, "{{instance}} {{core}}", empty=OFF,
    )  # fmt: skip
    return [*line(cores), *line(
        timeseries("CPUs by step", "CPUs that each step keeps busy; with the setting jobs.steps.",
                   [query(f"sum by (step) (rate(batch_job_step_cpu_seconds_total{{{J}}}[{RATE}]))", "step {{step}}")],
                   "none", stacked=True, empty=OFF),
        timeseries("Memory by step", "Memory counted against each step; with the setting jobs.steps.",
                   [query(f"sum by (step) (batch_job_step_memory_charged_bytes{{{J}}})", "step {{step}}")], "bytes",
                   stacked=True, empty=OFF),
        timeseries("CPUs by command", "CPUs that its processes keep busy, by command; with the collector processes.",
                   [query(f"sum by (command) (rate(batch_job_command_cpu_seconds_total{{{J}}}[{RATE}]))", "{{command}}")],
                   "none", stacked=True, empty=OFF),
        timeseries("Memory by command", "Resident memory by command; with the collector processes.",
                   [query(f"sum by (command) (batch_job_command_resident_bytes{{{J}}})", "{{command}}")], "bytes",
                   stacked=True, empty=OFF),
    )]  # fmt: skip
