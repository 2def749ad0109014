"""Notices at once that a job begins or ends, by the creation and removal of its control group.

The kernel reports directories created and removed in control group file systems, and on v2 when the last
process of a group leaves it: that is the moment for a last sample, as the figures vanish with the directory.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from fnmatch import fnmatchcase

from jobfeatures.system import inotify
from jobfeatures.system.clock import Clock
from jobfeatures.system.inotify import Inotify, Notice
from jobfeatures_exporter.sampling.descriptors import VANISHED, read_file
from jobfeatures_exporter.sampling.groups.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.hierarchies import BATCH_HIERARCHIES
from jobfeatures_exporter.sampling.lookplan import LookPlan

log = logging.getLogger(__name__)

MAX_WATCHES = 4096
RESCAN_SECS = 60.0  # finds what no notification reported, such as a hierarchy mounted later
EVENTS_FILE = "cgroup.events"
_DIRECTORY = (
    inotify.CREATE | inotify.DELETE | inotify.MOVED_TO | inotify.ONLY_DIRECTORIES | inotify.DO_NOT_FOLLOW
)

# What may be below a directory: shapes of paths, one pattern per level. The
# empty shape says that the directory itself is a job's.
Shapes = frozenset[tuple[str, ...]]
JOB_SHAPES: Shapes = frozenset(shape for batch in BATCH_HIERARCHIES for shape in batch.job_directories)


def compute_shapes_below(shapes: Shapes, name: str) -> Shapes:
    """Return the shapes of what may be below a directory's subdirectory of this name."""
    return frozenset(shape[1:] for shape in shapes if shape and fnmatchcase(name, shape[0]))


def is_empty(path: str) -> bool:
    """Return whether a control group has no process, by its ``cgroup.events``; see cgroups(7)."""
    try:
        return b"populated 0" in read_file(path)
    except OSError:
        return False  # it has been removed, which is noticed elsewhere


class JobArrivals:
    """Triggers a sample when a job's control group is created, loses a step, becomes empty or is removed.

    Watches the directories in which the batch systems' tables expect jobs, and the jobs' own directories, but
    nothing below these, where users may create groups. `run`, in a thread, calls `on_due`, and `on_ending`
    with the directory of a job that may be about to end. Where the kernel grants no more watches, only the
    regular samples notice jobs.
    """

    def __init__(
        self,
        root: str,
        clock: Clock,
        on_due: Callable[[], None],
        *,
        interval_secs: float,
        on_ending: Callable[[str], None] = lambda path: None,
    ) -> None:
        self._root = root
        self._clock = clock
        self._on_due = on_due
        self._on_ending = on_ending
        self._plan = LookPlan(interval_secs)
        self._places: dict[int, tuple[str, Shapes]] = {}  # by watch
        self._watches: dict[str, int] = {}  # by path
        self._inotify = Inotify()
        self._problem = ""
        self._stopping = threading.Event()
        self._warn_once(self._inotify.problem)

    def run(self) -> None:
        """Watch until `stop`; where inotify is not available, retry every `RESCAN_SECS`."""
        scanned_secs = float("-inf")
        while not self._stopping.is_set():
            now_secs = self._clock.monotonic_secs()
            if now_secs - scanned_secs >= RESCAN_SECS:
                scanned_secs = now_secs
                if self._inotify.open():
                    self.rescan()
                else:
                    self._warn_once(self._inotify.problem)
            self._inotify.wait(self._plan.wait_secs(now_secs) or RESCAN_SECS)
            self.follow()
        self._inotify.close()

    def stop(self) -> None:
        """End `run`."""
        self._stopping.set()
        self._inotify.wake()

    def rescan(self) -> None:
        """Watch all directories that exist now; drop the watches of others. Triggers no sample."""
        try:
            tops = find_hierarchies(self._root).values()
        except OSError:
            return  # sampling itself counts it
        known, self._places, self._watches = self._places, {}, {}
        for top in set(tops):
            self._watch(top, JOB_SHAPES)
        for watch in known.keys() - self._places.keys():
            self._inotify.remove(watch)

    def follow(self) -> None:
        """Process the kernel's notifications, and request a sample if one is due."""
        for notice in self._inotify.notices():
            if notice.mask & inotify.OVERFLOW:
                self.rescan()
                self._plan.ending()
            elif notice.mask & inotify.IGNORED:
                self._places.pop(notice.watch, None)  # its path may have a new watch by now
            elif notice.watch in self._places:
                self._take(notice)
        if self._plan.is_due(self._clock.monotonic_secs()):
            self._on_due()

    def _take(self, notice: Notice) -> None:
        path, shapes = self._places[notice.watch]
        if not shapes:
            if is_empty(path):
                self._end(os.path.dirname(path))
            return
        if () in shapes and notice.mask & inotify.DELETE:  # a step of a job was removed
            self._end(path)
        if notice.mask & inotify.DELETE:
            self._forget(f"{path}/{notice.name}")
        below = compute_shapes_below(shapes, notice.name)
        if not below:
            return
        if notice.mask & (inotify.CREATE | inotify.MOVED_TO):
            if self._watch(f"{path}/{notice.name}", below):
                self._plan.began(self._clock.monotonic_secs())
        elif () in below:
            self._plan.ended()

    def _forget(self, path: str) -> None:
        """Drop the watches of a removed directory: those of control groups end without a notification."""
        for each in (path, f"{path}/{EVENTS_FILE}"):
            watch = self._watches.pop(each, None)
            if watch is not None:
                self._places.pop(watch, None)
                self._inotify.remove(watch)

    def _end(self, path: str) -> None:
        """Request a reading of the job's usage at once, and then a full sample."""
        self._on_ending(path)
        self._plan.ending()

    def _watch(self, path: str, shapes: Shapes) -> bool:
        """Watch a directory and those below it that may hold jobs; return whether there are jobs."""
        has_jobs = () in shapes
        if not self._add(path, _DIRECTORY, shapes):
            return has_jobs
        if has_jobs:
            self._add(f"{path}/{EVENTS_FILE}", inotify.MODIFY | inotify.DO_NOT_FOLLOW, frozenset())
        if shapes == {()}:
            return True
        try:
            with os.scandir(path) as entries:  # after adding the watch: later entries are reported
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return has_jobs
        for name in names:
            below = compute_shapes_below(shapes, name)
            if below and self._watch(f"{path}/{name}", below):
                has_jobs = True
        return has_jobs

    def _add(self, path: str, mask: int, shapes: Shapes) -> bool:
        if len(self._places) >= MAX_WATCHES:
            self._warn_once(f"more than {MAX_WATCHES} watches")
            return False
        try:
            watch = self._inotify.add(path, mask)
        except OSError as error:
            if error.errno not in VANISHED:
                self._warn_once(error.strerror or "no reason given")
            return False
        self._places[watch] = path, shapes
        self._watches[path] = watch
        return True

    def _warn_once(self, problem: str) -> None:
        if problem and problem != self._problem:  # once per kind of problem
            log.warning("cannot watch every job's control group, short jobs may be missed: %s", problem)
        self._problem = problem
