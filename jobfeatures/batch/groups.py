"""Defines how batch systems name jobs' control groups, and finds the job that a group's path names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple

from jobfeatures.records.model import Alias


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The job that the path of a control group names.

    The path has the job's id or, in `alias`, another name, such as that of an HTCondor slot. `step` is the
    job step, as in Slurm; None for the whole job's group. `node` is set where several emulated nodes share
    the host, and `uid` where the path has the user. `parent` is the path above the job's group, "" if that is
    one of the batch system's usual ones. `needs_confirmation`: the group counts only if the batch system
    reports that its job runs here.
    """

    batch_system: str
    job_id: str | None = None
    alias: Alias | None = None
    step: str | None = None
    node: str | None = None  # only where several emulated nodes share the host
    uid: int | None = None  # only in paths of Slurm on cgroup v1 and of OAR on v2
    parent: str = ""  # the path that it stands below, where that is no usual one
    needs_confirmation: bool = False  # counts only if the batch system says that its job runs here

    @property
    def name(self) -> str:
        """Return the job's id if the path has it, else the name of its alias."""
        return self.job_id or (self.alias.name if self.alias else "")

    @property
    def is_shared(self) -> bool:
        """Return whether successive jobs use the same group, as with the group of an HTCondor slot."""
        return self.alias is not None and self.alias.is_reused

    @property
    def owner(self) -> Alias | int | None:
        """Return what tells two jobs with the same id apart: an alias that is never used again, else the uid.

        None if the path has neither.
        """
        return self.uid if self.alias is None or self.is_shared else self.alias


class Layout(NamedTuple):
    """Regular expressions for the control groups that one version of a batch system makes for jobs.

    `path` matches a whole path below a usual parent group. `below_named` matches the rest of a path below a
    parent that an administrator has named, `below_found` below a parent that was found because the groups
    below it look like jobs'. Their named groups become the fields of `Membership`. `distinctive_name` matches
    the first name below a parent, if no other program makes such groups. `usual_parents` and `directories`
    (jobs' groups, relative to a parent) are paths, as tuples of fnmatch patterns, one per component.
    """

    path: re.Pattern[str] | None  # from the hierarchy's root; None: there are no usual parents
    below_named: re.Pattern[str]  # named in settings or the batch system's configuration
    below_found: re.Pattern[str] | None  # None: never
    distinctive_name: re.Pattern[str] | None
    usual_parents: tuple[tuple[str, ...], ...]  # they count without proof; () is the root
    directories: tuple[tuple[str, ...], ...]  # of whole jobs

    def is_usual_parent(self, parent: str) -> bool:
        """Return whether `parent`, a path from the root, is one of the usual parent groups of jobs.

        Groups below a usual parent count as those of jobs without a further proof.
        """
        names = parent.split("/")[1:]
        return any(
            len(shape) == len(names) and all(map(fnmatchcase, names, shape)) for shape in self.usual_parents
        )


def make_layout(
    below: str,
    *directories: tuple[str, ...],
    parents: str | None = None,
    usual_parents: tuple[tuple[str, ...], ...] = (),
    distinctive_name: str | None = None,
    below_found: str | None = None,
) -> Layout:
    """Return a `Layout` with these values, and with its regular expressions compiled.

    `below` is `Layout.below_named`; it also serves as `below_found` if only `distinctive_name` is given.
    `parents` matches the paths of `usual_parents`; None: there are none.
    """
    if below_found is None and distinctive_name is not None:
        below_found = below
    return Layout(
        path=None if parents is None else re.compile(parents + below, re.ASCII),
        below_named=re.compile(below, re.ASCII),
        below_found=None if below_found is None else re.compile(below_found, re.ASCII),
        distinctive_name=None if distinctive_name is None else re.compile(distinctive_name, re.ASCII),
        usual_parents=usual_parents,
        directories=directories,
    )


class BatchHierarchy(NamedTuple):
    """How one batch system names the control groups of jobs, and which of its programs make them.

    `daemons` maps the names of these programs to a text that must be in the path of the program's own control
    group, "" if the program's name is proof enough. The names of steps' groups begin with `steps`: when a job
    is suspended, these groups are frozen and not the job's. The step `idle_step` runs no program of the job.
    `alias` is the kind of name that paths have instead of a job id.
    """

    name: str
    layouts: tuple[Layout, ...]
    daemons: Mapping[str, str] = MappingProxyType({})
    steps: str = ""
    idle_step: str = ""
    alias: Alias = Alias("")

    @property
    def job_directories(self) -> tuple[tuple[str, ...], ...]:
        """Return the paths of jobs' groups below usual parents, as tuples of fnmatch patterns."""
        return tuple(
            (*parent, *directory)
            for each in self.layouts
            for parent in each.usual_parents
            for directory in each.directories
        )

    def match(self, path: str) -> Membership | None:
        """Return the job to which a control group belongs by its path; None if no layout matches."""
        for layout in self.layouts:
            if layout.path is not None and (found := layout.path.match(path)):
                return self.read(found)
        return None

    def read(self, found: re.Match[str], parent: str = "", *, is_proven: bool = False) -> Membership:
        """Return the job in `found`, the match of a path with one of the regular expressions of a `Layout`.

        `parent` is the path above, "" if it is a usual one. `is_proven`: no setting names the parent, but a
        daemon of the batch system runs here; then the group counts only if the batch system reports the job
        here.
        """
        values: dict[str, Any] = {name: text and unescape(text) for name, text in found.groupdict().items()}
        if "uid" in values:
            values["uid"] = int(values["uid"])
        if values.get("alias"):
            values["alias"] = self.alias._replace(name=values["alias"])
        return Membership(batch_system=self.name, parent=parent, needs_confirmation=is_proven, **values)


def count_named(names: Sequence[str], entries: Iterable[Sequence[str]]) -> int:
    """Return how many components the longest of `entries` that matches the beginning of a path has; else 0.

    `names` are the path's components. An entry is a list of fnmatch patterns, one for each component.
    """
    fitting = (each for each in entries if len(each) <= len(names))
    return max((len(each) for each in fitting if all(map(fnmatchcase, names, each))), default=0)


_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def unescape(name: str) -> str:
    r"""Undo systemd's escaping of a name, ``a\x2db`` → ``a-b``; see systemd.unit(5).

    Bytes outside ASCII stay escaped, because a name may be cut within a multi-byte sequence.
    """

    def byte(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return chr(value) if 0x20 <= value < 0x7F and value != 0x2F else match[0]

    return _ESCAPE.sub(byte, name)
