"""Node authentication: a token that can only be made with the site's secret. Pure.

The token is base64url(HMAC-SHA256(secret, label + name)): RFC 2104, RFC 4648 section 5. So no list
of nodes has to be stored, and a leaked token gives access to the answers for that one node only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable

from jobfeatures.errors import ParseError

MIN_SECRET_BYTES = 32
MAX_SECRETS = 4
MAX_FILE_BYTES = 4096
_LABEL = b"jobfeatures node token 1\n"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


def parse_secrets(content: bytes, source: str) -> tuple[bytes, ...]:
    """Return 1 to 4 secrets of at least 32 bytes, one per line; the first signs tokens. Raises ParseError."""
    found = [line.strip() for line in content.splitlines() if line.strip()]
    for number, secret in enumerate(found, 1):
        if len(secret) < MIN_SECRET_BYTES:
            raise ParseError(
                f"a secret has at least {MIN_SECRET_BYTES} bytes: openssl rand -hex 32",
                source=source,
                line=number,
            )
    if not 0 < len(found) <= MAX_SECRETS:
        raise ParseError(f"holds {len(found)} secrets, not 1 to {MAX_SECRETS}", source=source)
    return tuple(found)


def parse_token(content: bytes, source: str) -> str:
    """Return the token in a node's token file. Raises ParseError, whose message omits the content."""
    token = content.decode("ascii", "replace").strip()
    if _TOKEN.fullmatch(token) is None:
        raise ParseError("is no token as jobfeatures-exporter node-token prints it", source=source)
    return token


def make_token(secret: bytes, node_name: str) -> str:
    """Return the token of a node."""
    made = hmac.digest(secret, _LABEL + node_name.encode("ascii"), hashlib.sha256)
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode("ascii")


def is_token(given: str, node_name: str, secrets: Iterable[bytes]) -> bool:
    """Return whether a token is valid for this node under any of the secrets, in constant time."""
    text = given.encode("utf-8", "replace")
    right = [hmac.compare_digest(text, make_token(each, node_name).encode("ascii")) for each in secrets]
    return any(right)
