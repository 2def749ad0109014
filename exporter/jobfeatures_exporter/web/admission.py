"""Which requests are answered: rate limits and host names. And the headers of every response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field

from jobfeatures.system.rates import Rates
from jobfeatures_exporter.web.hosts import is_ours

# Why requests are refused.
RATE = "rate"
CLIENT_RATE = "client_rate"
FILE_RATE = "rate_limit"
HOST = "host"
PASSWORD = "password"  # noqa: S105  # a reason
BUSY = "password_check"
REFUSALS = (RATE, CLIENT_RATE, FILE_RATE, HOST, PASSWORD, BUSY)

ALWAYS = {"X-Content-Type-Options": "nosniff", "Server": "jobfeatures-exporter"}


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
