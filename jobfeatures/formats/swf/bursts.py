"""Joins the lines of jobs that were swapped out and have a line for each part: pure.

Source: The Standard Workload Format, "Usage of the Status field". Only a header that says ``Preemption: Yes``
or ``Double`` makes a status of 2, 3 or 4 mean this: some logs keep exit codes in that column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobfeatures.formats.swf.fields import COMPLETED, FAILED, LAST_COMPLETED, PARTIAL, UNKNOWN, Number, SwfJob
from jobfeatures.formats.swf.header import Preemption


class Joined(NamedTuple):
    """A job as a whole, and one `SwfJob` for each part if it was swapped out."""

    job: SwfJob
    parts: tuple[SwfJob, ...] = ()
    lines: int = 1  # of the log

    @property
    def start_secs(self) -> Number | None:
        """Return when the job first ran, in seconds of the log's clock; None where that is unknown."""
        return _plus(self.job.submit_secs, self.job.wait_secs)

    @property
    def swapped_secs(self) -> Number:
        """Return for how many seconds the job was swapped out between its parts."""
        return sum(max(0, part.wait_secs) for part in self.parts[1:]) if self.parts else 0

    @property
    def end_secs(self) -> Number | None:
        """Return when the job ended (log seconds): its start, plus run time and time between its parts."""
        start_secs = self.start_secs
        ran_secs = None if start_secs is None else _plus(start_secs, self.job.run_secs)
        return None if ran_secs is None else ran_secs + self.swapped_secs


def join_bursts(jobs: Iterable[SwfJob], preemption: Preemption | None) -> Iterator[Joined]:
    """Yield one job for all its lines, which are consecutive, its summary first if there is one.

    Parts without a summary are summed up: run and CPU time are added, memory is the most, completed is what
    its last part says; a job whose last part is missing has an unknown status.
    """
    if preemption not in {Preemption.YES, Preemption.DOUBLE}:
        for job in jobs:
            yield Joined(job)
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


def _join(summary: SwfJob | None, parts: list[SwfJob]) -> Joined:
    return Joined(summary or _sum_up(parts), tuple(parts), len(parts) + (summary is not None))


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
