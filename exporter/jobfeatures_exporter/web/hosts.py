"""By which names a listener is asked: a page elsewhere must not read it through somebody's browser. Pure.

A name of theirs that leads here (DNS rebinding) stands in the Host header;
addresses and localhost are nobody's to give.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from functools import lru_cache


def parse_names(text: str) -> frozenset[str]:
    """Return the names of a list with commas."""
    return frozenset(name.strip().lower() for name in text.split(",") if name.strip())


def is_loopback(host: str) -> bool:
    """Return whether what is listened on, a name or an address, is reached from this machine alone."""
    if host.strip("[]").lower() == "localhost":
        return True
    address = _address(host.strip("[]"))
    return address is not None and address.is_loopback


def is_ours(header: str | None, names: Collection[str] | None) -> bool:
    """Return whether a Host header is an address, localhost or one of `names` (None: any); not if absent."""
    if names is None or header is None:
        return True
    host = header.strip().lower()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    host = host.rstrip(".")
    return host == "localhost" or host.endswith(".localhost") or host in names or _address(host) is not None


@lru_cache(64)  # who asks again and again asks by the same
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
