"""Finds out whether a job's processes are frozen, which is how some batch systems suspend a job.

v1 shows it in ``freezer.state``, v2 in ``cgroup.events``, see cgroups(7). Either the job's own group is
frozen, or the groups of its steps (on v2 ``user`` in each), while the batch system's own processes beside
them run on. For a job that is not frozen, one small file is read at each sample.
"""

from __future__ import annotations

import enum
import os

from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text
from jobfeatures_exporter.sampling.groups.groupfiles import MAX_GAP_SAMPLES, NO_FILE, GroupFile, GroupFiles
from jobfeatures_exporter.sampling.layout.hierarchies import IDLE_STEPS, STEPS
from jobfeatures_exporter.sampling.layout.jobdirectory import FREEZER, UNIFIED, JobDirectory


class FreezerState(enum.Enum):
    """The freezer state of one control group: frozen, without processes, or running."""

    FROZEN = enum.auto()
    EMPTY = enum.auto()
    RUNS = enum.auto()


class Freezing:
    """Reads at each sample whether one job is frozen."""

    def __init__(self, directory: JobDirectory, files: GroupFiles, unreadable: Unreadable) -> None:
        # What the names of steps begin with; empty: the job's own group is frozen.
        system = directory.membership.batch_system
        self._steps = steps = STEPS.get(system, "")
        self._idle = f"{steps}{IDLE_STEPS.get(system)}"
        is_v2 = directory.version == 2
        self._top = directory.groups.get(UNIFIED if is_v2 else FREEZER, "")
        self._file = "cgroup.events" if is_v2 else "freezer.state"
        self._below = "/user" if is_v2 else ""
        self._files, self._unreadable = files, unreadable
        self._one: GroupFile[FreezerState] = (
            NO_FILE  # of the group that stands for all while it is not frozen
        )
        self._is_frozen = False  # as last read
        self._gap = self._to_skip = 0  # readings, while the job has no group in this hierarchy
        if self._top and not steps:
            self._one = files.file(f"{self._top}/{self._file}", parse_freezer_state)

    def read(self) -> bool:
        """Return whether all groups of the job that have processes are frozen now; False if unknown."""
        self._is_frozen = self._find()
        return self._is_frozen

    def has_changed(self) -> bool:
        """Read again; return whether the job was frozen or resumed since the last reading."""
        return self._is_frozen is not self.read()

    def _find(self) -> bool:
        state = self._one.known()
        if not self._steps or not self._top or state is FreezerState.RUNS:
            return state is FreezerState.FROZEN
        groups = self._list_steps()
        if state is None and groups:
            if self._one is not NO_FILE:
                self._files.forget(os.path.dirname(self._one.path))
            self._one = self._files.file(f"{groups[0]}/{self._file}", parse_freezer_state)
            if self._one.known() is FreezerState.RUNS:
                return False
        all_say = {self._read(f"{group}/{self._file}") for group in groups}
        return FreezerState.FROZEN in all_say and FreezerState.RUNS not in all_say

    def _list_steps(self) -> list[str]:
        """Return the groups of the job's steps, one with its programs first."""
        if self._to_skip:
            self._to_skip -= 1
            return []
        try:
            with os.scandir(self._top) as entries:
                names = [each.name for each in entries if each.name.startswith(self._steps)]
        except OSError as error:
            self._unreadable.add("job_steps", error)
            self._gap = self._to_skip = min(2 * self._gap + 1, MAX_GAP_SAMPLES)
            return []
        self._gap = 0
        names.sort(key=lambda name: (name == self._idle, name))
        return [f"{self._top}/{name}{self._below}" for name in names]

    def _read(self, path: str) -> FreezerState | None:
        text = self._unreadable.tried("job_frozen", read_text, path)
        return None if text is None else parse_freezer_state(text)


def parse_freezer_state(text: str) -> FreezerState:
    """Return a control group's state, from the text of ``freezer.state`` (v1) or ``cgroup.events`` (v2).

    On v1 the text is ``FROZEN`` or another word. On v2 it has lines like ``populated 1`` and (Linux 5.2)
    ``frozen 1``.
    """
    lines = text.split("\n")
    if "populated 0" in lines:
        return FreezerState.EMPTY
    return FreezerState.FROZEN if lines[0] == "FROZEN" or "frozen 1" in lines else FreezerState.RUNS
