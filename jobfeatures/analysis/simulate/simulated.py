"""Converts a simulated schedule to arrays, so that it can be evaluated like a log. Needs numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from jobfeatures.analysis.schedule.eligibility import UNKNOWN
from jobfeatures.analysis.schedule.followers import Links
from jobfeatures.analysis.schedule.jobarrays import ScheduleLog
from jobfeatures.analysis.schedule.shares import FIELDS
from jobfeatures.analysis.simulate.pools import Pool
from jobfeatures.analysis.simulate.workload import Outcome, Workload, remarks, seconds

KEPT: Final = ("arrays", "workflows", "is_cancelled", "cpus", "memory_kib", "gpus", "requested_secs")


def make_logs(
    log: ScheduleLog, pieces: Iterable[ScheduleLog], workload: Workload, outcome: Outcome, name: str
) -> Iterator[ScheduleLog]:
    """Yield a simulated schedule as a log called `name`, one item for each piece of the original log.

    `outcome` is the result of simulating `workload`, which was made from the original log: `log` and its
    `pieces`. Only jobs that were simulated are included.
    """
    first, ticks, jobs = 0, workload.ticks, workload.jobs
    warnings: tuple[str, ...] = (*log.warnings, *remarks(workload))
    is_first = True
    starts, runtimes = outcome.starts, np.asarray(jobs.runtimes)
    for piece, count in zip(pieces, workload.counts, strict=True):
        some = slice(first, first + count)
        which, links, could_start = workload.position[some], None, None
        submit, start, runtime = outcome.submits[some], starts[some], runtimes[some]
        times = [seconds(each, ticks) for each in (submit, start, start + runtime)]
        if jobs.preceding:
            before, thinks = np.asarray(jobs.preceding)[some], np.asarray(jobs.thinks)[some]
            ends = seconds(starts[before] + runtimes[before], ticks)
            links = Links(before, np.where(thinks >= 0, seconds(thinks, ticks), UNKNOWN))
            could_start = links.could_start(times[0], times[1], ends)
        found: dict[str, Any] = {}
        for each in FIELDS:
            labels = getattr(piece, each)
            found[each] = labels._replace(codes=labels.codes[which])
        for each in KEPT:
            values = getattr(piece, each)
            found[each] = None if values is None else values[which]
        yield replace(
            piece,
            **found,
            name=name,
            submit=times[0],
            eligible=None if piece.eligible is None else np.round(piece.eligible[which], 6),  # microseconds
            start=times[1],
            end=times[2],
            runtime=seconds(runtime, ticks),
            links=links,
            could_start=could_start,
            places=np.arange(first, first + count) if jobs.preceding else None,
            totals=_totals(workload.pool),
            unreadable=log.unreadable if is_first else 0,
            folded=log.folded if is_first else {},
            ids=None,
            warnings=warnings,
        )
        warnings, is_first = (), False
        first += count
        workload.columns.release()


def _totals(pool: Pool) -> dict[str, int]:
    found = {"cpu": pool.processors}
    memory = [node.memory_kib for node in pool.nodes if node.memory_kib is not None]
    if memory and len(memory) == len(pool.nodes):
        found["memory"] = sum(memory)
    if gpus := sum(node.gpus for node in pool.nodes):
        found["gpu"] = gpus
    return found
