"""Makes a job from the environment of OAR's prologue or epilogue. Pure.

Source: OAR 2.5.9. OAR sets variables such as OAR_JOB_ID in the environment of jobs and both hooks;
``packaging/oar/prologue.sh`` adds the user's id and the time.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.batch.basics import Note, Texts, count_hosts, share_of
from jobfeatures.batch.oar.basics import NAME, make_limits, parse_id
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.records.quantities import parse_count


def job_from_prolog(environ: Mapping[str, str], *, node_name: str | None, note: Note = lambda _: None) -> Job:
    """Return the job that the prologue's environment describes; its state is RUNNING.

    Sample: ``OAR_JOB_ID=10 OAR_USER=alice OAR_HOOK_UID=6001 OAR_JOB_NAME=fit OAR_PROJECT_NAME=physics
    OAR_JOB_WALLTIME_SECONDS=240 OAR_HOOK_START=1795336598 OAR_HOOK_NODES="oar1 oar1 oar2"``. The start is
    when the prologue ran (epoch). A malformed value is reported to `note` and stays unknown. Raises
    ParseError without an id.
    """
    job_id = parse_id(environ.get("OAR_JOB_ID", ""), "OAR_JOB_ID")
    variables = Texts(environ, note)
    hosts = variables.read(lambda text: count_hosts(text.split(), field="node file"), "OAR_HOOK_NODES") or {}
    total_cpus = sum(hosts.values()) or None
    return Job(
        key=JobKey(NAME, job_id),
        state=JobState.RUNNING,
        name=variables.text("OAR_JOB_NAME"),
        user=variables.text("OAR_USER"),
        uid=variables.read(parse_count, "OAR_HOOK_UID"),
        account=variables.text("OAR_PROJECT_NAME"),
        start_secs=variables.read(parse_count, "OAR_HOOK_START"),
        nodes=tuple(hosts),
        total_cpus=total_cpus,
        allocated_cpus=share_of(hosts, node_name),
        limits=make_limits(variables.read(parse_count, "OAR_JOB_WALLTIME_SECONDS"), total_cpus),
    )
