"""Joins the lines of jobs that were swapped out, which have one line for each part of their run. Pure.

Source: The Standard Workload Format, "Usage of the Status field". A status of 2, 3 or 4 means such a part
only if the header says ``Preemption: Yes`` or ``Double``: some logs keep exit codes in that column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobfeatures.formats.swf.fields import COMPLETED, FAILED, LAST_COMPLETED, PARTIAL, UNKNOWN, Number, SwfJob
from jobfeatures.formats.swf.header import Preemption


class JoinedJob(NamedTuple):
    """A job as a whole, from `lines` lines of a log; the parts of a swapped-out job's run are in `parts`."""

    job: SwfJob
    parts: tuple[SwfJob, ...] = ()
    lines: int = 1  # of the log

    @property
    def start_secs(self) -> Number | None:
        """Return when the job first ran, in seconds since the log's time zero; None if unknown."""
        return _plus(self.job.submit_secs, self.job.wait_secs)

    @property
    def swapped_secs(self) -> Number:
        """Return for how many seconds the job was swapped out, between the parts of its run."""
        return sum(max(0, part.wait_secs) for part in self.parts[1:]) if self.parts else 0

    @property
    def end_secs(self) -> Number | None:
        """Return when the job ended, in seconds since the log's time zero; None if unknown.

        That is its start, plus its run time and the time for which it was swapped out.
        """
        start_secs = self.start_secs
        ran_secs = None if start_secs is None else _plus(start_secs, self.job.run_secs)
        return None if ran_secs is None else ran_secs + self.swapped_secs


def join_bursts(jobs: Iterable[SwfJob], preemption: Preemption | None) -> Iterator[JoinedJob]:
    """Join consecutive lines of the same job, and yield one item per job.

    A job that was swapped out may have a summary line, which comes first. If it has none, its parts are
    summed up: run and CPU times are added, memory is the maximum, and the status is that of the last part; if
    the last part is missing, the status is unknown.
    """
    if preemption not in {Preemption.YES, Preemption.DOUBLE}:
        for job in jobs:
            yield JoinedJob(job)
        return
    summary: SwfJob | None = None
    parts: list[SwfJob] = []
    for job in jobs:
        known = summary or (parts[0] if parts else None)
        is_part = job.status in PARTIAL
        # A number that comes again after a whole job, or with another summary, is another job.
        if known is not None and (known.number != job.number or not is_part or _is_over(parts)):
            yield _join(summary, parts)
            summary, parts = None, []
        if is_part:
            parts.append(job)
        else:
            summary = job
    if summary is not None or parts:
        yield _join(summary, parts)


def _join(summary: SwfJob | None, parts: list[SwfJob]) -> JoinedJob:
    return JoinedJob(summary or _sum_up(parts), tuple(parts), len(parts) + (summary is not None))


def _is_over(parts: list[SwfJob]) -> bool:
    return bool(parts) and parts[-1].status in PARTIAL - {2}


def _sum_up(parts: list[SwfJob]) -> SwfJob:
    first, last = parts[0], parts[-1]
    status = UNKNOWN
    if _is_over(parts):
        status = COMPLETED if last.status == LAST_COMPLETED else FAILED
    return first._replace(
        run_secs=_sum([part.run_secs for part in parts]),
        cpu_secs=_sum([part.cpu_secs for part in parts]),
        memory_kib=max(part.memory_kib for part in parts),
        status=status,
    )


def _sum(values: list[Number]) -> Number:
    """Return a sum, unknown if any value is."""
    return UNKNOWN if any(value == UNKNOWN for value in values) else sum(values)


def _plus(a: Number, b: Number) -> Number | None:
    return None if UNKNOWN in (a, b) else a + b
