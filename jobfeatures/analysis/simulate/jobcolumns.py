"""The jobs of a simulation as columns: pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

Numbers = list[int] | memoryview  # by job
Blank = Callable[[int], Numbers]
Tick = Callable[[int], object]  # called with the number of jobs that have arrived


class Jobs(NamedTuple):
    """Jobs in order of submission. Times are whole ticks, of a second or an equal fraction of it.

    Users are numbers from 0. Where jobs follow others, the order is the log's.
    A follower arrives its think time after the other job's end; where that is
    unknown (−1), at that end, but not before its own submission.
    """

    submits: Sequence[int]
    runtimes: Sequence[int]
    estimates: Sequence[int]  # the runtimes that a scheduler assumes
    users: Sequence[int]
    cpus: Sequence[int]  # charged to the user while running
    preceding: Sequence[int] = ()  # the job that each follows, −1 for none; empty: none does
    thinks: Sequence[int] = ()
    alone: Sequence[int] = ()  # jobs that follow none, in order of submission, where known
