"""Tells from a control group's path to which job, container, service or session it belongs. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from glob import escape
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.groups import BatchHierarchy, Layout, Membership, unescape
from jobfeatures_exporter.model.snapshot import Kind, UnitKey

BATCH_HIERARCHIES: tuple[BatchHierarchy, ...] = tuple(
    hierarchy for each in SYSTEMS.values() if (hierarchy := each.hierarchy()) is not None
)
SHAPES = {each.name: each.job_directories for each in BATCH_HIERARCHIES}  # below ordinary parents
STEPS = {each.name: each.steps for each in BATCH_HIERARCHIES}
IDLE_STEPS = {each.name: each.idle_step for each in BATCH_HIERARCHIES}
_DELETED = " (deleted)"  # follows the path of a removed group
MAX_REMEMBERED = 4096  # cached job paths, and texts of /proc/PID/cgroup, which processes of a job share

# Names of groups of containers, services and sessions, see `match_unit`.
_HEX = "(?P<id>[0-9a-f]{12})[0-9a-f]{52}"
_RUNTIMES = {
    "docker": "docker",
    "libpod": "podman",
    "libpod-conmon": "podman",
    "cri-containerd": "cri",
    "crio": "cri",
    "crio-conmon": "cri",
    "nerdctl": "containerd",
}
_SCOPE = re.compile(rf"(?:.{{0,255}}:)?(?P<runtime>{'|'.join(_RUNTIMES)})[-:]{_HEX}(?:\.scope)?", re.ASCII)
_IMAGE = re.compile(r"(?P<runtime>apptainer|singularity)-(?P<id>[0-9]{1,10})\.scope", re.ASCII)
_MACHINE = re.compile(r"machine-(?P<name>.{1,200})\.scope|systemd-nspawn@(?P<nspawn>.{1,200})\.service")
# Groups created by the runtimes themselves, without systemd, by the path from the root.
_DIRECT = (
    ("docker", re.compile(rf"/docker/{_HEX}(?:/|\Z)")),
    ("podman", re.compile(rf"/libpod_parent/libpod-(?:conmon-)?{_HEX}(?:/|\Z)")),
    (
        "cri",
        re.compile(
            rf"/kubepods(?:/besteffort|/burstable)?/pod[0-9a-f_-]{{32,36}}/(?:crio-)?{_HEX}(?:/|\Z)"
        ),
    ),
    ("containerd", re.compile(rf"/(?:default|k8s\.io|moby)/{_HEX}(?:/|\Z)")),
    ("lxc", re.compile(r"/lxc(?:\.payload|\.monitor)?[./](?P<id>[^/]{1,64})(?:/|\Z)")),
    ("apptainer", re.compile(r"/(?:apptainer|singularity)/(?P<id>[0-9]{1,10})(?:/|\Z)")),
)  # fmt: skip
_LONG_ID = re.compile(r"[0-9a-f]{64}")  # of a container, whatever runtime and whatever parent
_USER = re.compile(r"/user\.slice/(?P<name>user-[0-9]{1,10})\.slice(?:/|\Z)", re.ASCII)


_LAYOUTS = [(hierarchy, layout) for hierarchy in BATCH_HIERARCHIES for layout in hierarchy.layouts]
_MARKED = [layout.below_found for _, layout in _LAYOUTS if layout.distinctive_name and layout.below_found]
# What a batch system writes below any parent, by which that is found.
SUFFIXES = frozenset(shape for _, each in _LAYOUTS if each.distinctive_name for shape in each.directories)
_USUAL = frozenset(
    {
        ("system.slice",),
        *(path for _, each in _LAYOUTS for path in each.usual_parents if "*" not in "".join(path)),
    }
)
_OF_USERS = re.compile(r"(?:\A|.*/)(?:user\.slice|user@[^/]{1,255}\.service)(?:/|\Z)")


class Parent(NamedTuple):
    """A control group below which groups count as jobs', though batch systems make none there by default.

    `layouts` are the batch systems, and their layouts of groups, that are expected there. `is_proven` says
    that the groups found there were proven to be a batch system's; else settings or configuration name the
    parent.
    """

    path: str
    layouts: tuple[tuple[BatchHierarchy, Layout], ...]
    is_proven: bool = False  # found by what stands there, and proven; else settings or configuration name it


class Places:
    """The places where jobs' control groups may be, besides the batch systems' default places; immutable.

    `refused` has paths below which groups look like jobs' but do not count, with the reason; `refusals`
    counts them since the start.
    """

    def __init__(
        self,
        parents: Iterable[Parent] = (),
        refused: Mapping[str, str] = MappingProxyType({}),
        refusals: int = 0,
    ) -> None:
        self.refused, self.refusals = refused, refusals
        # What is named needs no word, though it may be below what is proven.
        order = sorted(parents, key=lambda each: (each.is_proven, each.path))
        self.parents = {each.path: each for each in order}
        self._patterns = [
            (each, hierarchy, layout.below_found if each.is_proven else layout.below_named)
            for each in self.parents.values()
            for hierarchy, layout in each.layouts
        ]
        self.shapes: Mapping[str, Collection[tuple[str, ...]]] = {
            name: [
                (*map(escape, each.path.split("/")[1:]), *directory)
                for each in self.parents.values()
                for hierarchy, layout in each.layouts
                for directory in layout.directories
                if hierarchy.name == name
            ]
            for name in SHAPES
        }

    def match(self, path: str) -> Membership | None:
        """Return the job whose control group has this path; None if it is not at one of these places.

        The path is relative to the hierarchy's root.
        """
        for parent, hierarchy, pattern in self._patterns:
            if pattern is not None and path.startswith(parent.path):
                found = pattern.match(path, len(parent.path))
                if found is not None:
                    return hierarchy.read(found, parent.path, is_proven=parent.is_proven)
        return None


ORDINARY = Places()


@lru_cache(MAX_REMEMBERED)
def match_path(path: str, places: Places = ORDINARY) -> Membership | None:
    """Return the batch job that a control group's path belongs to; None if it belongs to no job.

    The path is relative to the hierarchy's root. Only its start is trusted: users may create groups of any
    name below groups delegated to them. `places` are the unusual places at which jobs' groups may be.
    """
    path = path.removesuffix(_DELETED)
    for hierarchy in BATCH_HIERARCHIES:
        if membership := hierarchy.match(path):
            return membership
    return places.match(path)


def find_parent(path: str) -> str | None:
    """Return the parent of the first group on a path whose name looks like a job's; None if there is none.

    A name alone proves nothing.
    """
    found = [match for pattern in _MARKED if (match := pattern.search(path)) is not None]
    return min((path[: each.start()] for each in found), key=len, default=None)


def shapes_at(path: str) -> frozenset[tuple[str, ...]]:
    """Return the shapes that paths from the group at `path` to jobs' groups may have.

    A shape is a tuple of patterns, one for each directory name. The path of the root is "".
    """
    return SUFFIXES if path else SUFFIXES.union(*SHAPES.values())


def is_of_users(path: str) -> bool:
    """Return whether a path is in a systemd user's slice or manager, in which that user makes the groups."""
    return _OF_USERS.match(path) is not None


@lru_cache(MAX_REMEMBERED)
def name_place(parent: str) -> str:
    """Return the name of the place of jobs' groups below `parent`; it is PLACE in a job id ``ID@PLACE``.

    In a container, this is the container's name, followed by the path within it unless that is a usual one.
    Otherwise it is the path of `parent`.
    """
    names = parent.split("/")
    for depth in range(2, len(names) + 1):
        unit = match_unit("/".join(names[:depth]))
        if unit is not None and unit.kind is Kind.CONTAINER:
            rest = names[depth:]
            return "/".join([unit.name, *([] if tuple(rest) in _USUAL else rest)])
    return parent.strip("/")


def is_no_place(path: str) -> bool:
    """Return whether no control group at a path or below can be a job's own.

    True for paths in which users make groups, and within a job's group.
    """
    if is_of_users(path) or match_path(path) is not None:
        return True
    return find_parent(path) is not None


def is_in_container(path: str) -> bool:
    """Return whether a path is the group of a container or pod, or lies below one, at any depth."""
    if _LONG_ID.search(path) or any(pattern.search(path) for _, pattern in _DIRECT):
        return True
    kinds = (_match_name(name) for name in path.split("/"))
    return "/kubepods" in path or any(each is not None and each.kind is Kind.CONTAINER for each in kinds)


def layouts_at(path: str, names: Iterable[str]) -> list[tuple[BatchHierarchy, Layout]]:
    """Return the batch systems that may have made children of the group at `path` for jobs, with the layout.

    These are the batch systems by whose layout of control groups one of the children's `names` is a job's.
    Layouts for which the path is a default place are left out.
    """
    return [
        (hierarchy, layout)
        for hierarchy, layout in _LAYOUTS
        if layout.distinctive_name is not None
        and any(map(layout.distinctive_name.fullmatch, names))
        and not layout.is_usual_parent(path)
    ]


@lru_cache(MAX_REMEMBERED)
def parse_process_cgroup(text: str, places: Places = ORDINARY) -> Membership | UnitKey | None:
    """Return the job, else the container, service or session, that a process belongs to; None if to none.

    `text` is that of /proc/PID/cgroup, with lines ``ID:CONTROLLERS:PATH``, see cgroups(7). On v1 lines may
    disagree: a batch system's own process may be in the job's freezer group only. The first line that names a
    job's step takes precedence, then the first that names a job, then a container, then a service or session.
    `places` are the unusual places at which jobs' groups may be. Never raises.
    """
    job: Membership | None = None
    unit: UnitKey | None = None
    for line in text.split("\n"):
        _, _, rest = line.partition(":")
        path = rest.partition(":")[2]
        if not path.startswith("/"):
            continue
        membership = match_path(path, places)
        if membership is None:
            found = match_unit(path.removesuffix(_DELETED))
            if found and (unit is None or (found.kind is Kind.CONTAINER and unit.kind is not Kind.CONTAINER)):
                unit = found
        elif membership.step is not None:
            return membership
        else:
            job = job or membership
    return job or unit


def is_removed(text: str) -> bool:
    """Return whether a process's group on v2 was removed, which /proc/PID/cgroup marks by ``(deleted)``."""
    return text.rstrip("\n").endswith(_DELETED)


def match_unit(path: str) -> UnitKey | None:
    """Return the container, service or user session that a control group's path belongs to; None if to none.

    Source: systemd.unit(5), systemd.slice(5), user@.service(5), and groups made by container runtimes. Slices
    are skipped; the first unit below them, which only root can create, decides. Everything below
    ``user-UID.slice`` is that user's session, including rootless containers.
    """
    if found := _USER.match(path):
        return UnitKey(Kind.SESSION, found["name"])
    parts = path.split("/")
    number = 1
    while number < len(parts) and parts[number].endswith(".slice"):
        number += 1
    if number == len(parts) or parts[1] == "user.slice":
        return None
    if parts[number].endswith((".service", ".scope")) or ":" in parts[number]:
        return _match_name(parts[number])
    if number == 1:
        for runtime, pattern in _DIRECT:
            if found := pattern.match(path):
                return UnitKey(Kind.CONTAINER, f"{runtime}-{found['id']}")
    return None


def _match_name(name: str) -> UnitKey | None:
    if found := _SCOPE.fullmatch(name):
        return UnitKey(Kind.CONTAINER, f"{_RUNTIMES[found['runtime']]}-{found['id']}")
    if found := _IMAGE.fullmatch(name):
        return UnitKey(Kind.CONTAINER, f"apptainer-{found['id']}")
    if found := _MACHINE.fullmatch(name):
        return UnitKey(Kind.CONTAINER, f"machine-{unescape(found['name'] or found['nspawn'])}")
    return UnitKey(Kind.SERVICE, name) if name.endswith((".service", ".scope")) else None
