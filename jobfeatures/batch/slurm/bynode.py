"""Makes each node's answer about its jobs from one query about all jobs and nodes. Pure.

Source: ``show job``, ``show node`` and ``show reservation`` of one ``scontrol -a -o -d``. A node itself
queries one job at a time, separated so that no job name can forge another job's record. Here the records
follow one another, and a name with newlines may contain a complete record. So a record is trusted only if no
other has its id and squeue, whose fields no name can shift, reports that job with the same user and not as
finished. Other jobs are taken from squeue's answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jobfeatures.batch.basics import split_records
from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.node import Maintenance, parse_notice
from jobfeatures.batch.slurm.record import SharedJob, parse_shared_job
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobKey, JobTable, NodeNotice

SHOW_JOBS = "show job"
_JOB = re.compile(r"JobId=([1-9][0-9]{0,9}) ")
_RUN_TIME = re.compile(r" RunTime=\S+(?= TimeLimit=)")  # a name that forges both invalidates the record


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsByNode:
    """The jobs on each node, and each node's own record, as one poll of the whole cluster reported them.

    `jobs` and `nodes` (scontrol's lines) are by node name. `clock_ahead_secs` is Slurm's clock minus this
    machine's.
    """

    taken_at_secs: float
    complete: bool
    jobs: Mapping[str, tuple[SharedJob | Job, ...]]
    nodes: Mapping[str, str]  # records by node
    maintenances: tuple[Maintenance, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    clock_ahead_secs: float | None = None  # Slurm's clock minus ours

    def table(self, node_name: str, now_secs: float) -> JobTable | None:
        """Return the jobs on a node, and whether it drains; None if Slurm knows no node of this name.

        `now_secs` (epoch) decides which maintenance reservations are over.
        """
        record = self.nodes.get(node_name)
        if record is None:
            return None
        notice: NodeNotice | None = None
        problem = ""
        try:
            notice = parse_notice([record], self.maintenances, node_name=node_name, now_secs=now_secs)
        except ParseError as error:
            problem = str(error)
        jobs = [
            each.on(node_name) if isinstance(each, SharedJob) else each
            for each in self.jobs.get(node_name, ())
        ]
        return JobTable(
            source=NAME,
            jobs={job.key: job for job in jobs},
            taken_at_secs=self.taken_at_secs,
            complete=self.complete,
            node=notice,
            node_problem=problem,
            clock_ahead_secs=self.clock_ahead_secs,
        )


class ParsedJob(NamedTuple):
    """A job as it was parsed in the previous poll.

    `digest` is a hash of its record without RunTime: if it differs, the record has changed.
    """

    digest: int
    shared: SharedJob


def parse_whole(
    lines: Iterable[str], queue: JobTable, known: Mapping[JobKey, ParsedJob] | None = None
) -> tuple[dict[JobKey, ParsedJob], set[JobKey]]:
    """Return the jobs with a trusted record, and the keys of running jobs without one.

    `lines` are scontrol's, printed after squeue's answer `queue`. `known` are the previous poll's jobs: most
    records are unchanged and need not be parsed again, which is slow.
    """
    known = known or {}
    found: dict[JobKey, ParsedJob] = {}
    unsure = {key for key, job in queue.jobs.items() if job.state.is_on_node and job.nodes}
    reported: set[str] = set()
    twice: set[JobKey] = set()
    for job_id, parts in split_records(lines, _JOB):
        key, text = JobKey(NAME, job_id), "\n".join(parts).rstrip("\n")
        if job_id in reported:
            twice.add(key)
            continue
        reported.add(job_id)
        queued = queue.jobs.get(key)
        if queued is None or not queued.nodes:
            continue  # submitted or started after squeue's answer, or forged
        digest = hash(_RUN_TIME.sub("", text))
        one = known.get(key)
        if one is None or one.digest != digest:
            try:
                one = ParsedJob(digest, parse_shared_job(text))
            except ParseError:
                continue
        job = one.shared.job
        if job.uid == queued.uid and (job.state.is_finished or not queued.state.is_finished):
            found[key] = one
    for key in twice:
        found.pop(key, None)
    return found, unsure - found.keys()


def group_by_node(
    shared: Iterable[SharedJob], others: Iterable[Job]
) -> dict[str, tuple[SharedJob | Job, ...]]:
    """Return the jobs on each node, by node name: first `shared`, with a trusted record, then `others`."""
    found: dict[str, list[SharedJob | Job]] = {}
    for one in shared:
        for name in one.job.nodes:
            found.setdefault(name, []).append(one)
    for job in others:
        for name in job.nodes:
            found.setdefault(name, []).append(job)
    return {name: tuple(jobs) for name, jobs in found.items()}
