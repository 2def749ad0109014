"""Makes a job from the environment of a pre-execution command. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.batch.basics import Note, Texts, count_hosts, is_host_name, share_of
from jobfeatures.batch.lsf.basics import NAME, NOTHING, make_id, split_id
from jobfeatures.errors import ParseError
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.records.quantities import parse_count

MAX_NAME_CHARACTERS = 4094  # of a job's name, bsub -J


def job_id_of(environ: Mapping[str, str]) -> str:
    """Return the id in a job's or hook's environment, such as ``123[4]``. Raises ParseError if malformed."""
    return make_id(environ.get("LSB_JOBID", ""), environ.get("LSB_JOBINDEX", ""))


def job_from_prolog(environ: Mapping[str, str], *, node_name: str | None, note: Note = lambda _: None) -> Job:
    """Return the job that a pre-execution command's environment describes; its state is RUNNING.

    Sample: ``LSB_JOBID=123 LSB_JOBINDEX=4 LSFUSER=alice LSB_QUEUE=normal LSB_JOBNAME=ok[1-9]
    LSB_PROJECT_NAME=physics LSB_DJOB_NUMPROC=6 LSB_MCPU_HOSTS=n1 4 n2 2``. Source:
    https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_config_ref/lsf_envars_job_exec.html

    The environment has no times and no limits; the user's own files (LSB_DJOB_HOSTFILE) are not read. A
    malformed value is reported to `note` and stays unknown. Raises ParseError without a plain LSB_JOBID.
    """
    job_id = job_id_of(environ)
    array, index = split_id(job_id)

    variables = Texts(environ, note, nothing=NOTHING)
    if variables.text("LSB_MCPU_HOSTS"):
        slots = variables.read(parse_mcpu_hosts, "LSB_MCPU_HOSTS") or {}
    else:
        slots = variables.read(lambda text: count_hosts(text.split(), field="LSB_HOSTS"), "LSB_HOSTS") or {}
    total = sum(slots.values()) or variables.read(parse_count, "LSB_DJOB_NUMPROC") or None
    name = variables.text("LSB_JOBNAME")
    return Job(
        key=JobKey(NAME, job_id),
        state=JobState.RUNNING,
        name=None if name is None else name[:MAX_NAME_CHARACTERS],
        user=variables.text("LSFUSER"),
        account=variables.text("LSB_PROJECT_NAME"),
        partition=variables.text("LSB_QUEUE"),
        nodes=tuple(slots),
        total_cpus=total,
        total_nodes=len(slots) or None,
        allocated_cpus=share_of(slots, node_name) or (total if len(slots) == 1 else None),
        array_job_id=array if index is not None else None,
        array_task_id=index,
    )


def parse_mcpu_hosts(text: str) -> dict[str, int]:
    """Return the slots of each host from ``n1 4 n2 2``. Raises ParseError if malformed."""
    words = text.split()
    slots: dict[str, int] = {}
    if len(words) % 2:
        raise ParseError("must be hosts and slots, such as n1 4 n2 2", field="LSB_MCPU_HOSTS", text=text)
    for name, count in zip(words[::2], words[1::2], strict=True):
        if not is_host_name(name):
            raise ParseError("not a host's name", field="LSB_MCPU_HOSTS", text=name)
        slots[name] = slots.get(name, 0) + parse_count(count, field="LSB_MCPU_HOSTS")
    return slots
