"""Parses the paths that the features' listener answers, and says how long answers may be cached. Pure.

    /machinefeatures/KEY
    /jobfeatures/TOKEN/KEY
    /jobstatus/TOKEN/KEY

Without KEY, a path names the directory. Keys and tokens consist of letters, digits and underscores only. A
path with any other character names nothing, so there is no need to interpret dots, escapes and the like.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from jobfeatures.features.keys import JOB_ID, KEYS, LOG_CORES, PHYS_CORES, Lifetime

MACHINE = "machinefeatures"
JOB = "jobfeatures"
STATUS = "jobstatus"

MAX_PATH_CHARACTERS = 512
# A drain has to be seen soon. Most keys that the specifications call static may still change: a batch
# system alters a limit, a site its settings. The few in _FIXED never do.
DYNAMIC_CACHE_SECS = 1
STATIC_CACHE_SECS = 30
FIXED_CACHE_SECS = 3600

_PART = re.compile(r"[A-Za-z0-9_]{1,128}\Z")
_STATIC = frozenset(key.name for key in KEYS if key.lifetime is Lifetime.STATIC)
_FIXED = frozenset({JOB_ID.name, PHYS_CORES.name, LOG_CORES.name})
FEATURES = frozenset(key.name for key in KEYS)  # of either specification, and extensions


class Target(NamedTuple):
    """What a path names: a key in a directory, or the directory itself if `key` is empty.

    `area` says which directory: the machine's, a job's features or its status. `token` is the job's, empty
    for the machine's.
    """

    area: str
    token: str = ""
    key: str = ""


@lru_cache(maxsize=2048)  # jobs request the same paths again and again
def parse_target(path: str) -> Target | None:
    """Return what a request's raw path names, None if nothing; extra slashes and a query are ignored."""
    if len(path) > MAX_PATH_CHARACTERS or not path.startswith("/"):
        return None
    parts = [part for part in path.partition("?")[0].split("/") if part]
    if not all(map(_PART.match, parts)):
        return None
    match parts:
        case ["machinefeatures"]:
            return Target(MACHINE)
        case ["machinefeatures", key]:
            return Target(MACHINE, key=key)
        case ["jobfeatures" | "jobstatus" as area, token]:
            return Target(area, token)
        case ["jobfeatures" | "jobstatus" as area, token, key]:
            return Target(area, token, key)
    return None


def cache_control(target: Target) -> str:
    """Return the Cache-Control header of an answer; what a job writes is never cached."""
    if target.area == STATUS:
        return "no-store"
    secs = STATIC_CACHE_SECS if target.key in _STATIC else DYNAMIC_CACHE_SECS
    if target.key in _FIXED:
        secs = FIXED_CACHE_SECS
    return f"max-age={secs}" if target.area == MACHINE else f"private, max-age={secs}"


def public_url(listen_address: str) -> str:
    """Return the URL at which jobs here reach a listener: for ``:9820`` ``http://127.0.0.1:9820``."""
    host, _, port = listen_address.rpartition(":")
    if host in ("", "0.0.0.0"):  # noqa: S104  # compared with, not bound to
        host = "127.0.0.1"
    elif host == "[::]":
        host = "[::1]"
    return f"http://{host}:{port}"
