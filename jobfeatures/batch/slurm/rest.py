"""What slurmrestd is asked: one request a question, of the newest version that it offers."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

from jobfeatures.batch.slurm.jsonvalues import VERSIONS, JsonRecord, parse_document
from jobfeatures.batch.slurm.restclient import RestClient
from jobfeatures.errors import ParseError, SourceError
from jobfeatures.httpget import Response

_OFFERED = re.compile(r"/slurm/(v[0-9]+\.[0-9]+\.[0-9]+)/")


class RestTransport:
    """Asks slurmrestd. The version is found at the first question, and again once it is gone."""

    def __init__(self, client: RestClient) -> None:
        self.name = client.name
        self._client = client
        self._version: str | None = None

    def job(self, job_id: str, timeout_secs: float) -> JsonRecord:
        """Ask about one job."""
        return self._ask(f"job/{quote(job_id, safe='')}", timeout_secs)

    def node(self, name: str, timeout_secs: float) -> JsonRecord:
        """Ask about one node."""
        return self._ask(f"node/{quote(name, safe='')}", timeout_secs)

    def reservations(self, timeout_secs: float) -> JsonRecord:
        """Ask about the reservations."""
        return self._ask("reservations", timeout_secs)

    def jobs(self, timeout_secs: float) -> JsonRecord:
        """Ask about the whole queue."""
        return self._ask("jobs", timeout_secs)

    def nodes(self, timeout_secs: float) -> JsonRecord:
        """Ask about all nodes."""
        return self._ask("nodes", timeout_secs)

    def partitions(self, timeout_secs: float) -> JsonRecord:
        """Ask about all partitions."""
        return self._ask("partitions", timeout_secs)

    def accounting(self, since_secs: int, timeout_secs: float) -> JsonRecord:
        """Ask accounting about jobs since then."""
        return self._ask(f"jobs?start_time=uts{since_secs}", timeout_secs, service="slurmdb")

    def _ask(self, question: str, timeout_secs: float, *, service: str = "slurm") -> JsonRecord:
        version = self._version or self._find_version(timeout_secs)
        path = f"/{service}/{version}/{question}"
        response = self._client.ask(path, timeout_secs)
        _check_access(response, self.name)
        try:
            document = parse_document(response.body, source=f"{self.name}{path}")
        except ParseError as error:
            if response.status == 404:  # the server was replaced by one that offers other versions
                self._version = None
                raise SourceError(f"{self.name}: does not know {path}") from error
            raise SourceError(f"status {response.status}: {error}") from error
        self._version = version
        return document

    def _find_version(self, timeout_secs: float) -> str:
        """Return the newest version that is offered and known here, tried from the newest on."""
        for version in VERSIONS:
            response = self._client.ask(f"/slurm/{version}/ping", timeout_secs)
            _check_access(response, self.name)
            if response.status != 404:
                return version
        response = self._client.ask("/openapi/v3", timeout_secs)
        offered = ", ".join(offered_versions(response)) or "none"
        raise SourceError(
            f"{self.name}: offers {offered} of Slurm's API, known are {VERSIONS[-1]} to {VERSIONS[0]}"
        )


def offered_versions(response: Response) -> tuple[str, ...]:
    """Return the versions of which an OpenAPI document has paths; none where it is not one."""
    try:
        paths = json.loads(response.body).get("paths", {})
        found = {match[1] for path in paths if (match := _OFFERED.match(path))}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ()
    return tuple(sorted(found))


def _check_access(response: Response, name: str) -> None:
    if response.status in {401, 403}:
        raise SourceError(f"{name}: refused (status {response.status}): slurm.rest_token_file")
