"""Follows the tree of control groups: jobs' own groups, and all directories above, wherever a site puts them.

The tree is listed once. From then on, the kernel reports each directory that is created, removed or renamed
(inotify). Directories that the kernel refuses to watch, or that exceed our limits, are listed again at
intervals.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from enum import Enum, auto
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from jobfeatures.system import inotify
from jobfeatures.system.inotify import Inotify, InotifyEvent
from jobfeatures_exporter.sampling.descriptors import VANISHED, read_file

EVENTS_FILE = "cgroup.events"
MAX_WATCHES = (
    16384  # a quarter of them for jobs; at most half of what the kernel grants root, who needs others
)
MAX_LISTED = 32768  # directories in one listing
_LIMIT_FILE = "/proc/sys/fs/inotify/max_user_watches"
_SUBDIRECTORIES = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_DIRECTORY = _SUBDIRECTORIES | inotify.ONLY_DIRECTORIES | inotify.DO_NOT_FOLLOW
_JOB = inotify.DELETE | inotify.ONLY_DIRECTORIES | inotify.DO_NOT_FOLLOW
_FILE = inotify.MODIFY | inotify.DO_NOT_FOLLOW

# What may be below a directory: shapes of paths, one pattern per level. The
# empty shape says that the directory itself is a job's.
Shapes = frozenset[tuple[str, ...]]
NO_SHAPES: Shapes = frozenset()


class Change(Enum):
    """What has happened to a job, according to the kernel's notifications about its control group."""

    BEGAN = auto()
    ENDING = auto()  # it has lost a step or its last process
    ENDED = auto()
    LOST = auto()  # notifications: anything may have happened


class WatchedPlace(NamedTuple):
    """A watched path: the directory of a control group, or, if `is_file`, a file in the group of a job.

    The file shows whether the job has processes. `top` is the root directory of the path's hierarchy.
    `shapes` says where jobs' groups may be below the path, as `shapes_at` does for `GroupTree`. If `is_mark`,
    the group's name looks like that of a job, so that its parent is one of `GroupTree.candidates`.
    """

    path: str
    top: str  # of its hierarchy
    shapes: Shapes = NO_SHAPES  # of what is below it, as far as that follows from what is above it
    is_mark: bool = False  # whether it makes its parent a candidate
    is_file: bool = False
    is_in_container: bool = False

    @property
    def is_job(self) -> bool:
        """Return whether this is the directory of a job's own group."""
        return () in self.shapes


class GroupTree:
    """Watches the control groups of jobs and all directories above them, by inotify.

    One thread calls all methods; other threads may call `candidates`.

    `shapes_at` gets the path of a group, which begins at the hierarchy's root (""). It returns shapes that
    say where jobs' groups may be below that group. A shape is a tuple of patterns, one for each directory
    name on the way down to a job's group. A path for which `skips` is true is neither listed nor watched, nor
    are paths below it or below a job's group. `notifier` watches directories; if it is None, none is watched.

    `is_in_container` tells directories in pods. Pods come and go often, and changes there are not urgent. If
    `slow` is given, it watches the directories in pods, except those that may contain jobs.
    """

    def __init__(
        self,
        shapes_at: Callable[[str], Shapes],
        skips: Callable[[str], bool],
        notifier: Inotify | None = None,
        on_candidates: Callable[[], None] = lambda: None,
        *,
        slow: Inotify | None = None,
        is_in_container: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """List nothing yet. `on_candidates` is called when the result of `candidates` changes."""
        self._shapes_at, self._skips, self._notifier = shapes_at, skips, notifier
        self._slow, self._is_in_container = slow, is_in_container
        self._on_candidates = on_candidates
        self._tops: tuple[str, ...] = ()
        self._places: dict[int, WatchedPlace] = {}  # by watch; those of `slow` are inverted
        self._watches: dict[str, int] = {}  # by path
        self._marked: dict[str, tuple[str, set[str]]] = {}  # by path: from the root, and names of children
        self._candidates: frozenset[str] = frozenset()
        self._most = MAX_WATCHES
        self.unwatched: dict[str, WatchedPlace] = {}  # by path: what has to be listed again
        self.problem = ""  # why not all is watched

    def candidates(self) -> frozenset[str]:
        """Return the groups that have a child with a name such as batch systems give to jobs' groups.

        These groups may contain jobs. Each is given by its path from the hierarchy's root. Any thread may
        call this method.
        """
        return self._candidates

    def walk(self, tops: Iterable[str], *, is_anew: bool = False) -> None:
        """List the directories that are not watched, from the hierarchies' roots `tops` down.

        All directories are listed the first time, if `tops` have changed, or with `is_anew`, which says that
        `shapes_at` returns other patterns than before.
        """
        tops = tuple(dict.fromkeys(tops))
        self._most = min(MAX_WATCHES, read_watch_limit() // 2)
        self.problem = ""
        if not is_anew and self._tops == tops and all(map(self._is_watched, tops)):
            unwatched, self.unwatched = self.unwatched, {}
            self._unmark_below(unwatched.keys() - self._watches.keys())
            for place in unwatched.values():
                self._walk(place)
            self._publish()
        else:
            self._tops = tops
            self._list()

    def follow(self, *, is_slow: bool = True) -> Iterator[tuple[Change, str]]:
        """Process the kernel's notifications; yield what happened to each job, and its group's path.

        Those of the notifier `slow` are processed only if `is_slow`.
        """
        notices = [] if self._notifier is None else [self._notifier.notices()]
        if is_slow and self._slow is not None:
            notices.append(each._replace(watch=~each.watch) for each in self._slow.notices())
        for notice in chain.from_iterable(notices):
            if notice.mask & inotify.OVERFLOW:
                self._list()
                yield Change.LOST, ""
            elif notice.mask & inotify.IGNORED:
                self._ended(notice.watch)
            elif (place := self._places.get(notice.watch)) is not None:
                yield from self._take(place, notice)

    def _list(self) -> None:
        known, self._places = self._places, {}
        self._watches, self._marked, self.unwatched = {}, {}, {}
        for top in self._tops:
            self._walk(WatchedPlace(top, top))
        for watch in known.keys() - self._places.keys():
            self._drop(watch)
        self._publish()

    def _take(self, place: WatchedPlace, notice: InotifyEvent) -> Iterator[tuple[Change, str]]:
        path = f"{place.path}/{notice.name}"
        if place.is_file:
            if is_empty(place.path):
                yield Change.ENDING, os.path.dirname(place.path)
        elif place.is_job:  # which has lost a step
            yield Change.ENDING, place.path
        elif notice.mask & (inotify.DELETE | inotify.MOVED_FROM):
            known = self._places.get(self._watches.get(path, -1))
            child = known or self._below(place, notice.name, self._marks_at(place))
            # If it was made again meanwhile, what is watched below is the new one's, and is listed with it.
            is_whole = bool(notice.mask & inotify.MOVED_FROM) or os.path.lexists(path)
            self._forget(path, is_whole=is_whole)
            if place.path in self._marked:
                self._marked[place.path][1].discard(notice.name)
            self._publish()
            if child is not None and child.is_job:
                yield Change.ENDED, path
        else:
            if notice.mask & inotify.MOVED_TO:  # perhaps in another's place, whose end nothing tells
                self._forget(path, is_whole=True)
            child = None if path in self._watches else self._below(place, notice.name, self._marks_at(place))
            has_jobs = child is not None and self._walk(child)
            self._publish()
            if has_jobs:
                yield Change.BEGAN, path

    def _walk(self, start: WatchedPlace) -> bool:
        """Watch a directory and what is below it, the highest first; return whether there are jobs."""
        has_jobs = False
        queue, room = deque([(start, True)]), MAX_LISTED
        while queue:
            place, is_followed = queue.popleft()
            try:
                is_watched = is_followed and self._watch(place)
            except OSError:
                continue  # it has vanished
            if place.is_mark:
                parent, _, name = place.path.rpartition("/")
                self._marked.setdefault(parent, (parent[len(place.top) :], set()))[1].add(name)
                if (watch := self._watches.get(parent, 0)) < 0:
                    queue.append((self._places[watch], True))  # it is urgent from now on
            if place.is_job:
                has_jobs = True
                if is_watched:
                    with suppress(OSError):  # v1 has none
                        self._watch(place._replace(path=f"{place.path}/{EVENTS_FILE}", is_file=True))
                continue
            if is_followed and not is_watched:
                self.unwatched[place.path] = place
            names = self._list_below(place)
            marks = self._marks_at(place) if names else NO_SHAPES
            below = (self._below(place, name, marks) for name in names)
            unseen = (each for each in below if each is not None and each.path not in self._watches)
            new = list(islice(unseen, room + 1))
            queue.extend((each, is_watched) for each in new[:room])
            if len(new) > room:
                self._refuse(place, f"more than {MAX_LISTED} directories")
            room -= min(len(new), room)
        return has_jobs

    def _list_below(self, place: WatchedPlace) -> list[str]:
        try:
            return list_subdirectories(place.path)
        except OSError as error:
            if error.errno not in VANISHED:
                self._refuse(place, os.strerror(error.errno or 0))
            return []

    def _refuse(self, place: WatchedPlace, problem: str) -> None:
        self.unwatched[place.path] = place
        self.problem = problem

    def _marks_at(self, place: WatchedPlace) -> Shapes:
        return self._shapes_at(place.path[len(place.top) :])

    def _below(self, place: WatchedPlace, name: str, marks: Shapes) -> WatchedPlace | None:
        """Return a subdirectory of a group that is no job's, None if it is of no interest."""
        path = f"{place.path}/{name}"
        marked = compute_shapes_below(marks, name)
        shapes = marked | compute_shapes_below(place.shapes, name)
        if () not in shapes and self._skips(path[len(place.top) :]):
            return None
        is_in_container = place.is_in_container or self._is_in_container(path[len(place.top) :])
        return WatchedPlace(path, place.top, shapes, is_mark=bool(marked), is_in_container=is_in_container)

    def _watch(self, place: WatchedPlace) -> bool:
        """Return whether a place is watched from now on. Raises OSError if it has vanished."""
        if self._notifier is None:
            return False
        if len(self._places) >= (self._most if place.is_job else self._most * 3 // 4):
            self.problem = f"more than {len(self._places)} watches"
            return False
        mask = _FILE if place.is_file else _JOB if place.is_job else _DIRECTORY
        is_urgent = not place.is_in_container or bool(place.shapes) or place.path in self._marked
        slow = None if is_urgent or self._slow is None or self._slow.problem else self._slow
        try:
            watch = self._notifier.add(place.path, mask) if slow is None else ~slow.add(place.path, mask)
        except OSError as error:
            if error.errno in VANISHED:
                raise
            self.problem = self._notifier.problem or os.strerror(error.errno or 0)
            return False
        if (before := self._watches.get(place.path, watch)) != watch:
            self._drop(before)
        self._places[watch] = place
        self._watches[place.path] = watch
        return True

    def _is_watched(self, top: str) -> bool:
        """Return whether this directory of a hierarchy is the one that is followed."""
        try:
            return self._notifier is None or self._notifier.add(top, _DIRECTORY) == self._watches.get(top)
        except OSError:
            return False

    def _forget(self, path: str, *, is_whole: bool) -> None:
        """Forget a removed directory, whose watch ends without notice; with `is_whole` also all below it."""
        gone = [path, f"{path}/{EVENTS_FILE}"]
        if is_whole:
            gone += [each for each in (*self._watches, *self.unwatched) if each.startswith(f"{path}/")]
        self._unmark_below({path} if is_whole or path in self.unwatched else ())
        for each in gone:
            self._marked.pop(each, None)
            self.unwatched.pop(each, None)
            if (watch := self._watches.get(each)) is not None:
                self._drop(watch)

    def _unmark_below(self, paths: Collection[str]) -> None:
        for each in [each for each in self._marked if paths and is_within(each, paths)]:
            del self._marked[each]

    def _drop(self, watch: int) -> None:
        self._ended(watch)
        if watch < 0 and self._slow is not None:
            self._slow.remove(~watch)
        elif self._notifier is not None:
            self._notifier.remove(watch)

    def _ended(self, watch: int) -> None:
        place = self._places.pop(watch, None)
        if place is not None and self._watches.get(place.path) == watch:
            del self._watches[place.path]

    def _publish(self) -> None:
        found = frozenset(path for path, names in self._marked.values() if names)
        if found != self._candidates:
            self._candidates = found
            self._on_candidates()


def find_candidates(
    tops: Iterable[str], shapes_at: Callable[[str], Shapes], skips: Callable[[str], bool]
) -> frozenset[str]:
    """List the hierarchies at `tops` once; return what `GroupTree.candidates` would, without watching."""
    tree = GroupTree(shapes_at, skips)
    tree.walk(tops)
    return tree.candidates()


@lru_cache(1024)
def _first(shapes: Shapes) -> re.Pattern[str]:
    return re.compile("|".join(translate(shape[0]) for shape in shapes if shape) or r"(?!)")


def compute_shapes_below(shapes: Shapes, name: str) -> Shapes:
    """Return the shapes that apply below the subdirectory `name`, given those that apply below its parent.

    A shape is a tuple of patterns, one for each directory name on the path to a job's group.
    """
    if not _first(shapes).match(name):
        return NO_SHAPES
    return frozenset(shape[1:] for shape in shapes if shape and fnmatchcase(name, shape[0]))


def is_within(path: str, tops: Collection[str]) -> bool:
    """Return whether a path is in `tops`, or below a path in it."""
    while path and path not in tops:
        path = path.rpartition("/")[0]
    return bool(path)


def is_empty(path: str) -> bool:
    """Return whether a control group has no process; `path` is that of its ``cgroup.events``, see cgroups(7).

    False if the file cannot be read.
    """
    try:
        return b"populated 0" in read_file(path)
    except OSError:
        return False  # it has been removed, which is noticed elsewhere


def list_subdirectories(path: str) -> list[str]:
    """Return the names of a directory's subdirectories. Raises OSError if unreadable."""
    if os.stat(path).st_nlink == 2:  # its name and ".": each subdirectory's ".." is one more
        return []
    with os.scandir(path) as entries:
        return [each.name for each in entries if each.is_dir(follow_symlinks=False)]


def read_watch_limit() -> int:
    """Return how many inotify watches the kernel grants a user (``fs.inotify.max_user_watches``).

    If that cannot be read, it is taken to be twice `MAX_WATCHES`.
    """
    try:
        return int(read_file(_LIMIT_FILE))
    except (OSError, ValueError):
        return 2 * MAX_WATCHES
