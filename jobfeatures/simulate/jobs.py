"""The jobs of a simulation as columns: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Jobs(NamedTuple):
    """Jobs in order of submission. Times are whole ticks: of a second, or finer ones all alike.

    Users are numbers from 0.
    """

    submits: Sequence[int]
    runtimes: Sequence[int]
    estimates: Sequence[int]  # how long a scheduler is told that they run
    users: Sequence[int]
    charges: Sequence[int]  # what running costs the user: processors × runtime
