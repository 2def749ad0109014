"""Finds the nodes that satisfy a job's request, and sorts them by preference. Pure.

A node is a JSON object that maps each property to an amount (in bytes or seconds), a text, or a list of
texts, such as

    {"Node": "n1", "Processors": 8, "Memory": 34359738368, "Feature": ["fast"], "Resource License MATLAB": 1}

Sources: SSS Job Object Specification 3.1.0, section 8.1, and section 5.1: "run this task only on nodes having
the specified available resources". So a node needs at least the amount that a job may be given. EQ, which is
the default, and GE require as much, GT requires more; LE, LT and NE bound what the job is given, not what the
node has. A property outside any category is a request unless the job also requests it explicitly. The
Processors of a multi-node job are the total over its nodes ("two on one node and one on each of two nodes"),
so they are not required of each node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import DELIVERED, Property, Scope, SssJob, SssTaskGroup
from jobfeatures.formats.sss.properties import JobProperties
from jobfeatures.formats.sss.requests.expressions import (
    Candidate,
    CandidateVerdict,
    evaluate,
    parse_expression,
    rank,
)
from jobfeatures.formats.sss.vocabulary import CONSUMABLES

OF_NODES: Final = CONSUMABLES | {
    *("Architecture", "Feature", "Machine", "NetworkType", "Node", "OperatingSystem", "Partition")
}
MAX_NODES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Match:
    """The nodes that satisfy the request of a job or a task group (`of`), with their verdicts.

    `unclear` names the nodes about which too little is known to decide. `wanted` is the number of nodes that
    are needed.
    """

    of: str  # the job's id, with the task group if any
    nodes: tuple[tuple[str, CandidateVerdict], ...]
    unclear: tuple[str, ...] = ()
    wanted: int = 1  # number of nodes required

    @property
    def is_enough(self) -> bool:
        """Return whether enough nodes match."""
        return len(self.nodes) >= self.wanted


def parse_nodes(text: str) -> list[Candidate]:
    """Parse nodes from a JSON array, or from one JSON object per line; ParseError for any other text."""
    found: list[Candidate]
    if text.lstrip().startswith("["):
        found = _parse(text)
    else:
        lines = enumerate(text.split("\n"), 1)  # splitlines() would split strings at U+2028
        found = [_parse(line, number) for number, line in lines if line.strip()]
    if len(found) > MAX_NODES:
        raise ParseError(f"has more than {MAX_NODES} nodes: divide the file")
    for number, node in enumerate(found, 1):
        if not isinstance(node, dict) or not isinstance(node.get("Node"), str):
            raise ParseError(f"node {number} must be an object with the name of a node")
        for name, value in node.items():
            is_amount = isinstance(value, int | Decimal) and not isinstance(value, bool)
            is_texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
            is_finite = not isinstance(value, Decimal) or value.is_finite()
            if not (is_amount and is_finite) and not is_texts and not isinstance(value, str):
                raise ParseError(f"node {number}: must be a number, a text or a list of texts", field=name)
    return found


def _parse(text: str, line: int = 0) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {error}", line=line) from None
    except ArithmeticError:
        raise ParseError("a number has too many digits", line=line) from None


def match(job: SssJob, nodes: Sequence[Candidate]) -> Iterator[Match]:
    """Yield the nodes that satisfy a job, then those that satisfy each of its task groups with requests.

    The job's defaults must be filled in. Raises ParseError for an invalid request.
    """
    found = _match(job.id or "", job, nodes)
    groups = [each for each in job.task_groups if isinstance(each, SssTaskGroup) and _requests(each)]
    if _requests(job) or not groups:
        yield found
    for number, each in enumerate(groups, 1):
        yield _match(f"{job.id}: task group {each.value('Name', str) or number}", each, nodes)


def _match(of: str, scope: Scope, nodes: Sequence[Candidate]) -> Match:
    wanted = JobProperties(scope).quantity("NodeCount") or 1
    about = OF_NODES - ({"Processors"} if wanted > 1 else set())
    expression = parse_expression(_requests(scope))
    found = rank(expression, nodes, about)
    unclear = [each for each in nodes if evaluate(expression, each, about).is_satisfied is None]
    return Match(
        of,
        tuple((str(nodes[place]["Node"]), verdict) for place, verdict in found),
        tuple(str(each["Node"]) for each in unclear),
        wanted,
    )


def _requests(scope: Scope) -> list[Property]:
    """Return the requirements on nodes: the requested properties, and those outside any category."""
    reported = {each.key for each in scope.requested}
    reported |= {each.key for each in scope.all("Node", DELIVERED)}
    own = [
        each
        for each in scope.properties
        if each.name in OF_NODES and each.key not in reported and each.text("context") != "Used"
    ]
    return [_asked_of_node(each) for each in (*scope.requested, *own)]


def _asked_of_node(each: Property) -> Property:
    """Turn a request for an amount given to the job into the requirement on a node."""
    op = each.text("op", "EQ")
    if each.name not in CONSUMABLES or op in {"GE", "GT"}:
        return each
    asked = replace(each, attributes={**each.attributes, "op": "GE"})
    return asked if op in {"EQ", "Match"} else replace(asked, value=0)
