"""What somebody asks of the page, by its address: all of it may be anything. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WASTED = "wasted"  # an order of jobs: those that waste most now come first
DENSE = "dense"  # a view: one line a job
MAX_LETTERS = 100


class Asked(NamedTuple):
    """One page: that at /, or that of a job."""

    job_id: str = ""
    system: str = ""  # the job's, empty: any
    is_dense: bool = False
    sort: str = ""
    find: str = ""  # a job or a user, over the cluster

    def address(self, *, is_dense: bool | None = None, sort: str | None = None) -> str:
        """Return the address of the page at / with something changed."""
        view = self.is_dense if is_dense is None else is_dense
        order = self.sort if sort is None else sort
        parts = [f"view={DENSE}"] * view + [f"sort={order}"] * bool(order)
        return f"./{'?' if parts else ''}{'&'.join(parts)}"


FRONT = Asked()


def parse_asked(query: Mapping[str, str], job_id: str = "") -> Asked:
    """Return what an address asks for; what is not known there counts for nothing."""
    if job_id:
        return Asked(job_id=job_id, system=query.get("system", "")[:MAX_LETTERS])
    return Asked(
        is_dense=query.get("view") == DENSE,
        sort=WASTED if query.get("sort") == WASTED else "",
        find=query.get("find", "").strip()[:MAX_LETTERS],
    )
