"""Which page a URL asks for; the URL is untrusted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WASTED = "wasted"  # sort order: the jobs that waste most now come first
DENSE = "dense"  # view: one line per job
MAX_LETTERS = 100


class Asked(NamedTuple):
    """The page asked for: the one at /, or a job's."""

    job_id: str = ""
    system: str = ""  # the job's, empty: any
    is_dense: bool = False
    sort: str = ""
    find: str = ""  # a job or user to search for in the cluster

    def address(self, *, is_dense: bool | None = None, sort: str | None = None) -> str:
        """Return the relative URL of the page at / with another view or order."""
        view = self.is_dense if is_dense is None else is_dense
        order = self.sort if sort is None else sort
        parts = [f"view={DENSE}"] * view + [f"sort={order}"] * bool(order)
        return f"./{'?' if parts else ''}{'&'.join(parts)}"


FRONT = Asked()


def parse_asked(query: Mapping[str, str], job_id: str = "") -> Asked:
    """Return what a URL's query asks for; unknown parameters and values are ignored."""
    if job_id:
        return Asked(job_id=job_id, system=query.get("system", "")[:MAX_LETTERS])
    return Asked(
        is_dense=query.get("view") == DENSE,
        sort=WASTED if query.get("sort") == WASTED else "",
        find=query.get("find", "").strip()[:MAX_LETTERS],
    )
