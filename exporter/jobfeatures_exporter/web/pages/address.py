"""Addresses of pages, relative to the one at /. Pure."""

from __future__ import annotations

from urllib.parse import quote

from jobfeatures.model import JobKey
from jobfeatures_exporter.web.pages.markup import Html, name, tag


def job_address(key: JobKey, base: str = "") -> str | None:
    """Return where a job's page is; None for a name that an address cannot hold."""
    if not key.job_id or set(key.job_id) <= {"."}:
        return None
    spelled = quote(key.job_id, safe="", errors="surrogateescape")
    return f"{base}job/{spelled}?system={quote(key.batch_system, safe='', errors='surrogateescape')}"


def job_link(key: JobKey, base: str = "") -> Html:
    """Return a job's number as a link to its page."""
    where = job_address(key, base)
    shown = name(key.job_id, 24)
    return shown if where is None else tag("a", shown, href=where)
