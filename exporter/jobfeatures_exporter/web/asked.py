"""Which page a URL asks for; the URL is untrusted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WASTED = "wasted"  # sort order: the jobs that waste most now come first
DENSE = "dense"  # view: one line per job
FULL = "full"  # view: rows with bars and courses, however many jobs there are
MAX_LETTERS = 100


class AskedPage(NamedTuple):
    """The page asked for: the one at /, or a job's."""

    job_id: str = ""
    system: str = ""  # the job's, empty: any
    view: str = ""  # `DENSE`, `FULL`, or empty
    sort: str = ""
    find: str = ""  # a job or user to search for in the cluster

    def address(self, *, view: str | None = None, sort: str | None = None) -> str:
        """Return the relative URL of the page at / with another `view` or order, None: the same."""
        shown, order = self.view if view is None else view, self.sort if sort is None else sort
        parts = [f"view={shown}"] * bool(shown) + [f"sort={order}"] * bool(order)
        return f"./{'?' if parts else ''}{'&'.join(parts)}"


FRONT = AskedPage()


def parse_asked(query: Mapping[str, str], job_id: str = "") -> AskedPage:
    """Return what a URL's query asks for; unknown parameters and values are ignored."""
    if job_id:
        return AskedPage(job_id=job_id, system=query.get("system", "")[:MAX_LETTERS])
    view = query.get("view", "")
    return AskedPage(
        view=view if view in {DENSE, FULL} else "",
        sort=WASTED if query.get("sort") == WASTED else "",
        find=query.get("find", "").strip()[:MAX_LETTERS],
    )
