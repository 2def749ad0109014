"""What each node gives to a job, as the details of ``scontrol -d show job`` tell it. Pure.

Sample: ``Nodes=n[1-2] CPU_IDs=0-1 Mem=100 GRES=gpu:a100:2(IDX:0-1)``; memory is in MiB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from jobfeatures.batch.basics import count_ranges
from jobfeatures.batch.slurm.gpus import is_shared, parse_gres
from jobfeatures.model import Job
from jobfeatures.nodelist import expand_nodes
from jobfeatures.quantities import parse_binary_size

_NODE_DETAIL = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\S+)(?: GRES=(\S*))?")


@dataclass(frozen=True, slots=True)
class Share:
    """What one node gives; 0 and () where it is not reported."""

    cpus: int = 0
    memory_bytes: int = 0
    cards: tuple[str, ...] = ()
    has_shared_cards: bool = False


_NOTHING = Share()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedJob:
    """A job as a whole, and what is needed to tell a node's share of it."""

    job: Job
    shares: Mapping[str, Share]
    memory_per_cpu_bytes: int | None = None
    memory_per_node_bytes: int | None = None
    total_gpus: int | None = None

    def on(self, node_name: str | None) -> Job:
        """Return the job as a node has it; with None its share is known of a job of one node only.

        Where the details tell no CPUs or cards, those of a job of one node are
        its own. Of cards that are shared no number of whole ones is reported.
        """
        job = self.job
        if node_name is None and len(job.nodes) == 1:
            node_name = job.nodes[0]
        share = _NOTHING if node_name is None else self.shares.get(node_name, _NOTHING)
        is_alone = job.nodes == (node_name,)
        cpus = share.cpus or (is_alone and job.total_cpus) or None
        memory_bytes = share.memory_bytes or self.memory_per_node_bytes
        if not share.memory_bytes and self.memory_per_cpu_bytes is not None:
            memory_bytes = None if cpus is None else self.memory_per_cpu_bytes * cpus
        gpus: int | None = len(share.cards) or (self.total_gpus if is_alone else None)
        return replace(
            job,
            allocated_cpus=cpus,
            limits=replace(job.limits, memory_bytes=memory_bytes),
            gpus=share.cards,
            allocated_gpus=None if share.has_shared_cards else gpus,
        )


def parse_shares(details: str) -> dict[str, Share]:
    """Return the shares by node's name. Raises ParseError."""
    found: dict[str, Share] = {}
    for match in _NODE_DETAIL.finditer(details):
        share = Share(
            count_ranges(match[2], "numbers of CPUs", field="CPU_IDs"),
            parse_binary_size(match[3], field="Mem", bare_unit="M"),
            parse_gres(match[4] or ""),
            is_shared(match[4] or ""),
        )
        for name in expand_nodes(match[1]):
            known = found.get(name)
            found[name] = share if known is None else _sum(known, share)
    return found


def _sum(one: Share, other: Share) -> Share:
    return Share(
        one.cpus + other.cpus,
        one.memory_bytes + other.memory_bytes,
        tuple(dict.fromkeys((*one.cards, *other.cards))),
        one.has_shared_cards or other.has_shared_cards,
    )
