"""The jobs of a queue as the records that accounting has. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.joblog import JobRecord
from jobfeatures.model import Job, JobState, JobTable


def queue_records(table: JobTable) -> Iterator[JobRecord]:
    """Yield the jobs of a queue as accounting would tell of them, for a cluster that keeps no accounting."""
    for job in table.jobs.values():
        if job.state is not JobState.UNKNOWN:
            yield _from_job(job)


def _from_job(job: Job) -> JobRecord:
    return JobRecord(
        batch_system=job.key.batch_system,
        job_id=job.key.job_id,
        state=job.state,
        name=job.name,
        user=job.user,
        account=job.account,
        partition=job.partition,
        reservation=job.reservation,
        priority=job.priority,
        submit_secs=job.submit_secs,
        start_secs=job.start_secs,
        end_secs=job.end_secs,
        nodes=job.nodes,
        requested_nodes=job.total_nodes,
        requested_cpus=job.total_cpus,
        wall_limit_secs=job.limits.wall_secs,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        het_job_id=job.het_job_id,
        het_offset=job.het_offset,
    )
