"""One record a job, of records of jobs, their steps and their runs: pure.

Accounting has an entry for each step of a job, and after a requeue one more
for the job, under the same id. Formats with one entry a job take these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from jobfeatures.joblog import JobRecord, Lost

EARLIER_RUN = "earlier run"
STEP = "step"
ORPHAN = "step without its job"


class _Run:
    """One run of a job, and what its steps add."""

    __slots__ = ("memory_bytes", "record")

    def __init__(self, record: JobRecord) -> None:
        self.record = record
        self.memory_bytes = record.used_memory_bytes

    def add_step(self, step: JobRecord) -> None:
        """Take the most memory that a step used: only steps have it, and most run one after the other."""
        if self.record.used_memory_bytes is None and step.used_memory_bytes is not None:
            self.memory_bytes = max(self.memory_bytes or 0, step.used_memory_bytes)

    @property
    def age(self) -> tuple[float, float]:
        """Return what is larger for the later of two runs: a requeue is a submission of its own."""
        record = self.record
        started = record.start_secs if record.start_secs is not None else record.end_secs
        return (record.submit_secs or 0, started or 0)

    def fold(self, earlier: int) -> JobRecord:
        record = self.record
        if self.memory_bytes != record.used_memory_bytes:
            record = replace(record, used_memory_bytes=self.memory_bytes)
        if earlier > (record.restarts or 0):
            record = replace(record, restarts=earlier)
        return record


def fold_jobs(records: Iterable[JobRecord], lost: Lost, *, all_runs: bool = False) -> Iterator[JobRecord]:
    """Return one record a job, in the order in which they come first; none before all have come.

    Steps come behind the run of their job, as sacct writes them. Of several
    runs the latest counts: by its submission, else by its start, else by its
    place. `all_runs` keeps each, with the id they share.
    """
    jobs: dict[tuple[str, str], list[_Run]] = {}
    for record in records:
        key = (record.batch_system, record.job_id)
        runs = jobs.get(key)
        if record.step is None:
            if runs is None:
                jobs[key] = [_Run(record)]
            else:
                runs.append(_Run(record))
        elif runs is None:
            lost(ORPHAN)
        else:
            lost(STEP)
            runs[-1].add_step(record)
    for runs in jobs.values():
        if all_runs or len(runs) == 1:
            yield from (run.fold(0) for run in runs)
            continue
        for _ in runs[1:]:
            lost(EARLIER_RUN)
        latest = max(enumerate(runs), key=lambda placed: (placed[1].age, placed[0]))[1]
        yield latest.fold(len(runs) - 1)
