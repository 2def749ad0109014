"""Loads certificates and keys into a TLS context."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator

from jobfeatures.records.model import Version
from jobfeatures.system.privatefile import closing, open_at_once, version_of

MAX_FILE_BYTES = 1 << 20


def file_version(path: str) -> Version | None:
    """Return a value that changes whenever the file does; None if it cannot be found."""
    try:
        return version_of(os.stat(path))
    except OSError:
        return None


def new_context() -> ssl.SSLContext:
    """Return a TLS context for a server, without a certificate: `load_chain` adds that."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def read_pem(path: str) -> bytes:
    """Return the content of a certificate or key file. Raises OSError, and ValueError if it is empty."""
    with open(path, "rb", opener=open_at_once) as file:
        content = file.read(MAX_FILE_BYTES)
    if not content.strip():
        raise ValueError("the file is empty")
    return content


def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate chain and its key, in PEM, into a context.

    Raises ValueError if the key has a passphrase, and ssl.SSLError, an OSError, if they are invalid.
    """
    with _in_memory(certificate) as chain, _in_memory(key) as secret:
        context.load_cert_chain(chain, secret, password=_no_password)


def _no_password() -> str:
    """Raise ValueError, where OpenSSL would prompt for a password."""
    raise ValueError("the key must not have a passphrase")


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    with closing(descriptor):
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"


def reason_of(error: Exception) -> str:
    """Return for a message why a certificate or key could not be used."""
    if isinstance(error, ssl.SSLError):
        return getattr(error, "reason", None) or str(error)  # not all have it
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
