"""The cluster record: partitions and node states. Pure.

Source: NEW-FORMAT.md, "ClusterEnvelope". Nodes in the same states are grouped as compressed ranges.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobfeatures.formats.sonar.envelopes import (
    CLUSTER,
    Document,
    Origin,
    data_envelope,
    timestamp,
    unicode_text,
)
from jobfeatures.records.combining import grouped
from jobfeatures.records.model import Cluster
from jobfeatures.records.nodelist import fold_ranges

SLURM = "slurm"


def cluster_document(origin: Origin, cluster: Cluster) -> Document:
    """Return the envelope of a batch system's answer. Raises ParseError for an invalid node name."""
    nodes_by_states = grouped(
        (tuple(unicode_text(state).upper() for state in node.states), node.name) for node in cluster.nodes
    )
    return data_envelope(
        origin,
        CLUSTER,
        {
            "time": timestamp(cluster.taken_at_secs, origin.zone),
            "cluster": origin.cluster,
            "slurm": cluster.source == SLURM,
            "partitions": [
                {"name": unicode_text(each.name), "nodes": _ranges(each.nodes)} for each in cluster.partitions
            ],
            "nodes": [
                {"names": _ranges(names), "states": list(states)}
                for states, names in sorted(nodes_by_states.items())
            ],
        },
    )


def _ranges(names: Iterable[str]) -> list[str]:
    return list(fold_ranges(names))
