"""Answers nodes: GET /nodes/NAME with the node's token. Thousands of nodes ask, each once a minute.

Requests are rate-limited before they cost much: an address may present a few
wrong tokens per second, a node may send two requests per second.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from jobfeatures.batch.basics import is_host_name
from jobfeatures.batch.controller.protocol import (
    CLOCK_HEADER,
    MAX_FILE_BYTES,
    format_clock,
    is_token,
    parse_secrets,
)
from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.publish.http.connectiontable import ConnectionLimits
from jobfeatures.publish.http.webserver import Refused
from jobfeatures.system.clock import Clock
from jobfeatures.system.filelimit import raise_limit
from jobfeatures.system.privatefile import read_private
from jobfeatures.system.rates import Rates
from jobfeatures_exporter.cluster.nodeanswers import NodeAnswers

PREFIX: Final = "/nodes/"
IDLE_SECS: Final = 30.0
NODE_RATE: Final = 2.0  # requests per second of one node
WRONG_RATE: Final = 5.0  # wrong tokens per second from one address
MAX_CONNECTIONS: Final = 12_000  # of nodes at once
SPARE_DESCRIPTORS: Final = 256


class NodeListener:
    """Handles the requests of nodes for their jobs. All methods run in one event loop."""

    key = "controller.listen"
    limits = ConnectionLimits(connections=MAX_CONNECTIONS, idle_secs=IDLE_SECS)

    def __init__(self, answers: NodeAnswers, secret_file: str, clock: Clock) -> None:
        """Read the site's secrets. Raises ConfigurationError if they cannot be used."""
        self._answers = answers
        self._secret_file = secret_file
        self._clock = clock
        self._secrets = read_secrets(secret_file)
        self._node_rates = Rates(NODE_RATE)
        self._wrong_rates = Rates(WRONG_RATE)

    def close(self) -> None:
        """Do nothing: this listener holds neither threads nor files."""

    def reread(self) -> None:
        """Read the secrets again. Raises ConfigurationError and keeps the old ones if that fails."""
        self._secrets = read_secrets(self._secret_file)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a node's request for its jobs.

        This exporter has the controller role: it queries the batch system for all nodes, and the nodes query
        this exporter. Raises Refused for an unknown path or method, a wrong token or too many requests. Also
        raises Refused if the batch system has not answered this exporter yet, or does not know the node.
        """
        name = request.path.removeprefix(PREFIX)
        if not request.path.startswith(PREFIX) or not is_host_name(name):
            raise Refused(404, "unknown path: nodes query /nodes/NAME")
        if request.method != "GET":
            raise Refused(405, "only GET is supported", Allow="GET")
        now_secs = self._clock.monotonic_secs()
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not is_token(token.strip(), name, self._secrets):
            if not self._wrong_rates.take(request.remote, now_secs):
                raise Refused(429, "too many wrong tokens", Retry_After="10")
            raise Refused(401, "the token is not this node's", WWW_Authenticate="Bearer")
        if not self._node_rates.take(name, now_secs):
            raise Refused(429, "too many requests", Retry_After="1")
        reported = self._answers.answer(name)
        if reported.age_secs is None:
            raise Refused(reported.status, reported.text.rstrip("\n"))
        headers = {"Cache-Control": "no-store", "Age": str(reported.age_secs), "ETag": reported.etag}
        if reported.clock_secs is not None:
            headers[CLOCK_HEADER] = format_clock(reported.clock_secs)
        if request.headers.get("If-None-Match") == reported.etag:
            response = web.Response(status=304, headers=headers)
        else:
            headers["Content-Type"] = "application/jsonl; charset=utf-8"
            response = web.Response(body=reported.text.encode(), headers=headers)
        response.force_close()  # a node asks once a minute: thousands of connections would idle
        return response


def read_secrets(path: str) -> tuple[bytes, ...]:
    """Return the secrets in a file, from which the nodes' tokens are derived.

    Raises ConfigurationError if the file cannot be read, or is malformed.
    """
    try:
        return parse_secrets(read_private(path, MAX_FILE_BYTES), path)
    except OSError as error:
        raise ConfigurationError("controller.secret_file", f"{path}: {error.strerror}") from error
    except JobfeaturesError as error:
        raise ConfigurationError("controller.secret_file", str(error)) from error


def raise_descriptors(wanted: int = MAX_CONNECTIONS + SPARE_DESCRIPTORS) -> None:
    """Raise the soft limit of open files to `wanted`. Raises ConfigurationError if it cannot."""
    if (limit := raise_limit(wanted)) < wanted:
        reported = (
            f"needs {wanted} descriptors, and the limit is {limit} (LimitNOFILE= of the unit, ulimit -Hn)"
        )
        raise ConfigurationError("controller.listen", reported)
