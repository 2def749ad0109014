"""Makes a job from the environment of Slurm's Prolog. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobfeatures.batch.basics import Note, Texts
from jobfeatures.batch.slurm.basics import NAME, NOTHING, checked_id
from jobfeatures.batch.slurm.groups import checked_sluid
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobKey, JobState, Limits, multiplied
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures.records.quantities import parse_count

YEAR_SECS = 365 * 86400

_CPU_RUN = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?\Z")


def job_from_prolog(environ: Mapping[str, str], *, node_name: str | None, note: Note = lambda _: None) -> Job:
    """Return the job that a Prolog's environment describes; the state is RUNNING.

    Sample: ``SLURM_JOB_ID=3 SLURM_JOB_UID=6002 SLURM_JOB_USER=bob SLURM_JOB_CPUS_PER_NODE=2(x3),1
    SLURM_NODELIST=n[1-4] SLURMD_NODENAME=n2``. ``SLURM_JOB_START_TIME`` and ``SLURM_JOB_END_TIME`` are epoch
    seconds (newer Slurm); Slurm 22.05 gives a Prolog no times, no limits and no array ids.
    ``SLURM_JOB_GPUS=0,1`` are the job's GPUs on this node, by the number at the end of the name of their
    device file (renderD128: 128); with ``SLURM_SHARDS_ON_NODE`` other jobs may share them.

    `node_name` is used where SLURMD_NODENAME is not set. A malformed value is reported to `note` and stays
    unknown. Raises ParseError without a plain SLURM_JOB_ID.
    """
    number = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID", "")
    job_id = checked_id(number, source="environment", field="SLURM_JOB_ID")

    variables = Texts(environ, note, nothing=NOTHING)
    gpus = variables.read(_parse_gpus, "SLURM_JOB_GPUS") or ()
    shared = environ.get("SLURM_SHARDS_ON_NODE", "") not in NOTHING
    nodes = variables.read(expand_nodes, "SLURM_JOB_NODELIST", "SLURM_NODELIST") or ()
    runs = variables.read(_parse_cpu_runs, "SLURM_JOB_CPUS_PER_NODE") or ()
    total_cpus = sum(count * times for count, times in runs) or None
    start = variables.read(parse_count, "SLURM_JOB_START_TIME")
    end = variables.read(parse_count, "SLURM_JOB_END_TIME")
    wall = None
    if start is not None and end is not None:
        if end <= start:
            note(Rejected("environment", "is not after the start", field="SLURM_JOB_END_TIME", text=str(end)))
        elif end - start != YEAR_SECS:  # what slurmctld writes for a job without a limit
            wall = end - start
    return Job(
        key=JobKey(NAME, job_id),
        state=JobState.RUNNING,
        name=variables.text("SLURM_JOB_NAME"),
        user=variables.text("SLURM_JOB_USER"),
        uid=variables.read(parse_count, "SLURM_JOB_UID", "SLURM_UID"),
        account=variables.text("SLURM_JOB_ACCOUNT"),
        partition=variables.text("SLURM_JOB_PARTITION"),
        start_secs=start,
        nodes=nodes,
        total_cpus=total_cpus,
        allocated_cpus=_share_of_runs(runs, nodes, variables.text("SLURMD_NODENAME") or node_name),
        limits=Limits(wall_secs=wall, cpu_secs=multiplied(wall, total_cpus)),
        sluid=variables.read(checked_sluid, "SLURM_JOB_SLUID"),
        cluster=variables.read(_checked_cluster, "SLURM_CLUSTER_NAME"),
        array_job_id=variables.read(_checked_digits, "SLURM_ARRAY_JOB_ID"),
        array_task_id=variables.read(_checked_digits, "SLURM_ARRAY_TASK_ID"),
        het_job_id=variables.read(_checked_digits, "SLURM_HET_JOB_ID"),
        het_offset=variables.read(parse_count, "SLURM_HET_JOB_OFFSET"),
        restarts=variables.read(parse_count, "SLURM_JOB_RESTART_COUNT"),
        gpus=gpus,
        gpu_devices=gpus if all(name.isdigit() for name in gpus) else (),
        allocated_gpus=None if shared else len(gpus) or None,
    )


def _parse_gpus(text: str) -> tuple[str, ...]:
    from jobfeatures.batch.slurm.gpus import parse_gpu_list  # most jobs have no GPUs

    return parse_gpu_list(text)


def _checked_digits(text: str) -> str:
    parse_count(text)
    return text


def _checked_cluster(text: str) -> str:
    if not text.isprintable():  # slurmd lets through all else, slashes and hundreds of letters included
        raise ParseError("not a cluster's name", text=text)
    return text


def _parse_cpu_runs(text: str) -> tuple[tuple[int, int], ...]:
    """Parse ``2(x3),1`` to ((2, 3), (1, 1)): CPUs per node, and the number of consecutive nodes."""
    runs = []
    for part in text.split(","):
        match = _CPU_RUN.match(part)
        if match is None:
            raise ParseError("must be CPUs per node, such as 2(x3),1", text=text)
        runs.append((int(match[1]), int(match[2] or "1")))
    return tuple(runs)


def _share_of_runs(
    runs: Sequence[tuple[int, int]], nodes: Sequence[str], node_name: str | None
) -> int | None:
    """Return the CPUs on this node, None if unknown; its place does not matter where all have as many."""
    if len({count for count, _ in runs}) == 1:
        return runs[0][0] or None
    if node_name not in nodes or sum(times for _, times in runs) != len(nodes):
        return None
    place = nodes.index(node_name)
    for count, times in runs:
        if place < times:
            return count or None
        place -= times
    return None
