"""Takes what prologs and epilogs hand over, so that a hook need not start a program.

    ROOT/intake/alive                   until when (epoch seconds) hooks may count on us, and our process id
    ROOT/intake/wait                    a pipe into which nobody writes: a shell waits at it for a moment
    ROOT/intake/slurm-1234.publish      a request; see request.py. It is gone once it is done
    ROOT/intake/slurm-1234.publish.again    one that could not be done: it is tried again
    ROOT/intake/config.toml             the last good configuration, for hooks that find a broken one

Only root may enter the folder. A hook writes its request and waits until it is gone. Without a time in
`alive` that is yet to come, or without that process, it does its work by itself, as it does without a daemon.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import stat
import threading
from collections.abc import Callable

from jobfeatures.clock import Clock
from jobfeatures.errors import JobfeaturesError, ParseError, Rejected, UnsafePathError
from jobfeatures.inotify import CLOSE_WRITE, MOVED_TO, ONLY_DIRECTORIES, Inotify
from jobfeatures.privatefile import READ_UNFOLLOWED, opened
from jobfeatures.publish.folders import FAILURES, INTAKE
from jobfeatures.publish.reasons import ACTIONS, reason_of
from jobfeatures.publish.request import MAX_REQUEST_BYTES, Request, is_finished, parse_request
from jobfeatures.publish.tree import FeatureTree

log = logging.getLogger(__name__)

ALIVE = "alive"
WAIT = "wait"
CONFIG = "config.toml"
AGAIN = ".again"
BEAT_SECS = 3.0  # between two times that we say how long we are to be counted on
ALIVE_SECS = 10.0  # for which we say so
UNFINISHED_SECS = 30.0  # a hook is bounded to seconds: what is unfinished for longer stays so
KEPT_SECS = 3600.0  # for which a request that cannot be done is tried again
BLOCKED_SECS = 0.02  # after which a job that another writer was writing about is tried again
UNWATCHED_SECS = 0.1  # between two looks where the kernel reports no changes

REFUSED = b"\0end\0"  # stands for what is not a file of ours, or cannot be read: no request
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Serve = Callable[[Request, Callable[[Rejected], None]], None]  # the other takes values that cannot be read


class Intake:
    """Takes requests, oldest first. One thread runs it; `stop` may be called by any."""

    def __init__(self, tree: FeatureTree, clock: Clock, serve: Serve) -> None:
        """`serve` does what a request wants; it raises JobfeaturesError or OSError where it cannot."""
        self._tree = tree
        self._clock = clock
        self._serve = serve
        self._inotify = Inotify()
        self._stopping = threading.Event()
        self._complaint = ""
        self._is_blocked = False  # by another writer: something is to be tried again soon
        self._is_watched = False  # the folder

    def run(self) -> None:
        """Take requests until `stop`; then hooks do their work by themselves again."""
        beaten = float("-inf")
        try:
            while not self._stopping.is_set():
                now = self._clock.monotonic_secs()
                is_due = now - beaten >= BEAT_SECS
                if is_due:
                    beaten = now
                    self._attempt(self.beat)
                self._is_blocked = False
                self._attempt(functools.partial(self.take, again=is_due))
                left_secs = BEAT_SECS - (self._clock.monotonic_secs() - beaten)
                if not self._is_watched:
                    left_secs = UNWATCHED_SECS
                self._inotify.wait(BLOCKED_SECS if self._is_blocked else max(0.0, left_secs))
                for _ in self._inotify.notices():
                    pass  # whatever it was: the folder is looked through
        finally:
            self._attempt(self._leave)
            self._inotify.close()

    def stop(self) -> None:
        """Make `run` end."""
        self._stopping.set()
        self._inotify.wake()

    def beat(self) -> None:
        """Say that hooks may count on us. Raises JobfeaturesError or OSError."""
        with self._tree.folder(INTAKE) as folder:
            self._is_watched = False
            if self._inotify.open():
                self._inotify.add(self._tree.intake_path, CLOSE_WRITE | MOVED_TO | ONLY_DIRECTORIES)
                self._is_watched = True
            with contextlib.suppress(FileExistsError):
                os.mkfifo(WAIT, 0o600, dir_fd=folder)
            until = int(self._clock.now_secs() + ALIVE_SECS)
            with opened(ALIVE, _WRITE, folder, 0o600) as file:
                # In place, of one width: a full disk does not matter, and nobody reads a half.
                os.pwrite(file, f"{until:011d} {os.getpid():010d}\n".encode(), 0)

    def take(self, *, again: bool = True) -> None:
        """Do what is wanted, oldest first; `again`: what failed, too. Raises JobfeaturesError or OSError."""
        with self._tree.folder(INTAKE) as folder:
            found: list[tuple[int, str, bool]] = []
            for name in os.listdir(folder):
                plain = name.removesuffix(AGAIN)
                if plain.endswith(_ENDINGS) and (again or plain == name):
                    with contextlib.suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        if not stat.S_ISDIR(status.st_mode):
                            found.append((status.st_mtime_ns, name, plain != name))
            blocked: set[str] = set()  # the jobs: what was asked for first is done first
            for reported, name, is_again in sorted(found):
                job = name.removesuffix(AGAIN).rpartition(".")[0]
                if job in blocked:
                    continue
                try:
                    self._take_one(folder, name, reported / 1e9, is_again=is_again)
                except TimeoutError:
                    blocked.add(job)
            self._is_blocked = bool(blocked)

    def _take_one(self, folder: int, name: str, reported_at_secs: float, *, is_again: bool) -> None:
        """Do what one request wants. Raises TimeoutError where another writer holds the job's lock."""
        age_secs = self._clock.now_secs() - reported_at_secs
        try:
            data = _read(folder, name)
        except FileNotFoundError:
            return  # its hook has done the work by itself, or its job has ended
        except (JobfeaturesError, OSError):
            data = REFUSED
        if not is_finished(data) and age_secs < UNFINISHED_SECS:
            return  # it is being written
        problems: list[Rejected] = []
        try:
            request = parse_request(data, reported_at_secs=reported_at_secs, source=name)
            self._serve(request, problems.append)
        except TimeoutError:
            raise
        except Exception as error:
            if not isinstance(error, (JobfeaturesError, OSError)):  # supervised: the others are served
                log.exception("request failed", extra={"what": name})
            reason = reason_of(error)
            if not is_again:
                log.error("a request of a hook failed: %s", error, extra={"what": name, "reason": reason})
                self._count(name.rpartition(".")[2], reason)
            if isinstance(error, OSError) and age_secs < KEPT_SECS:  # a full disk does not stay full
                if not is_again:
                    os.rename(name, name + AGAIN, src_dir_fd=folder, dst_dir_fd=folder)
                return
        for problem in problems:
            log.warning("a value of a prolog cannot be read: %s", problem, extra={"reason": "environment"})
            self._count("publish", "environment")
        plain = name.removesuffix(AGAIN)
        over = [name]
        if plain.endswith(".remove"):  # a job that has ended is not published after all
            over.append(plain.removesuffix(".remove") + ".publish" + AGAIN)
        for each in over:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each, dir_fd=folder)

    def _count(self, action: str, reason: str) -> None:
        from jobfeatures.publish.failures import count_failure

        with contextlib.suppress(JobfeaturesError, OSError), self._tree.folder(FAILURES) as folder:
            count_failure(folder, action, reason)

    def _leave(self) -> None:
        with self._tree.folder(INTAKE) as folder, contextlib.suppress(FileNotFoundError):
            os.unlink(ALIVE, dir_fd=folder)
        self.take()  # what was handed over before

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001  # supervised: hooks go on by themselves
            said = f"{type(error).__name__}: {error}"
            if said != self._complaint:
                log.error("hooks are not served: %s", said)
            self._complaint = said


_ENDINGS = tuple(f".{action}" for action in ACTIONS)


def _read(folder: int, name: str) -> bytes:
    """Return a request's bytes. Raises OSError, and UnsafePathError for what is not a file of ours."""
    with opened(name, READ_UNFOLLOWED, folder) as file:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise UnsafePathError(f"{name}: not a file of ours")
        data = os.read(file, MAX_REQUEST_BYTES + 1)
    if len(data) > MAX_REQUEST_BYTES:
        raise ParseError("too large", source=name)
    return data
