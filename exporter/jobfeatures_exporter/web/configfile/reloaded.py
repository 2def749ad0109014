"""Reads the web configuration file again when it changes; the old version stays while the new is invalid."""

from __future__ import annotations

import logging
import os
import ssl
import stat
import threading

from jobfeatures.errors import ConfigurationError, ParseError
from jobfeatures.records.model import Version
from jobfeatures.system.privatefile import open_at_once
from jobfeatures.system.tls import file_version
from jobfeatures_exporter.web.configfile.options import ClientAuth, WebOptions, parse_web_config
from jobfeatures_exporter.web.configfile.tlscontext import is_allowed, make_context

log = logging.getLogger(__name__)

KEY = "web.config_file"
MAX_READ_BYTES = 1 << 20


class WebFile:
    """The current options of a web configuration file.

    `options` and `context` (None: no TLS) are those last loaded successfully; `failures` counts
    failed loads, `problem` is the latest load's error, empty if it succeeded.
    """

    def __init__(self, path: str, *, quiet: bool = False) -> None:
        """Load the file. Raises ConfigurationError if it cannot be used. `quiet`: no warnings are logged."""
        self.path = path
        self.failures = 0
        self.problem = ""
        self._reading = threading.Lock()
        self._read_from: dict[str, Version | None] = {}  # each file's stamp, taken before it was last read
        try:
            self.options, self.context = self._read()
        except ParseError as error:
            raise ConfigurationError(KEY, str(error)) from None
        if not quiet:
            self._warn()

    def _warn(self) -> None:
        for warning in self.options.warnings:
            log.warning("web configuration: %s", warning, extra={"file": self.path})
        for secret in self._secrets():
            if _is_open_to_all(secret):
                log.warning("a file with secrets is readable by everybody: chmod o-r", extra={"file": secret})

    def refresh(self) -> None:
        """Reload the file if it, or a file it names, has changed."""
        if any(file_version(path) != stamp for path, stamp in self._read_from.items()):
            self.reload()

    def reload(self) -> str:
        """Load the file, changed or not. Return the error, empty on success."""
        with self._reading:
            try:
                options, context = self._read()
                _check_kept(self.options, options, self.path)
            except ParseError as error:
                if str(error) != self.problem:
                    log.error(
                        "the web configuration cannot be reloaded, so the previous one stays in use: %s",
                        error,
                    )
                self.failures += 1
                self.problem = str(error)
                return self.problem
            self.options, self.context, self.problem = options, context, ""
            log.info("web configuration reloaded", extra={"file": self.path})
            return ""

    def _read(self) -> tuple[WebOptions, ssl.SSLContext | None]:
        # Stamps come first: a write during the read, or a file created later, then shows as a change.
        read_from = {self.path: file_version(self.path)}
        try:
            options = parse_web_config(_content(self.path), self.path)
            read_from |= {each: file_version(each) for each in _pem_files(options)}
            return options, None if options.tls is None else make_context(options.tls, self.path)
        finally:
            self._read_from = read_from

    def _secrets(self) -> list[str]:
        tls = self.options.tls
        here = [self.path] if self.options.users or (tls is not None and tls.private_key.text) else []
        return here + ([tls.private_key.path] if tls is not None and tls.private_key.path else [])


class FileTls:
    """Supplies a listener's TLS settings from the web configuration file, as it is now."""

    def __init__(self, file: WebFile) -> None:
        self._file = file

    @property
    def context(self) -> ssl.SSLContext:
        """Reload the file if it has changed; return the TLS context for a new connection."""
        self._file.refresh()
        assert self._file.context is not None  # noqa: S101  # a file does not switch TLS off
        return self._file.context

    def admits(self, spoken: ssl.SSLObject) -> bool:
        """Return whether a client may connect: its certificate has an allowed name, or any name is allowed.

        `spoken` is the connection's TLS object.
        """
        tls = self._file.options.tls
        return tls is None or is_allowed(spoken.getpeercert(), tls.allowed_sans)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb", opener=open_at_once) as file:
            return file.read(MAX_READ_BYTES)
    except OSError as error:
        raise ParseError(f"cannot be read: {error.strerror}", source=path) from None


def _pem_files(options: WebOptions) -> list[str]:
    tls = options.tls
    pems = () if tls is None else (tls.certificate, tls.private_key, tls.client_ca)
    return [pem.path for pem in pems if pem is not None and pem.path]


def _check_kept(old: WebOptions, new: WebOptions, source: str) -> None:
    """Raise ParseError if a listener would lose protection: the file may be half-written."""
    lost = ""
    required = old.tls is not None and old.tls.client_auth is ClientAuth.REQUIRED
    if (old.tls is None) != (new.tls is None):
        lost = "switches TLS on or off"
    elif old.users and not new.users:
        lost = "leaves basic_auth_users out"
    elif required and new.tls is not None and new.tls.client_auth is not ClientAuth.REQUIRED:
        lost = "lets clients in without a certificate"
    elif old.tls is not None and old.tls.allowed_sans and new.tls is not None and not new.tls.allowed_sans:
        lost = "leaves client_allowed_sans out"
    if lost:
        raise ParseError(f"the new content {lost}, which takes effect only after a restart", source=source)


def _is_open_to_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False
