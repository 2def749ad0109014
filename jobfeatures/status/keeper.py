"""Reads $JOBSTATUS of jobs: one job's when the kernel reports a change, and all jobs' at intervals."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping

from jobfeatures.errors import UnsafePathError
from jobfeatures.records.model import JobKey
from jobfeatures.status.board import StatusBoard, StatusTarget
from jobfeatures.status.directory import opened_directory
from jobfeatures.system import inotify
from jobfeatures.system.clock import Clock
from jobfeatures.system.inotify import Inotify
from jobfeatures.system.watch import file_system_of, is_remote

MAX_WATCHES = 4096

# Changes of a file or of its attributes; not opening, reading and closing, as we do ourselves.
_CHANGES = (
    inotify.MODIFY
    | inotify.ATTRIB
    | inotify.CLOSE_WRITE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.CREATE
    | inotify.DELETE
)
log = logging.getLogger(__name__)

# Between two rounds, however fast a job writes. Less than a second, so that a change is
# known within one; a round reads only what has changed.
MIN_INTERVAL_SECS = 0.9
WATCHED_SECS = 60.0
IDLE_SECS = 3600.0  # without jobs: whoever learns of one gives a word
SETTLE_SECS = 0.05  # a writer changes up to nine files: read them all in one round


class DirectoryWatch:
    """Reports which directories of a set have changed.

    Any thread may call `wake`, only one the other methods. `watched` holds the directories that are watched.
    Without inotify, or beyond its limits, a directory is not among them, and the caller has to poll it.
    """

    def __init__(self) -> None:
        """Open an inotify instance; if there is none available, log that and go on without."""
        self._paths: dict[int, str] = {}  # by watch
        self.watched: frozenset[str] = frozenset()
        self._problem = ""
        self._inotify = Inotify()
        self._warn_once(self._inotify.problem)

    def close(self) -> None:
        """Stop watching; `wake` has no effect afterwards."""
        self._inotify.close()

    def watch(self, directories: Collection[tuple[str, int]], *, anew: bool = False) -> None:
        """Watch these directories, given as (path, owner's uid), and no others.

        With `anew`, add each watch again, in case a directory was replaced by another with the same name. A
        directory that is absent or unsafe is skipped.
        """
        if not self._inotify.open():
            return
        known = {} if anew else {path: watch for watch, path in self._paths.items()}
        paths: dict[int, str] = {}
        problem = ""
        for path, owner_uid in directories:
            if len(paths) >= MAX_WATCHES:
                problem = f"more than {MAX_WATCHES} directories"
                break
            try:
                paths[known[path] if path in known else self._add(path, owner_uid)] = path
            except UnsafePathError:
                continue  # reading it reports the problem
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = error.strerror or "no reason given"
        for watch in self._paths.keys() - paths.keys():
            self._inotify.remove(watch)
        self._paths = paths
        self.watched = frozenset(paths.values())
        self._warn_once(problem)

    def wait(self, timeout_secs: float) -> frozenset[str]:
        """Wait for a change, for `wake`, or for `timeout_secs`; return the directories that have changed.

        Directories that have changed are no longer watched afterwards.
        """
        self._inotify.wait(timeout_secs)
        paths: set[str] = set()
        for notice in self._inotify.notices():
            path = self._paths.pop(notice.watch, None)
            if path is not None:
                paths.add(path)
        self.watched -= paths
        return frozenset(paths)

    def wake(self) -> None:
        """Make the present or the next call of `wait` return."""
        self._inotify.wake()

    def _add(self, path: str, owner_uid: int) -> int:
        # By descriptor: the directory that was checked is the one that is watched.
        with opened_directory(path, owner_uid) as directory:
            return self._inotify.add(
                f"/proc/self/fd/{directory}", _CHANGES | inotify.ONLY_DIRECTORIES | inotify.ONCE
            )

    def _warn_once(self, problem: str) -> None:
        if problem and problem != self._problem:  # log each problem once
            log.warning("cannot watch every job status, so some are only read at intervals: %s", problem)
        self._problem = problem


class StatusKeeper:
    """Keeps a `StatusBoard` up to date while one thread runs the method `run`."""

    def __init__(
        self,
        board: StatusBoard,
        targets: Callable[[], Mapping[JobKey, StatusTarget]],
        clock: Clock,
        *,
        interval_secs: float,
    ) -> None:
        """Read changed `targets` within MIN_INTERVAL_SECS, and all every `interval_secs`.

        While the kernel reports every change, all are read only every WATCHED_SECS.
        """
        self._board = board
        self._targets = targets
        self._clock = clock
        self._interval_secs = interval_secs
        self._watch = DirectoryWatch()
        self._stopping = threading.Event()
        self._known: Mapping[JobKey, StatusTarget] = {}
        self._full_round_at = float("-inf")  # monotonic
        self._is_local = False  # others may change remote files without this kernel's knowledge

    def refresh(self) -> None:
        """Request that new jobs, and directories that are not yet watched, are read soon.

        Any thread may call it.
        """
        targets, watched = self._targets(), self._watch.watched
        if targets != self._known or any(each.path not in watched for each in targets.values()):
            self._watch.wake()

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()
        self._watch.wake()

    def run(self) -> None:
        """Keep the board up to date until `stop` is called."""
        with contextlib.closing(self._watch):
            while not self._stopping.is_set():
                try:
                    self.check()
                except Exception:  # supervised: one bad round must not end the loop
                    log.exception("reading the jobs' statuses failed")
                checked_secs = self._clock.monotonic_secs()
                changed = self._watch.wait(self._full_round_at + self._every_secs() - checked_secs)
                too_soon_secs = checked_secs + MIN_INTERVAL_SECS - self._clock.monotonic_secs()
                if (pause_secs := max(too_soon_secs, SETTLE_SECS if changed else 0.0)) > 0:
                    self._stopping.wait(pause_secs)

    def _every_secs(self) -> float:
        if not self._known:
            return IDLE_SECS
        are_watched = all(target.path in self._watch.watched for target in self._known.values())
        return (
            max(self._interval_secs, WATCHED_SECS) if are_watched and self._is_local else self._interval_secs
        )

    def check(self) -> None:
        """Read the status of jobs that are new or whose directory has changed, at intervals that of all jobs.

        Directories are watched before they are read, so that no change is missed.
        """
        now = self._clock.monotonic_secs()
        targets = self._targets()
        is_full = now - self._full_round_at >= self._every_secs()
        if is_full:
            self._full_round_at = now
            parents = {os.path.dirname(target.path) for target in targets.values()}
            self._is_local = not any(is_remote(file_system_of(each)) for each in parents)
        watched = self._watch.watched
        only = {
            key
            for key, target in targets.items()
            # A directory that is not watched has changed, did not exist yet, or cannot be watched.
            if is_full or target.path not in watched or target != self._known.get(key)
        }
        self._watch.watch([(target.path, target.owner_uid) for target in targets.values()], anew=is_full)
        self._known = targets
        self._board.refresh(targets, only=only)
