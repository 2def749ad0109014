"""The HTTPS client that asks the controller role about this node, with bounds on time and size."""

from __future__ import annotations

import re
import ssl
from dataclasses import replace
from urllib.parse import quote, urlsplit

from jobfeatures.batch.basics import is_host_name
from jobfeatures.batch.clocks import ClockDifference
from jobfeatures.batch.controller.answer import CLOCK_HEADER, CLOCK_RESOLUTION_SECS, parse_answer, parse_clock
from jobfeatures.batch.controller.credential import MAX_FILE_BYTES, parse_token
from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError, ParseError, SourceError, UnsafePathError, shown
from jobfeatures.records.model import JobTable
from jobfeatures.system.clock import Clock
from jobfeatures.system.httpget import Server
from jobfeatures.system.privatefile import read_private

MAX_BYTES = 32 * 2**20
_AGE = re.compile(r"[0-9]{1,9}")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ControllerClient:
    """Opens a connection per request, follows no redirects, and does not fetch unchanged answers again."""

    def __init__(self, config: Config, clock: Clock, node_name: str) -> None:
        """Take ``https://HOST:PORT`` from ``controller.url``; ``http`` is for tests on loopback."""
        url = config.controller_url or ""
        self.name = f"controller role {url}"
        self._config = config
        self._clock = clock
        self._server = Server(url.rstrip("/"), name=self.name, max_bytes=MAX_BYTES)
        self._path = f"/nodes/{quote(node_name, safe='')}"
        self._etag: str | None = None
        self._latest: tuple[JobTable, str] | None = None
        self._difference = ClockDifference()

    def ask(self) -> JobTable:
        """Return its job table, stamped by this node's clock with the time it asked the batch system.

        Raises SourceError if it does not answer, or if its own latest query of the batch system failed.
        """
        try:
            table, problem = self._ask()
        except ParseError as error:
            raise SourceError(f"{self.name}: {error}") from error
        except (OSError, ValueError, UnsafePathError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise SourceError(f"{self.name}: {reason}") from error
        if problem:
            raise SourceError(f"{self.name} has had no answer since: {shown(problem)[1:-1]}")
        return table

    def _ask(self) -> tuple[JobTable, str]:
        # Read for each request: the token may be replaced at run time.
        token_file, ca_file = self._config.controller_token_file, self._config.controller_ca_file
        token = parse_token(read_private(token_file, MAX_FILE_BYTES), token_file)
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        if self._etag is not None:
            headers["If-None-Match"] = self._etag
        # Likewise the CA certificates: the file may be replaced.
        context = ssl.create_default_context(cafile=ca_file) if ca_file is not None else None
        asked_at_secs = self._clock.now_secs()
        answer = self._server.get(
            self._path, headers=headers, timeout_secs=self._config.batch_timeout_secs, context=context
        )
        answered_secs = self._clock.now_secs()
        if answer.status not in (200, 304):
            raise SourceError(
                f"{self.name}: {answer.status} {shown(answer.body[:200].decode('utf-8', 'replace').strip())}"
            )
        age = answer.headers.get("Age", "")
        if _AGE.fullmatch(age) is None:
            raise ParseError("gives no age of its answer", text=age)
        taken_at_secs = asked_at_secs - int(age)
        if answer.status == 304 and self._latest is not None:
            table, problem = self._latest
        else:
            table, problem = parse_answer(answer.body.decode("utf-8"), taken_at_secs=taken_at_secs)
            self._etag = answer.headers.get("ETag")
        if (clock_secs := parse_clock(answer.headers.get(CLOCK_HEADER))) is not None:
            self._difference.learn(
                clock_secs,
                asked_secs=asked_at_secs,
                answered_secs=answered_secs,
                resolution_secs=CLOCK_RESOLUTION_SECS,
            )
        ahead_secs = self._difference.ahead_secs
        self._latest = replace(table, taken_at_secs=taken_at_secs, clock_ahead_secs=ahead_secs), problem
        return self._latest


def make_client(config: Config, clock: Clock, node_name: str, *, key: str) -> ControllerClient:
    """Return a client; `key` is the setting that requires it. Raises ConfigurationError."""
    if config.controller_url is None:
        raise ConfigurationError("controller.url", f"is not set: {key} = controller needs it")
    parts = urlsplit(config.controller_url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise ConfigurationError("controller.url", "must be https: the token would be read on the way")
    if not is_host_name(node_name):
        raise ConfigurationError("node.name", f"must be a node's name, not {node_name!r}")
    if config.controller_ca_file is not None:
        try:
            ssl.create_default_context(cafile=config.controller_ca_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError("controller.ca_file", f"cannot be used: {error}") from error
    return ControllerClient(config, clock, node_name)
