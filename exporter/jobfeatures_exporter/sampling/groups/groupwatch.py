"""Notices at once that a job begins or ends, by the creation and removal of its control group.

The kernel reports each directory that is created or removed in control group file systems. On v2 it also
reports that the last process has left a group. Then a last sample is taken, as the group's figures vanish
with its directory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jobfeatures.system.clock import Clock
from jobfeatures.system.inotify import Inotify
from jobfeatures_exporter.sampling.extrasamples import ExtraSamples
from jobfeatures_exporter.sampling.groups.grouptree import (
    Change,
    GroupTree,
    Shapes,
    read_watch_limit,
)
from jobfeatures_exporter.sampling.layout.hierarchies import is_in_container, is_of_users, shapes_at
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.layout.jobdirectory import FREEZER, UNIFIED

log = logging.getLogger(__name__)

# Between two looks at what happens in containers without a sign of jobs: pods come and go by the dozen, and a
# batch daemon that starts in one takes longer until it has a job.
PODS_SECS = 0.5
RESCAN_SECS = 300.0  # finds what no notification reported, such as a hierarchy mounted later
# Of v1, those of which every batch system uses one: there may be thousands of others' groups in each.
FOLLOWED = ("cpuacct", FREEZER, UNIFIED)


class JobArrivals:
    """Triggers a sample when a job's control group is created, loses a step, becomes empty or is removed.

    It watches jobs' groups and the directories above, but nothing below, where users may create groups.
    `run`, in a thread, calls `on_due` when a sample is due, and `on_ending` with the directory of a job that
    may be about to end. If the kernel grants no more watches, jobs are noticed by listing directories at
    intervals.
    """

    def __init__(
        self,
        root: str,
        clock: Clock,
        on_due: Callable[[], None],
        *,
        interval_secs: float,
        on_ending: Callable[[str], None] = lambda path: None,
        on_candidates: Callable[[], None] = lambda: None,
        shapes_at: Callable[[str], Shapes] = shapes_at,
        skips: Callable[[str], bool] = is_of_users,
    ) -> None:
        """Watch nothing yet. `on_candidates` is called when `tree.candidates()` has changed.

        `shapes_at` and `skips` are those of `GroupTree`.
        """
        self._root = root
        self._clock = clock
        self._on_due = on_due
        self._on_ending = on_ending
        self._interval_secs = interval_secs
        self._plan = ExtraSamples(interval_secs)
        self._inotify = Inotify()
        self._pods = Inotify()
        self.tree = GroupTree(
            shapes_at, skips, self._inotify, on_candidates, slow=self._pods, is_in_container=is_in_container
        )
        self._problem = ""
        self._is_anew = False
        self._stopping = threading.Event()

    def run(self) -> None:
        """Watch until `stop` is called; list what cannot be watched at the interval of regular samples."""
        scanned_secs = pods_due_secs = float("-inf")
        while not self._stopping.is_set():
            now_secs = self._clock.monotonic_secs()
            if self._is_anew or now_secs - scanned_secs >= self._rescan_secs():
                scanned_secs = now_secs
                self.rescan()
            due_secs = self._plan.wait_secs(now_secs)
            waits = [scanned_secs + self._rescan_secs() - now_secs, *([] if due_secs is None else [due_secs])]
            if now_secs >= pods_due_secs:
                are_pods_due = self._inotify.wait(min(waits), self._pods)
            else:
                are_pods_due = self._inotify.wait(min(*waits, pods_due_secs - now_secs))
            if are_pods_due:
                pods_due_secs = self._clock.monotonic_secs() + PODS_SECS
            self.follow(are_pods_due=are_pods_due)
        self._inotify.close()
        self._pods.close()

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()
        self._inotify.wake()

    def list_again(self) -> None:
        """Make `run` list all directories again, as jobs' groups may now be at other places than before.

        Any thread may call this.
        """
        self._is_anew = True
        self._inotify.wake()

    def rescan(self) -> None:
        """List the directories that cannot be watched (at the first call all); trigger no sample."""
        self._inotify.open()
        self._pods.open()
        try:
            hierarchies = find_hierarchies(self._root)
        except OSError:
            return  # sampling itself counts it
        tops = [hierarchies[kind] for kind in FOLLOWED if kind in hierarchies]
        is_anew, self._is_anew = self._is_anew, False
        self.tree.walk(tops or hierarchies.values(), is_anew=is_anew)
        self._warn_once()

    def follow(self, *, are_pods_due: bool = True) -> None:
        """Process the kernel's notifications, and call `on_due` if a sample is due.

        Those about pods are processed only if `are_pods_due`.
        """
        for change, path in self.tree.follow(is_slow=are_pods_due):
            if change is Change.BEGAN:
                self._plan.began(self._clock.monotonic_secs())
            elif change is Change.ENDED:
                self._plan.ended()
            else:
                if change is Change.ENDING:
                    self._on_ending(path)  # its usage is read at once
                self._plan.ending()
        self._warn_once()
        if self._plan.is_due(self._clock.monotonic_secs()):
            self._on_due()

    def _rescan_secs(self) -> float:
        return self._interval_secs if self.tree.unwatched else RESCAN_SECS

    def _warn_once(self) -> None:
        problem, count = self.tree.problem, len(self.tree.unwatched)
        if problem and problem != self._problem:  # once per kind of problem
            log.warning(
                "cannot watch every job's control group, so short jobs may be missed: %s; %d directories are "
                "scanned at intervals instead (fs.inotify.max_user_watches is %d)",
                *(problem, count, read_watch_limit()),
            )
            self._problem = problem
