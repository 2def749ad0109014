"""Reads small kernel files again and again: keeps descriptors open within a budget, and counts failures."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jobfeatures.errors import ParseError
from jobfeatures.system.filelimit import limits, raise_limit

# Nothing in a directory tree may block us or lead us out of it: no FIFO, no symbolic link.
# None of these flags has drawbacks on /proc.
OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
VANISHED = frozenset({errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.ENOTDIR})
# Pressure files exist but cannot be read if the kernel was booted without PSI.
NOT_OFFERED = VANISHED | {errno.EOPNOTSUPP}
NO_MORE_FILES = frozenset({errno.EMFILE, errno.ENFILE})
RESERVE = 3072  # for all connections that listeners accept, those being closed, and the rest of the program
STEP = 256
CALM_SAMPLES = 16  # samples after which a system that ran out of descriptors is assumed to have some again

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


class Unreadable:
    """Counts failed reads. A kind of failure names what was read and the error: ``process_stat_eacces``."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, what: str, error: OSError | ParseError) -> None:
        """Count a failure to read `what`, unless the error says that the file has vanished meanwhile."""
        if isinstance(error, ParseError):
            kind = "garbage"
        elif error.errno in VANISHED:
            return
        else:
            kind = errno.errorcode.get(error.errno or 0, "unknown").lower()
        self.count(f"{what}_{kind}")

    def tried(
        self,
        what: str,
        read: Callable[Arguments, Found],
        *arguments: Arguments.args,
        **more: Arguments.kwargs,
    ) -> Found | None:
        """Return the result of `read`, given the arguments; None if it raises OSError or ParseError.

        Such an error is counted as a failure to read `what`.
        """
        try:
            return read(*arguments, **more)
        except (OSError, ParseError) as error:
            self.add(what, error)
            return None

    def count(self, kind: str) -> None:
        """Add 1 to the number of failures of this kind."""
        self.counts[kind] = self.counts.get(kind, 0) + 1


class DescriptorBudget:
    """Limits how many descriptors all readers together keep open, and decides which files keep theirs.

    Up to the limit, every file keeps its descriptor. Beyond it, for a file that is read at each sample, the
    rarely read file that was opened first is closed. Other files are then opened and closed at each reading.

    The limit is RLIMIT_NOFILE, whose soft limit is raised up to the hard limit when needed, less `RESERVE`
    (or half, if the limit is low). The rest is for other parts of the program, so that HTTP clients cannot
    stop sampling. `max_open` limits the budget further. See getrlimit(2).
    """

    def __init__(self, max_open: int | None = None) -> None:
        self._max_open = max_open
        self._may_raise = True
        self._ceiling: int | None = None  # set when the system runs out of descriptors, raised again later
        self._calm_samples = 0
        self._rare: dict[KeptFile, None] = {}  # files that may be displaced
        self.open = 0
        self.refused = 0
        soft, hard = limits()
        self._reserve = min(RESERVE, hard // 2)
        self._allowed = self._bounded(soft - self._reserve)

    @property
    def kept(self) -> dict[str, int]:
        """Return how many open descriptors belong to files read at each sample (`always`) or `rarely`."""
        return {"always": self.open - len(self._rare), "rarely": len(self._rare)}

    def gives_way(self, file: KeptFile) -> None:
        """Record that an open file is read rarely from now on, so that other files may take its place."""
        self._rare.setdefault(file)

    def take(self, rarely: KeptFile | None = None) -> bool:
        """Return whether the descriptor of a file that was just opened may stay open.

        `rarely` is the file if it is read rarely; None: it is read at each sample.
        """
        is_full = self._ceiling is not None and self.open >= self._ceiling
        if is_full or (self.open >= self._allowed and not self._raise()):
            if rarely is not None or not self._rare:
                self.refused += 1
                return False
            next(iter(self._rare)).close()
        self.open += 1
        if rarely is not None:
            self._rare[rarely] = None
        return True

    def give(self, count: int = 1, *, rarely: KeptFile | None = None) -> None:
        """Record that `count` descriptors were closed; `rarely` is the file if it may be read rarely."""
        self.open -= count
        if rarely is not None:
            self._rare.pop(rarely, None)

    def shrink(self) -> None:
        """Limit the budget to the descriptors open now, as the system has no more of them.

        The limit grows again after some samples.
        """
        self._ceiling = self.open
        self._calm_samples = 0

    def begin_sample(self) -> None:
        """Record that a sample begins. After a number of samples, a budget that was shrunk grows again."""
        if self._ceiling is None:
            return
        self._calm_samples += 1
        if self._calm_samples > CALM_SAMPLES:
            self._ceiling += STEP
            if self._ceiling >= self._allowed:
                self._ceiling = None

    def _bounded(self, count: int) -> int:
        return max(0, count if self._max_open is None else min(count, self._max_open))

    def _raise(self) -> bool:
        if not self._may_raise or (self._max_open is not None and self.open >= self._max_open):
            return False
        soft, hard = limits()
        wanted = min(hard, self.open + STEP + self._reserve)
        if wanted > soft:
            soft = raise_limit(wanted)
            if soft < wanted:
                self._may_raise = False
                self._reserve = min(self._reserve, soft // 2)
        self._allowed = self._bounded(soft - self._reserve)
        return self.open < self._allowed


def read_file(path: str, *, max_bytes: int = 2**22) -> bytes:
    """Return a file's content. Raises OSError if unreadable, with EFBIG if longer than `max_bytes`."""
    descriptor = os.open(path, OPEN_FLAGS)
    try:
        chunks = []
        size = 0
        while chunk := os.read(descriptor, 65536):
            chunks.append(chunk)
            size += len(chunk)
            if size > max_bytes:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def read_text(path: str, *, max_bytes: int = 2**22) -> str:
    """Return a file's content as text; invalid UTF-8 becomes U+FFFD. Raises OSError like `read_file`."""
    return read_file(path, max_bytes=max_bytes).decode("utf-8", "replace")


class KeptFile:
    """One small file that is read at every sample; its descriptor is kept open if `budget` allows."""

    __slots__ = ("_budget", "_descriptor", "path")
    MAX_BYTES = 65536
    _FIRST_BYTES = 4096

    def __init__(self, path: str, budget: DescriptorBudget) -> None:
        self.path = path
        self._budget = budget
        self._descriptor = -1

    def read(self, *, rarely: bool = False) -> bytes:
        """Return the content, at most the first 64 KiB. Raises OSError if unreadable.

        With `rarely`, this file is one of those that lose their descriptors first when there are too few.
        """
        if self._descriptor >= 0:
            if rarely:
                self._budget.gives_way(self)
            try:
                data = os.pread(self._descriptor, self._FIRST_BYTES, 0)
                is_whole = data.endswith(b"\n") and len(data) < self._FIRST_BYTES
                return data if is_whole else self._pread(self._descriptor)
            except OSError as error:
                self.close()
                if error.errno not in VANISHED:
                    raise
        descriptor = os.open(self.path, OPEN_FLAGS)
        try:
            data = self._pread(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if self._budget.take(self if rarely else None):
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return data

    def close(self) -> None:
        """Close the descriptor; the next read opens the file again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._budget.give(rarely=self)

    def _pread(self, descriptor: int) -> bytes:
        data = os.pread(descriptor, self._FIRST_BYTES, 0)
        if len(data) == self._FIRST_BYTES:
            data = os.pread(descriptor, self.MAX_BYTES, 0)
        # Without a final newline the read was short: half a number would be another number.
        while data and not data.endswith(b"\n") and (left := self.MAX_BYTES - len(data)) > 0:
            more = os.pread(descriptor, left, len(data))
            if not more:
                break
            data += more
        return data
