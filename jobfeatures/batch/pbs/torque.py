"""What is specific to Torque: the environment of prologue and epilogue, control groups, sources of features.

Source of these groups: Torque 6, ``/torque/1182958.batch.host`` on v1, where the id ends at the first dot. A
task of an array has ``123[4].server``, formerly ``123-4.server``.

Source: Torque Administrator Guide, "Prologue and epilogue scripts": the arguments of a prologue are job id,
user, group, job name, requested limits, queue and account. ``packaging/torque/prologue.sh`` passes them in
the command's environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from jobfeatures.batch.basics import Note, Texts, count_hosts
from jobfeatures.batch.groups import BatchHierarchy, make_layout
from jobfeatures.batch.pbs import QstatSettings
from jobfeatures.batch.pbs.values import (
    Share,
    array_fields,
    job_id_of,
    parse_duration,
    parse_size,
    share_of,
    split_resources,
)
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import SourceError
from jobfeatures.records.model import Job, JobKey, JobState, Limits, multiplied
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.privatefile import read_bounded

NAME = "torque"
MAX_NODEFILE_BYTES = 16 * 2**20


def job_from_prolog(environ: Mapping[str, str], *, node_name: str | None, note: Note = lambda _: None) -> Job:
    """Return the job that the prologue's environment describes; its state is RUNNING.

    Sample: ``PBS_JOBID=123.server TORQUE_USER=alice TORQUE_UID=6001 TORQUE_JOB_NAME=a
    TORQUE_LIMITS=nodes=1:ppn=4,walltime=01:00:00,mem=8gb TORQUE_QUEUE=batch TORQUE_ACCOUNT=physics
    TORQUE_START=1795246429``. The start is when the prologue ran, in epoch seconds.

    Hosts and CPUs are not included. A malformed value is reported to `note` and stays unknown. Raises
    ParseError if PBS_JOBID is not the id of a single job.
    """
    del node_name
    job_id = job_id_of(environ)
    limits = dict(split_resources(environ.get("TORQUE_LIMITS", "")))

    variables, asked = Texts(environ, note), Texts(limits, note)
    nodes = limits.get("nodes", "" if "procs" in limits else "1")
    has_one_node = nodes.partition(":")[0] == "1" and "+" not in nodes
    return Job(
        key=JobKey(NAME, job_id),
        state=JobState.RUNNING,
        name=variables.text("TORQUE_JOB_NAME"),
        user=variables.text("TORQUE_USER"),
        uid=variables.read(parse_count, "TORQUE_UID"),
        account=variables.text("TORQUE_ACCOUNT"),
        partition=variables.text("TORQUE_QUEUE"),
        start_secs=variables.read(parse_count, "TORQUE_START"),
        limits=Limits(
            wall_secs=asked.read(parse_duration, "walltime"),
            cpu_secs=asked.read(parse_duration, "cput"),
            memory_bytes=asked.read(parse_size, "mem") if has_one_node else None,
        ),
        **array_fields(job_id),
    )


def ask_in_prolog(
    job: Job, config: SystemSettings[QstatSettings], *, node_name: str, timeout_secs: float
) -> Job | None:
    """Return a job with only the hosts and CPUs of the job's node file, and the resulting CPU time limit.

    None if there is no node file: only the job's first node has one. The server is not queried. Raises
    JobfeaturesError if the file cannot be read or is malformed.
    """
    del timeout_secs
    folder = os.path.join(config.own.home, "aux")
    try:
        names = [name for name in os.listdir(folder) if name.partition(".")[0] == job.key.job_id]
        if len(names) != 1:
            return None
        slots = read_nodefile(os.path.join(folder, names[0]))
    except FileNotFoundError:
        return None  # only the job's first node has one
    except OSError as error:
        raise SourceError(f"{folder}: cannot be read: {error.strerror}") from error
    total_cpus = sum(slots.values()) or None
    mine = share_of({host: Share(cpus) for host, cpus in slots.items()}, node_name)
    return Job(
        key=job.key,
        state=job.state,
        nodes=tuple(slots),
        total_cpus=total_cpus,
        allocated_cpus=mine.cpus,
        limits=Limits(
            cpu_secs=None if job.limits.cpu_secs is not None else multiplied(job.limits.wall_secs, total_cpus)
        ),
    )


def read_nodefile(path: str) -> dict[str, int]:
    """Return the slots of each host in Torque's node file: the number of lines with the host's name.

    PBS's node file has one line for each MPI process, which does not reveal CPUs. Raises OSError if the file
    cannot be read, ParseError if a line is not a host name.
    """
    content, _ = read_bounded(path, MAX_NODEFILE_BYTES)
    return count_hosts(content.decode("utf-8", "replace").splitlines(), file=path)


_NUMBER = r"/(?P<job_id>(?:0|[1-9][0-9]{0,11})(?:\[[0-9]{1,9}\]|-[0-9]{1,9})?)"
_JOB = make_layout(
    rf"/torque{_NUMBER}(?:\.[^/]*)?(?:/|\Z)",
    ("torque", "[0-9]*"),
    parents="",
    usual_parents=((),),
    distinctive_name="torque",
    below_found=rf"/torque{_NUMBER}\.[^/]+(?:/|\Z)",
)
_BELOW_NAMED = make_layout(rf"{_NUMBER}(?:\.[^/]*)?(?:/|\Z)", ("[0-9]*",))

HIERARCHY = BatchHierarchy(NAME, (_JOB, _BELOW_NAMED), daemons={"pbs_mom": ""})
