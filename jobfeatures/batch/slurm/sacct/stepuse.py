"""Adds the memory and CPU time of steps to the jobs before them, in batches of rows and across them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from jobfeatures.batch.slurm.sacct.requeued import Batch, joined_batches
from jobfeatures.batch.slurm.sacct.values import parse_duration, split_step
from jobfeatures.errors import ParseError
from jobfeatures.joblogs.folding import STEP
from jobfeatures.joblogs.loggedjob import JobBatch, JobRecord, Notes, StepUse

Entry = JobRecord | StepUse | JobBatch

UNTOLD: Final = "TotalCPU without a step's time, which TRESUsageInTot has"
_NOTHING: Final = "00:00:00"  # a step of less than a millisecond is 00:00.000
_USED: Final = re.compile(r"(?:\A|,)cpu=([0-9:.-]*[1-9][0-9:.-]*)(?:,|\Z)")


def with_cpu_times(batches: Iterable[Batch], names: Sequence[str], notes: Notes) -> Iterator[Batch]:
    """Yield batches of rows in which TotalCPU of a job includes each step's time.

    Some versions (25.05) tell 0 for steps of srun, and for their job what the batch script used alone; what
    the steps used is in TRESUsageInTot, in whole seconds. User and system time are unknown then. A batch
    holds the line numbers and the columns of some rows; `names` are the columns' names. `notes` counts the
    steps. A batch's last job, whose steps may go on in the next one, is moved there.
    """
    places = {name: place for place, name in reversed([*enumerate(names)])}
    head = places.get("JobIDRaw", places.get("JobID"))
    if head is None or not {"TotalCPU", "TRESUsageInTot"} <= places.keys():
        yield from batches
        return

    kept: Batch = ((), ())
    for batch in batches:
        numbers, columns = joined_batches(kept, batch) if kept[0] else batch
        jobs = (at for at in range(len(numbers) - 1, -1, -1) if not split_step(columns[head][at])[1])
        end = next(jobs, 0)
        kept = numbers[end:], [each[end:] for each in columns]
        yield numbers[:end], _with_steps_time([each[:end] for each in columns] if end else [], places, notes)
    yield kept[0], _with_steps_time(kept[1], places, notes)


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


def _with_steps_time(
    columns: Sequence[Sequence[str]], places: Mapping[str, int], notes: Notes
) -> Sequence[Sequence[str]]:
    """Return the columns of whole jobs and their steps, in which TotalCPU includes each step's time."""
    total, usage = places["TotalCPU"], places["TRESUsageInTot"]
    if not columns or _NOTHING not in columns[total]:
        return columns
    heads, found = columns[places.get("JobIDRaw", places.get("JobID", 0))], [*columns]
    texts, job, more = [*columns[total]], "", dict[int, float]()  # seconds by row
    place = 0
    for at, head in enumerate(heads):
        name, dot, _ = split_step(head)
        if not dot:
            job, place = name, at
        elif texts[at] == _NOTHING and (used := _USED.search(columns[usage][at])):
            with suppress(ParseError):
                secs = parse_duration(used[1]) or 0
                texts[at], more[at] = used[1], 0
                if name == job:
                    more[place] = more.get(place, 0) + secs
    for at, secs in more.items():
        with suppress(ParseError):
            if secs and (told := parse_duration(texts[at])) is not None:
                texts[at] = f"{(told + secs) // 60:.0f}:{(told + secs) % 60:06.3f}"
    if more:
        notes.repaired[UNTOLD] += sum(not secs for secs in more.values())
        found[total] = texts
        for half in filter(None, map(places.get, ("UserCPU", "SystemCPU"))):
            found[half] = ["" if at in more else text for at, text in enumerate(columns[half])]
    return found
