"""Sorts arrays that do not fit into memory: writes sorted parts (runs), and merges them in blocks.

Needs numpy.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from jobfeatures.joblogs.disksort import TemporaryFolder, naming_full_folder

Array = npt.NDArray[Any]

AT_ONCE: Final = 2**20  # numbers in memory while runs are merged
ROOM_BYTES: Final = 2**27  # limit of runs in memory
VALUES: Final = np.dtype([("key", np.float64)])
EVENTS: Final = np.dtype([("key", np.uint64), ("change", np.float64)])


class Run(NamedTuple):
    """Rows of a structured array, sorted by their field `key`, in memory (`held`) or in the file `path`.

    The run has `size` rows from the row `first` on; `rows` is the type of a row.
    """

    held: Array | None
    path: str
    rows: np.dtype[np.void]
    first: int
    size: int

    def part(self, low: int, high: int) -> Run:
        """Return the rows with indices from `low` up to, but excluding, `high` as a run of its own."""
        return self._replace(first=self.first + low, size=high - low)

    def read(self, first: int, count: int) -> Array:
        """Return up to `count` rows, from the row with index `first` on."""
        count, begin = min(count, self.size - first), self.first + first
        if self.held is not None:
            return self.held[begin : begin + count]
        return np.fromfile(self.path, self.rows, count, offset=begin * self.rows.itemsize)


class Store(TemporaryFolder):
    """Stores sorted runs of rows in memory while there is room, then in files of a temporary folder.

    The folder is removed with the store.
    """

    def __init__(self, room_bytes: int | None = None) -> None:
        super().__init__()
        self._room_bytes = ROOM_BYTES if room_bytes is None else room_bytes
        self._count = 0

    def write(self, rows: Array) -> Run:
        """Store sorted rows; return them as a run. Raises TemporaryFileError if the disk is full."""
        self._room_bytes -= rows.nbytes
        if self._room_bytes >= 0:
            return Run(rows, "", rows.dtype, 0, len(rows))
        self._count += 1
        path = os.path.join(self.folder, f"rows-{self._count}")
        with naming_full_folder():
            rows.tofile(path)
        return Run(None, path, rows.dtype, 0, len(rows))

    def write_groups(self, values: Array, codes: Array, count: int) -> list[Run]:
        """Sort the values of each of `count` groups, and store them as one run per group; NaN is left out.

        `codes` holds the group of each value, from 0.
        """
        is_in = (codes >= 0) & ~np.isnan(values)
        values, codes = values[is_in], codes[is_in]
        order = np.lexsort((values, codes))
        rows = np.empty(len(order), VALUES)
        rows["key"] = values[order]
        run = self.write(rows)
        bounds = np.searchsorted(codes[order], np.arange(count + 1)).tolist()
        return [run.part(low, high) for low, high in pairwise(bounds)]

    def write_events(self, begins: Array, ends: Array, weights: Array) -> Run:
        """Store when a total changes, such as that of processors in use, so that `peak_of` finds its maximum.

        Item i (a job) adds `weights[i]` to the total from `begins[i]` to `ends[i]`.
        """
        lasts = ends > begins
        each = weights[lasts].astype(float)
        rows = np.empty(2 * len(each), EVENTS)
        # At one time, ends sort before begins; the bits of non-negative doubles sort as they do.
        rows["key"][: len(each)] = 2 * (ends[lasts].astype(float) + 0.0).view(np.uint64)
        rows["key"][len(each) :] = 2 * (begins[lasts].astype(float) + 0.0).view(np.uint64) + 1
        rows["change"][: len(each)], rows["change"][len(each) :] = -each, each
        return self.write(rows[np.argsort(rows["key"], kind="stable")])


def as_rows(columns: dict[str, Array]) -> Array:
    """Convert arrays of equal length to the rows of one structured array; the keys become field names."""
    size = len(next(iter(columns.values())))
    rows = np.empty(size, [(name, each.dtype) for name, each in columns.items()])
    for name, each in columns.items():
        rows[name] = each
    return rows


class Columns:
    """Named columns of integers that can grow, in memory or in memory-mapped files of a temporary folder."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = None if folder is None else tempfile.mkdtemp(dir=folder)
        self._parts: dict[str, list[Array]] = defaultdict(list)
        self._maps: list[mmap.mmap] = []

    def add(self, name: str, values: Array) -> None:
        """Append numbers to a column; TemporaryFileError if the disk is full."""
        whole = np.ascontiguousarray(values, np.int64)
        if self._folder is None:
            self._parts[name].append(whole)
            return
        with naming_full_folder(), open(os.path.join(self._folder, name), "ab") as file:
            file.write(whole.data)

    def numbers(self, name: str) -> memoryview[int]:
        """Close a column, so that nothing can be appended any more, and return its numbers."""
        if self._folder is None:
            return np.concatenate(self._parts.pop(name)).data
        with open(os.path.join(self._folder, name), "r+b") as file:
            self._maps.append(mmap.mmap(file.fileno(), 0))
        return memoryview(self._maps[-1]).cast("q")

    def filled(self, value: int, count: int) -> memoryview[int]:
        """Return a new column of `count` equal numbers."""
        name = f"filled-{len(self._maps)}"
        for first in range(0, count, AT_ONCE):
            self.add(name, np.full(min(AT_ONCE, count - first), value))
        return self.numbers(name)

    def release(self) -> None:
        """Let the kernel take back the memory of mapped files; their content stays in the files."""
        for each in self._maps:
            each.madvise(mmap.MADV_DONTNEED)

    def parts(self, *columns: Array) -> Iterator[list[Array]]:
        """Yield the columns in blocks of rows; a block is a list with the same rows of each column."""
        for first in range(0, len(columns[0]), AT_ONCE):
            yield [each[first : first + AT_ONCE] for each in columns]
            self.release()


def merge(runs: Sequence[Run], at_once: int | None = None, key: str = "key") -> Iterator[Array]:
    """Yield the rows of all runs, sorted by their field `key`, in blocks.

    Rows with equal keys keep the order of the runs. About `at_once` rows are in memory at a time (None:
    AT_ONCE).
    """
    window = max(1, (at_once or AT_ONCE) // max(1, len(runs)))
    heads = [run.read(0, window) for run in runs]
    read = [len(head) for head in heads]
    while any(map(len, heads)):
        unread = [(heads[place][key][-1], place) for place, run in enumerate(runs) if read[place] < run.size]
        last, of_run = min(unread, default=(None, 0))
        taken = []
        for place, run in enumerate(runs):
            head, count = heads[place], len(heads[place])
            if last is not None:
                count = int(np.searchsorted(head[key], last, "right" if place <= of_run else "left"))
            taken.append(head[:count])
            heads[place] = head[count:]
            if not len(heads[place]) and read[place] < run.size:
                heads[place] = run.read(read[place], window)
                read[place] += len(heads[place])
        block = np.concatenate(taken)
        yield block[np.argsort(block[key], kind="stable")]


def peak_of(runs: Sequence[Run]) -> float:
    """Return the largest value of the total whose changes `Store.write_events` has stored in `runs`."""
    level, peak = 0.0, 0.0
    for block in merge(runs):
        levels = level + np.cumsum(block["change"])
        peak = max(peak, levels.max().item())
        level = levels[-1].item()
    return peak
