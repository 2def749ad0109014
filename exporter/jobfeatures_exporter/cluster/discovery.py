"""Makes targets for Prometheus' HTTP service discovery of the nodes that batch systems report. Pure.

A label with several values begins and ends with a comma, to match ``.*,gpu,.*``. Format:
https://prometheus.io/docs/prometheus/latest/http_sd/.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from typing import Any

from jobfeatures.records.combining import grouped
from jobfeatures.records.model import Cluster, ClusterNode

TargetGroup = dict[str, Any]
NAME, ADDRESS = "name", "address"  # which of a node's to use as its exporter's host

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}\Z")


def make_targets(
    clusters: Iterable[Cluster], *, port: int, host: str = NAME, skip: Collection[str] = ()
) -> list[TargetGroup]:
    """Return a target group for each node, with its exporter's address and labels.

    `port` is the exporters' port; `host` ("name" or "address") says how a target names its node. A node
    without a known address is named by its name. Left out are nodes in one of the states `skip`, and nodes
    whose name is no valid host name: Prometheus would query whatever `user@host` or `host/path` names. A node
    that two batch systems report appears once, as the first of them reports it.
    """
    groups: dict[str, TargetGroup] = {}
    for cluster in clusters:
        partitions_of = grouped((name, each.name) for each in cluster.partitions for name in each.nodes)
        for node in cluster.nodes:
            target = _target(node, port, host)
            if target and node.name not in groups and not set(skip).intersection(node.states):
                groups[node.name] = {
                    "targets": [target],
                    "labels": {
                        "__meta_batch_system": cluster.source,
                        "__meta_batch_node": node.name,
                        "__meta_batch_address": node.address or "",
                        "__meta_batch_partitions": _listed(partitions_of.get(node.name, ())),
                        "__meta_batch_states": _listed(node.states),
                    },
                }
    return list(groups.values())


def _target(node: ClusterNode, port: int, host: str) -> str | None:
    found = node.address if host == ADDRESS and node.address else node.name
    if _HOST.match(found):
        return f"{found}:{port}"
    try:
        return f"[{ipaddress.IPv6Address(found)}]:{port}"
    except ValueError:
        return None


def _listed(words: Iterable[str]) -> str:
    text = ",".join(words)
    return f",{text}," if text else ""
