"""What is measured only where a site asks for it: frozen records, parts of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSample:
    """What the whole machine draws, by sensor; a sensor that does not answer has no watts."""

    watts: Mapping[str, float]
    joules: Mapping[str, float]  # since our start
    up: Mapping[str, bool]


class OpenFiles(NamedTuple):
    """File descriptors of a process, and how many it may have."""

    opened: int
    limit: int | None  # None is unlimited
