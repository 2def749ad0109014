"""Adds the memory use of steps to the jobs before them, within batches of rows and across batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from jobfeatures.joblogs.folding import STEP
from jobfeatures.joblogs.loggedjob import JobBatch, JobRecord, Notes, StepUse

Entry = JobRecord | StepUse | JobBatch


def with_steps(
    heads: Sequence[str],
    steps: Sequence[str | None],
    clusters: Sequence[str | None],
    memory_bytes: Sequence[int | None],
) -> tuple[list[int | None], list[bool]]:
    """Return each row's memory use in bytes, and whether the row stays: steps that follow their job do not.

    The memory use of a job is the largest of its own and its steps'. `heads` are the rows' job ids; a row is
    a step if its value in `steps` is not None.
    """
    most = list(memory_bytes)
    is_shown = [True] * len(most)
    job = -1
    for place, (step, used) in enumerate(zip(steps, memory_bytes, strict=True)):
        if step is None:
            job = place
        elif job >= 0 and (heads[place], clusters[place]) != (heads[job], clusters[job]):
            job = -1
        elif job >= 0:
            is_shown[place] = False
            if used is not None:
                most[job] = max(used, most[job] or 0)
    return most, is_shown


def is_step(each: Entry) -> bool:
    """Return whether an entry is the record of one step, not that of a job, nor a batch of jobs."""
    return not isinstance(each, JobBatch) and each.step is not None


def steps_of_last(last: list[Entry], found: Sequence[Any], notes: Notes) -> int:
    """Add to the job `last[0]` its steps, with which `found` begins; return how many they are.

    `found` are the next records; `last` is a job, followed by those of its steps that were already found. If
    `last[0]` is a batch of jobs, the steps belong to the batch's last job; they are counted in `notes` and
    dropped.
    """
    job: Any = last[0] if last else None
    if job is None or is_step(job):
        return 0
    is_batch = isinstance(job, JobBatch)
    job_id = job.column("job_id")[-1] if is_batch else job.job_id
    of_job = (job_id, job.column("cluster")[-1] if is_batch else job.cluster)
    steps = [*takewhile(lambda each: is_step(each) and (each.job_id, each.cluster) == of_job, found)]
    used = [step.used_memory_bytes for step in steps if step.used_memory_bytes is not None]
    if is_batch:
        job.use_at_least(max(used, default=0))
        notes.read += len(steps)
        notes.folded[STEP] += len(steps)
        return len(steps)
    if used and max(used) > (-1 if job.used_memory_bytes is None else job.used_memory_bytes):
        last[0] = replace(job, used_memory_bytes=max(used))
    last += steps
    return len(steps)
