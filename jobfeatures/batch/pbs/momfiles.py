"""Files of the node's daemon, pbs_mom: which jobs are here, and Torque's node lists.

The job files are C structures that change with every version, so only their names are used:
``mom_priv/jobs/123.server.JB``. The folder belongs to root. pbs_mom removes a file once the server has
acknowledged the job's end; if pbs_mom dies, the file stays. Torque's ``aux/123.server`` has one line with a
host name per execution slot; PBS writes one per MPI process, which does not reveal CPUs.
"""

from __future__ import annotations

import contextlib
import os
import re

from jobfeatures.batch.basics import count_hosts
from jobfeatures.batch.pbs.values import parse_job_id
from jobfeatures.errors import ParseError
from jobfeatures.records.model import Version
from jobfeatures.system.privatefile import read_bounded, version_of

MAX_FILES = 100_000
MAX_NODEFILE_BYTES = 16 * 2**20
MAX_ENVIRON_BYTES = 8 * 2**20
_VARIABLE = re.compile(rb"(?:\A|\0)PBS_JOBID=([^\0]*)(?:\0|\Z)")
_OLD_ARRAY = re.compile(r"([0-9]+)-([0-9]+)\Z")


def parse_job_file_name(name: str) -> str | None:
    """Return the job id in a job file's name; None for other files. Never raises."""
    if not name.endswith(".JB"):
        return None
    try:
        return _plain_id(name.removesuffix(".JB"))
    except ParseError:
        return None


def _plain_id(text: str) -> str:
    return _OLD_ARRAY.sub(r"\1[\2]", parse_job_id(text))


def read_mom_jobs(home: str) -> dict[str, Version]:
    """Return the ids of jobs with a pbs_mom file, and each file's version. Raises OSError."""
    found: dict[str, Version] = {}
    with os.scandir(os.path.join(home, "mom_priv", "jobs")) as entries:
        for number, entry in enumerate(entries):
            if number >= MAX_FILES:
                break
            job_id = parse_job_file_name(entry.name)
            with contextlib.suppress(FileNotFoundError):
                if job_id is not None:
                    found[job_id] = version_of(entry.stat(follow_symlinks=False))
    return found


def find_living(procfs: str) -> frozenset[str] | None:
    """Return the ids of jobs with processes here, by environment; None if some processes are hidden.

    pbs_mom sets PBS_JOBID for all processes of a job; a user who sets it elsewhere keeps an ended job listed.
    """
    found: set[str] = set()
    try:
        pids = list(filter(str.isdigit, os.listdir(procfs)))
        if "1" not in pids:  # other users' processes are hidden
            return None
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, ParseError):
                content, _ = read_bounded(f"{procfs}/{pid}/environ", MAX_ENVIRON_BYTES)
                if match := _VARIABLE.search(content):
                    found.add(_plain_id(match[1].decode("ascii", "replace")))
    except OSError:
        return None
    return frozenset(found)


def read_nodefile(path: str) -> dict[str, int]:
    """Return the number of a node list's lines per host. Raises ParseError or OSError."""
    content, _ = read_bounded(path, MAX_NODEFILE_BYTES)
    return count_hosts(content.decode("utf-8", "replace").splitlines(), file=path)
