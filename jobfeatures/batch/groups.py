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
    """What a control group's path says. Either `job_id` or `alias` is known."""

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
        """Return the identifier that stands for the job until a better one is known."""
        return self.job_id or (self.alias.name if self.alias else "")

    @property
    def is_shared(self) -> bool:
        """Return whether one job after another has this group's name."""
        return self.alias is not None and self.alias.is_reused

    @property
    def owner(self) -> Alias | int | None:
        """Return what distinguishes runs of a job: a name of this run alone, else the uid."""
        return self.uid if self.alias is None or self.is_shared else self.alias


class Layout(NamedTuple):
    """One form of the control groups of jobs: what a batch system itself writes, below some parent.

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
        """Return whether a path from the root is an ordinary parent of such groups."""
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
    """Return a layout from the sources of its patterns.

    `parents` matches the ordinary ones; None: there are none. `strict` is `below` itself by default, where
    there is a `mark`.
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

    `daemons` are the names of its own programs on a node, each with a part of the name of its control group,
    where the program's name is not enough. `steps` begins the names of the groups below a job's, one a step,
    that are frozen in its place when it is suspended; `idle_step` is the one without a program of the job's.
    `alias`, without its name, is what stands for a job in patterns with a group of that name.
    """

    name: str
    layouts: tuple[Layout, ...]
    daemons: Mapping[str, str] = MappingProxyType({})
    steps: str = ""
    idle_step: str = ""
    alias: Alias = Alias("")

    @property
    def job_directories(self) -> tuple[tuple[str, ...], ...]:
        """Return the shapes of whole jobs' directories below ordinary parents."""
        return tuple(
            (*parent, *directory)
            for each in self.layouts
            for parent in each.ordinary
            for directory in each.directories
        )

    def match(self, path: str) -> Membership | None:
        """Return what a path from the root says, None if it does not belong to this batch system."""
        for layout in self.layouts:
            if layout.path is not None and (found := layout.path.match(path)):
                return self.read(found)
        return None

    def read(self, found: re.Match[str], parent: str = "", *, is_proven: bool = False) -> Membership:
        """Return what a layout's pattern has found, below a `parent` that is no ordinary one."""
        values: dict[str, Any] = {name: text and unescape(text) for name, text in found.groupdict().items()}
        if "uid" in values:
            values["uid"] = int(values["uid"])
        if values.get("alias"):
            values["alias"] = self.alias._replace(name=values["alias"])
        return Membership(batch_system=self.name, parent=parent, needs_word=is_proven, **values)


def count_named(names: Sequence[str], entries: Iterable[Sequence[str]]) -> int:
    """Return how many names of a path, from the root on, the longest fitting entry matches; 0 if none fits.

    Entries have one fnmatch pattern per name, as `batch.cgroup_parents`.
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
