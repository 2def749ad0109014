"""The jobs of a simulation as columns: pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

Numbers = list[int] | memoryview  # by job
Blank = Callable[[int], Numbers]
Tick = Callable[[int], object]  # called with how many jobs have come


class Jobs(NamedTuple):
    """Jobs in order of submission. Times are whole ticks: of a second, or finer ones all alike.

    Users are numbers from 0. Where jobs follow others, the order is that of
    the log. Such a job comes its think time after the other's end; where that
    is unknown (−1), at that end, but not before its own submission.
    """

    submits: Sequence[int]
    runtimes: Sequence[int]
    estimates: Sequence[int]  # how long a scheduler takes them to run
    users: Sequence[int]
    cpus: Sequence[int]  # what running costs the user
    preceding: Sequence[int] = ()  # the job that each follows, −1 for none; empty: none does
    thinks: Sequence[int] = ()
    alone: Sequence[int] = ()  # those that follow none in order of submission, where that is known
