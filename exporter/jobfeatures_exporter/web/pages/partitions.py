"""Nodes and queue of a cluster, by partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from jobfeatures.metrics import Metric
from jobfeatures_exporter.cluster.sums import ClusterSums, QueueSums
from jobfeatures_exporter.collectors import cluster, queue
from jobfeatures_exporter.view.units import Form, format_bytes, format_figure, format_share, format_span
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name
from jobfeatures_exporter.web.pages.pieces import (
    MAX_ROWS,
    UNKNOWN,
    Cell,
    PageData,
    Part,
    Row,
    badge,
    bar,
    figure,
    known,
    lines,
    note,
    numeric,
    table,
)

SHOWN_REASONS = 4
_WORKING = ("ALLOCATED", "MIXED")
_AVAILABLE = ("IDLE",)


def nodes_table(data: PageData) -> Html:
    """Return a row for each partition: its nodes by state, its CPUs, memory and GPUs."""
    places = [
        (sums, partition) for sums in data.context.clusters for partition in _partitions(sums, sums.states)
    ]
    if not places:
        return note("No batch system has reported its nodes yet.")
    head = ["Partition", "Nodes", "States", "CPUs allocated", "Memory allocated", "GPUs allocated"]
    rows = [_nodes_row(sums, partition, data) for sums, partition in places[:MAX_ROWS]]
    caption = "Nodes by partition; a node of several partitions counts in each"
    more = len(places) - MAX_ROWS
    return table(caption, head, rows, identity="nodes-table", kind="cards sortable", more=more)


def _partitions(sums: ClusterSums, found: Iterable[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys([*sums.partitions, *(partition for partition, _ in found)]))


def _nodes_row(sums: ClusterSums, partition: str, data: PageData) -> Row:
    place = sums.source, partition
    states = {state: count for (of, state), count in sums.states.items() if of == partition and count}
    flags = {flag: count for (of, flag), count in sums.flags.items() if of == partition and count}
    whole = sum(states.values())
    up = data.numbers.one(cluster.PARTITION, *place)
    mark = badge("closed", "warn") if up == 0 else None
    working = sum(states.get(each, 0) for each in _WORKING)
    idle = sum(states.get(each, 0) for each in _AVAILABLE)
    drawn = None
    if whole:
        label = f"{working} of {whole} nodes work, {idle} are idle, {whole - working - idle} are neither"
        rest = (whole - working - idle) / whole
        drawn = bar(label, Part(working / whole), Part(idle / whole, "free"), Part(rest, "bad-bar"))
    words: list[Child] = []
    for metric, counts in ((cluster.NODES, states), (cluster.FLAGGED, flags)):
        for word, _ in sorted(counts.items(), key=lambda each: -each[1]):
            shown = data.figure(metric, _count, *place, word)
            words.append(join(shown, f" {word.lower().replace('_', ' ')}"))
    return Row(
        Cell(lines(_named(partition), join(sums.source, " ", mark)), partition[:100].lower(), "job"),
        Cell(join(drawn, lines(_count(whole))), float(whole), "bars"),
        Cell(listed(words) if words else UNKNOWN, kind="user wide"),
        _amount(cluster.CPUS, sums, "cpus", partition, data, _count),
        _amount(cluster.MEMORY, sums, "memory_bytes", partition, data, format_bytes),
        _amount(cluster.GPUS, sums, "gpus", partition, data, _count),
    )


def _named(partition: str) -> Html:
    return name(partition, 32) if partition else join("in no partition")


def _amount(
    metric: Metric, sums: ClusterSums, field: str, partition: str, data: PageData, form: Form
) -> Cell:
    found = {kind: count for (of, kind), count in getattr(sums, field).items() if of == partition}
    whole = sum(found.values())
    if not whole:
        return Cell(UNKNOWN, -1.0, "bars")
    place = sums.source, partition
    used, other = found.get("allocated", 0), found.get("other", 0)
    share = used / whole
    words = f"{form(used)} of {form(whole)} allocated"
    drawn = bar(words, Part(share), Part(1 - share - other / whole, "free"), Part(other / whole, "time"))
    said = f"{format_share(share)} · {form(max(0, whole - used - other))} idle"
    given = data.figure(metric, form, *place, "allocated")
    return Cell(join(drawn, lines(join(given, f" of {form(whole)}"), said)), share, "bars")


def queue_table(data: PageData) -> Html:
    """Return a row for each partition: jobs that run, that wait, how long and why."""
    known = {sums.source: tuple(sums.partitions) for sums in data.context.clusters}
    places = [
        (sums, partition)
        for sums in data.context.queues
        for partition in dict.fromkeys([*known.get(sums.source, ()), *(of for of, _ in sums.jobs)])
    ]
    if not places:
        return note("No batch system has reported its queue yet.")
    head = [
        "Partition",
        "Running jobs",
        "Pending jobs",
        "CPUs wanted",
        "Longest wait",
        "Mean wait",
        "Why they wait",
    ]
    rows = [_queue_row(sums, partition, data) for sums, partition in places[:MAX_ROWS]]
    caption = "The queue by partition; a job that may start in several counts in each"
    more = len(places) - MAX_ROWS
    return table(caption, head, rows, identity="queue-table", kind="cards sortable", more=more)


def _queue_row(sums: QueueSums, partition: str, data: PageData) -> Row:
    place = sums.source, partition
    reasons = {why: count for (of, why), count in sums.reasons.items() if of == partition and count}
    shown = sorted(reasons, key=lambda why: -reasons[why])
    words = [join(data.figure(queue.REASONS, _count, *place, why), f" {why}") for why in shown]
    oldest = data.numbers.one(queue.OLDEST, *place)
    waiting, waited = data.numbers.one(queue.WAITING, *place), data.numbers.one(queue.WAIT, *place)
    mean = waited / waiting if waiting and waited is not None else None
    return Row(
        Cell(lines(_named(partition), sums.source), partition[:100].lower(), "job"),
        data.cell(queue.JOBS, _count, *place, "RUNNING"),
        data.cell(queue.JOBS, _count, *place, "PENDING"),
        data.cell(queue.CPUS, _count, *place, "PENDING"),
        numeric(figure(queue.OLDEST, oldest or None, format_span), oldest or 0.0),
        numeric(known(mean, format_span), mean or 0.0),
        Cell(listed(words, most=SHOWN_REASONS), kind="user wide"),
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else format_figure(value)
