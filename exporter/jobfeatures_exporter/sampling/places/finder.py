"""Finds places of jobs' control groups that are not the default ones, and decides which of them count."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from jobfeatures.batch import SYSTEMS, BatchSettings
from jobfeatures.batch.groups import BatchHierarchy, Layout, count_named
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable
from jobfeatures_exporter.sampling.groups.grouptree import Shapes, find_candidates
from jobfeatures_exporter.sampling.layout.hierarchies import (
    BATCH_HIERARCHIES,
    ORDINARY,
    Parent,
    Places,
    is_in_container,
    is_no_place,
    is_of_users,
    layouts_at,
    shapes_at,
)
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.places.trust import (
    DaemonProcess,
    find_daemons,
    find_flaw,
    find_named_flaw,
    find_other_writer,
)
from jobfeatures_exporter.sampling.processes.namespace import GroupNamespace

log = logging.getLogger(__name__)
Answered = TypeVar("Answered")

LOOK_SECS = 60.0  # after which what was refused, and the configuration of batch systems, is looked at again
MAX_NAMED = 100  # paths in the log: what may make one may make thousands
# Of looks that are due: after so many, containers without a name are listed, to tell what is there.
LIST_SAMPLES = 10


class _Known(NamedTuple):
    """A place that counts, and the daemons that prove it, by batch system."""

    parent: Parent
    proofs: Mapping[str, Collection[DaemonProcess]] = MappingProxyType({})


class PlaceChanges(NamedTuple):
    """What a search has changed: the places that count, and the result of `PlaceFinder.shapes_at`."""

    places: bool = False
    shapes: bool = False


class PlaceFinder:
    """Finds the unusual places at which control groups count as jobs'.

    Below a parent that `config` or a batch system's own configuration names, all groups count that look like
    jobs'. Below any other, they count if `trust` proves that a batch system has made them. `systems` returns
    the batch systems on this node: a group whose name does not show its batch system belongs to one of these.
    """

    def __init__(
        self,
        config: BatchSettings,
        *,
        root: str,
        procfs: str,
        systems: Callable[[], Collection[str]],
    ) -> None:
        """Start without any place; `search` finds them."""
        self._config, self._root, self._procfs = config, root, procfs
        self._systems = systems
        self._absolute = GroupNamespace(root, Unreadable()).absolute
        self._tops: list[str] = []
        self._daemons: dict[str, list[DaemonProcess]] = {}  # of this look, by batch system
        self._known: dict[str, _Known] = {}
        self._refusals = 0
        self._named: set[str] = set()
        self._places = ORDINARY
        self._unlisted = LIST_SAMPLES  # looks that were due since all was listed
        self._nameless: Collection[str] = ()  # candidates in containers, of which nothing counts
        self._configured: Sequence[str] = ()
        self._read_entries()

    def places(self) -> Places:
        """Return the places that count now, an immutable record. Any thread may call this."""
        return self._places

    def reconfigure(self, config: BatchSettings, systems: Callable[[], Collection[str]]) -> None:
        """Take new settings, which apply from the next search on."""
        self._config, self._systems = config, systems

    def shapes_at(self, path: str) -> Shapes:
        """Return the patterns of relative paths at which jobs' groups may be below the group at `path`."""
        unmarked = self._unmarked(path)
        marked = shapes_at(path)
        return marked.union(*(layout.directories for _, layout in unmarked)) if unmarked else marked

    def skips(self, path: str) -> bool:
        """Return whether the group at `path` and all below can be ignored.

        These are groups made by users, and containers that settings do not name.
        """
        if is_of_users(path):
            return True
        names = path.split("/")[1:]
        is_named = any(all(map(fnmatchcase, names, entry)) for entry in self._entries)  # or may be, below
        return not is_named and is_in_container(path)

    def search(self, candidates: Collection[str] | None = None, *, is_due: bool = False) -> PlaceChanges:
        """Search the tree and decide again which places count; return what has changed. Never raises.

        `candidates` are paths of groups with a child that looks like a job's; None: all groups are listed to
        find them. `is_due` says that the search was due by time (`LOOK_SECS`), not because the candidates
        have changed.
        """
        self._unlisted += is_due
        try:
            self._tops = list(dict.fromkeys(find_hierarchies(self._root).values()))
        except OSError:
            return PlaceChanges()  # sampling counts it
        before = self._here, self._entries
        self._read_entries()
        self._daemons = {}
        known, self._known = self._known, {}
        refused: dict[str, str] = {}
        if candidates is None or self._unlisted >= LIST_SAMPLES:
            self._unlisted, self._nameless = 0, self._list()
        for path in sorted({*(candidates or ()), *self._nameless, *known}):
            try:
                flaw = "" if is_no_place(path) else self._judge(path, known.get(path))
            except OSError as error:
                if error.errno in VANISHED:
                    continue
                flaw = f"{error.filename or path}: {error.strerror}"
            if flaw:
                refused[path] = flaw
        self._tell(refused)
        parents = {path: each.parent for path, each in self._known.items()}
        are_others = parents != self._places.parents or refused != self._places.refused
        if are_others:
            self._places = Places(parents.values(), refused, self._refusals)
        return PlaceChanges(are_others, (self._here, self._entries) != before)

    def read_configuration(self) -> None:
        """Read which parents of jobs' groups the batch systems' own configuration names.

        This may run batch systems' commands.
        """
        self._configured = [
            each
            for name in self._systems()
            for each in _of_site(SYSTEMS[name].read_parents, self._config.of(name))
        ]

    def _read_entries(self) -> None:
        self._here = self._systems()
        named = (*self._config.common.cgroup_parents, *self._configured)
        self._entries = [tuple(each.split("/")[1:]) for each in named]

    def _judge(self, path: str, known: _Known | None) -> str:
        """Keep a path if it counts; return why it does not, "" also if nothing is there. Raises OSError."""
        tops = [top for top in self._tops if os.path.isdir(top + path)]
        names = {name for top in tops for name in list_directories(top + path)}
        entry = self._find_entry(path)
        found = layouts_at(path, names)
        found += [each for each in self._unmarked(path) if _has_one(each[1], names, is_named=bool(entry))]
        if known is not None and tops:
            found += [each for each in known.parent.layouts if each not in found]  # jobs come and go
        if not found:
            return ""
        if entry:
            flaws = filter(None, (find_named_flaw(top, entry, path) for top in tops))
            if not (flaw := next(flaws, "")):
                self._known[path] = _Known(Parent(path, tuple(found)))
            return flaw
        proofs: dict[str, Collection[DaemonProcess]] = {}
        problems: list[str] = []
        for system in dict.fromkeys(hierarchy.name for hierarchy, _ in found):
            of_system = [layout for hierarchy, layout in found if hierarchy.name == system]
            # Its daemon may have ended since, and not its jobs.
            proof = (known.proofs.get(system) if known is not None else None) or self._find_proof(
                system, path
            )
            flaw = proof if isinstance(proof, str) else _find_any_flaw(tops, path, of_system, names, proof)
            if isinstance(proof, str) or flaw:
                if any(_shows_job(top + path, layout) for top in tops for layout in of_system):
                    problems.append(flaw)
            else:
                proofs[system] = proof
        proven = tuple(each for each in found if each[0].name in proofs)
        if proven:
            self._known[path] = _Known(Parent(path, proven, is_proven=True), proofs)
        return "; ".join(problems)

    def _find_proof(self, system: str, path: str) -> Collection[DaemonProcess] | str:
        """Return the daemons that prove what a batch system has made, or why there are none."""
        if is_in_container(path):
            return "it is in a container"
        if system not in self._daemons:
            [hierarchy] = [each for each in BATCH_HIERARCHIES if each.name == system]
            trusted = {0, *_of_site(SYSTEMS[system].daemon_uids, self._config.of(system))}
            self._daemons[system] = find_daemons(
                hierarchy, self._procfs, trusted=trusted, absolute=self._absolute
            )
        daemons = self._daemons[system]
        good = [each for each in daemons if not each.problem]
        return good or next((each.problem for each in daemons), f"no daemon of {system} runs on this host")

    def _find_entry(self, path: str) -> str:
        """Return the longest start of a path that settings or configuration name, "" if there is none."""
        names = path.split("/")[1:]
        return "".join(f"/{name}" for name in names[: count_named(names, self._entries)])

    def _unmarked(self, path: str) -> list[tuple[BatchHierarchy, Layout]]:
        """Return the layouts without a mark of their own that may stand directly below a path."""
        entry = self._find_entry(path)
        if not entry and path.count("/") != 1:
            return []
        of_here = entry in {"", path} and not is_in_container(path)
        return [
            (hierarchy, layout)
            for hierarchy in BATCH_HIERARCHIES
            for layout in hierarchy.layouts
            if layout.distinctive_name is None
            if (of_here and hierarchy.name in self._here and (entry or layout.below_found))
            or (entry and layout.is_usual_parent(path.removeprefix(entry)))
            if not layout.is_usual_parent(path)
        ]

    def _tell(self, refused: Mapping[str, str]) -> None:
        self._refusals += len(refused.keys() - self._places.refused.keys())
        for path, flaw in refused.items():
            if path not in self._named and len(self._named) < MAX_NAMED:
                self._named.add(path)
                log.warning(
                    "control groups below %s look like jobs, but are ignored: %s; if they are "
                    "jobs, set batch.cgroup_parents",
                    path,
                    flaw,
                )

    def _list(self) -> Collection[str]:
        return find_candidates(self._tops, self.shapes_at, is_of_users)


def _of_site(
    answer: Callable[[Any], Collection[Answered]], config: SystemSettings[Any]
) -> Collection[Answered]:
    """Return what a function of a batch system returns, nothing if it raises an error."""
    try:
        return answer(config)
    except (OSError, JobfeaturesError):
        return ()  # not readable for us, or not there: what it would name has to be proven


def _find_any_flaw(
    tops: Sequence[str],
    path: str,
    layouts: Sequence[Layout],
    names: Iterable[str],
    daemons: Collection[DaemonProcess],
) -> str:
    """Return why a parent proves nothing in some hierarchy, nor the groups between it and those of jobs."""
    between = [
        f"{path}/{name}"
        for name in names
        for layout in layouts
        if layout.distinctive_name
        and layout.distinctive_name.fullmatch(name)
        and all(len(each) > 1 for each in layout.directories)
    ]
    made = next((each for each in between if each.endswith(".scope")), path)
    if flaw := find_other_writer(made, daemons):
        return flaw
    flaws = (
        find_flaw(top, each, daemons)
        for top in tops
        for each in between or [path]
        if os.path.isdir(top + each)
    )
    return next(filter(None, flaws), "")


def _has_one(layout: Layout, names: Iterable[str], *, is_named: bool) -> bool:
    pattern = layout.below_named if is_named else layout.below_found
    return pattern is not None and any(pattern.match(f"/{name}") for name in names)


def _shows_job(directory: str, layout: Layout) -> bool:
    """Return whether something like a job's group is below a directory. Raises OSError if unreadable."""
    below = [found for shape in layout.directories for found in _expand(directory, shape)]
    return any(layout.below_named.match(each) for each in below)


def _expand(directory: str, shape: tuple[str, ...]) -> Iterator[str]:
    for name in list_directories(directory):
        if fnmatchcase(name, shape[0]):
            if len(shape) == 1:
                yield f"/{name}"
            else:
                yield from (f"/{name}{each}" for each in _expand(f"{directory}/{name}", shape[1:]))


def list_directories(path: str) -> list[str]:
    """Return the names of subdirectories, without symbolic links. Raises OSError if unreadable."""
    with os.scandir(path) as entries:
        return [each.name for each in entries if each.is_dir(follow_symlinks=False)]
