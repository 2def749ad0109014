"""Parses LSF's job ids and hosts, for hooks and sources; kept small, as every import slows a hook."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jobfeatures.errors import ParseError, matched

NAME = "lsf"
NOTHING = frozenset({"", "-", "N/A"})
MAX_SLOTS = 1_000_000

_ID = re.compile(r"([1-9][0-9]{0,9})(?:\[([1-9][0-9]{0,8})\])?\Z")
_INDEX = re.compile(r"[0-9]{1,9}\Z")
_SHARE = re.compile(r"(?:([1-9][0-9]{0,6})\*)?([A-Za-z0-9][A-Za-z0-9._@-]{0,254})\Z")


def is_plain_id(text: str) -> bool:
    """Return whether a text is a job id, ``123`` or ``123[4]``, that is safe to pass to bjobs."""
    return _ID.match(text) is not None


def split_id(text: str) -> tuple[str, str | None]:
    """Return job id and array index of ``123`` or ``123[4]``. Raises ParseError for other text."""
    match = matched(_ID, text, "not a job id", source=NAME)
    return match[1], match[2]


def make_id(job_id: str, index: str) -> str:
    """Return a job's id as in its control group: ``123[4]`` in an array, else ``123``.

    `index` is LSB_JOBINDEX or JOBINDEX: 0 or empty outside arrays. Raises ParseError if one is malformed, or
    if they contradict each other.
    """
    number, known = split_id(job_id)
    if index in NOTHING:
        return job_id
    matched(_INDEX, index, "not an array index", source=NAME)
    if int(index) == 0:
        return job_id
    if known is not None and int(known) != int(index):
        raise ParseError("job id and array index differ", source=NAME, text=f"{job_id} {index}")
    return f"{number}[{int(index)}]"


def parse_hosts(text: str, *, field: str = "") -> dict[str, int]:
    """Return the slots of each host, in order, from ``4*n1:2*n2`` or ``n1:n1:n2``; {} if unknown.

    Source: bjobs(1), EXEC_HOST and ALLOC_SLOT. Raises ParseError if malformed.
    """
    return {} if text in NOTHING else parse_host_slots(text.split(":"), field=field)


def parse_host_slots(hosts: Iterable[str], *, field: str) -> dict[str, int]:
    """Return the slots of each host, in order, from ``4*n1`` or ``n1``. Raises ParseError."""
    slots: dict[str, int] = {}
    for host in hosts:
        match = matched(_SHARE, host, "not a host", field=field)
        slots[match[2]] = slots.get(match[2], 0) + int(match[1] or "1")
    if sum(slots.values()) > MAX_SLOTS:
        raise ParseError(f"more than {MAX_SLOTS} slots", field=field)
    return slots
