"""Adds the CPU time and memory of the tasks of parallel jobs to the jobs' records. Pure.

If the tasks of a parallel job have lines of their own in the accounting file, the job's own line covers only
its master task: sge_pe(5), ``accounting_summary``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.combining import max_known, min_known, sum_all
from jobfeatures.records.model import JobState

MAX_REMEMBERED: Final = 100_000  # jobs

_USE: Final = ("used_cpu_secs", "user_cpu_secs", "system_cpu_secs", "used_memory_bytes")
_TIMES: Final = {"start_secs": min_known, "end_secs": max_known, "run_secs": max_known}
_LOST: Final = frozenset({JobState.PREEMPTED, JobState.NODE_FAIL})  # a run after which the job starts again

Part = tuple[str, JobRecord]  # a record of a job or of a task, and its host


class ParallelJobs:
    """Adds the CPU time and memory of tasks to the records of parallel jobs in a log.

    The records are given one by one in the log's order, in which tasks precede their job.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, list[JobRecord]] = {}
        self._ended: set[str] = set()
        self._parts: dict[str, list[Part]] = {}  # of each job's latest run

    def complete(self, record: JobRecord, host: str, *, names_tasks: bool) -> JobRecord:
        """Return a record; a parallel job has the CPU time of all tasks, and the sum of their memory use.

        `host` is the host in the record. `names_tasks`: records of tasks have a `step`, as in the accounting
        file. If False, as for output of qacct, they look like jobs: the last of several records of one run
        gets the sums.
        """
        if record.step is not None:
            self._tasks.setdefault(record.job_id, []).append(record)
            return record
        if record.total_nodes is not None:
            return record
        if names_tasks:
            self._ended.add(record.job_id)
            return _joined([*self._tasks.pop(record.job_id, ()), record])
        parts = _with_part(self._parts.pop(record.job_id, []), (host, record))
        self._parts[record.job_id] = parts
        if len(self._parts) > MAX_REMEMBERED:
            del self._parts[next(iter(self._parts))]
        times: dict[str, Any] = {
            name: of(*(getattr(each, name) for _, each in parts)) for name, of in _TIMES.items()
        }
        return replace(_joined([each for _, each in parts]), **times)

    def count_late(self) -> int:
        """Return how many tasks came after their job in the log: the job's record does not include them."""
        return sum(len(tasks) for job_id, tasks in self._tasks.items() if job_id in self._ended)


def _joined(records: Sequence[JobRecord]) -> JobRecord:
    """Return the last record with what all of them used; None if that is unknown of one."""
    used: dict[str, Any] = {name: sum_all([getattr(each, name) for each in records]) for name in _USE}
    return replace(records[-1], **used)


def _with_part(parts: list[Part], part: Part) -> list[Part]:
    """Return the records of a run with one more, unless it is told again; that alone if a run begins."""
    job = part[1]
    if parts:
        last = parts[-1][1]
        is_same_run = (last.submit_secs, last.restarts) == (job.submit_secs, job.restarts)
        if not is_same_run or last.state in _LOST:
            return [part]
    return parts if part in parts else [*parts, part]
