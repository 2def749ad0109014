"""Which cards the batch system allocated to which job: by its answers, or by files of a prolog."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import ParseError
from jobfeatures.records.model import Job, JobKey
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.snapshot import GpuCard

MAX_BYTES = 256  # of a file in /run/gpustat
UUID_FORMS = ("GPU-", "MIG-", "PCI-")


def parse_gpustat(text: str) -> str | None:
    """Return the job id in ``/run/gpustat/CARD``: ``JOBID UID``; None if empty or 0. Raises ParseError."""
    words = text.split()
    if not words:
        return None
    job_id = parse_count(words[0], field="job id")
    for word in words[1:2]:
        parse_count(word, field="uid")
    return str(job_id) if job_id else None


def read_gpustat(directory: str, unreadable: Unreadable, *, owner: int = 0) -> dict[str, str]:
    """Return job ids by the name of the card: a prolog writes a file for each to /run/gpustat.

    Files of others than `owner` and links do not count.
    """
    names = unreadable.tried("gpustat", os.listdir, directory) or ()
    found = {name: unreadable.tried("gpustat", _read_one, f"{directory}/{name}", owner) for name in names}
    return {name: job_id for name, job_id in found.items() if job_id is not None}


def _read_one(path: str, owner: int) -> str | None:
    with opened(path, READ_UNFOLLOWED) as descriptor:
        status = os.fstat(descriptor)
        if status.st_uid != owner or not stat.S_ISREG(status.st_mode):
            raise ParseError("not a file of its owner", source=path)
        return parse_gpustat(os.read(descriptor, MAX_BYTES).decode("ascii", "replace"))


def resolve_card(name: str, cards: Sequence[GpuCard], *, by_minor: bool = True) -> str | None:
    """Return the UUID of the card that a name means, None if the name is ambiguous or unknown.

    A name is a UUID, a prefix of one that is unique on the node, or a number. For NVIDIA's cards a batch
    system's number is that of the device file (``/dev/nvidia3``, as in gres.conf), with ``by_minor=False``
    NVML's index; for others it is the position in the order of bus addresses. On a node with MIG instances
    a number may count instances, so it is not resolved.
    """
    if name.startswith(UUID_FORMS):
        found = [card.uuid for card in cards if card.uuid.startswith(name)]
        return name if name in found else (found[0] if len(found) == 1 else None)
    if not (name.isascii() and name.isdigit() and len(name) <= 6):
        return None
    if any(card.parent_uuid is not None for card in cards):
        return None
    makers = [card for card in cards if card.manufacturer == "NVIDIA"]
    number = int(name)
    if makers and by_minor and all(card.minor is not None for card in makers):
        found = [card.uuid for card in makers if card.minor == number]
    else:
        found = [card.uuid for card in makers or cards if card.index == number]
    return found[0] if len(found) == 1 else None


def compute_allocations(
    jobs: Mapping[JobKey, Job], cards: Sequence[GpuCard], gpustat: Mapping[str, str]
) -> dict[JobKey, frozenset[str]]:
    """Return the UUIDs of each job's cards.

    A job of which only the number of GPUs is known has all cards if that is
    the number of cards on the node. `gpustat` maps names of cards to
    job ids, see `parse_gpustat`; unknown jobs in it are ignored.
    """
    found: dict[JobKey, set[str]] = {}
    whole = [card.uuid for card in cards if card.parent_uuid is None]
    for key, job in jobs.items():
        uuids = {uuid for name in job.gpus if (uuid := resolve_card(name, cards)) is not None}
        if not job.gpus and whole and job.allocated_gpus == len(whole):
            uuids = set(whole)
        if uuids:
            found[key] = uuids
    systems = [each.name for each in SYSTEMS.values() if each.has_gpustat]
    for name, job_id in gpustat.items():
        named = resolve_card(name, cards, by_minor=False)
        for key in (JobKey(system, job_id) for system in systems):
            if key in jobs and named is not None:
                found.setdefault(key, set()).add(named)
    return {key: frozenset(uuids) for key, uuids in found.items()}
