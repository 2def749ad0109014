"""Maps the path of a control group to its job, container, service or session: pure."""

from __future__ import annotations

from functools import lru_cache

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.groups import BatchHierarchy, Membership
from jobfeatures_exporter.sampling.hierarchies.units import match_unit
from jobfeatures_exporter.snapshot import Kind, UnitKey

BATCH_HIERARCHIES: tuple[BatchHierarchy, ...] = tuple(
    each.load("groups").HIERARCHY for each in SYSTEMS.values() if each.has_groups
)
MAX_REMEMBERED = 4096  # cached job paths, and texts of /proc/PID/cgroup, which processes of a job share


@lru_cache(MAX_REMEMBERED)
def match_path(path: str, *, root: str = "") -> Membership | None:
    """Return the batch job that a path from the hierarchy's root belongs to, None if it is no job's.

    Only the start of a path is trusted: users may create groups of any name below groups delegated to them.
    `root` is the only prefix allowed before it, for a node that is itself a container.
    """
    below = _below(path, root)
    if below is None:
        return None
    for hierarchy in BATCH_HIERARCHIES:
        if membership := hierarchy.match(below):
            return membership
    return None


@lru_cache(MAX_REMEMBERED)
def parse_process_cgroup(text: str, *, root: str = "") -> Membership | UnitKey | None:
    """Return what a process belongs to by the text of its /proc/PID/cgroup, None if no group is recognised.

    Source: cgroups(7), lines ``ID:CONTROLLERS:PATH``. Never raises. Controllers may disagree on v1: a batch
    system's own process may be in the job in freezer only. The first line that names a job's step takes
    precedence, then the first that names a job, then a container, then a service or session.
    """
    job: Membership | None = None
    unit: UnitKey | None = None
    for line in text.split("\n"):
        _, _, rest = line.partition(":")
        _, colon, path = rest.partition(":")
        if not colon:
            continue
        membership = match_path(path, root=root)
        if membership is None:
            below = _below(path, root)
            found = None if below is None else match_unit(below)
            if found and (unit is None or (found.kind is Kind.CONTAINER and unit.kind is not Kind.CONTAINER)):
                unit = found
        elif membership.step is not None:
            return membership
        else:
            job = job or membership
    return job or unit


def _below(path: str, root: str) -> str | None:
    prefix = root.rstrip("/")
    if not path.startswith(f"{prefix}/"):
        return None
    return path[len(prefix) :].removesuffix(" (deleted)")
