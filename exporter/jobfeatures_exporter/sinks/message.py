"""A document on its way, what takes it, and the passwords that this needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jobfeatures.errors import SinkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One document as it will be sent. `kind` is one of jobfeatures.formats.sonar.envelopes.TYPES."""

    kind: str
    cluster: str
    node: str
    made_at_secs: float
    body: bytes  # JSON in UTF-8, one line without its end


class Sink(Protocol):
    """Takes messages, one at a time, from one thread, which it may keep waiting."""

    def send(self, message: Message) -> None:
        """Hand one over; when this returns, the far side has it. Raises SinkError."""

    def close(self) -> None:
        """Let go of what is open."""


def read_secret(path: str) -> str:
    """Return the first line of a file. Raises SinkError."""
    try:
        with open(path, encoding="utf-8") as file:
            secret = file.readline(4096).rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SinkError(f"{path}: {error}") from error
    if not secret:
        raise SinkError(f"{path}: is empty")
    return secret
