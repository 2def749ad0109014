"""Where a job runs, by its nodes, task groups and tasks: pure.

Source: SSS Job Object Specification 3.1.0, sections 5.1 (Node), 6.1, 7.1, and
the elaborate example, the only place of the element Process. The Id of a task
is a name within its task group, not a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobfeatures.formats.sss import values
from jobfeatures.formats.sss.properties import DELIVERED, Properties
from jobfeatures.formats.sss.xml import Element


@dataclass(frozen=True, slots=True)
class Places:
    """Nodes of a job, and what is known of it on this node.

    `is_one_node` is false if the job is said to be on several nodes, and if
    its nodes are only described, by a pattern or a range.
    """

    nodes: tuple[str, ...]
    is_one_node: bool
    processes: frozenset[int]
    sessions: frozenset[int]


def read_places(properties: Properties, node: str | None) -> Places:
    """Return where a job runs; process and session ids only where they can be those of `node`.

    Without `node` all ids count. An id without a node, in a job on several
    nodes, counts for none. Raises ParseError for bad numbers and names.
    """
    collector = _Collector(node)
    collector.read(properties)
    count = properties.actual("NodeCount")
    is_one = (
        values.read_count(count) == 1
        if count is not None
        else collector.is_listed and len(collector.nodes) <= 1
    )
    return Places(
        tuple(collector.nodes), is_one, frozenset(collector.processes), frozenset(collector.sessions)
    )


class _Collector:
    def __init__(self, node: str | None) -> None:
        self.nodes: dict[str, None] = {}  # a set that keeps the order
        self.is_listed = True
        self.processes: set[int] = set()
        self.sessions: set[int] = set()
        self._node = node

    def read(self, properties: Properties) -> None:
        """Collect from a job and its task groups."""
        delivered = properties.all("Node", DELIVERED)
        direct = properties.one("Node")
        nodes = self._names(delivered or ([direct] if direct is not None else []))
        self._ids(properties.all("Session"), self.sessions, nodes)
        defaults = properties.one("TaskGroupDefaults")
        for group in properties.all("TaskGroup"):
            self._read_group(group, defaults, nodes)

    def _read_group(self, group: Element, defaults: Element | None, outer: tuple[str, ...]) -> None:
        nodes = self._names(_own_or_default("Node", group, defaults)) or outer
        self._ids(_own_or_default("Session", group, defaults), self.sessions, nodes)
        for_tasks = _own_or_default("TaskDefaults", group, defaults)
        if len(for_tasks) > 1:
            raise values.error_at(for_tasks[1], "stands here twice")
        for task in _own_or_default("Task", group, defaults):
            task_defaults = for_tasks[0] if for_tasks else None
            here = self._names(_own_or_default("Node", task, task_defaults)) or nodes
            self._ids(_own_or_default("Session", task, task_defaults), self.sessions, here)
            self._ids(_children(task, "Process"), self.processes, here)

    def _names(self, elements: Sequence[Element]) -> tuple[str, ...]:
        """Return the nodes that elements name one by one, and keep them."""
        names: list[str] = []
        for element in elements:
            attributes = element.attributes
            if attributes.get("aggregation", "List") != "List" or attributes.get("count", "1") != "1":
                self.is_listed = False
                continue
            parts = [element.text]
            if "aggregation" in attributes:
                parts = element.text.split(attributes.get("delimiter") or ",")
            for part in filter(None, (part.strip() for part in parts)):
                names.append(values.read_name(element, part))
        self.nodes.update(dict.fromkeys(names))
        return tuple(names)

    def _ids(self, elements: Sequence[Element], into: set[int], nodes: tuple[str, ...]) -> None:
        ids = [values.read_process(element) for element in elements]
        if self._node is None or not nodes or (len(nodes) == 1 and _is_same_host(nodes[0], self._node)):
            into.update(ids)


def _children(element: Element, name: str) -> list[Element]:
    return [child for child in element.children if child.name == name]


def _own_or_default(name: str, element: Element, defaults: Element | None) -> list[Element]:
    return _children(element, name) or (_children(defaults, name) if defaults is not None else [])


def _is_same_host(name: str, other: str) -> bool:
    """Compare host names; where one is short, up to the first dot."""
    if "." in name and "." in other:
        return name.lower() == other.lower()
    return name.partition(".")[0].lower() == other.partition(".")[0].lower()
