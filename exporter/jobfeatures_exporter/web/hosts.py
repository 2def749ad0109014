"""Parses and checks the host names of requests and of listeners. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

# RFC 9110, 7.2: a host and an optional port; a zone or user information has no place in it.
_HOST: Final = re.compile(
    r"(?:\[(?P<v6>[0-9a-f:.]{2,45})\]|(?P<name>[0-9a-z_.-]{1,254}))(?::[0-9]{0,5})?", re.ASCII
)
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)", re.ASCII)


def parse_names(text: str) -> frozenset[str]:
    """Return the host names of a comma-separated list."""
    return frozenset(name.strip().lower() for name in text.split(",") if name.strip())


def is_loopback(host: str) -> bool:
    """Return whether a listener at this name or address can be reached from this machine only."""
    if host.strip("[]").lower() == "localhost":
        return True
    address = _address(host.strip("[]"))
    return address is not None and address.is_loopback


def host_asked(target: str, header: str | None) -> str | None:
    """Return the host that a request is for, None if it names none.

    It is that of the request target if the target is an absolute URL, else that of the Host header. Source:
    RFC 9112, 3.2.2.
    """
    found = _ABSOLUTE.match(target)
    return header if found is None else found[1]


def is_ours(header: str | None, names: Collection[str] | None) -> bool:
    """Return whether a Host header names an IP address, localhost, or one of `names` (None: any name).

    Other names are refused because of DNS rebinding: a foreign web page could read a listener through a
    user's browser, and the header would hold the page's own host name.
    """
    if names is None or header is None:
        return True
    match = _HOST.fullmatch(header.strip().lower())
    if match is None:
        return False
    if match["v6"] is not None:
        return _address(match["v6"]) is not None
    host = match["name"].rstrip(".")
    return host == "localhost" or host.endswith(".localhost") or host in names or _address(host) is not None


@lru_cache(64)  # scrapers repeat the same host
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
