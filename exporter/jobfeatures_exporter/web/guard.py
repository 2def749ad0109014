"""Checks requests before they are answered (rates, host names, passwords), and sets headers of responses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING

from jobfeatures.system.rates import Rates
from jobfeatures_exporter.web.answers import TEXT, WebAnswer
from jobfeatures_exporter.web.hosts import is_ours

if TYPE_CHECKING:  # needs the extra `web`
    from jobfeatures_exporter.web.configfile.reloaded import WebFile

# Why requests are refused.
RATE = "rate"
CLIENT_RATE = "client_rate"
FILE_RATE = "rate_limit"
HOST = "host"
PASSWORD = "password"  # noqa: S105  # a reason
BUSY = "password_check"
REFUSALS = (RATE, CLIENT_RATE, FILE_RATE, HOST, PASSWORD, BUSY)

ALWAYS = {"X-Content-Type-Options": "nosniff", "Server": "jobfeatures-exporter"}


class Guard:
    """Judges requests by client address, Host header and password; `refused` counts refusals by reason.

    A client's own rate limit is checked before the global one, so that a client over its limit uses up
    nothing of what others may send. All methods run in one event loop.
    """

    def __init__(
        self,
        *,
        rate: float,
        client_rate: float,
        names: Collection[str] | None,
        file: WebFile | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        """Take limits in requests a second. `names` None: any host name. `now`: None: the loop's clock."""
        self.refused: Counter[str] = Counter()
        self._client_rates = Rates(client_rate)
        self._rates = {RATE: Rates(rate)}
        self._names = names
        self._file = file
        self._now = now or asyncio.get_running_loop().time
        self._auth = None
        if file is not None:
            from jobfeatures_exporter.web.configfile.basicauth import BasicAuth

            self._auth = BasicAuth()
            if (limit := file.options.rate) is not None:  # fixed at the start, as in exporter-toolkit
                self._rates[FILE_RATE] = Rates(1 / limit.interval_secs, limit.burst * limit.interval_secs)

    def close(self) -> None:
        """Stop the thread that checks passwords."""
        if self._auth is not None:
            self._auth.close()

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers that every response has: fixed ones, and those that web.config_file sets."""
        return ALWAYS if self._file is None else {**ALWAYS, **self._file.options.headers}

    async def refusal(self, client: Hashable, host: str | None, authorization: str) -> WebAnswer | None:
        """Return the response to a request that is refused, and count it; None if it is admitted.

        `client` is the sender's address; `host` and `authorization` are from the request's headers.
        """
        if self._file is not None:
            self._file.refresh()
        now_secs = self._now()
        if not self._client_rates.take(client, now_secs):
            return self._refuse(CLIENT_RATE, 429, "too many requests", Retry_After="1")
        for reason, rates in self._rates.items():
            if not rates.take("", now_secs):
                return self._refuse(reason, 429, "too many requests", Retry_After="1")
        if not is_ours(host, self._names):
            return self._refuse(HOST, 421, "this host name is not in web.hosts")
        return await self._refuse_user(client, authorization, now_secs)

    async def _refuse_user(self, client: Hashable, authorization: str, now_secs: float) -> WebAnswer | None:
        if self._file is None or self._auth is None or not self._file.options.users:
            return None
        from jobfeatures_exporter.web.configfile.basicauth import PasswordVerdict

        verdict = await self._auth.judge(authorization, client, self._file.options.users, now_secs=now_secs)
        if verdict is PasswordVerdict.RIGHT:
            return None
        if verdict is PasswordVerdict.BUSY:
            return self._refuse(BUSY, 429, "too many passwords to check", Retry_After="2")
        realm = 'Basic realm="jobfeatures-exporter", charset="UTF-8"'
        return self._refuse(PASSWORD, 401, "user or password is wrong", WWW_Authenticate=realm)

    def _refuse(self, reason: str, status: int, text: str, **headers: str) -> WebAnswer:
        self.refused[reason] += 1
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return WebAnswer(status, f"{text}\n".encode(), {**named, **TEXT})
