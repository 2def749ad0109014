"""A TLS context whose certificate and key follow their files; broken new ones leave the old ones in use."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from collections.abc import Iterable, Iterator

from jobfeatures.errors import ConfigurationError

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 20
Stamps = tuple[tuple[int, int, int, int] | None, ...]


class TlsFiles:
    """The context of a listener, and what its files were when they were read last."""

    def __init__(self, certificate: str, key: str) -> None:
        """Read the files. Raises ConfigurationError naming the setting."""
        self._certificate, self._key = certificate, key
        self._stamps: Stamps = ()
        self._told = ""
        self.context = new_context()
        try:
            self._stamps = look_at((self._certificate, self._key))
            self._load()
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                "features.tls_certificate", f"cannot use {certificate} and {key}: {reason_of(error)}"
            ) from error

    def admits(self, spoken: object) -> bool:
        """Admit everybody: no client is asked for a certificate."""
        del spoken
        return True

    def reload_if_changed(self) -> bool:
        """Use the files' new content from the next connection on; True if it was taken.

        A content that is of no use is logged once, and looked at again when it changes.
        """
        stamps = look_at((self._certificate, self._key))
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        try:
            self._load()
        except (OSError, ValueError) as error:
            reason = reason_of(error)
            if reason != self._told:
                log.error("new certificate is not used, the old one stays: %s", reason)
            self._told = reason
            return False
        self._told = ""
        log.info("new certificate is in use", extra={"file": self._certificate})
        return True

    def _load(self) -> None:
        # Into a context of its own: handshakes may be at work with the one in use, and a
        # pair that does not fit would leave that with a new certificate and an old key.
        context = new_context()
        load_chain(context, read_pem(self._certificate), read_pem(self._key))
        self.context = context


def look_at(paths: Iterable[str]) -> Stamps:
    """Return what tells whether files have changed since; None for one that cannot be found."""
    found: list[tuple[int, int, int, int] | None] = []
    for path in paths:
        try:
            each = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((each.st_ino, each.st_mtime_ns, each.st_ctime_ns, each.st_size))
    return tuple(found)


def new_context() -> ssl.SSLContext:
    """Return a context of a server, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def read_pem(path: str) -> bytes:
    """Return what a file of certificates or a key holds. Raises OSError, and ValueError for an empty one."""
    with open(path, "rb", opener=open_at_once) as file:
        content = file.read(MAX_FILE_BYTES)
    if not content.strip():
        raise ValueError("the file is empty")
    return content


def open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for it: there might be a pipe in its place."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Let a context use a certificate and its key. Raises ValueError or OSError, ssl.SSLError among them."""
    with _in_memory(certificate) as chain, _in_memory(key) as secret:
        context.load_cert_chain(chain, secret, password=_no_password)


def _no_password() -> str:
    """Refuse, where OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted")


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def reason_of(error: Exception) -> str:
    """Return why files could not be used, in few words."""
    if isinstance(error, ssl.SSLError):
        return getattr(error, "reason", None) or str(error)  # not all have it
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
