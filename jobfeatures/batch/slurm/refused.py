"""Queries ``squeue`` about jobs whose ``scontrol`` record was rejected because a name looks like fields.

squeue separates its fields by an unguessable word, so that no name can shift them. It reports a job's totals:
CPUs on this node, and memory, are only known for a job on a single node.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from jobfeatures.batch.programs import Programs
from jobfeatures.batch.slurm.basics import ENVIRONMENT
from jobfeatures.batch.slurm.fields import split_closed
from jobfeatures.batch.slurm.gpus import parse_resources
from jobfeatures.batch.slurm.queue import QUEUE_FIELDS, QUEUE_SOURCE, parse_queued_job, queue_format
from jobfeatures.errors import ParseError, failing_source, parse_each
from jobfeatures.records.model import Job
from jobfeatures.system.command import checked

ALL_JOBS = ("--local", "-a", "-h", "-t", "all")  # of a federation, this cluster's
INVALID_JOB_ID = b"Invalid job id specified"


def ask_squeue(
    programs: Programs, ids: Collection[str], *, node_name: str | None, **bounds: Any
) -> dict[str, Job]:
    """Return, by id, those of the jobs `ids` that squeue reports. Raises SourceError if squeue fails.

    `bounds` are limits such as `timeout_secs`, passed to `run_command`.
    """
    squeue, separator = programs.path("squeue"), make_separator()
    environment = queue_environment(separator)
    output = programs.run("squeue", *ALL_JOBS, "-j", ",".join(ids), environment=environment, **bounds)
    if output.status != 0 and len(ids) == 1 and INVALID_JOB_ID in output.stderr:
        return {}  # of several, squeue passes over unknown ones
    text = checked(squeue, output).stdout.decode("utf-8", "replace")
    with failing_source(squeue, ParseError):
        return parse_refused(text, separator, frozenset(ids), node_name=node_name)


def parse_refused(
    text: str, separator: str, ids: Collection[str], *, node_name: str | None
) -> dict[str, Job]:
    """Return, by id, those of the jobs `ids` that are in squeue's output. Raises ParseError if truncated.

    If one is an array's task, squeue also prints other tasks: they are left out, as are malformed records.
    """
    answer = split_closed(text, separator, QUEUE_FIELDS, source=QUEUE_SOURCE)
    asked = (values for values in answer if values["JobID"] in ids)
    jobs = parse_each(lambda values: _with_share(values, node_name), asked, [])
    return {job.key.job_id: job for job in jobs}


def _with_share(values: Mapping[str, str], node_name: str | None) -> Job:
    job = parse_queued_job(values)
    if len(job.nodes) != 1 or node_name not in (None, *job.nodes):
        return job
    memory_bytes = parse_resources(values["tres-alloc"]).get("mem") or None
    return replace(
        job,
        allocated_cpus=job.total_cpus,
        allocated_gpus=job.total_gpus,
        limits=replace(job.limits, memory_bytes=memory_bytes),
    )


def queue_environment(separator: str) -> dict[str, str]:
    """Return the environment for squeue, which sets the fields and their `separator`.

    It also makes squeue print lists of array tasks in full, so that tasks can be counted.
    """
    return {**ENVIRONMENT, "SLURM_BITSTR_LEN": "0", "SQUEUE_FORMAT2": queue_format(separator)}


def make_separator() -> str:
    """Return a random word that no job's name can contain."""
    return f"\x1fz{os.urandom(16).hex()}\x1f"
