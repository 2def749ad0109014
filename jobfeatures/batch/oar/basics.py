"""Checks OAR's job ids, and makes jobs' limits. Pure."""

from __future__ import annotations

import re

from jobfeatures.errors import ParseError
from jobfeatures.records.model import Limits, multiplied

NAME = "oar"
_ID = re.compile(r"[1-9][0-9]{0,9}\Z", re.ASCII)


def is_plain_id(text: str) -> bool:
    """Return whether a text is a job id."""
    return _ID.match(text) is not None


def parse_id(text: str, field: str) -> str:
    """Return `text` as it is if it is a job id, else raise ParseError."""
    if not is_plain_id(text):
        raise ParseError("not a job id", field=field, text=text)
    return text


def make_limits(wall_secs: int | None, total_cpus: int | None) -> Limits:
    """Return a job's limits: the wall limit in seconds, and CPU time as wall limit times CPUs.

    OAR limits no memory.
    """
    wall_secs = wall_secs or None
    return Limits(wall_secs=wall_secs, cpu_secs=multiplied(wall_secs, total_cpus))
