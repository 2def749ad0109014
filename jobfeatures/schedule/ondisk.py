"""A log that does not fit into memory, evaluated a piece at a time: what is not at hand lies on disk."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from operator import getitem
from typing import Any

from jobfeatures.schedule.document import Values
from jobfeatures.schedule.jobs import ScheduleLog
from jobfeatures.schedule.partitions import evaluate_partitions
from jobfeatures.schedule.reading import LinkedError, read_log, read_pieces
from jobfeatures.schedule.result import Options
from jobfeatures.spill import naming_full_folder


def evaluate_on_disk(names: Sequence[str], options: Options, how: dict[str, Any]) -> Values:
    """Return what is reported about files of one log; `how` they are read: the arguments of `read_log`.

    Where jobs follow others, files are read as a whole.
    """

    def pieces(names: Sequence[str]) -> Iterator[ScheduleLog]:
        for name in names:
            yield from read_pieces(name, **how)

    read = functools.partial(read_log, **how)
    with naming_full_folder():
        made = tempfile.TemporaryDirectory(prefix="jobfeatures-")
    with made as folder:
        runner = OnDisk(folder)
        try:
            return evaluate_partitions(names, options, read, runner=runner, pieces=pieces)
        except LinkedError:
            return evaluate_partitions(names, options, read, runner=runner)


class _Stored:
    """A result in a file, which goes when nobody knows of it any more."""

    __slots__ = ("_path",)

    def __init__(self, path: str, value: Any) -> None:
        self._path = path
        with naming_full_folder(), open(path, "wb") as file:
            pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)

    def load(self) -> Any:
        with open(self._path, "rb") as file:
            return pickle.load(file)  # noqa: S301  # our own, in a folder of our own

    def __del__(self) -> None:
        with contextlib.suppress(OSError):  # the folder went first
            os.unlink(self._path)


class OnDisk:
    """A `Runner` here; results lie in a folder, a list's items each for itself."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._count = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what stands for the function's result."""
        if function is getitem and isinstance(arguments[0], list):
            return arguments[0][arguments[1]]
        result = function(*map(_loaded, arguments))
        return [self._store(each) for each in result] if isinstance(result, list) else self._store(result)

    def gather(self, found: list[Any]) -> list[Any]:
        """Return the results."""
        return [_loaded(each) for each in found]

    def _store(self, value: Any) -> _Stored:
        self._count += 1
        return _Stored(os.path.join(self._folder, str(self._count)), value)


def _loaded(value: Any) -> Any:
    if isinstance(value, list):
        return [_loaded(each) for each in value]
    return value.load() if isinstance(value, _Stored) else value
