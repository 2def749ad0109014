"""Compresses responses."""

from __future__ import annotations

try:
    from isal import isal_zlib as zlib  # six times as fast
except ImportError:  # on other processors than x86-64 and ARM
    import zlib  # type: ignore[no-redef]

_GZIP = 31  # window bits, plus 16 for a gzip header


def pack(body: bytes) -> bytes:
    """Return a body gzipped, fast rather than small."""
    return zlib.compress(body, 1, _GZIP)
