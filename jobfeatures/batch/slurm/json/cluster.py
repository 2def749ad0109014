"""Parses nodes, partitions, reservations, licences and load in Slurm's JSON, v0.0.37 to v0.0.43. Pure.

A node's state was a text, with its flags in a separate list; from v0.0.39 on one list has both. The same
version moved a partition's nodes to ``nodes.configured`` and its state to ``partition.state``. Times of
``diag`` are microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from jobfeatures.batch.slurm.administration import make_cycles, make_licences, make_reservations
from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.cluster import (
    classify_reason,
    count_gres,
    parse_states,
    split_features,
    usable_memory,
)
from jobfeatures.batch.slurm.gpus import parse_tres_gpus
from jobfeatures.batch.slurm.json.values import MEBIBYTE, JsonRecord
from jobfeatures.batch.slurm.node import (
    DRAIN_STATES,
    FLOATS,
    Maintenance,
    NodeAnswer,
    floating,
    shutdowns_of,
)
from jobfeatures.errors import ParseError, Rejected, parse_each
from jobfeatures.records.administration import (
    Licence,
    Licences,
    Requests,
    Reservation,
    Reservations,
    Scheduler,
    UserRequests,
    added_up,
)
from jobfeatures.records.model import Cluster, ClusterNode, NodeNotice, Partition
from jobfeatures.records.nodelist import expand_nodes

_MICRO = 1e-6
_JOBS = ("submitted", "started", "completed", "canceled", "failed")
_QUEUED = {"agent": "agent_queue_size", "accounting": "dbd_agent_queue_size"}
# In the order of count, last, mean, longest, depth, length of the queue.
_CYCLES = {
    "main": (
        *("schedule_cycle_total", "schedule_cycle_last", "schedule_cycle_mean", "schedule_cycle_max"),
        *("schedule_cycle_mean_depth", "schedule_queue_length"),
    ),
    "backfill": (
        *("bf_cycle_counter", "bf_cycle_last", "bf_cycle_mean", "bf_cycle_max"),
        *("bf_depth_mean", "bf_queue_len"),
    ),
}
Made = TypeVar("Made", bound=Requests)


def parse_json_cluster(
    nodes: JsonRecord, partitions: JsonRecord, *, source: str, taken_at_secs: float
) -> Cluster:
    """Return nodes and partitions; malformed ones are rejected. Raises ParseError if a list is missing."""
    rejected: list[Rejected] = []
    of_nodes, of_partitions = nodes.listed("nodes", source), partitions.listed("partitions", source)
    found_partitions = tuple(parse_each(parse_json_partition, of_partitions, rejected, source))
    found_nodes = tuple(parse_each(parse_json_node, of_nodes, rejected, source))
    return Cluster(NAME, taken_at_secs, found_nodes, found_partitions, tuple(rejected))


def parse_json_node(record: JsonRecord) -> ClusterNode:
    """Return the node in a JSON object; its CPUs and memory are those available to jobs.

    Memory in the JSON is in MiB. Raises ParseError if a field is malformed.
    """
    name = record.text("name")
    if name is None or expand_nodes(name) != (name,):
        raise ParseError("not a node's name", field="name", text=str(name)[:80])
    memory, allocated = record.count("real_memory"), record.count("alloc_memory")
    accounted = parse_tres_gpus(record.text("tres") or "")
    used_gpus = count_gres(record.text("gres_used") or "")
    if used_gpus is None and accounted is not None:
        used_gpus = parse_tres_gpus(record.text("tres_used") or "") or 0
    return ClusterNode(
        name=name,
        states=node_states(record),
        cpus=_usable_cpus(record),
        allocated_cpus=record.count("alloc_cpus"),
        memory_bytes=usable_memory(memory, record.count("specialized_memory")),
        allocated_memory_bytes=None if allocated is None else allocated * MEBIBYTE,
        gpus=count_gres(record.text("gres") or "") if accounted is None else accounted,
        allocated_gpus=used_gpus,
        address=record.text("address"),
        features=split_features(",".join(record.words("active_features"))),
        reason=classify_reason(record.text("reason") or ""),
    )


def node_states(record: JsonRecord) -> tuple[str, ...]:
    """Return the words of a node's state, its base state first. Raises ParseError if malformed."""
    return parse_states("+".join((*record.words("state"), *record.words("state_flags"))))


def parse_json_partition(record: JsonRecord) -> Partition:
    """Return the partition in a JSON object. Raises ParseError if it has no name."""
    name = record.text("name")
    if name is None:
        raise ParseError("the partition has no name", field="name")
    nodes = record.get("nodes")
    path = ("nodes", "configured") if isinstance(nodes, Mapping) else ("nodes",)
    state = record.words("state") or record.words("partition", "state")
    return Partition(name=name, nodes=record.nodes(*path), state=state[0] if state else None)


def parse_json_notice(
    node: JsonRecord, reservations: JsonRecord, *, node_name: str, now_secs: float, source: str
) -> NodeAnswer:
    """Return a node's drain state, CPUs and shutdowns, from its record and the reservations; never raises.

    Reservations that end before `now_secs` (epoch) are ignored. `source` names the answer in errors.
    """
    rejected: list[Rejected] = []
    try:
        record = _own_record(node, node_name)
        draining = not DRAIN_STATES.isdisjoint(node_states(record))
    except ParseError as error:
        return NodeAnswer(None, (Rejected.from_error(error.at(source)),))
    cpus = clock_secs = None
    try:
        cpus = _usable_cpus(record)
        clock_secs = node.nonzero("last_update")
    except ParseError as error:
        rejected.append(Rejected.from_error(error.at(source)))
    values = reservations.get("reservations")
    records = values if isinstance(values, list) else ()
    made = parse_each(lambda value: _maintenance(JsonRecord(value)), records, rejected, source)
    found = [each for each in made if each is not None]
    shutdowns = shutdowns_of(found, node_name, now_secs)
    rejected += floating(found, (node_name,))
    return NodeAnswer(NodeNotice(draining, shutdowns, cpus), tuple(rejected), clock_secs)


def _own_record(document: JsonRecord, node_name: str) -> JsonRecord:
    records = [each for each in document.records("nodes") if each.get("name") == node_name]
    if len(records) != 1:
        raise ParseError("the answer must have one record of this node", field=node_name)
    return records[0]


def _usable_cpus(record: JsonRecord) -> int | None:
    effective = record.nonzero("effective_cpus")
    return record.count("cpus") if effective is None else effective


def _maintenance(record: JsonRecord) -> Maintenance | None:
    """Return a reservation with the flag MAINT, None for one without."""
    flags = record.words("flags")
    if "MAINT" not in flags:
        return None
    start, end = record.count("start_time"), record.count("end_time")
    if start is None or end is None:
        raise ParseError("the maintenance reservation has no start or end", field="start_time")
    nodes = frozenset(expand_nodes(record.text("node_list") or ""))
    return Maintenance(start, end, nodes, FLOATS in flags)


def parse_json_diag(document: JsonRecord, *, source: str, taken_at_secs: float) -> Scheduler:
    """Return the load of slurmctld and its schedulers in slurmrestd's answer to ``diag``.

    Raises ParseError if the answer has no statistics.
    """
    found = JsonRecord(document.get("statistics"))
    if (threads := found.count("server_thread_count")) is None:
        raise ParseError("the answer has no statistics", source=source, field="statistics")
    jobs = {each: found.count(f"jobs_{each}") for each in _JOBS}
    queued = {to: found.count(name) for to, name in _QUEUED.items()}
    rejected: list[Rejected] = []
    return Scheduler(
        source=NAME,
        taken_at_secs=taken_at_secs,
        threads=threads,
        queued={name: each for name, each in queued.items() if each is not None},
        jobs={name: each for name, each in jobs.items() if each is not None},
        backfilled_jobs=found.count("bf_backfilled_jobs"),
        cycles={name: make_cycles(map(found.count, names)) for name, names in _CYCLES.items()},
        types=_requests(found.records("rpcs_by_message_type"), "message_type", Requests, rejected),
        users=_requests(found.records("rpcs_by_user"), "user", UserRequests, rejected),
        rejected=tuple(rejected),
    )


def _requests(
    records: Iterable[JsonRecord],
    name: str,
    make: Callable[[str, int, float], Made],
    rejected: list[Rejected],
) -> tuple[Made, ...]:
    def parse(record: JsonRecord) -> Made:
        text, count, total = record.raw_text(name), record.count("count"), record.count("total_time")
        if not text or count is None or total is None:
            raise ParseError(f"fields {name}, count and total_time are required", text=text or "")
        return make(text, count, total * _MICRO)

    return added_up(parse_each(parse, records, rejected, "diag"))


def parse_json_licences(document: JsonRecord, *, source: str, taken_at_secs: float) -> Licences:
    """Return the licences in slurmrestd's answer to ``licenses``. Raises ParseError without that list."""
    records = document.listed("licenses", source)
    return make_licences(_licence, records, source=source, taken_at_secs=taken_at_secs)


def _licence(record: JsonRecord) -> Licence:
    name, total, used = record.text("LicenseName"), record.count("Total"), record.count("Used")
    if name is None or total is None or used is None:
        raise ParseError("not a licence: LicenseName, Total and Used are required", text=name or "")
    return Licence(
        name=name, total=total, used=used, free=record.count("Free"), reserved=record.count("Reserved")
    )


def parse_json_reservations(document: JsonRecord, *, source: str, taken_at_secs: float) -> Reservations:
    """Return the reservations in slurmrestd's answer to ``reservations``.

    Raises ParseError if the list of this name is missing.
    """
    records = document.listed("reservations", source)
    return make_reservations(_reservation, records, source=source, taken_at_secs=taken_at_secs)


def _reservation(record: JsonRecord) -> Reservation:
    name, start, end = record.text("name"), record.count("start_time"), record.count("end_time")
    if name is None or start is None or end is None:
        raise ParseError("not a reservation: name, start_time and end_time are required", text=name or "")
    return Reservation(
        name=name,
        start_secs=start,
        end_secs=end,
        nodes=record.count("node_count"),
        cores=record.count("core_count"),
        is_maintenance="MAINT" in record.words("flags"),
    )
