"""Which requests are answered: rate limits and host names. And the headers of every response. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from jobfeatures.system.rates import Rates

# Why requests are refused.
RATE = "rate"
CLIENT_RATE = "client_rate"
FILE_RATE = "rate_limit"
HOST = "host"
PASSWORD = "password"  # noqa: S105  # a reason
BUSY = "password_check"
REFUSALS = (RATE, CLIENT_RATE, FILE_RATE, HOST, PASSWORD, BUSY)

ALWAYS = {"X-Content-Type-Options": "nosniff", "Server": "jobfeatures-exporter"}
# RFC 9110, 7.2: a host and an optional port; a zone or user information has no place in it.
_HOST: Final = re.compile(
    r"(?:\[(?P<v6>[0-9a-f:.]{2,45})\]|(?P<name>[0-9a-z_.-]{1,254}))(?::[0-9]{0,5})?", re.ASCII
)
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason, and the response."""

    reason: str
    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Admission:
    """Judges requests by client address and Host header; `refused` counts refusals by reason.

    A client's own rate limit is checked before the global one, so that a client over its limit uses up
    nothing of what others may send.
    """

    def __init__(
        self,
        *,
        rate: float,
        client_rate: float,
        names: Collection[str] | None,
        file_rate: Rates | None = None,
    ) -> None:
        """`names` None: any host name."""
        self.refused: Counter[str] = Counter()
        self._rate = Rates(rate)
        self._client_rates = Rates(client_rate)
        self._file_rate = file_rate
        self._names = names

    def refusal(self, client: Hashable, host: str | None, now_secs: float) -> Refusal | None:
        """Return why a request is refused, None if it is admitted."""
        if not self._client_rates.take(client, now_secs):
            return self.refuse(CLIENT_RATE, 429, "too many requests", **{"Retry-After": "1"})
        if not self._rate.take("", now_secs):
            return self.refuse(RATE, 429, "too many requests", **{"Retry-After": "1"})
        if self._file_rate is not None and not self._file_rate.take("", now_secs):
            return self.refuse(FILE_RATE, 429, "too many requests", **{"Retry-After": "1"})
        if not is_ours(host, self._names):
            return self.refuse(HOST, 421, "this host name is not in web.hosts")
        return None

    def refuse(self, reason: str, status: int, text: str, **headers: str) -> Refusal:
        """Count a refusal and return it."""
        self.refused[reason] += 1
        return Refusal(reason, status, f"{text}\n", headers)


def parse_names(text: str) -> frozenset[str]:
    """Return the host names of a comma-separated list."""
    return frozenset(name.strip().lower() for name in text.split(",") if name.strip())


def is_loopback(host: str) -> bool:
    """Return whether a listening host, a name or an address, is reachable from this machine only."""
    if host.strip("[]").lower() == "localhost":
        return True
    address = _address(host.strip("[]"))
    return address is not None and address.is_loopback


def host_asked(target: str, header: str | None) -> str | None:
    """Return the host that a request is for: of an absolute request target, which decides, else of Host.

    Source: RFC 9112, 3.2.2.
    """
    found = _ABSOLUTE.match(target)
    return header if found is None else found[1]


def is_ours(header: str | None, names: Collection[str] | None) -> bool:
    """Return whether a Host header is an address, localhost or in `names` (None: any header).

    Else foreign web pages could read a listener through a user's browser: with DNS rebinding, the header
    holds the attacker's own name; IP addresses and localhost cannot be rebound.
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
