"""Writes documents to standard output, one per line."""

from __future__ import annotations

import os
import sys

from jobfeatures.errors import SinkError
from jobfeatures_exporter.sinks.config import SinksSettings
from jobfeatures_exporter.sinks.message import Message, Sink


class StdoutSink(Sink):
    """Writes documents to standard output past Python's buffers: a reader sees each as it comes.

    Standard output stays open when the sink is closed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Message) -> None:
        """Write one line; a reader that stalls blocks only this sink."""
        data = memoryview(message.body + b"\n")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise SinkError(f"standard output: cannot write: {error.strerror}") from error


def make_sink(config: SinksSettings) -> StdoutSink:
    """Return the sink that writes to standard output."""
    del config
    return StdoutSink(sys.stdout.fileno())
