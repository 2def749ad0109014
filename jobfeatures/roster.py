"""One list of jobs from what several sources say: pure but for what it remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from jobfeatures.model import Job, JobKey, JobTable, merge_jobs


class Roster:
    """Merges tables, and forgets at once a job whose epilog has run.

    A prolog's record that was there and is gone proves that the job has left
    this node; answers from before that still call it running are not believed.
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
        return merge_jobs(self._believed(table) for table in known)

    def _believed(self, table: JobTable) -> JobTable:
        doubted = {key for key, at in self._withdrawn.items() if table.taken_at_secs <= at}
        if not doubted & table.jobs.keys():
            return table
        return replace(table, jobs={key: job for key, job in table.jobs.items() if key not in doubted})
