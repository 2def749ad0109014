"""Figures of the node that show whether files of control groups can have changed since the last sample."""

from __future__ import annotations

from typing import NamedTuple

from jobfeatures_exporter.model.snapshot import NodeSample
from jobfeatures_exporter.sampling.host.units import RESOURCES

_SWAP = ("SwapTotal", "SwapFree", "SwapCached")
_SIGNS = 2 + len(RESOURCES)


class NodeSigns(NamedTuple):
    """Figures of the node that show whether files of control groups can have changed since they were read.

    `kills` is the node's count of OOM kills since boot (None: not reported). `changes` counts at how many
    samples the figures of swap, disks and each pressure were new; None: not reported, so the files have to be
    read. `counts` and `figures` are only for comparison with the next sample.
    """

    kills: int | None = None  # the node's OOM kills since boot; None: not reported
    # How often swap, disks and each pressure have changed; None: not reported, so every file has to be read.
    changes: tuple[int | None, ...] = (None,) * _SIGNS
    counts: tuple[int, ...] = (0,) * _SIGNS
    figures: tuple[object, ...] = (None,) * _SIGNS

    def advance(self, node: NodeSample) -> NodeSigns:
        """Return the signs of the next sample, given the node's figures in it.

        The node's figures have to be read before those of control groups.
        """
        sizes = [node.memory_bytes.get(name) for name in _SWAP]
        figures: list[object] = [None if None in sizes else sizes, node.disks or None]
        for resource in RESOURCES:
            some, full = (node.pressure_secs.get((resource, share)) for share in ("some", "full"))
            figures.append(None if some is None else (some, full))
        counts = [
            count + (now != last) for count, now, last in zip(self.counts, figures, self.figures, strict=True)
        ]
        changes = [None if now is None else count for now, count in zip(figures, counts, strict=True)]
        return NodeSigns(node.oom_kills, tuple(changes), tuple(counts), tuple(figures))
