"""Which GPUs Slurm gave to a job: text to names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobfeatures.batch.basics import parse_ranges
from jobfeatures.errors import ParseError

MAX_CARDS = 1024  # of one node
_GRES = re.compile(r"(?:\A|,)gpu(?::[^:,()]+)?:[0-9]+(?:\(IDX:([0-9,-]*|N/A)\))?")
_SHARED = re.compile(r"(?:\A|,)(?:shard|mps)(?::|\Z)")
_TRES_TOTAL = re.compile(r"(?:\A|,)gres/gpu=([0-9]{1,9})(?:,|\Z)")
_TRES_KIND = re.compile(r"(?:\A|,)gres/gpu:[^=,]+=([0-9]{1,9})(?=,|\Z)")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}\Z")


def parse_gres(text: str) -> tuple[str, ...]:
    """Return the numbers of a node's cards from ``GRES=`` of ``scontrol -d show job``.

    Samples: ``gpu:a100:2(IDX:0-1)``, ``gpu:2(IDX:0,3)``,
    ``gpu:24gb:1(IDX:5),gpu:a100:2(IDX:0-1)``, ``gpu:a100:0(IDX:N/A)``. Raises
    ParseError for numbers that are none.
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
    total = _TRES_TOTAL.search(text)
    if total is not None:
        return int(total[1]) or None
    return sum(int(match[1]) for match in _TRES_KIND.finditer(text)) or None


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
