"""Serves the requests of prologs and epilogs, so that a hook need not start a program.

    ROOT/intake/alive                   until when (epoch seconds) hooks may rely on the daemon, and its pid
    ROOT/intake/wait                    a pipe that nobody writes to: a shell sleeps by a read with a timeout
    ROOT/intake/slurm-1234.publish      a request, see request.py; it is removed once it is done
    ROOT/intake/slurm-1234.publish.again    a request that failed and is retried
    ROOT/intake/config.toml             the last good configuration, for hooks that find a malformed one

Only root may enter the folder. A hook writes its request and waits until the request's file is removed. If
the time in `alive` has passed, or the process named there is gone, the hook does its work itself, as it does
without a daemon.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import stat
import threading
from collections.abc import Callable

from jobfeatures.errors import JobfeaturesError, Rejected
from jobfeatures.hooks.request import MAX_REQUEST_BYTES, Request, is_finished, parse_request
from jobfeatures.publish.folders import FAILURES, INTAKE
from jobfeatures.publish.hookreasons import ACTIONS, UNREADABLE, reason_of
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.system.clock import Clock
from jobfeatures.system.inotify import CLOSE_WRITE, MOVED_TO, ONLY_DIRECTORIES, Inotify
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened

log = logging.getLogger(__name__)

ALIVE = "alive"
WAIT = "wait"
CONFIG = "config.toml"
AGAIN = ".again"
BEAT_SECS = 30.0  # between two heartbeats
ALIVE_SECS = 90.0  # for which hooks may rely on a heartbeat
UNFINISHED_SECS = 30.0  # a hook is bounded to seconds: an older incomplete request will never be complete
KEPT_SECS = 3600.0  # for which a request that failed is retried
BLOCKED_SECS = 0.02  # until a request is retried whose job's lock another writer held
UNWATCHED_SECS = 0.1  # between two scans of the folder where the kernel reports no changes

REFUSED = b"\0end\0"  # stands for a file that is not ours, too large or unreadable; not a valid request
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Serve = Callable[[Request, Callable[[Rejected], None]], None]  # the callable receives each unreadable value


class HookRequests:
    """Serves hooks' requests, oldest first. One thread calls `run`; any thread may call `stop`."""

    def __init__(self, tree: FeatureTree, clock: Clock, serve: Serve) -> None:
        """`serve` does what a request asks for; it raises JobfeaturesError or OSError if it cannot."""
        self._tree = tree
        self._clock = clock
        self._serve = serve
        self._inotify = Inotify()
        self._stopping = threading.Event()
        self._last_problem = ""
        self._is_blocked = False  # another writer held a lock: retry soon
        self._is_watched = False  # whether inotify watches the folder

    def run(self) -> None:
        """Serve requests until `stop` is called; then hooks do their work themselves again."""
        beat_at = float("-inf")
        try:
            while not self._stopping.is_set():
                now = self._clock.monotonic_secs()
                is_due = now - beat_at >= BEAT_SECS
                if is_due:
                    beat_at = now
                    self._attempt(self.beat)
                self._is_blocked = False
                self._attempt(functools.partial(self.take, again=is_due))
                left_secs = BEAT_SECS - (self._clock.monotonic_secs() - beat_at)
                if not self._is_watched:
                    left_secs = UNWATCHED_SECS
                self._inotify.wait(BLOCKED_SECS if self._is_blocked else left_secs)
                for _ in self._inotify.notices():
                    pass  # whatever changed: the next round scans the folder
        finally:
            self._attempt(self._leave)
            self._inotify.close()

    def stop(self) -> None:
        """Make `run` return soon; may be called in any thread."""
        self._stopping.set()
        self._inotify.wake()

    def beat(self) -> None:
        """Renew the file ROOT/intake/alive: the time up to which hooks may rely on this process, and its pid.

        Raises JobfeaturesError or OSError if it cannot be written.
        """
        with self._tree.folder(INTAKE) as folder:
            self._is_watched = False
            if self._inotify.open():
                self._inotify.add(self._tree.intake_path, CLOSE_WRITE | MOVED_TO | ONLY_DIRECTORIES)
                self._is_watched = True
            with contextlib.suppress(FileExistsError):
                os.mkfifo(WAIT, 0o600, dir_fd=folder)
            until = int(self._clock.now_secs() + ALIVE_SECS)
            with opened(ALIVE, _WRITE, folder, 0o600) as file:
                # In place and of constant width: it works on a full disk, and no reader sees half of it.
                os.pwrite(file, f"{until:011d} {os.getpid():010d}\n".encode(), 0)

    def take(self, *, again: bool = True) -> None:
        """Serve all waiting requests, oldest first; with `again`, also those that failed before.

        Raises JobfeaturesError or OSError if the folder cannot be read.
        """
        with self._tree.folder(INTAKE) as folder:
            found: list[tuple[int, str, bool]] = []
            for name in os.listdir(folder):
                plain = name.removesuffix(AGAIN)
                if plain.endswith(_ENDINGS) and (again or plain == name):
                    with contextlib.suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        if not stat.S_ISDIR(status.st_mode):
                            found.append((status.st_mtime_ns, name, plain != name))
            blocked: set[str] = set()  # jobs whose later requests have to wait for an earlier one
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
        """Serve one request. Raises TimeoutError if another writer holds the job's lock."""
        age_secs = self._clock.now_secs() - reported_at_secs
        try:
            data = _read(folder, name)
        except FileNotFoundError:
            return  # its hook has done the work itself, or its job has ended
        except OSError:
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
            if not isinstance(error, (JobfeaturesError, OSError)):  # supervised: go on with other requests
                log.exception("a request of a hook failed unexpectedly", extra={"what": name})
            reason = reason_of(error)
            if not is_again:
                log.error("a request of a hook failed: %s", error, extra={"what": name, "reason": reason})
                self._count(name.rpartition(".")[2], reason)
            if isinstance(error, OSError) and age_secs < KEPT_SECS:  # perhaps temporary, like a full disk
                if not is_again:
                    os.rename(name, name + AGAIN, src_dir_fd=folder, dst_dir_fd=folder)
                return
        for problem in problems:
            log.warning(UNREADABLE, problem, extra={"reason": "environment"})
            self._count("publish", "environment")
        plain = name.removesuffix(AGAIN)
        done = [name]
        if plain.endswith(".remove"):  # the job has ended: do not retry to publish it
            done.append(plain.removesuffix(".remove") + ".publish" + AGAIN)
        for each in done:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each, dir_fd=folder)

    def _count(self, action: str, reason: str) -> None:
        from jobfeatures.publish.failures import count_failure

        with contextlib.suppress(JobfeaturesError, OSError), self._tree.folder(FAILURES) as folder:
            count_failure(folder, action, reason)

    def _leave(self) -> None:
        with self._tree.folder(INTAKE) as folder, contextlib.suppress(FileNotFoundError):
            os.unlink(ALIVE, dir_fd=folder)
        self.take()  # requests that were written before

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001  # supervised: hooks then do their work themselves
            problem = f"{type(error).__name__}: {error}"
            if problem != self._last_problem:
                log.error("cannot serve requests of prologs and epilogs: %s", problem)
            self._last_problem = problem


_ENDINGS = tuple(f".{action}" for action in ACTIONS)


def _read(folder: int, name: str) -> bytes:
    """Return a request's bytes, `REFUSED` for a foreign file or one that is too large. Raises OSError."""
    with opened(name, READ_UNFOLLOWED, folder) as file:
        found = os.fstat(file)
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid())
        data = os.read(file, MAX_REQUEST_BYTES + 1) if is_ours else REFUSED
    return data if len(data) <= MAX_REQUEST_BYTES else REFUSED
