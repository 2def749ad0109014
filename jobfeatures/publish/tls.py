"""A TLS context whose certificate and key follow their files; broken new ones leave the old ones in use."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from collections.abc import Iterator

from jobfeatures.errors import ConfigurationError

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 20
_Stamp = tuple[int, int, int, int]


class TlsFiles:
    """The context of a listener, and what its files were when they were read last."""

    def __init__(self, certificate: str, key: str) -> None:
        """Read the files. Raises ConfigurationError naming the setting."""
        self._certificate, self._key = certificate, key
        self._stamps: tuple[_Stamp | None, ...] = ()
        self._told = ""
        self.context = _new_context()
        try:
            self._stamps = self._look()
            self._load()
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                "features.tls_certificate", f"cannot use {certificate} and {key}: {_reason(error)}"
            ) from error

    def reload_if_changed(self) -> bool:
        """Use the files' new content from the next connection on; True if it was taken.

        A content that is of no use is logged once, and looked at again when it changes.
        """
        stamps = self._look()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        try:
            self._load()
        except (OSError, ValueError) as error:
            reason = _reason(error)
            if reason != self._told:
                log.error("new certificate is not used, the old one stays: %s", reason)
            self._told = reason
            return False
        self._told = ""
        log.info("new certificate is in use", extra={"file": self._certificate})
        return True

    def _look(self) -> tuple[_Stamp | None, ...]:
        found: list[_Stamp | None] = []
        for path in (self._certificate, self._key):
            try:
                each = os.stat(path)
            except OSError:
                found.append(None)
            else:
                found.append((each.st_ino, each.st_mtime_ns, each.st_ctime_ns, each.st_size))
        return tuple(found)

    def _load(self) -> None:
        # One reading of both, tried on a context that nobody uses: a pair that does
        # not fit would leave the one in use with a new certificate and an old key.
        with _in_memory(self._certificate) as certificate, _in_memory(self._key) as key:
            _new_context().load_cert_chain(certificate, key, password=_no_password)
            self.context.load_cert_chain(certificate, key, password=_no_password)


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _no_password() -> str:
    """Refuse, where OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted")


@contextlib.contextmanager
def _in_memory(path: str) -> Iterator[str]:
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES)
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
