"""The processes of one job as a tree, with the CPUs that each uses now. Pure."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.host.procfs import TICKS_PER_SEC
from jobfeatures_exporter.snapshot import ProcessSample, Snapshot
from jobfeatures_exporter.view.processes import make_tree


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """One process, its depth in the tree, and its CPUs between two samples (None if only in the later)."""

    process: ProcessSample
    depth: int
    cpus_now: float | None = None


def list_processes(now: Snapshot, before: Snapshot | None, key: JobKey) -> list[LiveProcess]:
    """Return the processes of a job in tree order."""
    own = [process for pid, process in now.processes.items() if now.keys.get(pid) == key]
    elapsed_secs = 0.0 if before is None else now.read_at_secs - before.read_at_secs
    earlier = {} if before is None else before.processes
    ticks = elapsed_secs * TICKS_PER_SEC
    return [
        LiveProcess(each, depth, _compute_cpus(earlier.get(each.pid), each, ticks))
        for each, depth in make_tree(own, sys.maxsize)
    ]


def _compute_cpus(before: ProcessSample | None, now: ProcessSample, ticks: float) -> float | None:
    if before is None or before.start_ticks != now.start_ticks or ticks <= 0:
        return None
    used = now.user_ticks + now.system_ticks - before.user_ticks - before.system_ticks
    return max(0, used) / ticks
