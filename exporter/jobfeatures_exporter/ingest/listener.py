"""Accepts documents (envelopes) over HTTP, as Sonar's agents send them: POST to ROOT/TYPE.

Senders identify themselves by basic authentication. Parsing and checking a document takes time: a few
separate threads do it, so that neither scrapes nor sampling wait for it. Requests beyond their capacity are
refused with 429.
"""

from __future__ import annotations

import asyncio
import functools
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp import web

from jobfeatures.publish.http.connectiontable import ConnectionLimits
from jobfeatures.publish.http.webserver import Refused, read_body
from jobfeatures.system.clock import Clock
from jobfeatures.system.rates import Rates
from jobfeatures_exporter.ingest.intake import IntakeResult, SonarIntake
from jobfeatures_exporter.ingest.users import UsersFile

MAX_CONNECTIONS: Final = 1024
CLIENT_RATE: Final = 200.0  # requests per second from one address
MAX_BODY_BYTES: Final = 16 * 2**20  # also the limit of a document in a file
IDLE_SECS: Final = 60.0
BODY_SECS: Final = 30.0
MAX_AT_ONCE: Final = 8  # bodies in memory
THREADS: Final = 2
RETRY_SECS: Final = 10
MAX_REPORTED: Final = 10  # faults listed in a response

# A type may have a prefix and a dot before it: the prefix that agents use for topics.
_PATH = re.compile(
    r"/(?:[A-Za-z0-9._~-]+/){0,8}(?:[A-Za-z0-9_-]+\.)*(?:sample|sysinfo|jobs?|slurm_jobs|cluster)\Z"
)
_CONTENT_TYPES: Final = frozenset(
    {"application/json", "application/vnd.api+json", "application/octet-stream", "text/json", "text/plain"}
)


class SonarListener:
    """Handles agents' requests. All methods run in one event loop; if `users` is None, anybody may send."""

    key = "sonar.listen"
    limits = ConnectionLimits(connections=MAX_CONNECTIONS, idle_secs=IDLE_SECS)

    def __init__(self, intake: SonarIntake, users: UsersFile | None, clock: Clock) -> None:
        self._clock = clock
        self._intake = intake
        self._users = users
        self._rates = Rates(CLIENT_RATE)
        self._places = MAX_AT_ONCE
        self._threads = ThreadPoolExecutor(THREADS, "sonar")

    def close(self) -> None:
        """End the threads once their current work is finished."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request: 200 if its documents are accepted, 400 with the faults of documents.

        Raises Refused if the sender, the path, the type or the size of the body is not accepted, or senders
        are too many or too fast.
        """
        taken = await self._take(request, self._check(request))
        if taken.faults:
            reported = "".join(f"{fault}\n" for fault in taken.faults[:MAX_REPORTED])
            return web.Response(status=400, text=reported)
        if not taken.taken:
            return web.Response(status=400, text="the body contains no document\n")
        return web.Response(text=f"{taken.taken} taken\n")

    def _check(self, request: web.BaseRequest) -> frozenset[str] | None:
        """Refuse what can be refused without the body; return the clusters it may report, None for any."""
        if not self._rates.take(request.remote, self._clock.monotonic_secs()):
            raise Refused(429, "too many requests", Retry_After=str(RETRY_SECS))
        clusters = None
        if self._users is not None:
            user = self._users.find(request.headers.get("Authorization", ""))
            if user is None:
                raise Refused(401, "user or password is wrong", WWW_Authenticate='Basic realm="sonar"')
            clusters = user.clusters
        if not _PATH.match(request.path):
            raise Refused(404, "unknown path: use /sample, /sysinfo, /job or /cluster")
        if request.method != "POST":
            raise Refused(405, "only POST is allowed", Allow="POST")
        if request.content_type not in _CONTENT_TYPES:
            raise Refused(415, "content type must be application/json")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refused(415, "content must not be compressed or otherwise encoded")
        return clusters

    async def _take(self, request: web.BaseRequest, clusters: frozenset[str] | None) -> IntakeResult:
        if self._places == 0:
            raise Refused(429, "all workers are busy", Retry_After=str(RETRY_SECS))
        self._places -= 1
        try:
            body = await read_body(request, most_bytes=MAX_BODY_BYTES, within_secs=BODY_SECS)
            work = functools.partial(self._intake.take, body, f"http {request.remote}", clusters=clusters)
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._places += 1
