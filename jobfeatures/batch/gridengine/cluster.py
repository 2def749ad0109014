"""Makes hosts and queues from what ``qhost -q -xml`` prints. Pure.

Command: qhost(1); the letters of a queue's state: qstat(1), "Full Format",
https://manpages.debian.org/bookworm/gridengine-client/qstat.1.en.html
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from jobfeatures.batch.basics import busy_state
from jobfeatures.batch.gridengine.answers import (
    DRAINING_LETTERS,
    Element,
    QueueInstance,
    parse_slots,
    parse_xml,
)
from jobfeatures.batch.gridengine.basics import NAME, known
from jobfeatures.errors import ParseError, Rejected, parse_each, shown
from jobfeatures.records.model import Cluster, ClusterNode, Partition
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures.records.quantities import parse_binary_size, parse_count

CLUSTER_SOURCE = "qhost -q"
CLUSTER_QUESTION = ("-q", "-xml")
ALL_HOSTS = "global"  # pseudo-host with values that all hosts share

# Letters of a queue that starts no jobs: draining, suspended by hand (s), by its calendar (C), for
# another queue (S) or slot by slot (P), in error (E), ambiguously configured (c), unreachable (u).
# Alarms (a, A) are excluded: an overload stops a queue only briefly, and clears by itself.
CLOSED_LETTERS = DRAINING_LETTERS | frozenset("sSCPEcu")


def parse_cluster(data: bytes, *, taken_at_secs: float) -> Cluster:
    """Return hosts and queues in the answer to ``qhost -q -xml``; malformed hosts are rejected, others used.

    Sample, shortened: ``<host name='node1'> <hostvalue name='num_proc'>2</hostvalue> … <hostvalue
    name='mem_total'>23.5G</hostvalue> … <queue name='all.q'> <queuevalue qname='all.q'
    name='slots_used'>3</queuevalue> … <queuevalue qname='all.q' name='state_string'>d</queuevalue> </queue>
    </host>``. ``-`` means unknown; size suffixes are powers of 1024. Raises ParseError if the XML is
    malformed.
    """
    root = parse_xml(data, {"qhost"}, "hosts", source=CLUSTER_SOURCE)
    nodes: dict[str, ClusterNode] = {}
    queues: dict[str, list[QueueInstance]] = {}
    rejected: list[Rejected] = []
    hosts = (each for each in root.iterfind("host") if each.get("name") != ALL_HOSTS)
    made = parse_each(
        _parse_host, hosts, rejected, CLUSTER_SOURCE, lambda each: f"host {shown(each.get('name', ''))}"
    )
    for node, instances in made:
        nodes[node.name] = node
        for instance in instances:
            queues.setdefault(instance.queue, []).append(instance)
    partitions = tuple(_make_partition(name, instances) for name, instances in queues.items())
    return Cluster(NAME, taken_at_secs, tuple(nodes.values()), partitions, tuple(rejected))


def _make_partition(name: str, instances: Sequence[QueueInstance]) -> Partition:
    """Return a queue: UP while it starts jobs on at least one host."""
    is_up = any(CLOSED_LETTERS.isdisjoint(each.states) for each in instances)
    return Partition(name=name, nodes=tuple(each.host for each in instances), state="UP" if is_up else "DOWN")


def _parse_instance(host: str, element: Element) -> QueueInstance:
    values = {each.get("name", ""): (each.text or "").strip() for each in element.iterfind("queuevalue")}
    return QueueInstance(
        element.get("name", ""),
        host,
        states=known(values.get("state_string")) or "",
        slots=parse_slots(values.get("slots")),
        used_slots=parse_slots(values.get("slots_used")),
    )


def _parse_host(element: Element) -> tuple[ClusterNode, list[QueueInstance]]:
    name = element.get("name", "")
    queues = [_parse_instance(name, each) for each in element.iterfind("queue")]
    if expand_nodes(name) != (name,):
        raise ParseError("not a host name", field="name", text=name)
    values = {each.get("name", ""): (each.text or "").strip() for each in element.iterfind("hostvalue")}
    processors, memory = (values.get(each, "-") for each in ("num_proc", "mem_total"))
    used = [each.used_slots for each in queues if each.used_slots is not None]
    cpus = compute_slots(queues, None if processors == "-" else parse_count(processors, field="num_proc"))
    is_open = [CLOSED_LETTERS.isdisjoint(each.states) for each in queues]
    if cpus is not None and any(is_open) and not all(is_open):  # what closed queues have free is nobody's
        free = ((each.slots or 0) - (each.used_slots or 0) for each in compress(queues, is_open))
        cpus = min(cpus, sum(used) + sum(max(0, slots) for slots in free))
    node = ClusterNode(
        name=name,
        states=compute_states(queues, is_silent=values.get("load_avg", "-") == "-"),
        cpus=cpus,
        allocated_cpus=sum(used) if used else None,
        memory_bytes=None if memory == "-" else parse_binary_size(memory, field="mem_total"),
        address=name,
    )
    return node, queues


def compute_slots(queues: Sequence[QueueInstance], processors: int | None) -> int | None:
    """Return the slots of a host: those of its queue; without one, its processors.

    Several queues may share or divide the processors, which their slots do not reveal: the sum of slots is
    capped at the number of processors, unless a single queue has more.
    """
    slots = [each.slots for each in queues if each.slots is not None]
    if len(slots) < 2:
        return slots[0] if slots else processors
    return min(sum(slots), max(*slots, processors or 0))


def compute_states(queues: Sequence[QueueInstance], *, is_silent: bool) -> tuple[str, ...]:
    """Return the states of a host, its base state (such as IDLE or ALLOCATED) first.

    A host that reports no load (`is_silent`), or has a queue in state ``u``, is not responding. A host whose
    queues are all disabled is draining; if they start no jobs for other reasons, such as a
    suspension, it is blocked.
    """
    if is_silent or any("u" in each.states for each in queues):
        base: tuple[str, ...] = ("DOWN", "NOT_RESPONDING")
    elif queues and all("E" in each.states for each in queues):
        base = ("ERROR",)
    else:
        used = sum(each.used_slots or 0 for each in queues)
        base = (busy_state(used, compute_slots(queues, None)),)
    if queues and all(each.is_draining for each in queues):
        return (*base, "DRAIN")
    is_open = not queues or any(CLOSED_LETTERS.isdisjoint(each.states) for each in queues)
    return base if is_open or base[0] in {"DOWN", "ERROR"} else (*base, "BLOCKED")
