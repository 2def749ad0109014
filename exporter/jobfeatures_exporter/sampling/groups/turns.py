"""Chooses which files of a job's group on v2 a sample reads: those that may have changed, a few at a time.

CPU time, memory by component and charged memory are read at each sample. For each other file, a figure read
anyway shows whether it can have changed: the job's CPU time for the peak of memory and memory events, the
node's figures for swap, disks and pressures. Of the files that can have changed, `PER_SAMPLE` are read, the
longest unread first. The others keep their last values until then. An OOM kill, which the node counts too, is
read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobfeatures_exporter.sampling.groups.groupfiles import GroupFile

PER_SAMPLE = 2


class _Turn:
    __slots__ = ("file", "may_differ", "number", "sign")

    def __init__(self, number: int, file: GroupFile[Any]) -> None:
        self.number = number
        self.file = file
        self.sign: object = None  # when the file was last found to differ
        self.may_differ = True


class Turns:
    """Chooses at each sample which files of one control group are read, so that each gets its turn."""

    def __init__(self, files: Sequence[GroupFile[Any]]) -> None:
        """Begin with `files`; the first one can be read out of turn, see `choose`."""
        self._queue = [_Turn(number, file) for number, file in enumerate(files)]  # the longest unread first
        self.waiting = False  # whether some may have changed since they were read

    def choose(self, signs: Sequence[object], *, at_once: bool = False) -> None:
        """Choose the files to read in this sample; with `at_once`, the first of all files is one of them.

        `signs` has a value for each file: the file may have changed if the value is None or not the same as
        at the last call. If `signs` is empty, only files that already wait for their turn are chosen.
        """
        left, unread, read = PER_SAMPLE, [], []
        if at_once:
            self._queue.sort(key=lambda turn: turn.number != 0)
            self._queue[0].may_differ = True
        for turn in self._queue:
            if signs and ((sign := signs[turn.number]) is None or sign != turn.sign):
                turn.may_differ, turn.sign = True, sign
            if not turn.file.is_known:  # it is read now, or if missing looked for at growing intervals
                turn.may_differ = False
                unread.append(turn)
            elif turn.may_differ and left:
                left -= 1
                turn.may_differ = False
                turn.file.wait(waits=False)
                read.append(turn)
            else:
                turn.file.wait(waits=True)
                unread.append(turn)
        self._queue = unread + read
        self.waiting = any(turn.may_differ for turn in unread)

    def mark_stale(self) -> None:
        """Treat all files as changed, so that each is read in one of the next samples."""
        for turn in self._queue:
            turn.may_differ = True
