"""One question by HTTP or HTTPS, bounded in time and size.

No redirect is followed: it could lead a password away.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from jobfeatures.errors import SourceError, shown

TIMEOUT_SECS = 30.0
MAX_BYTES = 256 * 2**20
MAX_ERROR_BYTES = 65536


class HttpStatusError(SourceError):
    """The server answered with an error: its status and what it said."""

    def __init__(self, url: str, status: int, reason: str, body: str) -> None:
        super().__init__(f"{url}: {status} {reason}: {shown(body[:200])}")
        self.status = status
        self.body = body


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_arguments: object) -> None:
        """Follow none: the answer stands as it is."""


def fetch_text(
    url: str,
    query: Mapping[str, str] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    timeout_secs: float = TIMEOUT_SECS,
) -> str:
    """Return the body of the answer to GET.

    Raises SourceError; HttpStatusError where the status tells of no success.
    """
    if not _is_http(url):
        raise SourceError(f"{shown(url)} is not an http or https address")
    # A proxy would take 127.0.0.1 for itself.
    handlers = [ProxyHandler({}), _NoRedirects(), HTTPSHandler(context=context)]
    request = Request(f"{url}?{urlencode(query)}" if query else url, headers=dict(headers or {}))  # noqa: S310
    deadline = time.monotonic() + timeout_secs
    content = bytearray()
    try:
        with build_opener(*handlers).open(request, timeout=timeout_secs) as response:
            while chunk := response.read1(2**20):
                content += chunk
                if len(content) > MAX_BYTES:
                    raise SourceError(f"{url}: more than {MAX_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise SourceError(f"{url}: no end after {timeout_secs:g} s")
            if response.length:  # read1 does not tell
                raise SourceError(f"{url}: the answer broke off")
    except HTTPError as error:
        with error:
            said = _read_error(error)
        raise HttpStatusError(url, error.code, str(error.reason), said) from error
    except TimeoutError as error:
        raise SourceError(f"{url}: no answer after {timeout_secs:g} s") from error
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{url}: {_reason(error)}") from error
    return content.decode("utf-8", "replace")


def _reason(error: Exception) -> str:
    """Return why nothing came, without the dress that urllib puts around it."""
    reason = getattr(error, "reason", error)
    return (reason.strerror if isinstance(reason, OSError) else None) or str(reason)


def _is_http(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


def _read_error(error: HTTPError) -> str:
    try:
        return error.read(MAX_ERROR_BYTES).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return ""
