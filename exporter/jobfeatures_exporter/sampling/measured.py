"""Optional measurements, made only if a site enables them: frozen records, parts of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSample:
    """The power draw of the whole machine, by sensor; one that does not answer has no watts."""

    watts: Mapping[str, float]
    joules: Mapping[str, float]  # since our start
    up: Mapping[str, bool]


class OpenFiles(NamedTuple):
    """The open file descriptors of a process, and their limit."""

    opened: int
    limit: int | None  # None: unlimited
