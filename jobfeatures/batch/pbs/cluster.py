"""Records of pbsnodes and ``qstat -Qf`` → nodes and queues. Pure.

Node states: PBS Professional Reference Guide, "Vnode States",
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf;
Torque: pbs_node_attributes(7B), pbsnodes(8B).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from jobfeatures.batch.basics import busy_state, count_ranges, find_host
from jobfeatures.batch.pbs.records import Record, Records
from jobfeatures.batch.pbs.values import parse_size
from jobfeatures.errors import ParseError, parse_each
from jobfeatures.records.model import Cluster, ClusterNode, NodeNotice, Partition
from jobfeatures.records.quantities import parse_count

# Node states as common ones. How busy a node is follows from its CPUs if no word says so: `compute_states`.
NODE_WORDS: Mapping[str, tuple[str, ...]] = {
    "free": (),
    "job-busy": ("ALLOCATED",),
    "job-exclusive": ("ALLOCATED",),
    "busy": ("ALLOCATED",),
    "job-sharing": (),
    "resv-exclusive": ("RESERVED",),
    "reserve": ("RESERVED",),
    "offline": ("DRAIN",),
    "offline_by_mom": ("DRAIN",),
    "maintenance": ("MAINTENANCE",),
    "down": ("DOWN",),
    "stale": ("NOT_RESPONDING",),
    "unresolvable": ("NOT_RESPONDING",),
    "state-unknown": ("UNKNOWN",),
    "unknown": ("UNKNOWN",),
    "sleep": ("POWERED_DOWN",),
    "provisioning": ("POWERING_UP",),
    "wait-provisioning": ("POWERING_UP",),
    "wait-provision": ("POWERING_UP",),
    "initializing": ("POWERING_UP",),
}
DRAINS = frozenset({"offline", "offline_by_mom", "maintenance"})
CPUS = ("resources_available.ncpus", "np", "pcpus")
_BASES = ("DOWN", "UNKNOWN", "ALLOCATED")
_SLOTS = re.compile(r"\s*([0-9][0-9,-]{0,65535})/[^\s,]+\s*(?:,|\Z)")
_PHYSICAL = re.compile(r"(?:\A|,)physmem=([^,]{1,40})")


def split_states(text: str) -> tuple[str, ...]:
    """Split states such as ``down,offline``."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def make_notice(record: Record) -> NodeNotice:
    """Return the notice that a node's record implies. Raises ParseError without a state."""
    words = split_states(record.attributes.get("state", ""))
    if not words:
        raise ParseError("field is missing", field="state", text=record.name)
    draining = not DRAINS.isdisjoint(words)
    try:
        return NodeNotice(draining, cpus=_first(record.attributes, parse_count, *CPUS))
    except ParseError:  # a malformed value invalidates nothing else
        return NodeNotice(draining)


def find_node(records: Mapping[str, Record], node_name: str) -> Record | None:
    """Return the record of a node by its full or short name."""
    name = node_name if node_name in records else find_host(records, node_name)
    return None if name is None else records[name]


def make_node(record: Record) -> ClusterNode:
    """Return a node. A state word that is not in the table is kept as it is. Raises ParseError.

    PBS: ncpus, mem and ngpus of resources_available and resources_assigned.
    Torque: np, the slots of jobs, physmem of status, gpus.
    """
    values = record.attributes
    words = split_states(values.get("state", ""))
    if not words:
        raise ParseError("field is missing", field="state", text=record.name)
    cpus = _first(values, parse_count, *CPUS)
    allocated = _first(values, parse_count, "resources_assigned.ncpus")
    if allocated is None and "np" in values:
        allocated = count_slots(values.get("jobs", ""))
    memory = _first(values, parse_size, "resources_available.mem")
    if memory is None and (
        physical := _PHYSICAL.search(values.get("status", values.get("status.physmem", "")))
    ):
        memory = parse_size(physical[1], field="physmem")
    return ClusterNode(
        name=record.name,
        states=compute_states(words, cpus, allocated),
        cpus=cpus,
        allocated_cpus=allocated,
        memory_bytes=memory,
        allocated_memory_bytes=_first(values, parse_size, "resources_assigned.mem"),
        gpus=_first(values, parse_count, "resources_available.ngpus", "gpus"),
        allocated_gpus=_first(values, parse_count, "resources_assigned.ngpus"),
        address=values.get("Mom") or None,
    )


def compute_states(words: Sequence[str], cpus: int | None, allocated: int | None) -> tuple[str, ...]:
    """Return the common state words, base state first; without one, it follows from how busy the node is."""
    said: dict[str, None] = {}
    for word in words:
        common = NODE_WORDS.get(word, (re.sub(r"[^A-Z_]", "_", word.upper())[:40],))
        said.update(dict.fromkeys(common))
    base = next((each for each in _BASES if each in said), None)
    if base is None:
        base = busy_state(allocated, cpus)
    return tuple(dict.fromkeys((base, *said)))


def count_slots(text: str) -> int:
    """Count the slots in use: ``0/12.s, 1/12.s`` or ``0-3,6/12.s,4/13.s``. Raises ParseError."""
    count, position, end = 0, 0, len(text.rstrip())
    while position < end:
        match = _SLOTS.match(text, position)
        if match is None:
            raise ParseError("not jobs of a node", field="jobs", text=text[position:])
        count += count_ranges(match[1], "execution slots", field="jobs")
        position = match.end()
    return count


def make_queue(record: Record, nodes: Iterable[Record]) -> Partition:
    """Return an execution queue. UP: it accepts and starts jobs; DOWN, DRAIN, INACTIVE as in Slurm.

    PBS: a queue's nodes are those bound to it (by their attribute queue), else those bound to no queue.
    Torque: if a queue's neednodes is a property, its nodes are those with that property.
    """
    values = record.attributes
    enabled, started = (values.get(name, "").lower() == "true" for name in ("enabled", "started"))
    state = {(True, True): "UP", (True, False): "DOWN", (False, True): "DRAIN", (False, False): "INACTIVE"}
    need = values.get("resources_default.neednodes")
    known = [(each.name, each.attributes) for each in nodes]
    bound = [name for name, each in known if each.get("queue") == record.name]
    if bound:
        names = bound
    elif need:
        names = [name for name, each in known if need in split_states(each.get("properties", ""))]
    else:
        names = [name for name, each in known if not each.get("queue")]
    return Partition(name=record.name, nodes=tuple(names), state=state[enabled, started])


def make_cluster(nodes: Records, queues: Records, *, source: str, taken_at_secs: float) -> Cluster:
    """Return nodes and execution queues; a bad record is rejected on its own."""
    rejected = [*nodes.rejected, *queues.rejected]
    made = tuple(
        parse_each(make_node, nodes.found.values(), rejected, "pbsnodes", lambda record: record.name)
    )
    executing = [
        each
        for each in queues.found.values()
        if each.attributes.get("queue_type", "Execution").lower().startswith("e")
    ]
    return Cluster(
        source=source,
        taken_at_secs=taken_at_secs,
        partitions=tuple(make_queue(each, nodes.found.values()) for each in executing),
        nodes=made,
        rejected=tuple(rejected),
    )


def _first(values: Mapping[str, str], parse: Callable[..., int], *names: str) -> int | None:
    """Return the first of these values that is present. Raises ParseError."""
    return next((parse(values[name], field=name) for name in names if values.get(name)), None)
