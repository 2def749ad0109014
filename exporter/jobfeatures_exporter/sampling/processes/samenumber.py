"""Tells apart jobs of several clusters with the same number, by place and node of their groups. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.sampling.layout.hierarchies import name_place
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory

Place = tuple[JobKey, str, str | None]  # what a group names, and the place and the node in its path


class _Rank(NamedTuple):
    """The order of jobs with the same number: the lowest keeps the plain number as its id."""

    had_place_in_id: bool
    is_further: bool
    needs_no_word: bool  # of its batch system
    is_elsewhere: bool  # on no node that its batch system names
    is_new: bool
    made: list[tuple[str, int]]  # inodes of its group by hierarchy: the kernel counts up
    place: str


_NEVER = ("\U0010ffff", 0)  # comes last: where no group is seen


def tell_apart(
    named: Callable[[Membership], JobKey],
    groups: Collection[JobDirectory],
    members: Collection[Membership],
    jobs: Mapping[JobKey, Job],
    before: Mapping[Place, JobKey],
) -> Mapping[Place, JobKey]:
    """Return the key that each job gets, by the name, place and node of its control group (see `place_of`).

    If several jobs have the same id, one of them keeps the id, and the others become ``ID@PLACE``. A job that
    has become ``ID@PLACE`` remains so. The id is kept by the first job in this order: at an ordinary place;
    at another place, if its batch system says that it runs here; on a node that its batch system names; with
    the id in `before`, the last result; with the oldest group. Groups whose name several jobs share are left
    out. `named` returns the job that a group names.
    """
    memberships = [*(group.membership for group in groups), *members]
    where = {(each.parent, each.node) for each in memberships}
    if len(where) < 2 and not before and not any(parent for parent, _ in where):
        return {}
    oldest: dict[Membership, list[tuple[str, int]]] = {}
    for group in groups:
        oldest[group.membership] = min(
            oldest.get(group.membership, [_NEVER]), sorted(group.inodes.items()) or [_NEVER]
        )
    places: dict[JobKey, dict[str, list[_Rank]]] = {}
    names: dict[Place, tuple[JobKey, str]] = {}
    for each in memberships:
        key = named(each)
        if not each.is_shared and not (each.needs_confirmation and key not in jobs):
            is_named = key in jobs and each.node in jobs[key].nodes
            place, was = _name(each, is_named=is_named), before.get(place_of(key, each))
            names[place_of(key, each)] = key, place
            rank = _Rank(
                was == key._replace(job_id=f"{key.job_id}@{place}"),
                bool(each.parent),
                not each.needs_confirmation,
                not is_named,
                was is None,
                oldest.get(each, [_NEVER]),
                place,
            )
            places.setdefault(key, {}).setdefault(place, []).append(rank)
    ids: dict[tuple[JobKey, str], JobKey] = {}
    for key, ranks in places.items():
        for number, rank in enumerate(sorted(map(min, ranks.values()))):
            has_place_in_id = rank.had_place_in_id or number > 0
            own = f"{key.job_id}@{rank.place}"
            ids[key, rank.place] = key._replace(job_id=own) if has_place_in_id else key
    return {place: ids[each] for place, each in names.items()}


def place_of(key: JobKey, membership: Membership) -> Place:
    """Return what tells a job from others with its id: its key, and the place and node of its group."""
    return key, name_place(membership.parent), membership.node


def _name(membership: Membership, *, is_named: bool) -> str:
    """Return what tells a job from others of its number: its place, and there its node, if several share it.

    The nodes that its batch system names run one job together.
    """
    place, node = name_place(membership.parent), membership.node
    return place if node is None or is_named else "/".join(filter(None, (place, node)))
