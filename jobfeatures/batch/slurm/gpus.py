"""Parses which GPUs Slurm has allocated to a job. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobfeatures.batch.basics import parse_ranges
from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_binary_size

MAX_CARDS = 1024  # per node
_GRES = re.compile(r"(?:\A|,)gpu(?::\(null\)|:[^:,()]+)?:[0-9]+(?:\(IDX:([0-9,-]*|N/A)\))?")
_SHARED = re.compile(r"(?:\A|,)(?:shard|mps)(?::|\Z)")
_RESOURCE = re.compile(r"(?:\A|,)([a-z/]+(?::[^=,]*)?)=([0-9]{1,18}(?:\.[0-9]{1,9})?[KMGTPE]?)(?=,|\Z)")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}\Z")


def parse_gres(text: str) -> tuple[str, ...]:
    """Return the indices of a job's GPUs on a node, from ``GRES=`` of ``scontrol -d show job``.

    Samples: ``gpu:a100:2(IDX:0-1)``, ``gpu:2(IDX:0,3)``, ``gpu:24gb:1(IDX:5),gpu:a100:2(IDX:0-1)``,
    ``gpu:a100:0(IDX:N/A)``. Raises ParseError for malformed indices.
    """
    found: dict[str, None] = {}
    for match in _GRES.finditer(text):
        if match[1] and match[1] != "N/A":
            found.update(dict.fromkeys(_expand(match[1])))
    return tuple(found)


def parse_tres_gpus(text: str) -> int | None:
    """Return the number of GPUs on all nodes in ``cpu=2,mem=200M,gres/gpu=2,gres/gpu:a100=2``.

    None where there are none or Slurm does not track them: the two look the
    same. Without a total, the GPUs of all models are summed.
    """
    return count_gpus(parse_resources(text, "gres/gpu")) if "gres/gpu" in text else None


def parse_resources(text: str, begin: str = "") -> dict[str, int]:
    """Return the amounts in ``billing=2,cpu=2,mem=200M,gres/gpu=1`` by name; sizes are in bytes.

    Only names that begin with `begin` are returned. What is not a number is left out.
    """
    found = _RESOURCE.findall(text)
    return {name: parse_binary_size(size) for name, size in found if name.startswith(begin)}


def count_gpus(found: dict[str, int]) -> int | None:
    """Return the number of GPUs in the result of `parse_resources`; None if it has none."""
    if not found:
        return None
    total = found.get("gres/gpu")
    return total or sum(count for name, count in found.items() if name.startswith("gres/gpu:")) or None


def is_shared(text: str) -> bool:
    """Return whether ``GRES=`` has parts of GPUs (shard, mps), which other jobs may share."""
    return _SHARED.search(text) is not None


def parse_gpu_list(text: str) -> tuple[str, ...]:
    """Return the GPUs of ``SLURM_JOB_GPUS``: ``0,2``, ``0-3`` or UUIDs. Raises ParseError if malformed."""
    found: dict[str, None] = {}
    for part in text.split(","):
        if _UUID.match(part):
            found[part] = None
        else:
            found.update(dict.fromkeys(_expand(part)))
    if len(found) > MAX_CARDS:
        raise ParseError(f"more than {MAX_CARDS} GPUs", text=text)
    return tuple(found)


def _expand(text: str) -> Sequence[str]:
    """Return the numbers in ``0-1,4``; none for an empty text."""
    ranges = parse_ranges(text, "a range of GPUs", field="IDX") if text else []
    if any(each[-1] >= MAX_CARDS for each in ranges):
        raise ParseError("not a range of GPUs", field="IDX", text=text)
    return [str(number) for each in ranges for number in each]
