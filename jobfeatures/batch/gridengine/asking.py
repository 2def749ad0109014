"""Queries Grid Engine's master about this node's jobs and queues, and derives jobs' wall limits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from jobfeatures.batch.gridengine import VARIABLES
from jobfeatures.batch.gridengine.answers import (
    QueueInstance,
    RequestedLimits,
    parse_asked_jobs,
    parse_host_queues,
)
from jobfeatures.batch.gridengine.basics import least_limit
from jobfeatures.errors import Rejected, SourceError
from jobfeatures.records.model import Job
from jobfeatures.system.command import first_line, run_command

MAX_ANSWER_BYTES = 32 * 2**20
NOBODYS_JOBS = "-u", "root"  # queues are listed with these users' jobs: root has none


def ask_about_jobs(
    numbers: Collection[str], *, qstat: str, timeout_secs: float
) -> tuple[dict[str, RequestedLimits], list[Rejected]]:
    """Query the master: return the limits that jobs requested, by job number, and the malformed values.

    Raises SourceError if qstat gives no answer, ParseError if the answer is malformed.
    """
    return parse_asked_jobs(_run([qstat, "-j", ",".join(numbers), "-xml"], timeout_secs))


def ask_about_queues(
    node_name: str, *, qstat: str, timeout_secs: float
) -> tuple[dict[str, QueueInstance], list[Rejected]]:
    """Query the master: return the queues on a host, by name, and the malformed values.

    `node_name` may lack the domain. Raises SourceError without an answer, ParseError for malformed XML.
    """
    hosts = f"*@{node_name},*@{node_name}.*"
    argv = [qstat, "-f", "-F", "h_rt,s_rt", "-q", hosts, *NOBODYS_JOBS, "-xml"]
    return parse_host_queues(_run(argv, timeout_secs))


def with_wall_limit(job: Job, asked: RequestedLimits | None, queue: QueueInstance | None) -> Job:
    """Return the job with its wall limit: the lower one of what it requested (`asked`) and its queue's.

    The job is returned as it is if the master was not asked about it or does not know it: it may have
    requested less than its queue allows.
    """
    if asked is None or not asked.known:  # it may have requested less than its queue allows
        return job
    wall = least_limit(asked.wall_secs, queue.wall_secs if queue else None)
    return replace(job, limits=replace(job.limits, wall_secs=wall))


def _run(argv: list[str], timeout_secs: float) -> bytes:
    """Return a command's output; about unknown jobs some versions answer but exit non-zero."""
    output = run_command(argv, timeout_secs=timeout_secs, kept=VARIABLES, max_bytes=MAX_ANSWER_BYTES)
    if not output.stdout.strip():
        raise SourceError(f"{argv[0]}: no answer (exit status {output.status}): {first_line(output.stderr)}")
    return output.stdout
