"""Build a starting job from the hook script's environment and the job's spool directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping

from jobfeatures.batch.basics import Note
from jobfeatures.batch.gridengine.basics import NAME, checked_number, make_key, number_of
from jobfeatures.batch.gridengine.record import parse_spooled_job
from jobfeatures.batch.gridengine.spool import MAX_FILE_BYTES, list_folders, read_config
from jobfeatures.errors import Rejected
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.system.privatefile import read_owned


def job_id_of(environ: Mapping[str, str]) -> str:
    """Return the job id in a hook's environment: JOB_ID, or ``JOB_ID.SGE_TASK_ID`` for an array task.

    Outside arrays SGE_TASK_ID is "undefined". Raises ParseError if an id is missing or malformed.
    """
    number = checked_number(environ.get("JOB_ID", ""), source="environment", field="JOB_ID")
    task = environ.get("SGE_TASK_ID", "undefined")
    return make_key(number, None if task in {"", "undefined"} else task).job_id


def job_from_prolog(environ: Mapping[str, str], *, node_name: str | None, note: Note = lambda _: None) -> Job:
    """Return the job as the prolog's environment and spool directory report it; the state is RUNNING.

    Sample: ``JOB_ID=10 SGE_TASK_ID=undefined
    SGE_JOB_SPOOL_DIR=/var/spool/gridengine/execd/node1/active_jobs/10.1``. If that directory is unreadable,
    only the job's id is known, and `note` gets the reason. Raises ParseError without a job id.
    """
    del node_name  # the directory is this node's
    key = JobKey(NAME, job_id_of(environ))
    directory = environ.get("SGE_JOB_SPOOL_DIR", "").rstrip("/")
    name = os.path.basename(directory)
    if not directory.startswith("/") or number_of(name) != number_of(key.job_id):
        note(Rejected("environment", "not the job's directory", field="SGE_JOB_SPOOL_DIR", text=directory))
        return Job(key=key, state=JobState.RUNNING)
    try:
        return read_job(directory, name, {0, os.stat(os.path.dirname(directory)).st_uid}, note)
    except OSError as error:
        note(Rejected.from_error(error, directory))
        return Job(key=key, state=JobState.RUNNING)


def read_job(path: str, name: str, owners: Collection[int], note: Note) -> Job:
    """Return the job described by the files in its directory `path` below ``active_jobs``.

    `name` is the directory's, ``<job>.<task>``. Only files of the uids `owners` are trusted. Malformed values
    are reported to `note`. Raises OSError if the directory or its ``config`` cannot be read, ParseError if
    `name` is not a job's.
    """

    def text(file: str) -> str:
        try:
            return read_owned(f"{path}/{file}", owners, MAX_FILE_BYTES)[0].decode("utf-8", "replace")
        except OSError:  # absent on nodes that run only tasks of the job
            return ""

    def status(file: str) -> os.stat_result | None:
        for folder in list_folders(path):
            with contextlib.suppress(FileNotFoundError):
                return os.lstat(f"{folder}/{file}")
        return None

    trace = status("trace")  # written by the shepherd, owned by the job's user
    config = status("config")  # the execution daemon writes it a second or two before the start
    return parse_spooled_job(
        name,
        read_config(path, owners),
        environment=text("environment"),
        hosts=text("pe_hostfile"),
        uid=None if trace is None or trace.st_uid in owners else trace.st_uid,
        start_secs=None if config is None else int(config.st_mtime),
        note=note,
    )
