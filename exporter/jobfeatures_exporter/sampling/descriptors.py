"""Reading small kernel files again and again: kept descriptors within a budget, failures counted by kind."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jobfeatures.errors import ParseError

# Nothing that stands in a tree may make us wait or lead us out of it: no FIFO, no link.
# None of these flags hurts on /proc.
OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
VANISHED = frozenset({errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.ENOTDIR})
NO_MORE_FILES = frozenset({errno.EMFILE, errno.ENFILE})
RESERVE = 3072  # for all connections that listeners grant, those that they are about to end, and the rest
STEP = 256
CALM_LOOKS = 16  # after which a system that had no more descriptors is taken to have some again

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


class Unreadable:
    """Counts readings that were left out, by kind, such as ``process_stat_eacces``."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, what: str, error: OSError | ParseError) -> None:
        """Count one failure; what vanished while it was read is no failure."""
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
        """Return what is read; None where that fails, which is counted."""
        try:
            return read(*arguments, **more)
        except (OSError, ParseError) as error:
            self.add(what, error)
            return None

    def count(self, kind: str) -> None:
        """Count one failure of a kind."""
        self.counts[kind] = self.counts.get(kind, 0) + 1


class DescriptorBudget:
    """How many descriptors may be kept open, all users of this budget together, and who keeps one.

    Up to the limit all do. Beyond it a file that is read at each look takes the place of one that is
    read `rarely`, the first that was kept; among equals who comes first stays.

    The soft RLIMIT_NOFILE is raised as the need grows, up to the hard one, and
    `RESERVE` descriptors (of a lower limit half) are left to the rest of
    the program: clients must not blind it. `max_open` bounds the budget further. See getrlimit(2).
    """

    def __init__(self, max_open: int | None = None) -> None:
        self._max_open = max_open
        self._may_raise = True
        self._ceiling: int | None = None  # since the system had no more, until it has for long
        self._calm_looks = 0
        self._rare: dict[KeptFile, None] = {}  # those that give way
        self.open = 0
        self.refused = 0
        soft, hard = limits()
        self._reserve = min(RESERVE, hard // 2)
        self._allowed = self._bounded(soft - self._reserve)

    @property
    def kept(self) -> dict[str, int]:
        """Return how many are open, by how often they are read."""
        return {"always": self.open - len(self._rare), "rarely": len(self._rare)}

    def gives_way(self, file: KeptFile) -> None:
        """Note that a file that is open is read rarely by now."""
        self._rare.setdefault(file)

    def take(self, rarely: KeptFile | None = None) -> bool:
        """Claim one descriptor, for a file read `rarely`; False: the caller has to close it after reading."""
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
        """Return descriptors that were closed."""
        self.open -= count
        if rarely is not None:
            self._rare.pop(rarely, None)

    def shrink(self) -> None:
        """Settle for what is open now: the system has no more. After `CALM_LOOKS` looks it grows back."""
        self._ceiling = self.open
        self._calm_looks = 0

    def begin_look(self) -> None:
        """Count the looks at the node."""
        if self._ceiling is None:
            return
        self._calm_looks += 1
        if self._calm_looks > CALM_LOOKS:
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
            try:
                resource.setrlimit(
                    resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
                )
            except (OSError, ValueError):  # a sandbox may forbid it
                self._may_raise = False
                self._reserve = min(self._reserve, soft // 2)
            else:
                soft = wanted
        self._allowed = self._bounded(soft - self._reserve)
        return self.open < self._allowed


def limits() -> tuple[int, int]:
    """Return the soft and the hard limit of open descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2**31 - 1
    return (
        most if soft == resource.RLIM_INFINITY else soft,
        most if hard == resource.RLIM_INFINITY else hard,
    )


def read_file(path: str, *, max_bytes: int = 2**22) -> bytes:
    """Return a whole file, opened, read and closed. Raises OSError, EFBIG where it is larger than allowed."""
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
    """Return the same as text; what is no UTF-8 becomes U+FFFD. Raises OSError."""
    return read_file(path, max_bytes=max_bytes).decode("utf-8", "replace")


class KeptFile:
    """One small file that is read at every sample, through one descriptor where the budget allows."""

    __slots__ = ("_budget", "_descriptor", "path")
    MAX_BYTES = 65536
    _FIRST_BYTES = 4096

    def __init__(self, path: str, budget: DescriptorBudget) -> None:
        self.path = path
        self._budget = budget
        self._descriptor = -1

    def read(self, *, rarely: bool = False) -> bytes:
        """Return the content, the first 64 KiB at most. Raises OSError.

        One that is `rarely` read gives its descriptor to another where there are too few.
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
        """Close the descriptor; reading opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._budget.give(rarely=self)

    def _pread(self, descriptor: int) -> bytes:
        data = os.pread(descriptor, self._FIRST_BYTES, 0)
        if len(data) == self._FIRST_BYTES:
            data = os.pread(descriptor, self.MAX_BYTES, 0)
        # What does not end with its line has come short: half a number is another number.
        while data and not data.endswith(b"\n") and (left := self.MAX_BYTES - len(data)) > 0:
            more = os.pread(descriptor, left, len(data))
            if not more:
                break
            data += more
        return data
