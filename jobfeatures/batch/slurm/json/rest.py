"""A client of slurmrestd: one GET request per query, in the newest API version that both sides know.

Source: https://slurm.schedmd.com/rest.html. On a Unix socket slurmrestd learns the
client's user from the kernel; over TCP a token is needed.
"""

from __future__ import annotations

import base64
import json
import logging
import re

from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.slurm import SlurmSettings
from jobfeatures.batch.slurm.json.values import VERSIONS, JsonRecord, missing_field, parse_document
from jobfeatures.errors import ConfigurationError, ParseError, SourceError, UnsafePathError
from jobfeatures.system.httpget import Response, Server
from jobfeatures.system.privatefile import read_private

MAX_TOKEN_BYTES = 16384
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,16000}\Z")
log = logging.getLogger(__name__)

_OFFERED = re.compile(r"/slurm/(v[0-9]+\.[0-9]+\.[0-9]+)/")


class Rest(Server):
    """Client of slurmrestd.

    It finds a common version of the API at the first query, and another one if the server no longer has that
    version.
    """

    def __init__(self, url: str, *, token_file: str | None = None, max_bytes: int = 32 * 2**20) -> None:
        """`url` is slurmrestd's address. Raise SourceError if it is malformed."""
        super().__init__(url, max_bytes=max_bytes)
        self._token_file = token_file
        self._version: str | None = None

    def ask(self, question: str, timeout_secs: float, *, service: str = "slurm") -> JsonRecord:
        """Return the answer to GET ``/SERVICE/VERSION/QUESTION``. Raises SourceError if there is none."""
        version = self._version or self._find_version(timeout_secs)
        path = f"/{service}/{version}/{question}"
        response = self.fetch(path, timeout_secs)
        try:
            document = parse_document(response.body, source=f"{self.name}{path}")
        except ParseError as error:
            if response.status == 404:  # the server was replaced by one that offers other versions
                self._version = None
                raise SourceError(f"{self.name}: has no {path} (HTTP status 404)") from error
            raise SourceError(f"HTTP status {response.status}: {error}") from error
        if version not in VERSIONS and service == "slurm" and (field := missing_field(document)) is not None:
            raise SourceError(f"{self.name}: {version} of Slurm's REST API lacks the field {field}")
        if version not in VERSIONS and version != self._version:
            log.warning(
                "%s: %s of Slurm's REST API is newer than %s, the newest supported: %s",
                self.name,
                version,
                VERSIONS[0],
                "it is read as long as its fields fit",
            )
        self._version = version
        return document

    def _find_version(self, timeout_secs: float) -> str:
        """Return the newest of `VERSIONS` that the server offers, else its first later one, which may fit.

        Raises SourceError if it offers neither.
        """
        for version in VERSIONS:
            response = self.fetch(f"/slurm/{version}/ping", timeout_secs)
            if response.status != 404:
                return version
        response = self.fetch("/openapi/v3", timeout_secs)
        offered = offered_versions(response)
        if later := [each for each in offered if _numbers(each) > _numbers(VERSIONS[0])]:
            return later[0]
        raise SourceError(
            f"{self.name}: offers versions {', '.join(offered) or 'none'} of Slurm's REST API, "
            f"but supported are {VERSIONS[-1]} to {VERSIONS[0]}"
        )

    def fetch(self, path: str, timeout_secs: float) -> Response:
        """Return the response to GET `path`.

        Raises SourceError if there is none, if access is denied, or if the response is too long.
        """
        headers = {"Accept": "application/json"}
        if self._token_file is not None:  # read each time, because tokens expire and are replaced
            token = read_token(self._token_file)
            headers["X-SLURM-USER-TOKEN"] = token
            if (user := user_of_token(token)) is not None:
                headers["X-SLURM-USER-NAME"] = user
        response = self.get(path, headers=headers, timeout_secs=timeout_secs)
        if response.status in {401, 403}:
            raise SourceError(f"{self.name}: HTTP status {response.status}: check slurm.rest_token_file")
        return response


def make_rest(config: SystemSettings[SlurmSettings], *, max_bytes: int) -> Rest:
    """Return a client for the address in ``slurm.rest_url``. Raises ConfigurationError if not set or invalid.

    Longer responses than `max_bytes` are refused.
    """
    if config.own.rest_url is None:
        raise ConfigurationError("slurm.rest_url", "is not set: slurm.ask = rest needs it")
    try:
        return Rest(config.own.rest_url, token_file=config.own.rest_token_file, max_bytes=max_bytes)
    except SourceError as error:
        raise ConfigurationError("slurm.rest_url", str(error)) from error


def offered_versions(response: Response) -> tuple[str, ...]:
    """Return the versions of Slurm's API in the paths of an OpenAPI document; () for another document."""
    try:
        paths = json.loads(response.body).get("paths", {})
        found = {match[1] for path in paths if (match := _OFFERED.match(path))}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ()
    return tuple(sorted(found, key=_numbers))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number[:9]) for number in version.removeprefix("v").split("."))


def read_token(path: str) -> str:
    """Return the token in a file: alone, or after ``SLURM_JWT=`` as ``scontrol token`` prints it.

    Raises SourceError, also if users other than the owner may read the file.
    """
    try:
        data = read_private(path, MAX_TOKEN_BYTES)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    except (ParseError, UnsafePathError) as error:
        raise SourceError(str(error)) from error
    token = data.decode("ascii", "replace").strip().removeprefix("SLURM_JWT=")
    if not _TOKEN.match(token):
        raise SourceError(f"{path}: contains no token")
    return token


def user_of_token(token: str) -> str | None:
    """Return the user name in a JWT (its claim ``sun``, slurm.schedmd.com/jwt.html); None if it has none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    name = claims.get("sun", claims.get("username")) if isinstance(claims, dict) else None
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9._@-]{1,255}", name) else None
