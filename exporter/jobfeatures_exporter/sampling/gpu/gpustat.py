"""/run/gpustat: files in which a prolog writes which job has which card."""

from __future__ import annotations

import os
import stat

from jobfeatures.errors import ParseError
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu.allocated import parse_gpustat

MAX_BYTES = 256


def read_gpustat(directory: str, unreadable: Unreadable, *, owner: int = 0) -> dict[str, str]:
    """Return job ids by the name of the card; files of others than `owner` and links do not count."""
    names = unreadable.tried("gpustat", os.listdir, directory) or ()
    found = {name: unreadable.tried("gpustat", _read, f"{directory}/{name}", owner) for name in names}
    return {name: job_id for name, job_id in found.items() if job_id is not None}


def _read(path: str, owner: int) -> str | None:
    with opened(path, READ_UNFOLLOWED) as descriptor:
        status = os.fstat(descriptor)
        if status.st_uid != owner or not stat.S_ISREG(status.st_mode):
            raise ParseError("not a file of its owner", source=path)
        return parse_gpustat(os.read(descriptor, MAX_BYTES).decode("ascii", "replace"))
