"""Tell which of many directories have changed, with one descriptor for all of them.

Watching a folder with a library's observer costs two threads and one of the
128 inotify instances that the kernel allows a user by default; a node may have
hundreds of jobs. Watching their common parent recursively would follow a user
into as many directories as he makes. So the jobs' own directories, and nothing
below them, are added to one instance here, for one event each: who writes in a
loop is heard once and costs nothing until he is looked at and watched again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from jobfeatures import inotify
from jobfeatures.errors import UnsafePathError
from jobfeatures.inotify import Inotify
from jobfeatures.status.directory import opened_directory

log = logging.getLogger(__name__)

MAX_WATCHES = 4096

# Changes of a file or of its attributes; not our own opening, reading and closing.
_CHANGES = (
    inotify.MODIFY
    | inotify.ATTRIB
    | inotify.CLOSE_WRITE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.CREATE
    | inotify.DELETE
)


class DirectoryWatch:
    """Which of some directories have changed. `wake` may be called by any thread, the rest by one.

    Without inotify, or past its limits, a directory is simply not among the
    `watched`, and the caller has to look by itself.
    """

    def __init__(self, *, max_watches: int = MAX_WATCHES) -> None:
        """Open the instance; no error is raised where there is none to be had."""
        self._max_watches = max_watches
        self._paths: dict[int, str] = {}  # by watch
        self._watched: frozenset[str] = frozenset()
        self._problem = ""
        self._inotify = Inotify()
        self._tell(self._inotify.problem)

    def close(self) -> None:
        """Stop watching for good; `wake` does nothing from here on."""
        self._inotify.close()

    @property
    def watched(self) -> frozenset[str]:
        """Return the directories that are watched."""
        return self._watched

    def watch(self, directories: Collection[tuple[str, int]], *, anew: bool = False) -> None:
        """Watch these directories, given with their owners' uids, and no others.

        With `anew`, one that was replaced under the same name is found. One that is
        absent or not what it should be is passed over.
        """
        if not self._inotify.works:
            return
        known = {} if anew else {path: watch for watch, path in self._paths.items()}
        paths: dict[int, str] = {}
        problem = ""
        for path, owner_uid in directories:
            if len(paths) >= self._max_watches:
                problem = f"more than {self._max_watches} directories"
                break
            try:
                paths[known[path] if path in known else self._add(path, owner_uid)] = path
            except UnsafePathError:
                continue  # whoever reads it says so
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = error.strerror or "no reason given"
        for watch in self._paths.keys() - paths.keys():
            self._inotify.remove(watch)
        self._paths = paths
        self._watched = frozenset(paths.values())
        self._tell(problem)

    def wait(self, timeout_secs: float) -> frozenset[str]:
        """Wait for a change, a `wake`, or `timeout_secs`; return the changed directories."""
        self._inotify.wait(timeout_secs)
        return self.changed()

    def changed(self) -> frozenset[str]:
        """Return what has changed since it was watched, without waiting; it is not watched any more then."""
        paths: set[str] = set()
        for notice in self._inotify.notices():
            path = self._paths.pop(notice.watch, None)
            if path is not None:
                paths.add(path)
        self._watched -= paths
        return frozenset(paths)

    def wake(self) -> None:
        """Make `wait` return."""
        self._inotify.wake()

    def _add(self, path: str, owner_uid: int) -> int:
        # By descriptor: what was checked is what is watched.
        with opened_directory(path, owner_uid) as directory:
            return self._inotify.add(
                f"/proc/self/fd/{directory}", _CHANGES | inotify.ONLY_DIRECTORIES | inotify.ONCE
            )

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:  # once per kind of problem
            log.warning("cannot watch every job status, some are only read now and then: %s", problem)
        self._problem = problem
