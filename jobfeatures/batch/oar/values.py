"""What a hook, a node and the controller role have in common: ids, hosts, limits. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from jobfeatures.errors import ParseError
from jobfeatures.model import Limits, multiplied

NAME = "oar"
_ID = re.compile(r"[1-9][0-9]{0,9}\Z", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z", re.ASCII)


def is_plain_id(text: str) -> bool:
    """Return whether a text is a job id."""
    return _ID.match(text) is not None


def parse_id(text: str, field: str) -> str:
    """Return a job id. Raises ParseError."""
    if not is_plain_id(text):
        raise ParseError("not a job id", field=field, text=text)
    return text


def count_hosts(lines: Iterable[str]) -> dict[str, int]:
    """Return the resources of each host, which a node file names once for each. Raises ParseError."""
    names = [line.strip() for line in lines if line.strip()]
    for name in names:
        if _HOST.match(name) is None:
            raise ParseError("not a host name", field="node file", text=name)
    return dict(Counter(names))


def make_limits(wall_secs: int | None, total_cpus: int | None) -> Limits:
    """Return a job's limits; OAR core has none of memory."""
    wall_secs = wall_secs or None
    return Limits(wall_secs=wall_secs, cpu_secs=multiplied(wall_secs, total_cpus))
