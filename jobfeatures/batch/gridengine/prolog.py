"""What the hook script hands over of its job, and what the job's spool directory tells."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from jobfeatures.batch.gridengine.basics import make_key, number_of
from jobfeatures.batch.gridengine.record import parse_spooled_job
from jobfeatures.batch.gridengine.spool import MAX_FILE_BYTES, list_tasks, read_config
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.model import Job, JobState
from jobfeatures.privatefile import read_owned


def job_id_of(environ: Mapping[str, str]) -> str:
    """Return JOB_ID, of an array's task with SGE_TASK_ID (else "undefined") behind it. Raises ParseError."""
    number, task = environ.get("JOB_ID", ""), environ.get("SGE_TASK_ID", "undefined")
    if number_of(number) != number:
        raise ParseError("not a job id", source="environment", field="JOB_ID", text=number)
    return make_key(number, None if task in {"", "undefined"} else task).job_id


def job_from_prolog(
    environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None] = lambda _: None
) -> Job:
    """Return what environment and spool directory of a prolog report about its job; the state is RUNNING.

    Sample: ``JOB_ID=10 SGE_TASK_ID=undefined
    SGE_JOB_SPOOL_DIR=/var/spool/gridengine/execd/node1/active_jobs/10.1``. Where
    that cannot be read the job has its identity only. Raises ParseError
    without the id of a job.
    """
    del node_name  # the directory is this node's
    key = make_key(*_split(job_id_of(environ)))
    directory = environ.get("SGE_JOB_SPOOL_DIR", "").rstrip("/")
    name = os.path.basename(directory)
    if not directory.startswith("/") or number_of(name) != number_of(key.job_id):
        note(Rejected("environment", "not the job's directory", field="SGE_JOB_SPOOL_DIR", text=directory))
        return Job(key=key, state=JobState.RUNNING)
    try:
        job = read_job(directory, name, {0, os.stat(os.path.dirname(directory)).st_uid}, note)
    except OSError as error:
        note(Rejected.from_error(error, directory))
        return Job(key=key, state=JobState.RUNNING)
    return job


def read_job(
    path: str, name: str, owners: set[int] | frozenset[int], note: Callable[[Rejected], None]
) -> Job:
    """Return the job with this directory. Raises OSError or ParseError."""

    def text(file: str) -> str:
        try:
            return read_owned(f"{path}/{file}", owners, MAX_FILE_BYTES)[0].decode("utf-8", "replace")
        except OSError:  # nodes that have tasks of a job only do not have it
            return ""

    return parse_spooled_job(
        name,
        read_config(path, owners),
        environment=text("environment"),
        hosts=text("pe_hostfile"),
        uid=read_uid(path, owners),
        start_secs=read_start(path),
        note=note,
    )


def read_uid(path: str, owners: set[int] | frozenset[int]) -> int | None:
    """Return whom the shepherd's `trace` belongs to: the job's user; None where it is not made yet."""
    found = _stat_first(path, "trace")
    return None if found is None or found.st_uid in owners else found.st_uid


def read_start(path: str) -> int | None:
    """Return when the execution daemon made a job's `config`: its start, to a second or two."""
    found = _stat_first(path, "config")
    return None if found is None else int(found.st_mtime)


def _stat_first(path: str, file: str) -> os.stat_result | None:
    for folder in (path, *(f"{path}/{name}" for name in list_tasks(path))):
        try:
            return os.lstat(f"{folder}/{file}")
        except FileNotFoundError:
            continue
    return None


def _split(job_id: str) -> tuple[str, str | None]:
    number, _, task = job_id.partition(".")
    return number, task or None
