"""Which GPUs Slurm gave to a job: text to names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobfeatures.batch.basics import parse_ranges
from jobfeatures.errors import ParseError
from jobfeatures.quantities import parse_binary_size

MAX_CARDS = 1024  # of one node
_GRES = re.compile(r"(?:\A|,)gpu(?::[^:,()]+)?:[0-9]+(?:\(IDX:([0-9,-]*|N/A)\))?")
_SHARED = re.compile(r"(?:\A|,)(?:shard|mps)(?::|\Z)")
_RESOURCE = re.compile(r"(?:\A|,)([a-z/]+(?::[^=,]*)?)=([0-9]{1,18}(?:\.[0-9]{1,9})?[KMGTPE]?)(?=,|\Z)")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}\Z")


def parse_gres(text: str) -> tuple[str, ...]:
    """Return the numbers of a node's cards from ``GRES=`` of ``scontrol -d show job``.

    Samples: ``gpu:a100:2(IDX:0-1)``, ``gpu:2(IDX:0,3)``, ``gpu:24gb:1(IDX:5),gpu:a100:2(IDX:0-1)``,
    ``gpu:a100:0(IDX:N/A)``. Raises ParseError for numbers that are none.
    """
    found: dict[str, None] = {}
    for match in _GRES.finditer(text):
        if match[1] and match[1] != "N/A":
            found.update(dict.fromkeys(_expand(match[1])))
    return tuple(found)


def parse_tres_gpus(text: str) -> int | None:
    """Return how many cards ``cpu=2,mem=200M,gres/gpu=2,gres/gpu:a100=2`` holds, over all nodes.

    None where there are none or where Slurm does not track them: it does not
    tell the one from the other. The sum by model is used where there is no total.
    """
    return count_gpus(parse_resources(text))


def parse_resources(text: str) -> dict[str, int]:
    """Return ``billing=2,cpu=2,mem=200M,gres/gpu=1`` by name; what is no number is left out."""
    return {name: parse_binary_size(size) for name, size in _RESOURCE.findall(text)}


def count_gpus(found: dict[str, int]) -> int | None:
    """Return the cards in a list of resources, None where none are reported."""
    if not found:
        return None
    total = found.get("gres/gpu")
    return total or sum(count for name, count in found.items() if name.startswith("gres/gpu:")) or None


def is_shared(text: str) -> bool:
    """Return whether ``GRES=`` speaks of parts of cards (shard, mps): others may have the rest."""
    return _SHARED.search(text) is not None


def parse_gpu_list(text: str) -> tuple[str, ...]:
    """Return the cards of ``SLURM_JOB_GPUS``: ``0,2``, ``0-3`` or UUIDs. Raises ParseError."""
    found: dict[str, None] = {}
    for part in text.split(","):
        if _UUID.match(part):
            found[part] = None
        else:
            found.update(dict.fromkeys(_expand(part)))
    if len(found) > MAX_CARDS:
        raise ParseError("too many cards", text=text)
    return tuple(found)


def _expand(text: str) -> Sequence[str]:
    """Return the numbers of ``0-1,4``; nothing for an empty text."""
    ranges = parse_ranges(text, "a range of cards", field="IDX") if text else []
    if any(each[-1] >= MAX_CARDS for each in ranges):
        raise ParseError("not a range of cards", field="IDX", text=text)
    return [str(number) for each in ranges for number in each]
