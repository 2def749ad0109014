"""Parse job ids, durations, sizes and execution hosts of PBS and Torque. Pure; small, as hooks import it.

Sources: PBS Professional Reference Guide, "Formats" (duration, size, job identifier) and "Job Attributes"
(exec_host, exec_vnode), https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf;
Torque Administrator Guide, "Requesting resources" and qstat(1B).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jobfeatures.batch.basics import Texts, count_ranges
from jobfeatures.errors import ParseError, matched
from jobfeatures.records.nodelist import is_same_host

WORD_BYTES = 8
MAX_CPUS = 10**7  # per job and host

_ID = re.compile(r"(0|[1-9][0-9]{0,11})(\[[0-9]{0,9}\]|-[0-9]{1,9})?(?:\.[A-Za-z0-9._-]{1,255})?\Z")
_DURATION = re.compile(r"[0-9]{1,12}(?::[0-9]{1,9}){0,3}(?:\.[0-9]{1,9})?\Z")
_SIZE = re.compile(r"([0-9]{1,18})([kmgtp]?)([bw]?)\Z", re.IGNORECASE)
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_SECONDS = (1, 60, 3600, 86400)

_HOST = re.compile(r"([A-Za-z0-9._-]{1,255})(?::[0-9]{1,5})?/([0-9][0-9,-]{0,65535})(?:\*([0-9]{1,7}))?\Z")
_VNODE = re.compile(r"([A-Za-z0-9._-]{1,255})(\[[A-Za-z0-9._-]{1,64}\])?\Z")
_CHUNK = re.compile(r"\(([^()]*)\)")


class Share(NamedTuple):
    """A job's allocation on one host. None means unknown."""

    cpus: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None


def parse_job_id(text: str, *, field: str = "Job_Id") -> str:
    """Return the id without its server: ``123`` of ``123.server``, ``123[4]`` a subjob, ``123[]`` its array.

    Old versions of Torque wrote a subjob as ``123-4``. Raises ParseError for other text.
    """
    match = matched(_ID, text, "not a job id", field=field)
    return match[1] + (match[2] or "")


def job_id_of(environ: Mapping[str, str]) -> str:
    """Return the job id in the environment of a job or a hook. Raises ParseError if malformed."""
    text = environ.get("PBS_JOBID", "")
    job_id = parse_job_id(text, field="PBS_JOBID")
    if job_id.endswith("[]"):
        raise ParseError("must be a job, not an array", source="environment", field="PBS_JOBID", text=text)
    return job_id


def array_fields(job_id: str) -> dict[str, Any]:
    """Return `array_job_id` and `array_task_id`, as arguments for `Job`; {} for a job outside of arrays."""
    match = _ID.match(job_id)
    if match is None or match[2] is None:
        return {}
    return {"array_job_id": match[1], "array_task_id": match[2].strip("[]-") or None}


def parse_duration(text: str, *, field: str = "") -> int:
    """Parse ``[[[days:]hours:]minutes:]seconds[.fraction]`` to seconds, truncated.

    Raises ParseError for other text.
    """
    matched(_DURATION, text, "not a duration", field=field)
    numbers = [int(part) for part in text.partition(".")[0].split(":")]
    return sum(number * secs for number, secs in zip(reversed(numbers), _SECONDS, strict=False))


def parse_size(text: str, *, field: str = "") -> int:
    """Parse ``8gb``, ``512kw`` (8-byte words) or ``1024`` to bytes; powers of 1024.

    Raises ParseError for other text.
    """
    match = matched(_SIZE, text, "not a size", field=field)
    unit = WORD_BYTES if match[3].lower() == "w" else 1
    return (int(match[1]) << _POWERS[match[2].lower()]) * unit


def parse_exec_host(text: str, requested: int | None = None) -> tuple[tuple[str, int], ...]:
    """Return the host and CPUs of each part of an exec_host, in order; a host may occur more than once.

    PBS: ``n1/0*4+n2/1*4``, with the number of CPUs after the star, 1 without it. Torque: ``n1/0-3+n2/0,2``,
    formerly ``n1/1+n1/0``; each number is an execution slot. Torque's branch "develop" has a number of slots
    instead, ``n1/16``. This is assumed if the numbers add up to `requested`, the CPUs that the job requested,
    and these are more than one per host. Raises ParseError if malformed.
    """
    parts = []
    counts: dict[str, int] = {}
    for part in text.split("+"):
        match = matched(_HOST, part, "not an execution host", field="exec_host")
        slots = int(match[3] or count_ranges(match[2], "execution slots", field="exec_host"))
        if slots > MAX_CPUS:
            raise ParseError(f"more than {MAX_CPUS} execution slots", field="exec_host", text=part)
        parts.append((match[1], slots))
        if match[3] is None and match[2].isdigit():
            counts[match[1]] = int(match[2])
    if requested != len(counts) == len(parts) and sum(counts.values()) == requested:
        return tuple(counts.items())
    return tuple(parts)


def parse_exec_vnode(text: str) -> tuple[tuple[tuple[str, Share], ...], ...]:
    """Return the chunks of an exec_vnode. A chunk is a list of vnode names, each with the job's share of it.

    Sample: ``(n1:ncpus=4:mem=8gb)+(n2[0]:ncpus=2+n2[1]:ncpus=2:ngpus=1)``. A vnode is named after its host,
    with an index in brackets if the host has several; a resource that is not listed is not limited. Raises
    ParseError if malformed.
    """
    chunks = _CHUNK.findall(text)
    if not chunks or "+".join(f"({chunk})" for chunk in chunks) != text:
        raise ParseError("must be vnodes such as (n1:ncpus=4)+(n2:ncpus=4)", field="exec_vnode", text=text)
    return tuple(tuple(map(_parse_vnode, chunk.split("+"))) for chunk in chunks)


def _parse_vnode(text: str) -> tuple[str, Share]:
    name, *resources = text.split(":")
    if _VNODE.match(name) is None:
        raise ParseError("not a vnode", field="exec_vnode", text=text)
    values: dict[str, str] = {}
    for each in resources:
        key, equals, value = each.partition("=")
        if not equals or key in values:
            raise ParseError("not a vnode's resources", field="exec_vnode", text=text)
        values[key] = value
    return name, Share(
        cpus=_parse_amount(values.get("ncpus", "0")),
        memory_bytes=parse_size(values["mem"], field="exec_vnode") if "mem" in values else None,
        gpus=_parse_amount(values["ngpus"]) if "ngpus" in values else None,
    )


def _parse_amount(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise ParseError("not a number", field="exec_vnode", text=text)
    return int(text)


def compute_shares(
    exec_host: str | None, exec_vnode: str | None, requested: int | None = None
) -> Mapping[str, Share]:
    """Return what a job has on each host, by host: from exec_vnode if reported, else from exec_host.

    Both list their parts in the same order, so a chunk is matched with its host even if the vnodes are named
    differently. `requested` is the number of CPUs that the job requested. Raises ParseError if one is
    malformed.
    """
    hosts = parse_exec_host(exec_host, requested) if exec_host else ()
    chunks = parse_exec_vnode(exec_vnode) if exec_vnode else ()
    shares: dict[str, Share] = {}
    if chunks and len(hosts) in {0, len(chunks)}:
        for place, chunk in enumerate(chunks):
            for vnode, share in chunk:
                host = hosts[place][0] if hosts else vnode.partition("[")[0]
                shares[host] = _add(shares.get(host, Share(0)), share)
    else:
        for host, cpus in hosts:
            shares[host] = _add(shares.get(host, Share(0)), Share(cpus))
    return shares


def _add(one: Share, other: Share) -> Share:
    return Share(*map(compute_total, zip(one, other, strict=True)))


def compute_total(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of `numbers`, of which those that are None are left out; None if all are None."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def share_of(shares: Mapping[str, Share], node_name: str | None) -> Share:
    """Return what a job has on the node `node_name` or, if that is None, on its only node.

    All fields are None if it has nothing on that node, or if it has several nodes and `node_name` is None.
    """
    if node_name is None:
        return next(iter(shares.values())) if len(shares) == 1 else Share()
    found = [share for host, share in shares.items() if is_same_host(host, node_name)]
    return found[0] if len(found) == 1 else Share()


def read_shares(texts: Texts, hosts: str, vnodes: str, requested: int | None = None) -> Mapping[str, Share]:
    """Return what a job has on each host, by host, as `compute_shares` does.

    `texts` has the job's attributes; those named `hosts` and `vnodes` hold exec_host and exec_vnode. If the
    vnodes are malformed, only the hosts are used; {} if these are malformed too. `requested` is the number of
    CPUs that the job requested.
    """
    for vnode_text in dict.fromkeys((texts.text(vnodes), None)):
        try:
            return compute_shares(texts.text(hosts), vnode_text, requested)
        except ParseError as error:
            texts.reject(error, error.field, error.text)
    return {}


def memory_limit(texts: Texts, mine: Share, hosts: int, whole: str, each: str) -> int | None:
    """Return a job's limit of resident memory on this host, in bytes; None if unknown.

    It is the memory in exec_vnode (`mine`). Without that it is mem (the attribute named `whole`) if the job
    runs on one host (`hosts` is their number), else pmem (named `each`), a limit per process, times the job's
    CPUs here. vmem and pvmem are not used, as they limit virtual memory.
    """
    if mine.memory_bytes is not None:
        return mine.memory_bytes or None
    total = texts.read(parse_size, whole)
    if total and hosts == 1:
        return total
    per_cpu = texts.read(parse_size, each)
    return per_cpu * mine.cpus if per_cpu and mine.cpus else None


def split_resources(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each resource in ``nodes=1:ppn=2,walltime=01:00:00``, which a prologue gets."""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            yield name.strip(), value
