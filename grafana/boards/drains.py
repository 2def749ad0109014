"""Drains and waste: which nodes go when, what is in their way, and what is wasted by leaving when."""

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
    ANY_IS_BAD,
    ANY_IS_WORTH_A_LOOK,
    GREEN,
    JOB_KEY,
    OF_NODE,
    ORANGE,
    RED,
    Json,
    bars,
    gpu_parts,
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

NODE = "cluster, instance, node"
CORE_HOURS = "suffix:core h"
HORIZONS = {"now": 0, "in 15 min": 900, "in 1 h": 3600, "in 4 h": 14400, "in 12 h": 43200, "in 24 h": 86400}
INFO = running("batch_job_info", OF_NODE)
OF_KNOWN_USER = running("batch_job_info", f'{OF_NODE},user!=""')
LEAVING = f"(batch_node_shutdown_time_seconds{{{OF_NODE}}} - time())"
ALLOCATED_CPUS = running("batch_job_allocated_cpus", OF_NODE)
ALLOCATED_MEMORY = f"batch_job_allocated_memory_bytes{{{OF_NODE}}}"  # joined to INFO
GPU_PARTS = gpu_parts(OF_NODE)
# How long each job may still run: without end where no wall limit is known.
LEFT = f'(batch_job_remaining_seconds{{{OF_NODE},basis="wall_limit"}} or on ({JOB_KEY}) {INFO} * Inf)'
# Jobs whose wall limit, if any, comes after the shutdown of their node or their own.
TOO_LONG = f'{LEFT} > on ({JOB_KEY}) batch_job_remaining_seconds{{{OF_NODE},basis="shutdown"}}'


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "drains",
        "Batch: drains and waste",
        "Which nodes drain and when they go, which jobs are in the way, and what would be wasted by leaving when; and "
        "what is wasted anyway.",
        ["drains", "waste"],
        [
            cluster_variable(),
            variable(
                "instance", "Node", 'batch_node_cores{cluster=~"$cluster"}', "Nodes, by the address scraped."
            ),
        ],
        [
            Row("Drains", _drains()),
            Row("If these nodes were shut down", _when()),
            Row("Draining and killing", _waste()),
            Row("Wasted anyway", _anyway()),
        ],
    )


def _drains() -> list[Placed]:
    node = "cluster, instance"
    key = "cluster, instance, batch_system, job_id"
    return [
        *line(
            stat("Draining", "Nodes that take no more jobs, or have a time to go.",
                 f"sum(max by ({NODE}) (batch_node_draining{{{OF_NODE}}}))", thresholds=ANY_IS_WORTH_A_LOOK),
            stat("Shutdowns planned", "Nodes that have a time to go.",
                 f"count(max by ({NODE}) (batch_node_shutdown_time_seconds{{{OF_NODE}}}))", empty="none"),
            stat("Next shutdown in", "Of the node that goes first.", f"min({LEAVING})", "s", empty="none is planned",
                 thresholds=steps(RED, (0, ORANGE), (3600, GREEN))),
            stat("Jobs cut off", "Jobs whose wall limit comes after the shutdown of their node, or that have none.",
                 f"count({TOO_LONG})", thresholds=ANY_IS_BAD, empty="none"),
            stat("Jobs on draining nodes", "Jobs that have to end before these nodes are empty.",
                 f"sum((count by ({NODE}) ({INFO})) * on ({NODE}) max by ({NODE}) (batch_node_draining{{{OF_NODE}}}))",
                 empty="none"),
            stat("Empty in", "Time until the last job of the draining nodes ends by its wall limit: without end where one has none.",
                 f"max(max by ({NODE}) ({LEFT})"
                 f" and on ({NODE}) (batch_node_draining{{{OF_NODE}}} == 1))", "s", empty="no job in the way"),
            height=4,
        ),
        *line(
            table(
                "Nodes that drain or go", "When each node goes, how long its last job may run, and what going would waste.",
                [Label("instance", "Node", (node_link(),)), Label("cluster", "Cluster", width=90)],
                [
                    Column("Draining", f"max by ({node}) (batch_node_draining{{{OF_NODE}}}) == 1", hidden=True),
                    Column("Goes in", f"min by ({node}) ({LEAVING})", "s", steps(RED, (0, ORANGE), (3600, "text"))),
                    Column("Last job ends in",
                           f"max by ({node}) ({LEFT})"
                           f" and on ({node}) (batch_node_draining{{{OF_NODE}}} == 1)", "s"),
                    Column("Jobs", f"count by ({node}) ({INFO}) and on ({node}) (batch_node_draining{{{OF_NODE}}} == 1)"),
                    Column("Draining wastes", f"max by ({node}) (batch_node_draining_waste_core_seconds{{{OF_NODE}}}) / 3600"
                           f" and on ({node}) (batch_node_draining{{{OF_NODE}}} == 1)", CORE_HOURS, decimals=1),
                    Column("Killing wastes", f"max by ({node}) (batch_node_kill_waste_core_seconds{{{OF_NODE}}}) / 3600"
                           f" and on ({node}) (batch_node_draining{{{OF_NODE}}} == 1)", CORE_HOURS, decimals=1),
                ],
                sort="Goes in", descending=False, empty="no node drains",
            ),
            height=5,
        ),
        *line(
            table(
                "Jobs cut off", "Their wall limit comes after the shutdown, or they have none. What is left beyond it is lost unless "
                "they end sooner.",
                [
                    Label("job_id", "Job", (job_link(),), 80), Label("user", "User", (user_link(),), 80),
                    Label("name", "Name"), Label("instance", "Node", (node_link(),)), Label("cluster", "Cluster", width=90),
                    Label("batch_system", "System", hidden=True),
                ],
                [
                    Column("Info", f"max by ({key}, user, name) ({INFO} and on ({JOB_KEY}) ({TOO_LONG}))", hidden=True),
                    Column("Needs up to",
                           f"max by ({key}) ({TOO_LONG})", "s"),
                    Column("Has", f'min by ({key}) (batch_job_remaining_seconds{{{OF_NODE},basis="shutdown"}}'
                           f" and on ({JOB_KEY}) ({TOO_LONG}))", "s", steps(RED, (0, ORANGE), (3600, "text"))),
                ],
                sort="Has", descending=False, empty="no job would be cut off",
            ),
            height=6,
        ),
    ]  # fmt: skip


def _when() -> list[Placed]:
    cpus = f"{ALLOCATED_CPUS}"
    kill = f"batch_job_kill_waste_core_seconds{{{OF_NODE}}}"
    total = f"max by ({NODE}) (batch_node_allocatable_cpus{{{OF_NODE}}})"

    def idle(secs: int) -> str:
        ended = f"sum by ({NODE}) ({cpus} * on ({JOB_KEY}) clamp_min({secs} - {LEFT}, 0)) or 0 * {total}"
        free = f"{total} - (sum by ({NODE}) ({cpus}) or 0 * {total})"
        return f"sum(clamp_min(({ended}) + ({free}) * {secs}, 0))"  # of each node: one whose jobs share CPUs is no credit

    def lost(secs: int) -> str:
        still = f"on ({JOB_KEY}) ({LEFT} > {secs})"
        return f"(sum(({kill} + on ({JOB_KEY}) {cpus} * {secs}) and {still}) or vector(0))"

    how = (
        "Suppose that all these nodes were shut down then, that this is announced now, that no job starts any more, and "
        "that each job needs all of its wall limit. "
    )
    green_to_red = steps(GREEN)
    return line(
        bars("Wasted in all", f"{how}Idle CPUs and lost work together: the least is the best time to go.",
             [now(f"({idle(secs)} + {lost(secs)}) / 3600", name) for name, secs in HORIZONS.items()], CORE_HOURS,
             thresholds=green_to_red, empty="not known", decimals=0),
        bars("Of it: CPUs that stay idle", f"{how}CPU time of CPUs that have no job, from now on or from the end of their job; "
             "at least this where jobs share CPUs.",
             [now(f"{idle(secs)} / 3600", name) for name, secs in HORIZONS.items()], CORE_HOURS,
             thresholds=steps("blue"), empty="not known", decimals=0),
        bars("Of it: work lost by killing", f"{how}What jobs that still run then will have done, as far as it is not saved.",
             [now(f"{lost(secs)} / 3600", name) for name, secs in HORIZONS.items()], CORE_HOURS,
             thresholds=steps(ORANGE), empty="not known", decimals=0),
    )  # fmt: skip


def _waste() -> list[Placed]:
    def by_node(metric: str) -> list[Json]:
        return [query(f"topk(10, max by (cluster, instance) ({metric}{{{OF_NODE}}})) / 3600", "{{instance}}")]

    def by_job(metric: str) -> list[Json]:
        return [
            query(
                f"topk(10, max by (cluster, instance, batch_system, job_id, name) ({metric}{{{OF_NODE}}} * on ({JOB_KEY})"
                f" group_left (name) {INFO})) / 3600",
                "{{job_id}} {{name}} on {{instance}}",
            )
        ]

    node, job = (links_of(dict([each(OF_SERIES)])) for each in (node_link, job_link))
    return [
        *line(
            timeseries("Draining waste by node", "CPU time that would stay idle if the node drained from now on; the ten highest.",
                       by_node("batch_node_draining_waste_core_seconds"), CORE_HOURS, links=node, empty="not known", many=True),
            timeseries("Kill waste by node", "CPU time that would be lost if all jobs of the node were killed now; the ten highest.",
                       by_node("batch_node_kill_waste_core_seconds"), CORE_HOURS, links=node, empty="not known", many=True),
        ),
        *line(
            timeseries("Draining waste by job", "CPU time that would stay idle if the job drained; the ten highest.",
                       by_job("batch_job_draining_waste_core_seconds"), CORE_HOURS, links=job, empty="not known", many=True),
            timeseries("Kill waste by job", "CPU time that would be lost if the job was killed now; the ten highest.",
                       by_job("batch_job_kill_waste_core_seconds"), CORE_HOURS, links=job, empty="not known", many=True),
        ),
    ]  # fmt: skip


def _anyway() -> list[Placed]:
    used = f"sum by ({JOB_KEY}) ({running_rate('batch_job_cpu_seconds_total', OF_NODE)})"
    idle = f"clamp_min({ALLOCATED_CPUS} - on ({JOB_KEY}) {used}, 0)"
    memory = f"clamp_min({ALLOCATED_MEMORY} - on ({JOB_KEY}) batch_job_memory_peak_bytes{{{OF_NODE}}}, 0)"
    gpu = f"clamp_min({GPU_PARTS} - on ({JOB_KEY}, uuid) batch_job_gpu_utilization_ratio{{{OF_NODE}}}, 0)"

    def by_user(expression: str) -> list[Json]:
        return [
            query(
                f"topk(10, sum by (user) ({expression} * on ({JOB_KEY}) group_left (user) {OF_KNOWN_USER}))",
                "{{user}}",
            )
        ]

    user = links_of(
        {"This user": "/d/jobfeatures-user?${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
         "&var-user=${__field.labels.user}"}
    )  # fmt: skip
    return line(
        timeseries("CPUs idle in jobs, by user", "CPUs that jobs have and leave idle; the ten users with most.",
                   by_user(idle), "none", stacked=True, links=user, empty="no jobs"),
        timeseries("Memory never touched, by user", "What jobs were given beyond the most that they ever had.",
                   by_user(memory), "bytes", stacked=True, links=user, empty="no jobs"),
        timeseries("GPUs idle in jobs, by user", "Cards that jobs have, as far as they do not compute.",
                   by_user(gpu), "none", stacked=True, links=user, empty="no GPUs"),
        timeseries("Idle and free CPUs", "CPUs without a job, CPUs idle in jobs, CPUs in use: where the machine goes.",
                   [
                       query(f"sum({used})", "used by jobs"),
                       query(f"sum({idle})", "idle in jobs"),
                       query(f"sum(batch_node_allocatable_cpus{{{OF_NODE}}}) - sum({ALLOCATED_CPUS})",
                             "free"),
                   ], "none", stacked=True, empty="no jobs"),
    )  # fmt: skip
