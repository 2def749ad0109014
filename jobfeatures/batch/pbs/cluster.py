"""Makes nodes and queues from the records of pbsnodes and ``qstat -Qf``. Pure.

Node states: PBS Professional Reference Guide, "Vnode States",
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf; Torque:
pbs_node_attributes(7B), pbsnodes(8B).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from jobfeatures.batch.basics import busy_state, count_ranges, find_host
from jobfeatures.batch.pbs.records import Record, Records
from jobfeatures.batch.pbs.values import parse_size
from jobfeatures.errors import ParseError, parse_each
from jobfeatures.records.combining import grouped, sum_all, sum_known
from jobfeatures.records.model import Cluster, ClusterNode, NodeNotice, Partition
from jobfeatures.records.quantities import parse_count

# Node states as common ones. How busy a node is follows from its CPUs if no word says so: `compute_states`.
NODE_WORDS: Mapping[str, tuple[str, ...]] = {
    "free": (),
    "job-busy": ("ALLOCATED",),
    "job-exclusive": ("ALLOCATED",),
    "busy": ("BLOCKED",),  # its load is above max_load, whatever its jobs have
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
# The node is given to one job or reservation as a whole, whatever that uses of it.
WHOLE = frozenset({"job-exclusive", "resv-exclusive"})
_STARTS_NONE = frozenset(
    {"DRAIN", "MAINTENANCE", "BLOCKED", "DOWN", "NOT_RESPONDING", "UNKNOWN", "POWERED_DOWN"}
)
DRAINS = frozenset({"offline", "offline_by_mom", "maintenance"})
CPUS = ("resources_available.ncpus", "np", "pcpus")
_BASES = ("DOWN", "UNKNOWN", "ALLOCATED")
_SLOTS = re.compile(r"\s*([0-9][0-9,-]{0,65535})/[^\s,]+\s*(?:,|\Z)")
_ALONE = re.compile(r"(?:\A|[\s,])([0-9]{1,9})/")  # a slot that is no range
_PHYSICAL = re.compile(r"(?:\A|,)physmem=([^,]{1,40})")


def split_states(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list such as ``down,offline``."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def make_notice(record: Record) -> NodeNotice:
    """Return whether a node drains, and its CPUs, from its record. Raises ParseError without a state."""
    words = split_states(record.attributes.get("state", ""))
    if not words:
        raise ParseError("field is missing", field="state", text=record.name)
    draining = not DRAINS.isdisjoint(words)
    try:
        return NodeNotice(draining, cpus=_first(record.attributes, parse_count, *CPUS))
    except ParseError:  # a malformed value invalidates nothing else
        return NodeNotice(draining)


def find_node(records: Mapping[str, Record], node_name: str) -> Record | None:
    """Return the record of a node, found by its full or short name; None if there is none."""
    name = node_name if node_name in records else find_host(records, node_name)
    return None if name is None else records[name]


def make_node(
    record: Record, *, has_slot_counts: bool = False, cards: Mapping[str, int] | None = None
) -> ClusterNode:
    """Return a node or vnode from its record. Raises ParseError if malformed.

    Its values are, for PBS, ncpus, mem and ngpus of resources_available and resources_assigned; for Torque
    np, the slots in jobs, physmem of status, and gpus. `has_slot_counts`: in Torque's ``jobs`` a number is
    how many slots a job has, not the name of one. `cards` are the numbers of GPUs in use by Torque's jobs, by
    host; None if they are not known. A state that is not in `NODE_WORDS` is kept, in capitals.
    """
    values = record.attributes
    words = split_states(values.get("state", ""))
    if not words:
        raise ParseError("field is missing", field="state", text=record.name)
    cpus = _first(values, parse_count, *CPUS)
    allocated = _first(values, parse_count, "resources_assigned.ncpus")
    if allocated is None and "np" in values:
        allocated = count_slots(values.get("jobs", ""), is_number=has_slot_counts)
    memory = _first(values, parse_size, "resources_available.mem")
    if memory is None and (
        physical := _PHYSICAL.search(values.get("status", values.get("status.physmem", "")))
    ):
        memory = parse_size(physical[1], field="physmem")
    allocated_memory = _first(values, parse_size, "resources_assigned.mem")
    gpus = _first(values, parse_count, "resources_available.ngpus", "gpus")
    allocated_gpus = _first(values, parse_count, "resources_assigned.ngpus")
    if allocated_gpus is None and gpus is not None and cards is not None:
        allocated_gpus = min(gpus, cards.get(find_host(cards, record.name) or "", 0))
    if not WHOLE.isdisjoint(words):
        allocated, allocated_memory, allocated_gpus = cpus, memory, gpus
    return ClusterNode(
        name=record.name,
        states=compute_states(words, cpus, allocated),
        cpus=cpus,
        allocated_cpus=allocated,
        memory_bytes=memory,
        allocated_memory_bytes=allocated_memory,
        gpus=gpus,
        allocated_gpus=allocated_gpus,
        address=values.get("Mom") or None,
    )


def make_host(name: str, vnodes: Sequence[ClusterNode]) -> ClusterNode:
    """Return a whole host from its `vnodes`, which are parts of it such as sockets.

    Vnodes without CPUs are left out, and so are the free resources of vnodes that start no jobs: jobs cannot
    get them. The host's states are a base state, and those that all vnodes that start jobs have in common.
    """
    if len(vnodes) == 1:
        return vnodes[0]
    real = [each for each in vnodes if each.cpus != 0] or list(vnodes)
    open_ones = [each for each in real if _STARTS_NONE.isdisjoint(each.states)] or real
    common = [word for word in open_ones[0].states[1:] if all(word in each.states for each in open_ones)]

    def total(what: str) -> int | None:
        found = [getattr(each, what if each in open_ones else f"allocated_{what}") for each in real]
        return sum_all(found)

    cpus, allocated = total("cpus"), sum_all([each.allocated_cpus for each in real])
    bases = {each.states[0] for each in open_ones}
    base = bases.pop() if bases in ({"DOWN"}, {"UNKNOWN"}) else busy_state(allocated, cpus)
    return ClusterNode(
        name=name,
        states=(base, *common),
        cpus=cpus,
        allocated_cpus=allocated,
        memory_bytes=total("memory_bytes"),
        allocated_memory_bytes=sum_all([each.allocated_memory_bytes for each in real]),
        gpus=sum_known([each.gpus for each in open_ones]),
        allocated_gpus=sum_known([each.allocated_gpus for each in open_ones]),
        address=next((each.address for each in vnodes if each.address), None),
    )


def find_hosts(nodes: Iterable[Record]) -> dict[str, str]:
    """Return the host's name for each vnode; for a host with one vnode, the vnode's own name."""
    of_host = grouped(
        (each.attributes.get("resources_available.host") or each.name, each.name) for each in nodes
    )
    return {name: host if len(names) > 1 else name for host, names in of_host.items() for name in names}


def compute_states(words: Sequence[str], cpus: int | None, allocated: int | None) -> tuple[str, ...]:
    """Return a node's states from PBS's or Torque's `words`, the base state first.

    If there is no base state among them, the allocated CPUs decide: see `busy_state`.
    """
    properties: dict[str, None] = {}
    for word in words:
        common = NODE_WORDS.get(word, (re.sub(r"[^A-Z_]", "_", word.upper())[:40],))
        properties.update(dict.fromkeys(common))
    base = next((each for each in _BASES if each in properties), busy_state(allocated, cpus))
    return tuple(dict.fromkeys((base, *properties)))


def count_slots(text: str, *, is_number: bool = False) -> int:
    """Count the slots in use on a node from Torque's list of its jobs. Raises ParseError if malformed.

    In ``0/12.s, 1/12.s`` and ``0-3,6/12.s,4/13.s`` the numbers before the slash name slots. With `is_number`
    a single number is how many slots a job has, ``16/12.s``, as in Torque's branch "develop".
    """
    count, position, end = 0, 0, len(text.rstrip())
    while position < end:
        match = _SLOTS.match(text, position)
        if match is None:
            raise ParseError(
                "must be a list of jobs, such as 0/12.server", field="jobs", text=text[position:]
            )
        is_count = is_number and match[1].isdigit()
        count += int(match[1]) if is_count else count_ranges(match[1], "execution slots", field="jobs")
        position = match.end()
    return count


def has_slot_counts(nodes: Iterable[Record]) -> bool:
    """Return whether a number in Torque's ``jobs`` is how many slots a job has, and not the name of a slot.

    It is if any number is too high for the name of a slot on its node.
    """
    for each in nodes:
        slots = each.attributes.get("np", "")
        numbers = _ALONE.findall(each.attributes.get("jobs", ""))
        if slots.isdecimal() and any(int(number) >= int(slots) for number in numbers):
            return True
    return False


def make_queue(record: Record, nodes: Iterable[Record], hosts: Mapping[str, str]) -> Partition:
    """Return an execution queue with its nodes and its state.

    It is UP if it accepts and starts jobs, DOWN if it only accepts them, DRAIN if it only starts them, else
    INACTIVE. `hosts` is the result of `find_hosts`. PBS: a queue's nodes are those bound to it (by their
    attribute queue), else those bound to no queue. Torque: if a queue's neednodes is a property, its nodes
    are those with that property.
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
    found = dict.fromkeys(hosts[name] for name in names)
    return Partition(name=record.name, nodes=tuple(found), state=state[enabled, started])


def make_cluster(
    nodes: Records,
    queues: Records,
    *,
    source: str,
    taken_at_secs: float,
    cards: Mapping[str, int] | None = None,
) -> Cluster:
    """Return the hosts and execution queues; malformed ones are in the result's `rejected`.

    `cards` are the numbers of GPUs in use by Torque's jobs, by host; None if they are not known.
    """
    rejected = [*nodes.rejected, *queues.rejected]
    found = nodes.found.values()
    make = partial(make_node, has_slot_counts=has_slot_counts(found), cards=cards)
    hosts = find_hosts(found)
    made = parse_each(make, found, rejected, "pbsnodes", lambda record: record.name)
    by_host = grouped((hosts[each.name], each) for each in made)
    kinds = ((each, each.attributes.get("queue_type", "Execution")) for each in queues.found.values())
    executing = [each for each, kind in kinds if kind.lower().startswith("e")]
    found_hosts = tuple(make_host(name, vnodes) for name, vnodes in by_host.items())
    found_queues = tuple(make_queue(each, found, hosts) for each in executing)
    return Cluster(source, taken_at_secs, found_hosts, found_queues, tuple(rejected))


def _first(values: Mapping[str, str], parse: Callable[..., int], *names: str) -> int | None:
    """Return the first of these values that is present. Raises ParseError."""
    return next((parse(values[name], field=name) for name in names if values.get(name)), None)
