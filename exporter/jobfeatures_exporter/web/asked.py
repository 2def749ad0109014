"""Which page a URL asks for; the URL is untrusted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WASTED = "wasted"  # sort order: the jobs that waste most now come first
DENSE = "dense"  # view: one line per job
FULL = "full"  # view: rows with bars and courses, however many jobs there are
MAX_LETTERS = 100


class Asked(NamedTuple):
    """The page asked for: the one at /, or a job's."""

    job_id: str = ""
    system: str = ""  # the job's, empty: any
    is_dense: bool = False
    sort: str = ""
    find: str = ""  # a job or user to search for in the cluster
    is_full: bool = False

    def address(self, *, view: str | None = None, sort: str | None = None) -> str:
        """Return the relative URL of the page at / with another view or order."""
        if view is None:
            view = DENSE if self.is_dense else FULL if self.is_full else ""
        order = self.sort if sort is None else sort
        parts = [f"view={view}"] * bool(view) + [f"sort={order}"] * bool(order)
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
        is_full=query.get("view") == FULL,
    )
