"""The report of a job no longer in Prometheus, from its summary in Slurm's accounting."""

from __future__ import annotations

import re

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.comments import CommentedJob, JobComments
from jobfeatures.errors import ParseError, SourceError
from jobfeatures_exporter.jobreport.asking import JobReports
from jobfeatures_exporter.jobreport.figures import JobReport
from jobfeatures_exporter.jobreport.jobstats import decode_summary
from jobfeatures_exporter.jobreport.selecting import MAX_JOBS

NOTE = "from the summary in accounting: Prometheus has no samples of it"

TIMEOUT_SECS = 10.0
_JOB = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,10})?\Z")


def ask_accounting(job: str, sacct: str = "sacct") -> JobReports | None:
    """Return the reports of a job or an array's tasks from accounting; None if it has no summaries."""
    if not _JOB.match(job):
        return None
    try:
        found = JobComments(sacct=sacct, timeout_secs=TIMEOUT_SECS).find(job)
    except SourceError:
        return None  # no Slurm, or no answer from it
    reports = tuple(made for each in found[:MAX_JOBS] if (made := make_report(each)) is not None)
    return JobReports(reports) if reports else None


def make_report(job: CommentedJob) -> JobReport | None:
    """Return the report of one job, None if its comment holds no figures."""
    try:
        summary = decode_summary(job.comment)
    except ParseError:
        return None
    if not summary.nodes:
        return None
    reported = {"user": job.user, "account": job.account, "partition": job.partition}
    return JobReport(
        batch_system=NAME,
        job_id=job.job_id,
        info={name: text for name, text in reported.items() if text},
        state=job.state,
        start_secs=job.start_secs,
        end_secs=job.end_secs,
        seen_until_secs=job.end_secs,
        nodes=summary.nodes,
        notes=(NOTE,),
    ).with_doubts()
