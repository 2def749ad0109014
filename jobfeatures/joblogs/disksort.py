"""Sorts data that do not fit into memory: sorted parts go to files, which are merged as they are read.

The data are pairs of key and value.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final

from jobfeatures.errors import JobfeaturesError
from jobfeatures.joblogs.loggedjob import MOST, JobBatch, Pair

AT_ONCE: Final = 200  # pairs of each run in memory during a merge


class TemporaryFileError(JobfeaturesError):
    """Raised when data that do not fit into memory cannot be stored on disk either."""

    exit_status = 2


class TemporaryFolder(contextlib.ExitStack):
    """A temporary folder, created at first use and removed with its content."""

    @functools.cached_property
    def folder(self) -> str:
        """Return the folder, created if necessary. Raises TemporaryFileError if that fails."""
        with naming_full_folder():
            return self.enter_context(tempfile.TemporaryDirectory(prefix="jobfeatures-"))


class DiskSorter(TemporaryFolder):
    """Sorts any number of (key, value) pairs by key, stably.

    Pairs that do not fit into memory go to files.
    """

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def __call__(self, pairs: Iterable[Pair]) -> Iterable[Pair]:
        """Return the sorted pairs; they can be iterated over repeatedly."""
        runs: list[str] = []
        some: list[Pair] = []
        held = 0
        for pair in pairs:
            if held >= MOST:
                runs.append(self._write(some))
                some.clear()
                held = 0
            some.append(pair)
            held += len(pair[1]) if isinstance(pair[1], JobBatch) else 1
        if not runs:
            some.sort(key=itemgetter(0))
            return some
        return _Merged(
            [*runs, self._write(some)]
        )  # all of them: another sorter may fill the memory meanwhile

    def _write(self, some: list[Pair]) -> str:
        some.sort(key=itemgetter(0))
        self._count += 1
        path = os.path.join(self.folder, f"run-{self._count}")
        with naming_full_folder(), open(path, "wb") as file:
            step = 1 if isinstance(some[0][1], JobBatch) else AT_ONCE
            for first in range(0, len(some), step):
                pickle.dump(some[first : first + step], file, pickle.HIGHEST_PROTOCOL)
        return path


@contextlib.contextmanager
def naming_full_folder() -> Iterator[None]:
    """Turn an OSError in the `with` block into a TemporaryFileError that names the temporary folder."""
    try:
        yield
    except OSError as error:
        where = tempfile.tempdir or "TMPDIR"
        raise TemporaryFileError(f"{where}: cannot write: {error.strerror or error}") from None


class _Merged:
    """Sorted runs in files; it removes the files when it is deleted."""

    def __init__(self, runs: list[str]) -> None:
        self._runs = runs

    def __iter__(self) -> Iterator[Pair]:
        yield from heapq.merge(*map(_read, self._runs), key=itemgetter(0))  # self keeps the files

    def __del__(self) -> None:
        for path in self._runs:
            with contextlib.suppress(OSError):  # the folder was removed first
                os.unlink(path)


def _read(path: str) -> Iterator[Pair]:
    with open(path, "rb") as file:
        while True:
            try:
                yield from pickle.load(file)  # noqa: S301  # our own, in a folder of our own
            except EOFError:
                return
