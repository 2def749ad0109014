"""Makes nodes, queues and this host's drain state from what bhosts, lshosts and bqueues print. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jobfeatures.batch.basics import busy_state, is_host_name
from jobfeatures.batch.lsf.answers import Record, count_of, text_of
from jobfeatures.batch.lsf.basics import NAME
from jobfeatures.batch.lsf.values import parse_size
from jobfeatures.errors import ParseError, Rejected, parse_each
from jobfeatures.records.model import Cluster, ClusterNode, NodeNotice, Partition
from jobfeatures.records.nodelist import is_same_host

BHOSTS = "bhosts"
BQUEUES = "bqueues"
BHOSTS_FIELDS = ("host_name", "status", "max", "njobs")
BQUEUES_FIELDS = ("queue_name", "status")

# https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=reference-bhosts, "STATUS": empty for a host
# that is merely full for now. Some closed_ states are set by administrators.
STATES: Mapping[str, tuple[str, ...]] = {
    "ok": (),
    "closed_Full": (),
    "closed_Excl": (),  # an exclusive job runs: the host is full until that ends
    "closed_cu_Excl": (),
    "closed_cu_excl": (),
    "closed_Busy": ("BLOCKED",),  # the load is above the thresholds
    "closed_Wind": ("BLOCKED",),  # outside its dispatch window
    "closed_Adm": ("DRAIN",),
    "closed_Lock": ("DRAIN",),
    "closed_EGO": ("DRAIN",),
    "closed_RC": ("DRAIN",),
    "closed_LIM": ("NOT_RESPONDING",),
    "unavail": ("DOWN",),
    "unreach": ("NOT_RESPONDING",),
    "unlicensed": ("DOWN",),
}
WHOLE = frozenset({"closed_Excl", "closed_cu_Excl", "closed_cu_excl"})  # given to one job as a whole
_STARTS_NONE = frozenset({"DRAIN", "DOWN", "NOT_RESPONDING"})


def parse_notice(records: Iterable[Record], node_name: str) -> NodeNotice | None:
    """Return whether this host is draining, and its CPUs, from bhosts; None if its STATUS is unknown.

    Sample: ``{"HOST_NAME":"n1","STATUS":"closed_Adm","MAX":"8","NJOBS":"2"}``. A host that is full, runs an
    exclusive job or is too busy accepts jobs again by itself: it is not draining.
    Raises ParseError if the host is not in the answer.
    """
    for record in records:
        name = text_of(record, "HOST_NAME")
        if name is not None and is_same_host(name, node_name):
            words = STATES.get(record.get("STATUS", ""))
            if words is None:
                return None
            return NodeNotice(draining=not _STARTS_NONE.isdisjoint(words), cpus=count_of(record, "MAX"))
    raise ParseError("the answer is not about this host", source=BHOSTS, text=node_name)


def parse_node(record: Record, memory: Mapping[str, int]) -> ClusterNode:
    """Return one host from its record of bhosts. Raises ParseError if malformed.

    Its CPUs are its slots, ``MAX``; ``-`` means that they are not limited, and the CPUs unknown. `memory` is
    the result of `parse_memory`.
    """
    name = record.get("HOST_NAME", "")
    if not is_host_name(name):
        raise ParseError("not a host's name", field="HOST_NAME", text=name)
    slots, status = count_of(record, "MAX"), record.get("STATUS", "")
    used = count_of(record, "NJOBS") if slots is None or status not in WHOLE else slots
    words = STATES.get(status)
    if words is None:
        states: tuple[str, ...] = ("DRAIN",) if status.startswith("closed") else ("UNKNOWN",)
    else:
        states = words if "DOWN" in words else (busy_state(used, slots), *words)
    return ClusterNode(
        name=name, states=states, cpus=slots, allocated_cpus=used, memory_bytes=memory.get(name), address=name
    )


def parse_queue(record: Record) -> Partition:
    """Return one queue from a record such as ``{"QUEUE_NAME":"normal","STATUS":"Open:Active"}``.

    Raises ParseError without a name.
    """
    name = text_of(record, "QUEUE_NAME")
    if name is None:
        raise ParseError("the queue has no name", field="QUEUE_NAME")
    return Partition(name=name, state=_queue_state(record.get("STATUS", "")))


def _queue_state(status: str) -> str | None:
    """Return UP if a queue accepts and starts jobs, DRAIN: only starts, INACTIVE: accepts, DOWN: neither."""
    opened, _, active = status.partition(":")
    known = {
        ("Open", "Active"): "UP",
        ("Closed", "Active"): "DRAIN",
        ("Open", "Inact"): "INACTIVE",
        ("Open", "Inactive"): "INACTIVE",
        ("Closed", "Inact"): "DOWN",
        ("Closed", "Inactive"): "DOWN",
    }
    return known.get((opened, active.partition("_")[0]), status or None)


def parse_memory(records: Iterable[Record]) -> dict[str, int]:
    """Return the memory of each host in bytes, by host, from lshosts.

    Texts such as ``31.2G`` and ``31998M`` are in powers of 1024; MiB without a letter.
    """

    def parse(record: Record) -> tuple[str | None, int | None]:
        return text_of(record, "HOST_NAME"), parse_size(record.get("MAXMEM", ""), bare_unit="M")

    sizes = parse_each(parse, records, [])  # a missing size is not worth a message for every host
    return {name: size for name, size in sizes if name is not None and size is not None}


def parse_cluster(
    hosts: Iterable[Record], queues: Iterable[Record], memory: Mapping[str, int], *, taken_at_secs: float
) -> Cluster:
    """Return hosts and queues from records of bhosts and bqueues; malformed ones are rejected, others used.

    `memory` is the result of `parse_memory`.
    """
    rejected: list[Rejected] = []
    nodes: dict[str, ClusterNode] = {}
    partitions: dict[str, Partition] = {}
    for node in parse_each(lambda record: parse_node(record, memory), hosts, rejected, BHOSTS):
        nodes.setdefault(node.name, node)
    for partition in parse_each(parse_queue, queues, rejected, BQUEUES):
        partitions.setdefault(partition.name, partition)
    found = tuple(nodes.values()), tuple(partitions.values())
    return Cluster(NAME, taken_at_secs, *found, tuple(rejected))
