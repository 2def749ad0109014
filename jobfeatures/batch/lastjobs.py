"""Keeps the last known jobs of a server that does not answer while others do. Pure.

A command that queries several servers, or clusters, prints the jobs of those that answer, and says on
standard error which did not. Jobs are kept only after a message that says so: another message may come with
every answer, and jobs that have ended would be kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from jobfeatures.errors import Rejected
from jobfeatures.records.model import Job, JobKey, JobTable

KEPT_SECS = 86_400.0  # for so long a last answer stands for what is silent
_SILENT = re.compile(
    r"(?:can ?not|could not|unable to|failed to|failed in) (?:be )?(?:connect|contact|reach|communicat)"
    r"|connection (?:refused|reset|closed|timed out)|communication time ?out|connect timed out"
    r"|(?:not|isn't|does not|do not) (?:respond|answer)|no (?:response|answer) from|unreachable"
    r"|(?:not|un)[ -]?available|not accepting|is down\b|premature end of message|no route to host",
    re.IGNORECASE,
)


def is_silence(complaint: str) -> bool:
    """Return whether a command's message on standard error means that a server did not answer."""
    return _SILENT.search(complaint) is not None


@dataclass(slots=True)
class LastJobs:
    """The jobs that a command last reported, and when it last reported each (epoch seconds), by job."""

    jobs: dict[JobKey, Job] = field(default_factory=dict)
    answered_secs: dict[JobKey, float] = field(default_factory=dict)

    def complete(
        self, table: JobTable, complaint: str, server_of: Callable[[JobKey], str] = lambda _: ""
    ) -> JobTable:
        """Return `table`, with the last known jobs of silent servers added; it is then marked incomplete.

        `complaint` is what the command wrote to standard error; only if it says that a server did not answer
        are jobs added. A server is silent if it had jobs before and has none in `table`. If each server has
        jobs there, the silent one is not known, so all known jobs missing from `table` are added. `server_of`
        returns the name of a job's server. Jobs are kept for KEPT_SECS after they were last reported.
        """
        now_secs = table.taken_at_secs
        kept: dict[JobKey, Job] = {}
        if is_silence(complaint):
            silent = {server_of(key) for key in self.jobs} - {server_of(key) for key in table.jobs}
            kept = {
                key: job
                for key, job in self.jobs.items()
                if key not in table.jobs
                and (not silent or server_of(key) in silent)
                and now_secs - self.answered_secs[key] < KEPT_SECS
            }
        answered_secs = {key: self.answered_secs[key] for key in kept}
        self.jobs = {**kept, **table.jobs}
        self.answered_secs = answered_secs | dict.fromkeys(table.jobs, now_secs)
        if not kept:
            return table
        remark = Rejected(
            table.source, f"a server does not answer, so its last known jobs are kept: {complaint[:200]}"
        )
        return replace(
            table,
            jobs=self.jobs,
            complete=False,
            rejected=(*table.rejected, remark),
            reported_secs=answered_secs,
        )
