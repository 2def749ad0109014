"""The jobs of a queue in accounting's terms. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.accounting import AccountingRecord
from jobfeatures.model import Job, JobState, JobTable


def queue_records(table: JobTable) -> Iterator[AccountingRecord]:
    """Yield the jobs of a queue in accounting's terms, for a cluster that keeps no accounting."""
    for job in table.jobs.values():
        if job.state is not JobState.UNKNOWN:
            yield _from_job(job)


def _from_job(job: Job) -> AccountingRecord:
    task = job.array_task_id
    return AccountingRecord(
        key=job.key,
        name=job.name or "",
        state=job.state.value,
        array_job_id=job.array_job_id,
        array_task_id=int(task) if task is not None and task.isascii() and task.isdigit() else None,
        het_job_id=job.het_job_id,
        het_offset=job.het_offset,
        user=job.user,
        account=job.account,
        partition=job.partition,
        reservation=job.reservation,
        nodes=job.nodes,
        submit_secs=job.submit_secs,
        start_secs=job.start_secs,
        end_secs=job.end_secs,
        wall_limit_secs=job.limits.wall_secs,
        priority=job.priority,
        requested_cpus=job.total_cpus,
        requested_nodes=job.total_nodes,
    )
