"""By which number Sonar's format knows whose a process is. Pure.

A pair of a number and an epoch. Epoch 0 is for batch jobs: records of one
number from several nodes belong to one job. All others carry the node's boot
time, so that they are never merged.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.snapshot import Snapshot
from jobfeatures.jobnumbers import parse_job_number
from jobfeatures.model import JobKey


class WorkId(NamedTuple):
    """A job, or what stands for one."""

    job: int
    epoch: int
    is_batch: bool


def identify(snapshot: Snapshot) -> dict[int, WorkId]:
    """Return the identity of each process, by pid in ascending order.

    A batch job without a number has the process group and the user time of
    its oldest process, one number for the job while that lives. What has no
    batch job counts by process group, containers and services too, as Sonar
    counts. Without a boot time only jobs with numbers can be told.
    """
    ids: dict[int, WorkId] = {}
    leaders: dict[JobKey, int] = {}
    processes = sorted(snapshot.processes.values(), key=lambda each: (each.start_ticks, each.pid))
    for process in processes:
        key = snapshot.keys.get(process.pid)
        number = parse_job_number(key.job_id) if isinstance(key, JobKey) else None
        if number is not None:
            ids[process.pid] = WorkId(number, 0, is_batch=True)
        elif snapshot.epoch:
            group = leaders.setdefault(key, process.pgid) if isinstance(key, JobKey) else process.pgid
            ids[process.pid] = WorkId(group, snapshot.epoch, is_batch=isinstance(key, JobKey))
    return dict(sorted(ids.items()))
