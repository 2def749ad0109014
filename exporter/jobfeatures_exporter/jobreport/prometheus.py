"""Sends instant queries to a Prometheus server, and explains its errors.

Source: https://prometheus.io/docs/prometheus/latest/querying/api/.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from jobfeatures.errors import ParseError, SourceError, shown
from jobfeatures.records.series import InstantAnswer, parse_vector
from jobfeatures.settings.access import Access
from jobfeatures.system.httpget import HttpStatusError


class Prometheus:
    """Queries one Prometheus server."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def query(self, expression: str, at_secs: float) -> InstantAnswer:
        """Return the answer to an instant query at a Unix time.

        Raises SourceError if there is none or it is an error; the message also advises what to do.
        """
        url = self._access.url
        try:
            text = self._access.get("/api/v1/query", {"query": expression, "time": f"{at_secs:.3f}"})
            kind = "matrix" if expression.endswith("]") else "vector"  # a range gives all its samples
            return parse_vector(text, source=url, kind=kind)
        except HttpStatusError as error:
            raise SourceError(f"{url}: {_explain(error)}") from error
        except ParseError as error:
            raise SourceError(f"{error}; is this the address of a Prometheus server?") from error


def _explain(error: HttpStatusError) -> str:
    message = _message(error.body)
    if error.status == HTTPStatus.FORBIDDEN:
        return (
            f"answered with HTTP status {error.status}: user and password, or token, may be missing or wrong"
        )
    if message is None:
        return f"answered with HTTP status {error.status}: is this the address of a Prometheus server?"
    if "unknown function" in message:
        return f"is too old, Prometheus 2.26 or later is needed: {shown(message)}"
    return f"answered with HTTP status {error.status}: {shown(message)}"


def _message(body: str) -> str | None:
    """Return the server's error message, None if the response is not Prometheus's own."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    message = document.get("error") if isinstance(document, dict) else None
    return message if isinstance(message, str) else None
