"""Which published directories are written and which removed: pure.

Only proof that a job has ended removes its directory: its source says so, or a
complete answer of its source that is newer than the directory lacks it. A
batch system that cannot be reached removes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jobfeatures.model import Job, JobKey, JobState, JobTable


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in no particular order."""

    write: tuple[Job, ...]
    remove: tuple[JobKey, ...]


def plan_publication(
    jobs: Mapping[JobKey, Job], tables: Collection[JobTable], published: Mapping[JobKey, float]
) -> Plan:
    """Return what brings the published directories in line with what is known.

    `jobs` is merged from `tables`; `published` gives for each directory the
    epoch seconds of its last change.
    """
    # A job that is completing may have lost its directory to its epilog already: it gets no new one.
    write = tuple(
        job
        for job in jobs.values()
        if job.state.is_on_node and (job.state is not JobState.COMPLETING or job.key in published)
    )
    remove = tuple(key for key, changed in published.items() if _has_ended(key, changed, jobs, tables))
    return Plan(write, remove)


def _has_ended(
    key: JobKey, changed_at_secs: float, jobs: Mapping[JobKey, Job], tables: Collection[JobTable]
) -> bool:
    for table in tables:
        if table.taken_at_secs <= changed_at_secs:
            continue  # asked before the directory was made: it proves nothing about this run of the job
        job = table.jobs.get(key)
        if job is not None:
            # A job that waits again after a requeue has left this node too.
            if job.state.is_finished or job.state is JobState.PENDING:
                return True
        elif table.complete and table.source == key.batch_system:
            return key not in jobs or not jobs[key].state.is_on_node
    return False
