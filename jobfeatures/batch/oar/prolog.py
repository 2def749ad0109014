"""What prologue and epilogue hand over of their job. Pure.

Source: OAR 2.5.9. OAR sets OAR_JOB_ID and others below in the environment of
jobs and of both; ``packaging/oar/prologue.sh`` adds the user's id and the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from jobfeatures.batch.oar.values import NAME, count_hosts, find_host, make_limits, parse_id
from jobfeatures.errors import ParseError, Rejected, shown
from jobfeatures.model import Job, JobKey, JobState
from jobfeatures.quantities import parse_count

T = TypeVar("T")


def job_from_prolog(
    environ: Mapping[str, str],
    *,
    node_name: str | None,
    note: Callable[[Rejected], None] = lambda _: None,
) -> Job:
    """Return what the prologue's environment tells of its job; the state is RUNNING.

    Sample: ``OAR_JOB_ID=10 OAR_USER=alice OAR_HOOK_UID=6001 OAR_JOB_NAME=fit OAR_PROJECT_NAME=physics
    OAR_JOB_WALLTIME_SECONDS=240 OAR_HOOK_START=1795336598 OAR_HOOK_NODES="oar1 oar1 oar2"``. Start is the
    prologue's own time (epoch). A malformed value is told to `note` and stays unknown. Raises
    ParseError without a job id.
    """
    job_id = parse_id(environ.get("OAR_JOB_ID", ""), "OAR_JOB_ID")

    def read(parse: Callable[[str], T], variable: str) -> T | None:
        value = environ.get(variable)
        try:
            return parse(value) if value else None
        except ParseError as error:
            note(Rejected("environment", error.reason, 0, variable, shown(value or "")))
            return None

    hosts = read(lambda text: count_hosts(text.split()), "OAR_HOOK_NODES") or {}
    here = find_host(hosts, node_name)
    total_cpus = sum(hosts.values()) or None
    return Job(
        key=JobKey(NAME, job_id),
        state=JobState.RUNNING,
        name=environ.get("OAR_JOB_NAME") or None,
        user=environ.get("OAR_USER") or None,
        uid=read(parse_count, "OAR_HOOK_UID"),
        account=environ.get("OAR_PROJECT_NAME") or None,
        start_secs=read(parse_count, "OAR_HOOK_START"),
        nodes=tuple(hosts),
        total_cpus=total_cpus,
        allocated_cpus=None if here is None else hosts[here],
        limits=make_limits(read(parse_count, "OAR_JOB_WALLTIME_SECONDS"), total_cpus),
    )
