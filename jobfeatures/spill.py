"""Sorts more than memory holds: runs of pairs lie in files, which are merged whenever they are read."""

from __future__ import annotations

import contextlib
import heapq
import os
import pickle
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Final

Pair = tuple[Any, Any]
MOST: Final = 400_000  # pairs in memory: some 500 MB of jobs
AT_ONCE: Final = 200  # of a run, in memory while runs are merged


class DiskSorter:
    """Sorts pairs by their first, equal ones as they came; its files lie in a folder."""

    def __init__(self, folder: str, most: int = MOST) -> None:
        self._folder = folder
        self._most = most
        self._count = 0

    def __call__(self, pairs: Iterable[Pair]) -> Iterable[Pair]:
        """Return the pairs sorted; they can be gone through again."""
        runs: list[str] = []
        some: list[Pair] = []
        for pair in pairs:
            if len(some) >= self._most:
                runs.append(self._write(some))
                some.clear()
            some.append(pair)
        some.sort(key=itemgetter(0))
        return _Merged(runs, some) if runs else some

    def _write(self, some: list[Pair]) -> str:
        some.sort(key=itemgetter(0))
        self._count += 1
        path = os.path.join(self._folder, f"run-{self._count}")
        with open(path, "wb") as file:
            for first in range(0, len(some), AT_ONCE):
                pickle.dump(some[first : first + AT_ONCE], file, pickle.HIGHEST_PROTOCOL)
        return path


class _Merged:
    """Sorted runs in files, and the last of them in memory; the files go with it."""

    def __init__(self, runs: list[str], rest: list[Pair]) -> None:
        self._runs = runs
        self._rest = rest

    def __iter__(self) -> Iterator[Pair]:
        yield from heapq.merge(*map(_read, self._runs), self._rest, key=itemgetter(0))  # keeps the files

    def __del__(self) -> None:
        for path in self._runs:
            with contextlib.suppress(OSError):  # the folder went first
                os.unlink(path)


def _read(path: str) -> Iterator[Pair]:
    with open(path, "rb") as file:
        while True:
            try:
                yield from pickle.load(file)  # noqa: S301  # our own, in a folder of our own
            except EOFError:
                return
