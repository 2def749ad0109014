"""Stores when each job of a log in SWF ended, by job number, in eight bytes per job."""

from __future__ import annotations

from array import array
from typing import Final

MAX_GAP: Final = 65_536  # numbers that a cleaned log leaves out at once
_ABSENT, _UNKNOWN = -(2**63), -(2**63) + 1


class EndTimes:
    """Maps a job number to the job's end, in seconds since the log's time zero; None if the end is unknown.

    Numbers normally ascend from 1, possibly with gaps, as the format's definition says. Other numbers, and
    ends with fractions of a second, are held in a dictionary, which takes more memory.
    """

    def __init__(self) -> None:
        self._counted = array("q", [_ABSENT])  # from 0
        self._others: dict[int, float | None] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._others)

    def __contains__(self, number: int) -> bool:
        is_counted = 0 <= number < len(self._counted) and self._counted[number] != _ABSENT
        return is_counted or number in self._others

    def __getitem__(self, number: int) -> float | None:
        if number in self._others:
            return self._others[number]
        if number not in self:
            raise KeyError(number)
        end = self._counted[number]
        return None if end == _UNKNOWN else end

    def __setitem__(self, number: int, end_secs: float | None) -> None:
        self._others.pop(number, None)
        if number in self:
            self._counted[number] = _ABSENT
            self._count -= 1
        end = _UNKNOWN if end_secs is None else end_secs
        is_small = end_secs is None or abs(end_secs) < -_UNKNOWN
        if isinstance(end, float) or not is_small or not 0 <= number < len(self._counted) + MAX_GAP:
            self._others[number] = end_secs
            return
        missing = number + 1 - len(self._counted)
        if missing > 0:
            self._counted.extend([_ABSENT] * missing)
        self._counted[number] = end
        self._count += 1
