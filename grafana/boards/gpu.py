"""GPUs: which work, for whom, and which are held idle."""

from __future__ import annotations

from grafana.board import (
    Placed,
    Row,
    cluster_variable,
    dashboard,
    gpu_link,
    job_link,
    line,
    node_link,
    variable,
)
from grafana.panels import (
    ANY_IS_BAD,
    ANY_IS_WORTH_A_LOOK,
    FULLNESS,
    GPU_KEY,
    GREEN,
    JOB_KEY,
    OF_NODE,
    ORANGE,
    RED,
    USEFULNESS,
    Json,
    gpu_busy,
    gpu_parts,
    gpu_power,
    line_over_stack,
    query,
    running,
    stat,
    steps,
    timeseries,
)
from grafana.tables import Column, Label, table
from jobfeatures_exporter.view.thresholds import IDLE_GPU

RATE = "$__rate_interval"
G = f'{OF_NODE},uuid=~"$gpu"'
BUSY = gpu_busy(G)
INFO = running("batch_job_info", OF_NODE)
OF_KNOWN_USER = running("batch_job_info", f'{OF_NODE},user!=""')
USE = running("batch_job_gpu_utilization_ratio", G)
MEMORY = running("batch_job_gpu_memory_bytes", G)
GPU_ALLOCATED = running("batch_job_gpu_allocated", G)
GPU_PARTS = gpu_parts(G)
ALLOCATED = f"sum({GPU_PARTS})"
CARD = "{{instance}} GPU {{index}}"
NONE = "no GPUs"


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "gpu",
        "Batch: GPUs",
        "GPUs of all makers: use, memory, power, temperature, which job has which, and which are held idle.",
        ["gpu"],
        [
            cluster_variable(),
            variable("instance", "Node", 'batch_gpu_info{cluster=~"$cluster"}', "Nodes with cards."),
            variable(
                "gpu",
                "Card",
                'batch_gpu_info{cluster=~"$cluster",instance=~"$instance"}',
                "Cards by UUID.",
                of="uuid",
            ),
        ],
        [
            Row("Now", _now()),
            Row("Who uses them", _jobs()),
            Row("Cards: of many, the twenty with the highest values", _cards()),
            Row("Health", _health()),
            Row("Profile, clocks and errors: with collector.gpudetail, NVIDIA's cards", _detail()),
        ],
    )


def by_card(expression: str) -> Json:
    """Return a query whose series are named by node and the card's number."""
    card = f"on ({GPU_KEY}) group_left (index) max by ({GPU_KEY}, index) (batch_gpu_info{{{G}}})"
    return query(f"topk(20, ({expression}) * {card})", CARD)


def _now() -> list[Placed]:
    idle = f"sum({GPU_PARTS} * on ({GPU_KEY}) group_left () ({BUSY} < bool {IDLE_GPU}))"
    return line(
        stat("Cards", "Cards that drivers know, and parts of cards.", f"count(batch_gpu_info{{{G}}})", empty=NONE),
        stat("Allocated", "Cards that jobs have.", ALLOCATED, empty="none"),
        stat("Held idle", f"Cards that jobs have and that computed for less than {IDLE_GPU:.0%} of the time.", idle,
             thresholds=ANY_IS_WORTH_A_LOOK, empty="none"),
        stat("Use", "Share of time in which cards computed, all cards alike.", f"avg({BUSY})", "percentunit",
             thresholds=USEFULNESS, empty=NONE, decimals=0),
        stat("Memory used", "Of the memory of all cards.",
             f"sum(batch_gpu_memory_used_bytes{{{G}}}) / sum(batch_gpu_memory_bytes{{{G}}})", "percentunit", empty=NONE,
             decimals=0),
        stat("Power", "What all cards draw.", f"sum(batch_gpu_power_watts{{{G}}})", "watt", empty="not told"),
        stat("Failing", "Cards whose driver reports a failure.", f"sum(batch_gpu_failing{{{G}}} > bool 0)",
             thresholds=ANY_IS_BAD, empty=NONE),
        stat("Hottest", "Temperature of the hottest card.", f"max(batch_gpu_temperature_celsius{{{G}}})", "celsius",
             thresholds=steps(GREEN, (80, ORANGE), (90, RED)), empty="not told"),
        height=4,
    )  # fmt: skip


def _jobs() -> list[Placed]:
    key = "cluster, instance, batch_system, job_id, uuid"
    job = f"* on ({JOB_KEY}) group_left (user, name) {INFO}"
    card = (
        f"on ({GPU_KEY}) group_left (index, model) max by ({GPU_KEY}, index, model) (batch_gpu_info{{{G}}})"
    )
    return [
        *line(
            table(
                "Jobs on cards", "Which job has or uses which card, and what it makes of it.",
                [
                    Label("job_id", "Job", (job_link(),), 80), Label("user", "User", width=80), Label("name", "Name"),
                    Label("instance", "Node", (node_link(),), 120), Label("index", "GPU", width=60),
                    Label("model", "Model"), Label("uuid", "UUID", (gpu_link(),)),
                    Label("cluster", "Cluster", width=80), Label("batch_system", "System", hidden=True),
                ],
                [
                    Column("Info", f"max by ({key}, user, name, index, model) (({GPU_ALLOCATED} {job})"
                           f" * {card})", hidden=True),
                    Column("Use", f"max by ({key}) ({USE})", "percentunit", USEFULNESS,
                           gauge=True, low=0, high=1, decimals=0),
                    Column("Memory", f"max by ({key}) ({MEMORY})", "bytes", width=90),
                ],
                sort="Job", descending=False, empty="no job has a card",
            ),
        ),
        *line(
            timeseries("Cards by what becomes of them", "Busy cards under those that jobs have, under all there are.",
                       [
                           query(f"sum({BUSY})", "busy"), query(ALLOCATED, "allocated"),
                           query(f'count(batch_gpu_info{{{G},parent=""}})', "all"),
                       ], "none", overrides=[line_over_stack("all")], empty=NONE),
            timeseries("Use by user", "Cards that the jobs of each user keep busy.",
                       [query(f"sum by (user) (batch_job_gpu_utilization_ratio{{{G}}} * on ({JOB_KEY}) group_left (user)"
                              f" {OF_KNOWN_USER})", "{{user}}")], "none", stacked=True, empty="nobody"),
            timeseries("Idle while allocated, by user", "Cards that jobs of each user have and leave idle.",
                       [query(f"sum by (user) (clamp_min({GPU_PARTS} - on ({JOB_KEY}, uuid)"
                              f" batch_job_gpu_utilization_ratio{{{G}}}, 0) * on ({JOB_KEY}) group_left (user)"
                              f" {OF_KNOWN_USER})", "{{user}}")], "none", stacked=True, empty="nobody"),
        ),
    ]  # fmt: skip


def _cards() -> list[Placed]:
    return [
        *line(
            timeseries("Use", "Share of time in which each card computed.", [by_card(BUSY)], "percentunit", high=1,
                       empty=NONE),
            timeseries("Memory", "Memory of each card in use, of its whole.",
                       [by_card(f"batch_gpu_memory_used_bytes{{{G}}} / batch_gpu_memory_bytes{{{G}}}")], "percentunit",
                       high=1, thresholds=FULLNESS, empty=NONE),
            timeseries("Power", "What each card draws; the line is the highest limit of them.",
                       [by_card(f"batch_gpu_power_watts{{{G}}}"), query(f"max(batch_gpu_power_limit_watts{{{G}}})", "limit")],
                       "watt", overrides=[line_over_stack("limit", RED)], empty="not told"),
        ),
        *line(
            timeseries("Temperature", "At each card's first sensor.", [by_card(f"batch_gpu_temperature_celsius{{{G}}}")],
                       "celsius", thresholds=steps(GREEN, (80, ORANGE), (90, RED)), empty="not told"),
            timeseries("Clock", "Of the computing elements.", [by_card(f"batch_gpu_clock_hertz{{{G}}}")], "hertz",
                       empty="not told"),
            timeseries("Energy", "What each card has used in the hour before; in its first hour, since it was first seen.",
                       [by_card(f"increase(batch_gpu_energy_joules_total{{{G}}}[1h])")], "joule", empty="not told"),
            timeseries("Power by job", "What the ten jobs draw that draw most on cards.",
                       [query(f"topk(10, sum by (batch_system, job_id) ({gpu_power(G, G)}))", "job {{job_id}}")], "watt",
                       empty="not told"),
        ),
    ]  # fmt: skip


def _health() -> list[Placed]:
    return line(
        stat("Drivers that answer", "Drivers that answered in full, of all that were asked.",
             f"sum(batch_gpu_driver_up{{{OF_NODE}}}) / count(batch_gpu_driver_up{{{OF_NODE}}})", "percentunit",
             thresholds=steps(RED, (1, GREEN)), empty=NONE),
        stat("Oldest figures", "Age of the figures of the card that was not read for longest.",
             f"max(batch_gpu_age_seconds{{{G}}})", "s", thresholds=steps(GREEN, (60, ORANGE), (300, RED)), empty=NONE),
        timeseries("Processes", "Processes on cards, and those of them that this node does not know.",
                   [
                       query(f"sum(batch_gpu_processes{{{G}}})", "on cards"),
                       query(f"sum(batch_gpu_unattributed_processes{{{G}}})", "not known"),
                   ], "none", empty=NONE),
        timeseries("Performance state", "0 is the highest.", [by_card(f"batch_gpu_performance_state{{{G}}}")], "none",
                   steps_drawn=True, empty="not told"),
        height=7,
    )  # fmt: skip


def _detail() -> list[Placed]:
    off = "collector.gpudetail is off"
    profiled = f"rate(batch_gpu_profiled_seconds_total{{{G}}}[{RATE}])"
    units = f"rate(batch_gpu_unit_busy_seconds_total{{{G}}}[{RATE}])"
    codes = f"batch_gpu_xid_errors_total{{{G}}}"
    return line(
        timeseries("Units", "Share of the cards' multiprocessors, their warps, tensor cores and memory bandwidth in use.",
                   [query(f"sum by (unit) ({units}) / on () group_left () sum({profiled})", "{{unit}}")], "percentunit",
                   high=1, empty=off),
        timeseries("Links", "Bytes over PCIe and NVLink, of whole cards.",
                   [query(f"sum by (link, direction) ({_whole(f'rate(batch_gpu_link_bytes_total{{{G}}}[{RATE}])')})",
                          "{{link}} {{direction}}")], "Bps", empty=off),
        timeseries("Clocks held back", "Cards whose clocks something held back, by reason.",
                   [query(f"sum by (reason) (rate(batch_gpu_clock_held_seconds_total{{{G}}}[{RATE}])) > 0", "{{reason}}")],
                   "none", empty=f"none, or {off}"),
        timeseries("Errors", "XID events by code and memory errors in the hour before, and cards with rows to remap.",
                   [
                       query(f"sum by (instance, xid) ({_whole(f'clamp_min({codes} - ({codes} offset 1h or 0 * {codes}), 0)')})",
                             "{{instance}} XID {{xid}}"),
                       query(f"sum by (kind) (increase(batch_gpu_ecc_errors_total{{{G}}}[1h]))", "ECC {{kind}}"),
                       query(f"sum(batch_gpu_remap_pending{{{G}}})", "rows to remap"),
                   ], "none", empty=off),
    )  # fmt: skip


def _whole(expression: str) -> str:
    """Return the same of whole cards: what a card counts has what its parts count in it."""
    return f'{expression} * on ({GPU_KEY}) group_left () max by ({GPU_KEY}) (batch_gpu_info{{{G},parent=""}})'
