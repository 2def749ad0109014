"""Parses credentials of HTTP basic authentication (RFC 7617). Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Final

MAX_HEADER_CHARACTERS: Final = 2048


def parse_basic(header: str) -> tuple[str, str] | None:
    """Return user and password of an Authorization header, None for anything else."""
    scheme, _, code = header.partition(" ")
    if scheme.lower() != "basic" or len(header) > MAX_HEADER_CHARACTERS:
        return None
    try:
        user, colon, password = base64.b64decode(code.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None
