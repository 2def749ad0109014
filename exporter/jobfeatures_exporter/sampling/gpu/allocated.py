"""Finds which GPU cards are allocated to which job: as the batch system reports, or by files of a prolog."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import ParseError
from jobfeatures.records.model import Job, JobKey
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened
from jobfeatures_exporter.model.snapshot import GpuCard
from jobfeatures_exporter.sampling.descriptors import Unreadable

MAX_BYTES = 256  # of a file in /run/gpustat
_INSTANCE = re.compile(r"([0-9]{1,6}):([0-9]{1,6})/[0-9]{1,6}\Z", re.ASCII)
UUID_FORMS = ("GPU-", "MIG-", "PCI-")
FIRST_RENDER_MINOR = 128  # of /dev/dri/renderDN


def parse_gpustat(text: str) -> str | None:
    """Return the job id of a file /run/gpustat/CARD with ``JOBID UID``; None if it is empty or the id is 0.

    Raises ParseError if malformed.
    """
    words = text.split()
    if not words:
        return None
    job_id = parse_count(words[0], field="job id")
    for word in words[1:2]:
        parse_count(word, field="uid")
    return str(job_id) if job_id else None


def read_gpustat(directory: str, unreadable: Unreadable, *, owner: int = 0) -> dict[str, str]:
    """Return job ids by card name, from the file that a job's prolog writes for each card in `directory`.

    Symbolic links, and files that do not belong to the uid `owner`, are ignored.
    """
    names = unreadable.tried("gpustat", os.listdir, directory) or ()
    found = {name: unreadable.tried("gpustat", _read_one, f"{directory}/{name}", owner) for name in names}
    return {name: job_id for name, job_id in found.items() if job_id is not None}


def _read_one(path: str, owner: int) -> str | None:
    with opened(path, READ_UNFOLLOWED) as descriptor:
        status = os.fstat(descriptor)
        if status.st_uid != owner or not stat.S_ISREG(status.st_mode):
            raise ParseError(f"must be a regular file of uid {owner}", source=path)
        return parse_gpustat(os.read(descriptor, MAX_BYTES).decode("ascii", "replace"))


def resolve_card(
    name: str, cards: Sequence[GpuCard], *, by_minor: bool = True, by_device: bool = False
) -> str | None:
    """Return the UUID of the card that `name` means; None if no card or more than one fits.

    A name is a UUID, a prefix of a UUID that is unique on the node, or a number. For NVIDIA's cards, a batch
    system's number is that of the device file (``/dev/nvidia3``, as in gres.conf), but with
    ``by_minor=False`` it is NVML's index. For other cards it is the position in the order of bus addresses;
    with `by_device`, or from 128 on, it is the number in ``/dev/dri/card1`` or ``/dev/dri/renderD128``.

    On a node with MIG instances, the batch system may count only cards, or instances too: a number has to
    mean the same card either way, else the result is None. On a node with partitions, a position means no
    card. ``1:3/0`` is GPU instance 3 on card 1, if it is not divided into several compute instances.
    """
    if name.startswith(UUID_FORMS):
        found = [card.uuid for card in cards if card.uuid.startswith(name)]
        return name if name in found else (found[0] if len(found) == 1 else None)
    if (match := _INSTANCE.match(name)) is not None:
        parents = {card.uuid for card in cards if card.parent_uuid is None and card.minor == int(match[1])}
        parts = [
            card.uuid for card in cards if card.instance_id == int(match[2]) and card.parent_uuid in parents
        ]
        return parts[0] if len(parts) == 1 else None
    if not (name.isascii() and name.isdigit() and len(name) <= 6):
        return None
    number, nvidia = int(name), [card for card in cards if card.manufacturer == "NVIDIA"]
    if nvidia:
        found = _of_nvidia(number, nvidia, by_minor=by_minor)
    elif by_device or number >= FIRST_RENDER_MINOR:
        found = _of_device(number, cards)
    else:
        is_divided = any(card.partitions > 1 for card in cards)
        found = [] if is_divided else [card.uuid for card in cards if card.index == number]
    return found[0] if len(found) == 1 else None


def _of_nvidia(number: int, cards: Sequence[GpuCard], *, by_minor: bool) -> list[str]:
    parts = _undivided(cards)
    cards = [card for card in cards if card.parent_uuid is None]
    has_minors = all(card.minor is not None for card in cards)
    meant = {card.uuid for card in cards if number == (card.minor if by_minor and has_minors else card.index)}
    if by_minor:  # the batch system's list may have the instances in the place of their card
        index = {card.uuid: card.index or 0 for card in cards}
        listed = sorted(parts, key=lambda card: index.get(card.parent_uuid or card.uuid, 0))
        divided = any(card.parent_uuid is not None for card in parts)
        meant.update(card.uuid for card in listed[number : number + 1] if divided)
    whole = {card.uuid for card in parts if card.parent_uuid is None}
    return list(meant) if meant <= whole else []


def _of_device(number: int, cards: Sequence[GpuCard]) -> list[str]:
    if number < FIRST_RENDER_MINOR:
        return [card.uuid for card in cards if card.minor == number]
    if any(card.render_minors for card in cards):
        return [card.uuid for card in cards if number in card.render_minors]
    if any(card.partitions > 1 for card in cards):
        return []
    # In the order of the cards' own minors; boards' displays have no render nodes.
    ordered = sorted((card for card in cards if card.minor is not None), key=lambda card: card.minor or 0)
    return [card.uuid for card in ordered[number - FIRST_RENDER_MINOR :][:1]]


def _undivided(cards: Sequence[GpuCard]) -> list[GpuCard]:
    """Return the cards that are not divided into MIG instances, and the instances."""
    divided = {card.parent_uuid for card in cards}
    return [card for card in cards if card.uuid not in divided]


def compute_allocations(
    jobs: Mapping[JobKey, Job], cards: Sequence[GpuCard], gpustat: Mapping[str, str]
) -> dict[JobKey, frozenset[str]]:
    """Return the UUIDs of the cards that are allocated to each job.

    If only the number of a job's GPUs is known, it has all cards if that is the number of cards on the node
    (MIG instances and partitions count one each), else none. `gpustat` has job ids by card name, see
    `read_gpustat`; ids of unknown jobs are ignored.
    """
    found: dict[JobKey, set[str]] = {}
    every = _undivided(cards)
    most = sum(card.partitions for card in every)
    for key, job in jobs.items():
        named = [resolve_card(name, cards, by_device=True) for name in job.gpu_devices]
        named = named or [resolve_card(name, cards) for name in job.gpus]
        uuids = {uuid for uuid in named if uuid is not None}
        if not uuids and every and job.allocated_gpus == most:
            uuids = {card.uuid for card in every}
        if uuids:
            found[key] = uuids
    systems = [each.name for each in SYSTEMS.values() if each.has_gpustat]
    for name, job_id in gpustat.items():
        uuid = resolve_card(name, cards, by_minor=False)
        for key in (JobKey(system, job_id) for system in systems):
            if key in jobs and uuid is not None:
                found.setdefault(key, set()).add(uuid)
    return {key: frozenset(uuids) for key, uuids in found.items()}
