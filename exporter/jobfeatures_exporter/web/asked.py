"""Determines which page a URL asks for; the URL is untrusted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WASTED = "wasted"  # sort order: the jobs that waste most now come first
DENSE = "dense"  # view: one line per job
FULL = "full"  # view: rows with bars and courses, however many jobs there are
MAX_LETTERS = 100


class AskedPage(NamedTuple):
    """The page that a URL asks for: the front page (at /) if `job_id` is empty, else that job's.

    `system` is the job's batch system (empty: any). `view` and `sort` choose form and order of the table of
    jobs; `find` is a job or user to search for in the cluster.
    """

    job_id: str = ""
    system: str = ""  # the job's, empty: any
    view: str = ""  # `DENSE`, `FULL`, or empty
    sort: str = ""
    find: str = ""  # a job or user to search for in the cluster

    def address(self, *, view: str | None = None, sort: str | None = None) -> str:
        """Return the relative URL of the front page with another `view` or `sort` (None: as on this page)."""
        shown, order = self.view if view is None else view, self.sort if sort is None else sort
        parts = [f"view={shown}"] * bool(shown) + [f"sort={order}"] * bool(order)
        return f"./{'?' if parts else ''}{'&'.join(parts)}"


FRONT = AskedPage()


def parse_asked(query: Mapping[str, str], job_id: str = "") -> AskedPage:
    """Return the page that a URL's path (`job_id`) and query ask for; unknown parameters are ignored."""
    if job_id:
        return AskedPage(job_id=job_id, system=query.get("system", "")[:MAX_LETTERS])
    view = query.get("view", "")
    return AskedPage(
        view=view if view in {DENSE, FULL} else "",
        sort=WASTED if query.get("sort") == WASTED else "",
        find=query.get("find", "").strip()[:MAX_LETTERS],
    )
