r"""What is specific to PBS Pro and OpenPBS: the hook's environment, control groups, and sources of features.

Source of these groups: pbs_cgroups hook of OpenPBS 20 to 23: ``/pbs_jobs.service/jobid/<id>`` on v1,
``[/SLICE]/pbs_jobs.service/jobs/<id>`` on v2, with an id such as ``123.server``, ``123[4].server`` of an
array, or the latter escaped by systemd, ``123\x5b4\x5d.server``. The server's name is dropped.

``packaging/pbs/jobfeatures_hook.py`` runs in PBS's own Python and passes the job's attributes in the
command's environment, under names that it defines.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.batch.basics import Note, Texts
from jobfeatures.batch.groups import BatchHierarchy, make_layout
from jobfeatures.batch.pbs.values import (
    array_fields,
    job_id_of,
    memory_limit,
    parse_duration,
    read_shares,
    share_of,
)
from jobfeatures.records.model import Job, JobKey, JobState, Limits, multiplied
from jobfeatures.records.quantities import parse_count

NAME = "pbs"


def job_from_prolog(environ: Mapping[str, str], *, node_name: str | None, note: Note = lambda _: None) -> Job:
    """Return the job that the hook's environment describes; its state is RUNNING.

    Sample: ``PBS_JOBID=123.server PBS_HOOK_USER=alice PBS_HOOK_UID=6001 PBS_HOOK_QUEUE=workq
    PBS_HOOK_EXEC_HOST=n1/0*4 PBS_HOOK_EXEC_VNODE=(n1:ncpus=4:mem=8gb) PBS_HOOK_WALLTIME=01:00:00
    PBS_HOOK_START=1795246429 PBS_HOOK_RUN_COUNT=1``. Times are epoch seconds.

    A malformed value is reported to `note` and stays unknown. Raises ParseError if PBS_JOBID is not the id of
    a single job.
    """
    job_id = job_id_of(environ)

    variables = Texts(environ, note)
    shares = read_shares(variables, "PBS_HOOK_EXEC_HOST", "PBS_HOOK_EXEC_VNODE")
    mine = share_of(shares, node_name)
    total_cpus = sum(share.cpus or 0 for share in shares.values()) or None
    wall = variables.read(parse_duration, "PBS_HOOK_WALLTIME")
    cpu_limit = variables.read(parse_duration, "PBS_HOOK_CPUT")
    runs = variables.read(parse_count, "PBS_HOOK_RUN_COUNT")
    return Job(
        key=JobKey(NAME, job_id),
        state=JobState.RUNNING,
        name=variables.text("PBS_HOOK_JOB_NAME"),
        user=variables.text("PBS_HOOK_USER"),
        uid=variables.read(parse_count, "PBS_HOOK_UID"),
        account=variables.text("PBS_HOOK_ACCOUNT"),
        partition=variables.text("PBS_HOOK_QUEUE"),
        start_secs=variables.read(parse_count, "PBS_HOOK_START"),
        nodes=tuple(shares),
        total_cpus=total_cpus,
        allocated_cpus=mine.cpus or None,
        limits=Limits(
            wall_secs=wall,
            cpu_secs=multiplied(wall, total_cpus) if cpu_limit is None else cpu_limit,
            memory_bytes=memory_limit(variables, mine, len(shares), "PBS_HOOK_MEM", "PBS_HOOK_PMEM"),
        ),
        **array_fields(job_id),
        restarts=None if runs is None else max(0, runs - 1),
        allocated_gpus=mine.gpus or None,
    )


_NUMBER = r"(?P<job_id>(?:0|[1-9][0-9]{0,11})(?:(?:\[|\\x5b)[0-9]{1,9}(?:\]|\\x5d))?)"
_SERVER = r"(?:\.|\\x2e)[^/]*"
# Names of units of systemd are no names of jobs with their server.
_UNLIKE_UNITS = r"(?!\.(?:scope|service|slice|mount|socket|swap|partition)(?:/|\Z))"
_BELOW_SERVICE = make_layout(
    rf"/(?:jobid|jobs)/{_NUMBER}(?:{_SERVER})?(?:/|\Z)",
    ("jobid", "[0-9]*"),
    ("jobs", "[0-9]*"),
    parents=r"(?:/(?!user\.slice/)[^/]{1,255}\.slice)?/pbs_jobs\.service",
    usual_parents=(("pbs_jobs.service",), ("*.slice", "pbs_jobs.service")),
    distinctive_name="jobid|jobs",
    below_found=rf"/(?:jobid|jobs)/{_NUMBER}{_SERVER}(?:/|\Z)",
)
# Of older hooks, below /PREFIX and /PREFIX.slice: nothing in their names tells whose they are.
_BELOW_PREFIX = make_layout(
    rf"/{_NUMBER}(?:{_SERVER})?(?:/|\Z)",
    ("[0-9]*",),
    below_found=rf"/{_NUMBER}{_UNLIKE_UNITS}{_SERVER}(?:/|\Z)",
)
_IN_SLICE = make_layout(
    rf"/[^/]{{1,200}}-{_NUMBER}(?:{_SERVER})?\.slice(?:/|\Z)",
    ("*-[0-9]*.slice",),
    below_found=rf"/[^/]{{1,200}}-{_NUMBER}(?:\.|\\x2e)[^/.][^/]*\.slice(?:/|\Z)",
)
HIERARCHY = BatchHierarchy(NAME, (_BELOW_SERVICE, _BELOW_PREFIX, _IN_SLICE), daemons={"pbs_mom": ""})
