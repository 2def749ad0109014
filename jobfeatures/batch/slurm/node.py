"""Parses what the controller announces about this node: its drain state and maintenance reservations. Pure.

Reasons, comments and reservation names are administrators' free text and are not escaped: a field is read
only where no such text precedes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from jobfeatures.batch.basics import is_host_name
from jobfeatures.batch.slurm.cluster import NODE_SOURCE, parse_node
from jobfeatures.errors import ParseError, Rejected, parse_each
from jobfeatures.records.model import NodeNotice
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures.records.quantities import parse_count

RESERVATION_SOURCE = "scontrol show reservation"
SHOW_RESERVATIONS = "show reservation"
FLOATS = "TIME_FLOAT"

# sinfo(1), "NODE STATE CODES". A failing node is "unavailable for use per system administrator request".
DRAIN_STATES = frozenset({"DRAIN", "MAINTENANCE", "FAIL"})
_UPDATED = re.compile(r"last_update_time=([0-9]{9,11}), records=")
_RESERVATION = re.compile(
    r"ReservationName=(?P<name>.*) StartTime=(?P<start>\S+) EndTime=(?P<end>\S+) Duration=\S* "
    r"Nodes=(?P<nodes>\S*) NodeCnt=(?P<count>[0-9]{1,9})"
    r"(?: CoreCnt=(?P<cores>[0-9]{1,9}))?(?: .*?)? Flags=(?P<flags>\S*)"
)
_RESERVATION_FREE_TEXT = re.compile(r" (?:Users|Groups|Accounts|Comment)=")


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What the controller answered about a node.

    `notice` is None if the node's state is unknown. `clock_secs` is the controller's time when it answered
    (epoch), None if not reported; `allocated_cpus` is None if unknown.
    """

    notice: NodeNotice | None
    rejected: tuple[Rejected, ...] = ()
    clock_secs: int | None = None  # the controller's, when it answered (epoch)
    allocated_cpus: int | None = None


def node_questions(node_name: str | None) -> tuple[str, ...]:
    """Return the commands for scontrol that query a node; () if `node_name` is not a host name."""
    if node_name is None or not is_host_name(node_name):
        return ()
    return f"show node {node_name}", SHOW_RESERVATIONS


def parse_node_answer(
    node_lines: Sequence[str], reservation_lines: Sequence[str], *, node_name: str, now_secs: float
) -> NodeAnswer:
    """Parse the output of ``scontrol -o show node NAME`` and ``show reservation``; never raises.

    A reservation counts if it has the flag MAINT, includes this node and ends after `now_secs` (epoch).
    Malformed reservations, and those whose start moves on with the clock (floating), are rejected. Before the
    node's record there may be a line ``last_update_time=1795349510, records=2``, with the time of the answer.
    """
    clock_secs = parse_clock(node_lines)
    if clock_secs is not None:
        node_lines = node_lines[1:]
    found, rejected = parse_reservations(reservation_lines)
    try:
        notice = parse_notice(node_lines, found, node_name=node_name, now_secs=now_secs)
    except ParseError as error:
        return NodeAnswer(None, (Rejected.from_error(error),), clock_secs)
    allocated_cpus = parse_node(node_lines[0]).allocated_cpus
    return NodeAnswer(notice, (*rejected, *floating(found, (node_name,))), clock_secs, allocated_cpus)


def parse_clock(lines: Sequence[str]) -> int | None:
    """Return the controller's time (epoch) in the first line of an answer; None if it has none.

    scontrol prints it after the command ``verbose``.
    """
    found = _UPDATED.match(lines[0]) if lines else None
    return None if found is None else int(found[1])


def parse_reservations(lines: Iterable[str]) -> tuple[tuple[Maintenance, ...], tuple[Rejected, ...]]:
    """Return the maintenance reservations in ``scontrol -o show reservation``, and the malformed ones.

    Never raises.
    """
    rejected: list[Rejected] = []
    # Other lines are "No reservations in the system", or the rest of a name with a newline.
    records = [line for line in lines if line.startswith("ReservationName=")]
    found = parse_each(parse_maintenance, records, rejected, RESERVATION_SOURCE)
    return tuple(each for each in found if each is not None), tuple(rejected)


def parse_notice(
    node_lines: Sequence[str], maintenances: Iterable[Maintenance], *, node_name: str, now_secs: float
) -> NodeNotice:
    """Return whether a node drains, its shutdowns and its CPUs. Raises ParseError without a valid record.

    `node_lines` are its record; shutdowns are the starts of `maintenances` that end after `now_secs` (epoch).
    """
    line = node_lines[0] if node_lines else ""
    if re.match(rf"Node {re.escape(node_name)} not found\b", line):
        reason = "Slurm knows no node of this name"
        raise ParseError(reason, source=NODE_SOURCE, field=node_name, text=line)
    if not line.startswith(f"NodeName={node_name} "):
        raise ParseError("no record of this node", source=NODE_SOURCE, field=node_name, text=line)
    try:
        node = parse_node(line)
    except ParseError as error:
        raise error.at(NODE_SOURCE) from error
    draining = not DRAIN_STATES.isdisjoint(node.states)
    return NodeNotice(draining, shutdowns_of(maintenances, node_name, now_secs), node.cpus)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A maintenance reservation; times are epoch seconds.

    `floats`: its start and end move on with the clock.
    """

    start_secs: int
    end_secs: int
    nodes: frozenset[str]
    floats: bool = False


def shutdowns_of(maintenances: Iterable[Maintenance], node_name: str, now_secs: float) -> tuple[int, ...]:
    """Return when a node's maintenances begin (epoch seconds), without ended and floating ones.

    Ended are those with an end before `now_secs`; the times of floating ones move on with the clock.
    """
    mine = (each for each in maintenances if node_name in each.nodes and not each.floats)
    return tuple(sorted({each.start_secs for each in mine if each.end_secs > now_secs}))


def floating(maintenances: Iterable[Maintenance], nodes: Collection[str]) -> tuple[Rejected, ...]:
    """Return one problem to report if any of these nodes has a floating maintenance, else ().

    The start of such a maintenance moves on with the clock, so that no shutdown can be announced.
    """
    if all(each.nodes.isdisjoint(nodes) for each in maintenances if each.floats):
        return ()
    reason = "the start of this reservation moves on with the clock, so no shutdown is announced"
    return (Rejected(RESERVATION_SOURCE, reason, field="Flags", text=FLOATS),)


def parse_maintenance(line: str) -> Maintenance | None:
    """Return the maintenance reservation in a line; None for a reservation without the flag MAINT.

    Sample (``SLURM_TIME_FORMAT=%s``): ``ReservationName=maint StartTime=1795257191 EndTime=1795260791
    Duration=01:00:00 Nodes=n1 NodeCnt=1 CoreCnt=2 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
    TRES=cpu=2 Users=root …``

    Raises ParseError, also if the name contains text that looks like fields.
    """
    found = find_reservation(line)
    flags = found["flags"].split(",")
    if "MAINT" not in flags:
        return None
    start = parse_count(found["start"], field="StartTime")
    nodes = frozenset(expand_nodes(found["nodes"]))
    return Maintenance(start, parse_count(found["end"], field="EndTime"), nodes, FLOATS in flags)


def find_reservation(line: str) -> re.Match[str]:
    """Return the match of the regular expression for reservations with a line.

    Raises ParseError, also if the reservation's name contains text that looks like fields.
    """
    free_text = _RESERVATION_FREE_TEXT.search(line)
    head = line[: free_text.start()] if free_text else line
    match = _RESERVATION.match(head)
    if match is None:
        raise ParseError("not a record of a reservation", source=RESERVATION_SOURCE, text=line)
    if head.count(" StartTime=") != 1 or head.count(" Flags=") != 1:
        raise ParseError("field occurs twice", source=RESERVATION_SOURCE, text=line)
    return match
