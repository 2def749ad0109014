"""Configures access to a server over HTTP(S): certificates, credentials, timeout; and the flags for that."""

from __future__ import annotations

import argparse
import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from jobfeatures.errors import ConfigurationError, JobfeaturesError, SourceError
from jobfeatures.settings.declare import URL
from jobfeatures.settings.flags import parse_duration_flag
from jobfeatures.settings.usage import Parser
from jobfeatures.system.httpget import TIMEOUT_SECS, HttpStatusError, TlsSpokenError, fetch_text
from jobfeatures.system.privatefile import read_private

MAX_SECRET_BYTES = 16384


@dataclass(frozen=True, slots=True)
class Access:
    """A server's URL, and what is needed to query it: headers, TLS context (None: default) and timeout.

    `flag` is the flag that gave the URL, for messages.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    context: ssl.SSLContext | None = None
    timeout_secs: float = TIMEOUT_SECS
    flag: str = ""

    def get(self, path: str = "", query: Mapping[str, str] | None = None) -> str:
        """Return the body of the answer to a GET request for a path below the URL.

        Raises SourceError if there is no answer or its status is not 2xx; the message names flags that may
        help.
        """
        url, secs = self.url + path, self.timeout_secs
        try:
            return fetch_text(url, query, headers=self.headers, context=self.context, timeout_secs=secs)
        except SourceError as error:
            if self.flag and (hint := self._hint(error)):
                message = (
                    f"{error} {hint[:1].upper()}{hint[1:]}"
                    if str(error).endswith("?")
                    else f"{error}; {hint}"
                )
                raise SourceError(message) from error.__cause__
            raise

    def _hint(self, error: SourceError) -> str:
        """Return which flags help; empty if none does."""
        flag = self.flag
        if isinstance(error, TlsSpokenError):
            there = self.url.replace("http:", "https:", 1)
            return f"use {flag} {there}, and {flag}.ca-file for a CA of your own"
        if isinstance(error, HttpStatusError) and error.status == HTTPStatus.UNAUTHORIZED:
            if "Authorization" in self.headers:
                return "the password or token is wrong"
            return f"give {flag}.user and {flag}.password-file, or {flag}.token-file"
        if isinstance(error, HttpStatusError) and 300 <= error.status < 400:
            return "give the address that it refers to: redirects are not followed"
        if isinstance(error.__cause__, ConnectionRefusedError) and flag == "--prometheus":
            return "--prometheus must name the Prometheus server that scrapes the nodes"
        return ""


def add_access_flags(parser: argparse.ArgumentParser, flag: str) -> None:
    """Add to the parser the flags that say how to reach a server over HTTP(S), for `access_of` to read.

    These are certificates, credentials and a timeout. `flag` is the flag that gives the server's URL, such as
    ``--prometheus``; the added flags begin with it: ``--prometheus.ca-file``.
    """
    for name, metavar, meaning in (
        ("ca-file", "FILE", "certificates to trust (default: the system's)"),
        ("cert-file", "FILE", "client certificate"),
        ("key-file", "FILE", "its key (default: in the same file)"),
        ("user", "NAME", "user for basic authentication"),
        ("password-file", "FILE", "file with the password, readable by its owner only"),
        ("token-file", "FILE", "file with a bearer token, readable by its owner only"),
    ):
        parser.add_argument(f"{flag}.{name}", metavar=metavar, help=meaning)
    parser.add_argument(
        f"{flag}.timeout",
        metavar="DURATION",
        default=f"{TIMEOUT_SECS:g}s",
        help="how long one answer may take (default: %(default)s)",
    )
    if isinstance(parser, Parser):
        parser.show_later(each.dest for each in parser._actions if each.dest.startswith(f"{flag[2:]}."))  # noqa: SLF001


def access_of(arguments: argparse.Namespace, flag: str, url: str) -> Access:
    """Return the access to the server at `url` that the flags added by `add_access_flags` describe.

    Raises ConfigurationError, naming the flag, if a value is invalid or another flag is missing.
    """
    given = {
        name: vars(arguments)[f"{flag[2:]}.{name}".replace("-", "_")]
        for name in ("ca-file", "cert-file", "key-file", "user", "password-file", "token-file", "timeout")
    }
    try:
        address = URL.parse(url)
    except ValueError as error:
        raise ConfigurationError(flag, f"{error.args[0]}, not {url!r}") from None
    timeout_secs = parse_duration_flag(f"{flag}.timeout", given["timeout"])
    return Access(address, _headers(given, flag), _context(given, flag, address), timeout_secs, flag)


def _headers(given: Mapping[str, str | None], flag: str) -> dict[str, str]:
    headers = {"User-Agent": "jobfeatures-exporter"}
    user, password, token = given["user"], given["password-file"], given["token-file"]
    if (user is None) != (password is None):
        missing = "password-file" if password is None else "user"
        raise ConfigurationError(f"{flag}.{missing}", "must be given too: user and password need each other")
    if user is not None and password is not None:
        if token is not None:
            raise ConfigurationError(f"{flag}.token-file", "cannot be combined with a user and password")
        known = f"{user}:{_secret(f'{flag}.password-file', password)}".encode()
        headers["Authorization"] = "Basic " + base64.b64encode(known).decode("ascii")
    elif token is not None:
        headers["Authorization"] = f"Bearer {_secret(f'{flag}.token-file', token)}"
    return headers


def _secret(flag: str, path: str) -> str:
    try:
        text = read_private(path, MAX_SECRET_BYTES).decode("utf-8").strip()
    except OSError as error:
        raise ConfigurationError(flag, f"{path}: {error.strerror}") from None
    except (JobfeaturesError, UnicodeDecodeError) as error:
        raise ConfigurationError(flag, str(error)) from None
    if not text or not text.isprintable():
        raise ConfigurationError(flag, f"{path}: must hold one line")
    return text


def _context(given: Mapping[str, str | None], flag: str, url: str) -> ssl.SSLContext | None:
    names = [name for name in ("ca-file", "cert-file", "key-file") if given[name] is not None]
    if not url.startswith("https:"):
        if names:
            raise ConfigurationError(f"{flag}.{names[0]}", f"can be used only with https, not with {url}")
        return None
    try:
        context = ssl.create_default_context(cafile=given["ca-file"])
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{flag}.ca-file", error.strerror or str(error)) from None
    if given["cert-file"] is None:
        if given["key-file"] is not None:
            raise ConfigurationError(f"{flag}.key-file", f"can be used only with {flag}.cert-file")
        return context
    try:
        context.load_cert_chain(given["cert-file"], given["key-file"])
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{flag}.cert-file", error.strerror or str(error)) from None
    return context
