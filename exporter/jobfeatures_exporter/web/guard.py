"""What stands before the application: limits, names, users; and the headers that go with every answer."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from aiohttp import web

from jobfeatures.publish.rates import Rates
from jobfeatures_exporter.web.hosts import is_ours

if TYPE_CHECKING:  # it needs the extra
    from jobfeatures_exporter.web.webfile import WebFile

# Why requests are refused.
RATE = "rate"
CLIENT_RATE = "client_rate"
FILE_RATE = "rate_limit"
HOST = "host"
PASSWORD = "password"  # noqa: S105  # a reason
BUSY = "password_check"
REFUSALS = (RATE, CLIENT_RATE, FILE_RATE, HOST, PASSWORD, BUSY)

ALWAYS = {"X-Content-Type-Options": "nosniff", "Server": "jobfeatures-exporter"}
OF_PAGES = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "deny",
}

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Guard:
    """Lets an application answer, or refuses. All methods run in one event loop.

    `refused` counts by reason. Who is over its own limit costs others nothing
    of theirs: the limit of one address is looked at before that of all.
    """

    def __init__(
        self,
        answer: Handler,
        *,
        file: WebFile | None,
        rate: float,
        client_rate: float,
        names: Collection[str] | None,
    ) -> None:
        """`names` None: whatever name is asked for."""
        self.refused: Counter[str] = Counter()
        self._answer = answer
        self._file = file
        self._rate = Rates(rate)
        self._client_rates = Rates(client_rate)
        self._names = names
        self._now = asyncio.get_running_loop().time
        self._file_rate: Rates | None = None
        self._auth = None
        if file is not None:
            from jobfeatures_exporter.web.basicauth import BasicAuth

            self._auth = BasicAuth()
            if (limit := file.options.rate) is not None:  # as there, of the start for good
                self._file_rate = Rates(1 / limit.interval_secs, limit.burst * limit.interval_secs)

    def close(self) -> None:
        """End what it has running."""
        if self._auth is not None:
            self._auth.close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer, or refuse."""
        if self._file is not None:
            self._file.refresh()
        response: web.StreamResponse | None = await self._refuse(request)
        if response is None:
            try:
                response = await self._answer(request)
            except web.HTTPException as answer:
                self._dress(answer)
                raise
        self._dress(response)
        return response

    async def _refuse(self, request: web.BaseRequest) -> web.Response | None:
        now = self._now()
        if not self._client_rates.take(request.remote, now):
            return self._refusal(CLIENT_RATE, 429, "too many requests", **{"Retry-After": "1"})
        if not self._rate.take("", now):
            return self._refusal(RATE, 429, "too many requests", **{"Retry-After": "1"})
        if self._file_rate is not None and not self._file_rate.take("", now):
            return self._refusal(FILE_RATE, 429, "too many requests", **{"Retry-After": "1"})
        if not is_ours(request.headers.get("Host"), self._names):
            return self._refusal(HOST, 421, "this host name is not in web.hosts")
        return await self._refuse_user(request, now)

    async def _refuse_user(self, request: web.BaseRequest, now: float) -> web.Response | None:
        if self._file is None or self._auth is None or not self._file.options.users:
            return None
        from jobfeatures_exporter.web.basicauth import Verdict

        header = request.headers.get("Authorization", "")
        verdict = await self._auth.judge(header, request.remote, self._file.options.users, now_secs=now)
        if verdict is Verdict.RIGHT:
            return None
        if verdict is Verdict.BUSY:
            return self._refusal(BUSY, 429, "too many passwords to check", **{"Retry-After": "2"})
        realm = 'Basic realm="jobfeatures-exporter", charset="UTF-8"'
        return self._refusal(PASSWORD, 401, "user or password is wrong", **{"WWW-Authenticate": realm})

    def _refusal(self, reason: str, status: int, text: str, **headers: str) -> web.Response:
        self.refused[reason] += 1
        return web.Response(status=status, text=f"{text}\n", headers=headers)

    def _dress(self, response: web.StreamResponse) -> None:
        if response.prepared:
            return
        found = dict(ALWAYS)
        if response.content_type == "text/html":
            found.update(OF_PAGES)
        for name, value in found.items():
            response.headers.setdefault(name, value)
        if self._file is not None:
            response.headers.update(self._file.options.headers)


class FileTls:
    """TLS as a file asks for it now."""

    def __init__(self, file: WebFile) -> None:
        self._file = file

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now."""
        self._file.refresh()
        assert self._file.context is not None  # noqa: S101  # a file does not switch TLS off
        return self._file.context

    def admits(self, spoken: ssl.SSLObject) -> bool:
        """Return whether a client's certificate has a name that may come in."""
        from jobfeatures_exporter.web.tlscontext import is_allowed

        tls = self._file.options.tls
        return tls is None or is_allowed(spoken.getpeercert(), tls.allowed_sans)
