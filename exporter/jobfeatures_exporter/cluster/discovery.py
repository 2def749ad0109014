"""The nodes that batch systems know, as Prometheus' HTTP service discovery takes them. Pure.

Format: https://prometheus.io/docs/prometheus/latest/http_sd/. Lists in labels
stand between commas on both sides, so that a rule can match ``.*,gpu,.*``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from jobfeatures.model import Cluster, ClusterNode

TargetGroup = dict[str, Any]
NAME, ADDRESS = "name", "address"  # of a node, as its exporter's host


def make_targets(
    clusters: Iterable[Cluster], *, port: int, host: str = NAME, skip: Collection[str] = ()
) -> list[TargetGroup]:
    """Return one group a node; a node of two batch systems stands under the first.

    Nodes in one of the states `skip` are left out. Where the batch system
    tells no address, the name stands in its place.
    """
    groups: dict[str, TargetGroup] = {}
    for cluster in clusters:
        partitions_of: dict[str, list[str]] = {}
        for partition in cluster.partitions:
            for name in partition.nodes:
                partitions_of.setdefault(name, []).append(partition.name)
        for node in cluster.nodes:
            if node.name not in groups and not set(skip).intersection(node.states):
                groups[node.name] = {
                    "targets": [_target(node, port, host)],
                    "labels": {
                        "__meta_batch_system": cluster.source,
                        "__meta_batch_node": node.name,
                        "__meta_batch_address": node.address or "",
                        "__meta_batch_partitions": _listed(partitions_of.get(node.name, ())),
                        "__meta_batch_states": _listed(node.states),
                    },
                }
    return list(groups.values())


def _target(node: ClusterNode, port: int, host: str) -> str:
    found = node.address if host == ADDRESS and node.address else node.name
    return f"[{found}]:{port}" if ":" in found else f"{found}:{port}"


def _listed(words: Iterable[str]) -> str:
    text = ",".join(words)
    return f",{text}," if text else ""
