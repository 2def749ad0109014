"""How a batch system names its control groups, and what a control group's path says about a job: pure."""

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
    """What a control group's path says about its job: `job_id`, or an `alias` whose id is found elsewhere."""

    batch_system: str
    job_id: str | None = None
    alias: Alias | None = None
    step: str | None = None
    node: str | None = None  # only where several emulated nodes share the host
    uid: int | None = None  # only in paths of Slurm on cgroup v1 and of OAR on v2
    parent: str = ""  # the path that it stands below, where that is no ordinary one
    needs_word: bool = False  # counts only if the batch system says that its job runs here

    @property
    def name(self) -> str:
        """Return the job's id, else its alias, by which it goes until the id is found."""
        return self.job_id or (self.alias.name if self.alias else "")

    @property
    def is_shared(self) -> bool:
        """Return whether a group with this name is used by one job after another, like a slot's."""
        return self.alias is not None and self.alias.is_reused

    @property
    def owner(self) -> Alias | int | None:
        """Return what tells a job's runs apart: an alias that no other run has, else the uid if known."""
        return self.uid if self.alias is None or self.is_shared else self.alias


class Layout(NamedTuple):
    """One form of jobs' control groups: the part of their paths that the batch system makes below a parent.

    Patterns match paths with their ``/``; their named groups are fields of `Membership`. Shapes have one
    fnmatch pattern per path component.
    """

    path: re.Pattern[str] | None  # from the hierarchy's root, below an ordinary parent; None: it has none
    below: re.Pattern[str]  # below a parent that settings or configuration name
    strict: re.Pattern[str] | None  # below one that is found and proven; None: never
    mark: re.Pattern[str] | None  # the first name below a parent, if no other program writes such names
    ordinary: tuple[tuple[str, ...], ...]  # shapes of the parents that count without proof; () is the root
    directories: tuple[tuple[str, ...], ...]  # shapes of whole jobs' directories below any parent

    def is_ordinary(self, parent: str) -> bool:
        """Return whether `parent`, a path from the root, is one below which jobs' groups need no proof."""
        names = parent.split("/")[1:]
        return any(
            len(shape) == len(names) and all(map(fnmatchcase, names, shape)) for shape in self.ordinary
        )


def make_layout(
    below: str,
    *directories: tuple[str, ...],
    parents: str | None = None,
    ordinary: tuple[tuple[str, ...], ...] = (),
    mark: str | None = None,
    strict: str | None = None,
) -> Layout:
    """Return a layout with its regular expressions compiled.

    `parents` matches the ordinary parents; None: there are none. Without `strict`, `below` is used if there
    is a `mark`.
    """
    strict = below if strict is None and mark is not None else strict
    return Layout(
        path=None if parents is None else re.compile(parents + below, re.ASCII),
        below=re.compile(below, re.ASCII),
        strict=None if strict is None else re.compile(strict, re.ASCII),
        mark=None if mark is None else re.compile(mark, re.ASCII),
        ordinary=ordinary,
        directories=directories,
    )


class BatchHierarchy(NamedTuple):
    """How one batch system names control groups, and who makes them.

    `daemons` are the names of its own programs on a node, each with a text that the path of its control group
    has to contain where the program's name proves too little. `steps` begins the names of steps' groups:
    they, not the job's, are frozen when a job is suspended; the step `idle_step` runs no program of the job.
    `alias` has no name yet: that is what the group ``alias`` of a layout's pattern matches.
    """

    name: str
    layouts: tuple[Layout, ...]
    daemons: Mapping[str, str] = MappingProxyType({})
    steps: str = ""
    idle_step: str = ""
    alias: Alias = Alias("")

    @property
    def job_directories(self) -> tuple[tuple[str, ...], ...]:
        """Return the paths of jobs' own groups below ordinary parents: one fnmatch pattern per component."""
        return tuple(
            (*parent, *directory)
            for each in self.layouts
            for parent in each.ordinary
            for directory in each.directories
        )

    def match(self, path: str) -> Membership | None:
        """Return the job that a path from the root names; None if it is no group of this batch system."""
        for layout in self.layouts:
            if layout.path is not None and (found := layout.path.match(path)):
                return self.read(found)
        return None

    def read(self, found: re.Match[str], parent: str = "", *, is_proven: bool = False) -> Membership:
        """Return the job that a layout's pattern has matched; `parent` is given if it is not ordinary."""
        values: dict[str, Any] = {name: text and unescape(text) for name, text in found.groupdict().items()}
        if "uid" in values:
            values["uid"] = int(values["uid"])
        if values.get("alias"):
            values["alias"] = self.alias._replace(name=values["alias"])
        return Membership(batch_system=self.name, parent=parent, needs_word=is_proven, **values)


def count_named(names: Sequence[str], entries: Iterable[Sequence[str]]) -> int:
    """Return how many components, from the root, the longest matching entry covers; 0 if none matches.

    `names` are a path's components. An entry has one fnmatch pattern for each, as in `batch.cgroup_parents`.
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
