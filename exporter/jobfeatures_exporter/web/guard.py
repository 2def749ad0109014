"""Checks before the application: admission and passwords; and the headers of every response."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from jobfeatures.publish.http.connections import Server, Tls
from jobfeatures.publish.http.connectiontable import ConnectionLimits, ConnectionTable
from jobfeatures_exporter.web.admission import ALWAYS, BUSY, PASSWORD, Admission, Refusal, host_asked

if TYPE_CHECKING:  # needs the extra `web`
    from jobfeatures_exporter.web.configfile.reloaded import WebFile

OF_PAGES = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "deny",
}

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Guard:
    """Refuses requests, or passes them to an application. All methods run in one event loop."""

    def __init__(self, answer: Handler, admission: Admission, file: WebFile | None) -> None:
        self._answer = answer
        self._admission = admission
        self._file = file
        self._now = asyncio.get_running_loop().time
        self._auth = None
        if file is not None:
            from jobfeatures_exporter.web.configfile.basicauth import BasicAuth

            self._auth = BasicAuth()

    def close(self) -> None:
        """Stop the thread that checks passwords."""
        if self._auth is not None:
            self._auth.close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer or refuse a request."""
        if self._file is not None:
            self._file.refresh()
        now, host = self._now(), host_asked(request.raw_path, request.headers.get("Host"))
        refusal = self._admission.refusal(request.remote, host, now) or await self._refuse_user(request, now)
        if refusal is not None:
            response: web.StreamResponse = web.Response(
                status=refusal.status, text=refusal.text, headers=refusal.headers
            )
        else:
            try:
                response = await self._answer(request)
            except web.HTTPException as answer:
                self._add_headers(answer)
                raise
        self._add_headers(response)
        return response

    async def _refuse_user(self, request: web.BaseRequest, now: float) -> Refusal | None:
        if self._file is None or self._auth is None or not self._file.options.users:
            return None
        from jobfeatures_exporter.web.configfile.basicauth import Verdict

        header = request.headers.get("Authorization", "")
        verdict = await self._auth.judge(header, request.remote, self._file.options.users, now_secs=now)
        if verdict is Verdict.RIGHT:
            return None
        if verdict is Verdict.BUSY:
            return self._admission.refuse(BUSY, 429, "too many passwords to check", **{"Retry-After": "2"})
        realm = 'Basic realm="jobfeatures-exporter", charset="UTF-8"'
        return self._admission.refuse(
            PASSWORD, 401, "user or password is wrong", **{"WWW-Authenticate": realm}
        )

    def _add_headers(self, response: web.StreamResponse) -> None:
        if response.prepared:
            return
        found = dict(ALWAYS)
        if response.content_type == "text/html":
            found.update(OF_PAGES)
        for name, value in found.items():
            response.headers.setdefault(name, value)
        if self._file is not None:
            response.headers.update(self._file.options.headers)


@asynccontextmanager
async def guarding(
    app: web.Application,
    admission: Admission,
    file: WebFile | None,
    limits: ConnectionLimits,
    tls: Tls | None,
    table: ConnectionTable,
) -> AsyncIterator[Server]:
    """Yield a server of the application, with its connections in `table`, until the context is left."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    made = runner.server
    assert made is not None  # noqa: S101  # after its setup
    guard = Guard(made.request_handler, admission, file)
    try:
        yield Server(
            guard.handle, limits, tls, table, is_behind=file is None, request_factory=made.request_factory
        )
    finally:
        guard.close()
        await runner.cleanup()


class FileTls:
    """TLS by the current web configuration file."""

    def __init__(self, file: WebFile) -> None:
        self._file = file

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        self._file.refresh()
        assert self._file.context is not None  # noqa: S101  # a file does not switch TLS off
        return self._file.context

    def admits(self, spoken: ssl.SSLObject) -> bool:
        """Return whether the client's certificate has an allowed name."""
        from jobfeatures_exporter.web.configfile.tlscontext import is_allowed

        tls = self._file.options.tls
        return tls is None or is_allowed(spoken.getpeercert(), tls.allowed_sans)
