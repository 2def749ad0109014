"""Defines messages (documents on their way to a sink) and the interface of sinks; reads passwords."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jobfeatures.errors import SinkError

SEND_TIMEOUT_SECS = 30.0  # for a sink's server to take one document


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One document as it is sent, about a node or a whole cluster.

    `kind` is one of `jobfeatures.formats.sonar.envelopes.TYPES`, `made_at_secs` is a Unix time, and `body` is
    the document's JSON.
    """

    kind: str
    cluster: str
    node: str
    made_at_secs: float
    body: bytes  # JSON in UTF-8, one line without a newline


class Sink(Protocol):
    """A receiver of documents: sends messages one at a time, called by one thread, which it may block.

    Classes of sinks inherit from it; the inherited `close` does nothing.
    """

    def send(self, message: Message) -> None:
        """Deliver one message. Raises SinkError unless the receiver has accepted it."""

    def close(self) -> None:
        """Release open resources; does nothing unless overridden."""
        return


def read_secret(path: str) -> str:
    """Return the first line of a file as a password. Raises SinkError if it is empty or unreadable."""
    try:
        with open(path, encoding="utf-8") as file:
            secret = file.readline(4096).rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SinkError(f"{path}: {error}") from error
    if not secret:
        raise SinkError(f"{path}: the first line must be the password, but is empty")
    return secret
