"""What the node's daemon, pbs_mom, keeps in files: which jobs are here, and Torque's node lists.

The job files themselves are C structures that change with every version, so only their names are used:
``mom_priv/jobs/123.server.JB``. The folder is root's. Torque's ``aux/123.server`` has one host name a line
for each execution slot; PBS has one for each MPI process there, which says nothing of CPUs.
"""

from __future__ import annotations

import os
import re

from jobfeatures.batch.basics import count_hosts
from jobfeatures.batch.pbs.values import parse_job_id
from jobfeatures.errors import ParseError
from jobfeatures.privatefile import read_bounded

MAX_FILES = 100_000
MAX_NODEFILE_BYTES = 16 * 2**20
_OLD_ARRAY = re.compile(r"([0-9]+)-([0-9]+)\Z")


def parse_job_file_name(name: str) -> str | None:
    """Return the id of a job by the name of its file, None for other files. Never raises."""
    if not name.endswith(".JB"):
        return None
    try:
        job_id = parse_job_id(name.removesuffix(".JB"))
    except ParseError:
        return None
    return _OLD_ARRAY.sub(r"\1[\2]", job_id)


def read_mom_jobs(home: str) -> frozenset[str]:
    """Return the ids of the jobs that pbs_mom has here. Raises OSError."""
    found: set[str] = set()
    with os.scandir(os.path.join(home, "mom_priv", "jobs")) as entries:
        for number, entry in enumerate(entries):
            if number >= MAX_FILES:
                break
            job_id = parse_job_file_name(entry.name)
            if job_id is not None:
                found.add(job_id)
    return frozenset(found)


def read_nodefile(path: str) -> dict[str, int]:
    """Return a node list's lines by host. Raises ParseError or OSError."""
    content, _ = read_bounded(path, MAX_NODEFILE_BYTES)
    return count_hosts(content.decode("utf-8", "replace").splitlines(), file=path)
