"""What prologue and epilogue hand over of their job. Pure.

Source: Torque Administrator Guide, "Prologue and epilogue scripts": the
arguments of a prologue are job id, user, group, job name, requested limits,
queue and account. ``packaging/torque/prologue.sh`` puts them into the command's environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from jobfeatures.batch.pbsfamily.values import (
    job_id_of,
    parse_duration,
    parse_size,
    split_array_id,
    split_resources,
)
from jobfeatures.errors import ParseError, Rejected, shown
from jobfeatures.model import Job, JobKey, JobState, Limits
from jobfeatures.quantities import parse_count

NAME = "torque"
T = TypeVar("T")


def job_from_prolog(
    environ: Mapping[str, str],
    *,
    node_name: str | None,
    note: Callable[[Rejected], None] = lambda _: None,
) -> Job:
    """Return what the prologue's environment tells of its job; the state is RUNNING.

    Sample: ``PBS_JOBID=123.server TORQUE_USER=alice TORQUE_UID=6001 TORQUE_JOB_NAME=a
    TORQUE_LIMITS=nodes=1:ppn=4,walltime=01:00:00,mem=8gb TORQUE_QUEUE=batch TORQUE_ACCOUNT=physics
    TORQUE_START=1795246429``. Start is the prologue's own time, in epoch seconds.

    Hosts and CPUs are not told here. A malformed value is told to `note` and
    stays unknown. Raises ParseError without the id of one job.
    """
    del node_name
    job_id = job_id_of(environ)
    limits = dict(split_resources(environ.get("TORQUE_LIMITS", "")))

    def read(parse: Callable[[str], T], values: Mapping[str, str], name: str) -> T | None:
        value = values.get(name)
        try:
            return parse(value) if value else None
        except ParseError as error:
            note(Rejected("environment", error.reason, 0, name, shown(value or "")))
            return None

    array_job_id, array_task_id = split_array_id(job_id)
    nodes = limits.get("nodes", "" if "procs" in limits else "1")
    has_one_node = nodes.partition(":")[0] == "1" and "+" not in nodes
    return Job(
        key=JobKey(NAME, job_id),
        state=JobState.RUNNING,
        name=environ.get("TORQUE_JOB_NAME") or None,
        user=environ.get("TORQUE_USER") or None,
        uid=read(parse_count, environ, "TORQUE_UID"),
        account=environ.get("TORQUE_ACCOUNT") or None,
        partition=environ.get("TORQUE_QUEUE") or None,
        start_secs=read(parse_count, environ, "TORQUE_START"),
        limits=Limits(
            wall_secs=read(parse_duration, limits, "walltime"),
            cpu_secs=read(parse_duration, limits, "cput"),
            memory_bytes=read(parse_size, limits, "mem") if has_one_node else None,
        ),
        array_job_id=array_job_id,
        array_task_id=array_task_id,
    )
