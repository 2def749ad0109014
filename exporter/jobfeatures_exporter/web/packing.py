"""Compresses answers."""

from __future__ import annotations

try:
    from isal import isal_zlib as zlib  # takes a sixth of the time
except ImportError:  # on other processors than x86-64 and ARM
    import zlib  # type: ignore[no-redef]

_GZIP = 31  # bits of the window, and gzip's header


def pack(body: bytes) -> bytes:
    """Return it in gzip's format, fast rather than small."""
    return zlib.compress(body, 1, _GZIP)
