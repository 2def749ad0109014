"""One list of jobs from what several sources say: pure but for what it remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from jobfeatures.model import Job, JobKey, JobState, JobTable, merge_jobs


class Roster:
    """Merges tables, and forgets at once a job whose epilog has run.

    A prolog's record that was there and is gone proves that the job has left
    this node: answers from before that still call it running are corrected.
    """

    def __init__(self, hook_source: str) -> None:
        """`hook_source` names the source whose records come and go with the jobs."""
        self._hook_source = hook_source
        self._recorded: frozenset[JobKey] = frozenset()
        self._withdrawn: dict[JobKey, float] = {}

    def merge(self, tables: Iterable[JobTable]) -> Mapping[JobKey, Job]:
        """Return the jobs of all tables, the best informed table last; see `merge_jobs`."""
        known = list(tables)
        for table in known:
            if table.source == self._hook_source:
                gone = self._recorded - table.jobs.keys()
                self._withdrawn.update(dict.fromkeys(gone, table.taken_at_secs))
                self._recorded = frozenset(table.jobs)
                for key in table.jobs:
                    self._withdrawn.pop(key, None)
        told = {key for table in known for key in table.jobs}
        self._withdrawn = {key: at for key, at in self._withdrawn.items() if key in told}
        return merge_jobs(self._corrected(table) for table in known)

    def has_left(self, key: JobKey, known_at_secs: float) -> bool:
        """Tell whether the job has left this node since it was known to be here."""
        return self._withdrawn.get(key, float("-inf")) >= known_at_secs

    def _corrected(self, table: JobTable) -> JobTable:
        left = {key: job for key, job in table.jobs.items() if self.has_left(key, table.taken_at_secs)}
        if not left:
            return table
        ended = {
            key: job if job.state.is_finished else replace(job, state=JobState.COMPLETED)
            for key, job in left.items()
        }
        return replace(table, jobs={**table.jobs, **ended})
