"""Serves the features over HTTP(S), and the job status, to clients that know a job's token.

Each request is answered from the published directories, so that values are available as soon as a prolog has
written them and gone once an epilog has run. What does not exist is answered with 404 and an empty body:
simple clients would take the text of an error page for a value.

Sources: HSF-TN-2016-02, "Directories"; RFC 9110 (methods, conditional requests), RFC 9111 (caching).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiohttp import web

from jobfeatures.client import WATCHING
from jobfeatures.errors import LockTimeoutError, ParseError, UnsafePathError
from jobfeatures.publish.folders import JOBS
from jobfeatures.publish.http.addresses import MACHINE, STATUS, Target, cache_control, parse_target
from jobfeatures.publish.http.connectiontable import IDLE_SECS, ConnectionLimits
from jobfeatures.publish.http.remotevalues import (
    FeatureReader,
    HttpValue,
    has_changed,
    list_features,
    may_write,
)
from jobfeatures.publish.http.waits import Waits
from jobfeatures.publish.http.webserver import Refused, read_body
from jobfeatures.publish.tokens import TokenTable
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey
from jobfeatures.status.directory import read_status
from jobfeatures.status.jobstatus import MAX_BODY_BYTES, STATUS_NAMES, parse_status_body
from jobfeatures.status.write import Change, status_etag, write_status
from jobfeatures.system.rates import Rates

log = logging.getLogger(__name__)

CONNECTIONS = 256
RATE, JOB_RATE = 20_000.0, 100.0  # requests per second, on average: of all, of one job
LOCK_WAIT_SECS = 2.0
BODY_WAIT_SECS = 5.0
WRITE_COST = 10.0  # of a request that writes; one that reads costs 1
MAX_AT_WORK = 4  # concurrent status requests of one job: they may wait for its locks
MAX_WARNED = 1000
_ATTEMPT_INTERVAL_SECS = 0.02
_READ = ("GET", "HEAD")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ENXIO, errno.EWOULDBLOCK)
_PLAIN = "text/plain; charset=utf-8"
T = TypeVar("T")


class FeatureServer:
    """Answers HTTP requests of jobs for their features and status, which it reads from a `FeatureTree`.

    All methods run in one event loop. `counts` holds how many answers were given, by HTTP status.
    """

    key = "features.listen_address"
    limits = ConnectionLimits(connections=CONNECTIONS, idle_secs=IDLE_SECS)

    def __init__(
        self, tree: FeatureTree, *, job_of: Callable[[JobKey], Job | None] = lambda _key: None
    ) -> None:
        """Serve what is published in `tree`. `job_of` returns the daemon's record of a job, None if none."""
        self.counts: Counter[int] = Counter()
        self._tree = tree
        self._job_of = job_of
        self._features = FeatureReader(tree.root)
        self._tokens = TokenTable(tree.tokens_path)
        self._waits = Waits(f"{tree.root}/{JOBS}")
        self._rates = Rates(JOB_RATE)
        self._rate = Rates(RATE)
        self._at_work: Counter[JobKey] = Counter()
        self._warned: set[tuple[str, str]] = set()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="jobstatus")
        self._now = asyncio.get_running_loop().time

    def close(self) -> None:
        """End the worker threads once they have finished their requests."""
        self._waits.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to a request, perhaps a refusal, and count it by its status."""
        try:
            response = await self._answer(request)
        except Refused as refusal:
            response = _response(refusal.status, f"{refusal.reason}\n".encode() if refusal.reason else b"")
        self.counts[response.status] += 1
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        now = self._now()
        if not self._rate.take("", now):
            raise Refused(429)
        target = parse_target(request.raw_path)
        if target is None:
            raise Refused(404)
        if target.area == MACHINE:
            return self._feature(request, target, None)
        key = self._tokens.find(target.token)
        if key is None:
            raise Refused(404)
        reads = request.method in _READ
        if not self._rates.take(key, now, 1.0 if reads else WRITE_COST):
            raise Refused(429)
        if target.area == STATUS:
            return await self._status(request, target, key)
        return self._feature(request, target, key)

    # --- features ---------------------------------------------------------------

    def _feature(self, request: web.BaseRequest, target: Target, key: JobKey | None) -> web.Response:
        if request.method not in _READ:
            return _response(405, headers={"Allow": "GET, HEAD"})
        name = key.directory_name if key is not None else None
        if name is not None and request.headers.get("User-Agent") == WATCHING:
            self._waits.renew(name)
        try:
            if target.key:
                found = self._features.read(name, target.key)
            else:
                found = list_features(self._tree.root, name)
        except UnsafePathError as error:
            self._warn_once(name or MACHINE, str(error))
            raise Refused(404) from None
        except OSError as error:
            raise Refused(404 if _is_absence(error) else 503) from None
        return self._conditional(request, target, found)

    @staticmethod
    def _conditional(request: web.BaseRequest, target: Target, found: HttpValue) -> web.Response:
        headers = {"ETag": found.etag, "Cache-Control": cache_control(target)}
        if found.last_modified:
            headers["Last-Modified"] = found.last_modified
        if not has_changed(request.headers, found):
            return _response(304, headers=headers)
        return _response(200, found.content, headers)

    # --- job status -------------------------------------------------------------

    async def _status(self, request: web.BaseRequest, target: Target, key: JobKey) -> web.Response:
        if target.key and target.key not in STATUS_NAMES:
            raise Refused(404)
        methods = (*_READ, "PUT") if target.key else (*_READ, "PUT", "POST")
        if request.method not in methods:
            return _response(405, headers={"Allow": ", ".join(methods)})
        if self._at_work[key] >= MAX_AT_WORK:
            raise Refused(429)
        self._at_work[key] += 1
        try:
            path = self._tree.status_path(key)
            owner_uid = self._owner_of(path, key)
            if request.method in _READ:
                return await self._read_status(request, target, path, owner_uid)
            change = await self._change(request, target)
            new = await self._patiently(
                lambda: write_status(
                    path, change, owner_uid=owner_uid, allocated_cpus=self._allocated_cpus(key)
                )
            )
        except ParseError as error:
            raise Refused(422, str(error)) from None
        except LockTimeoutError:
            raise Refused(503) from None
        except UnsafePathError as error:
            self._warn_once(key.directory_name, str(error))
            raise Refused(404 if request.method in _READ else 409) from None
        except OSError as error:
            if _is_absence(error):
                raise Refused(404) from None
            self._warn_once(key.directory_name, f"cannot write: {error.strerror}")
            raise Refused(507 if error.errno in (errno.ENOSPC, errno.EDQUOT) else 503) from None
        finally:
            self._at_work[key] -= 1
            if not self._at_work[key]:
                del self._at_work[key]
        return _response(204, headers={"ETag": status_etag(new), "Cache-Control": "no-store"})

    async def _read_status(
        self, request: web.BaseRequest, target: Target, path: str, owner_uid: int
    ) -> web.Response:
        found = await self._patiently(lambda: read_status(path, owner_uid=owner_uid, lock_timeout_secs=0))
        values = found.values
        etag = status_etag(values)
        if not target.key:
            content = "".join(f"{name}\n" for name in values).encode()
        elif target.key in values:
            content = values[target.key]
        else:
            raise Refused(404)
        return self._conditional(request, target, HttpValue(content, etag))

    async def _change(self, request: web.BaseRequest, target: Target) -> Change:
        """Return the change that a request asks for. Raises ParseError or Refused; so may the change."""
        content = await _body(request)
        given: dict[str, bytes | None]
        given = {target.key: content} if target.key else parse_status_body(content)
        keeps_others = bool(target.key) or request.method == "POST"
        headers = request.headers

        def change(old: Mapping[str, bytes]) -> dict[str, bytes]:
            if not may_write(headers, status_etag(old), exists=bool(old)):
                raise Refused(412)
            merged = {**old, **given} if keeps_others else given
            return {name: value for name, value in merged.items() if value is not None}

        return change

    async def _patiently(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; repeat it while it raises LockTimeoutError, for LOCK_WAIT_SECS at most.

        The waiting is done outside the thread: a job that never releases its lock blocks no thread.
        """
        deadline = self._now() + LOCK_WAIT_SECS
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await loop.run_in_executor(self._threads, work)
            except LockTimeoutError:
                if self._now() >= deadline:
                    raise
            await asyncio.sleep(_ATTEMPT_INTERVAL_SECS)

    def _owner_of(self, path: str, key: JobKey) -> int:
        """Return the owner of the files of a status directory: its own, or the job's user if it is ours."""
        found = os.stat(path, follow_symlinks=False).st_uid
        job = self._job_of(key)
        if found == os.geteuid() == 0 and job is not None and job.uid is not None:
            return job.uid
        return found

    def _allocated_cpus(self, key: JobKey) -> int | None:
        job = self._job_of(key)
        if job is not None and job.allocated_cpus is not None:
            return job.allocated_cpus
        for name in ("allocated_cpu", "allocated_CPU"):
            with contextlib.suppress(OSError, UnsafePathError, ValueError):
                return int(self._features.read(key.directory_name, name).content)
        return None

    def _warn_once(self, what: str, reason: str) -> None:
        """Log each reason once per job."""
        if (what, reason) not in self._warned and len(self._warned) < MAX_WARNED:
            self._warned.add((what, reason))
            log.warning("a feature or job status is not served: %s", reason, extra={"what": what})


async def _body(request: web.BaseRequest) -> bytes:
    if "Content-Encoding" in request.headers:
        raise Refused(415)
    return await read_body(request, most_bytes=MAX_BODY_BYTES, within_secs=BODY_WAIT_SECS)


def _response(status: int, content: bytes = b"", headers: Mapping[str, str] | None = None) -> web.Response:
    made = {"Content-Type": _PLAIN, **(headers or {})}
    if status >= 400:
        made["Cache-Control"] = "no-store"
    if status in (429, 503):
        made["Retry-After"] = "1"
    return web.Response(status=status, body=content, headers=made)


def _is_absence(error: OSError) -> bool:
    return error.errno in _ABSENT
