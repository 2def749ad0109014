"""Conditional requests: pure. Source: RFC 9110, 8.8 and 13."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from jobfeatures.publish.remotevalues import Feature

MAX_HEADER_CHARACTERS = 1024


def has_changed(headers: Mapping[str, str], found: Feature) -> bool:
    """Return whether the client's copy is out of date (or it has none), so that 304 is not the answer."""
    tags = headers.get("If-None-Match")
    if tags is not None:
        return not _is_listed(found.etag, tags, weakly=True)
    since = headers.get("If-Modified-Since")
    if since is None or found.modified_secs is None or len(since) > MAX_HEADER_CHARACTERS:
        return True
    try:
        date = parsedate_to_datetime(since)
        if date.tzinfo is None:  # the obsolete form of asctime(), which is in GMT too
            date = date.replace(tzinfo=UTC)
        return found.modified_secs > date.timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return True  # not a date: the header is ignored


def may_write(headers: Mapping[str, str], etag: str, *, exists: bool) -> bool:
    """Return whether the writer's preconditions, If-Match and If-None-Match, hold."""
    wanted = headers.get("If-Match")
    if wanted is not None and not (exists and _is_listed(etag, wanted, weakly=False)):
        return False
    unwanted = headers.get("If-None-Match")
    return unwanted is None or not (exists and _is_listed(etag, unwanted, weakly=True))


def _is_listed(etag: str, tags: str, *, weakly: bool) -> bool:
    if tags.strip() == "*":
        return True
    listed = [tag.strip() for tag in tags[:MAX_HEADER_CHARACTERS].split(",")]
    if weakly:
        listed = [tag.removeprefix("W/") for tag in listed]
    return etag in listed
