"""Writes summaries of ended jobs into Slurm's accounting, which outlives Prometheus' data, and reads them.

No list of pending jobs is kept: a job without a summary in accounting is found again in the next round,
whatever went wrong. Writing is pure apart from the callables passed in.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.comments import CommentedJob, JobComments
from jobfeatures.errors import JobfeaturesError, ParseError, SourceError
from jobfeatures_exporter.jobreport.asking import JobReports
from jobfeatures_exporter.jobreport.jobstats import MARK, NONE, SHORT, decode_summary, encode_summary
from jobfeatures_exporter.jobreport.selecting import MAX_JOBS
from jobfeatures_exporter.view.use import JobUse

MAX_FAILURES = 3  # in one round
NOTE = "from the summary in accounting: Prometheus has no samples of it"
TIMEOUT_SECS = 10.0
_JOB = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,10})?\Z")


class CommentsSpoiltError(JobfeaturesError):
    """Raised if Slurm's accounting returns another comment for a job than was written."""


def needs_summary(job: CommentedJob) -> bool:
    """Return whether a job's comment has to be written: it is empty, or holds the summary of an earlier run.

    A requeued job may hold the summary of its previous run, recognised by another elapsed time.
    """
    if not job.comment:
        return True
    if job.comment in (SHORT, NONE) or not job.comment.startswith(MARK):
        return False
    try:
        elapsed_secs = decode_summary(job.comment).elapsed_secs
    except ParseError:
        return False
    return elapsed_secs is not None and abs(elapsed_secs - job.elapsed_secs) > 1


@dataclass(slots=True)
class SummaryWriter:
    """Writes the summaries that ended jobs lack in Slurm's accounting, in rounds.

    A job's summary is written `delay_secs` after its end at the earliest, `window_secs` after it at the
    latest, and at most `per_second` are written each second. `ask` returns the report on a job's run (None:
    nothing is known), and raises SourceError. `pause` waits for some seconds, and returns something true when
    it is time to stop.
    """

    comments: JobComments
    ask: Callable[[CommentedJob], JobUse | None]
    delay_secs: float  # after a job's end, until its last values have been scraped
    window_secs: float  # how long after its end a job is still looked for
    per_second: float
    pause: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.time
    written: int = field(default=0)
    failure: str = field(default="")  # of the latest round: how many could not be written, and why the first

    def round(self) -> int:
        """Write the missing summaries, oldest first, and return how many were written.

        If some cannot be written, the attribute `failure` says why, and the others are still written. Raises
        SourceError if a query fails or too many cannot be written, CommentsSpoiltError if Slurm alters them.
        """
        now_secs = self.now()
        ended = self.comments.ended_since(now_secs - self.window_secs)
        latest_secs = now_secs - self.delay_secs
        due = [each for each in ended if (each.end_secs or now_secs) <= latest_secs and needs_summary(each)]
        due.sort(key=lambda each: (each.end_secs, each.job_id))
        written, failures = 0, list[str]()
        self.failure = ""
        for job in due:
            text = encode_summary(self.ask(job), job.elapsed_secs)
            try:
                self.comments.write(job.job_id, text)
            except SourceError as error:
                failures.append(f"job {job.job_id}: {error}")
                self.failure = f"{len(failures)} summaries could not be written; the first: {failures[0]}"
                if len(failures) > MAX_FAILURES:
                    raise
                continue
            if not self.written:
                self._check(job, text)
            self.written += 1
            written += 1
            if self.pause(1 / self.per_second):
                break
        return written

    def _check(self, job: CommentedJob, text: str) -> None:
        """Check once that comments keep their case: sacctmgr of Slurm 22.05 writes lower case."""
        stands = [each.comment for each in self.comments.find(job.job_id) if each.job_id == job.job_id]
        if stands and stands[-1] != text and stands[-1].lower() == text.lower():
            self.comments.write(job.job_id, "")  # nobody could read it
            raise CommentsSpoiltError(
                "this version of Slurm's sacctmgr turns comments into lower case, which makes "
                "summaries unreadable: "
                "use a newer Slurm"
            )


def ask_accounting(job: str, sacct: str = "sacct") -> JobReports | None:
    """Return reports on a job, or an array's tasks, from summaries in accounting; None if there are none.

    `sacct` is the command to run.
    """
    if not _JOB.match(job):
        return None
    try:
        found = JobComments(sacct=sacct, timeout_secs=TIMEOUT_SECS).find(job)
    except SourceError:
        return None  # no Slurm, or no answer from it
    reports = tuple(made for each in found[:MAX_JOBS] if (made := make_report(each)) is not None)
    return JobReports(reports) if reports else None


def make_report(job: CommentedJob) -> JobUse | None:
    """Return the report on a job from the summary in its AdminComment; None if the summary has no figures."""
    try:
        summary = decode_summary(job.comment)
    except ParseError:
        return None
    if not summary.nodes:
        return None
    nodes = summary.nodes
    if job.end_secs is not None:
        secs = job.end_secs - job.start_secs
        suspended_secs = max(0, secs - job.elapsed_secs)  # what Slurm leaves out of the elapsed time
        nodes = tuple(replace(each, elapsed_secs=secs, suspended_secs=suspended_secs) for each in nodes)
    reported = {"user": job.user, "account": job.account, "partition": job.partition}
    return JobUse(
        batch_system=NAME,
        job_id=job.job_id,
        info={name: text for name, text in reported.items() if text},
        state=job.state,
        start_secs=job.start_secs,
        end_secs=job.end_secs,
        seen_until_secs=job.end_secs,
        nodes=nodes,
        notes=(NOTE,),
    ).with_warnings()
