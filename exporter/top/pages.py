"""Where pages come from: a running daemon, which costs nothing and needs no rights, or a look of our own."""

from __future__ import annotations

import time
from typing import Protocol

from exporter.config import DaemonConfig
from exporter.remote.access import Access
from exporter.top.rows import Look, parse_look
from jobfeatures.errors import SourceError

READY_SECS = 10.0  # that batch systems may take to answer for the first time


class Pages(Protocol):
    """What gives looks."""

    name: str

    def look(self) -> Look:
        """Return the latest figures. Raises SourceError and ParseError."""

    def close(self) -> None:
        """End what was started."""


class DaemonPages:
    """The pages of a daemon."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.name = access.url

    def look(self) -> Look:
        """Fetch a page."""
        return parse_look(self._access.get(), source=self._access.url)

    def close(self) -> None:
        """Nothing stays open."""


class OwnPages:
    """A daemon of our own without listeners: it publishes nothing, sends nothing and writes nothing."""

    name = "no daemon: own look"

    def __init__(self, config: DaemonConfig) -> None:
        """`config` is one that `without_traces` made."""
        from exporter.daemon import Daemon

        self._daemon = Daemon(config)
        self._daemon.start()
        deadline = time.monotonic() + READY_SECS
        while not self._daemon.is_ready and time.monotonic() < deadline:
            time.sleep(0.05)

    def look(self) -> Look:
        """Look at the node."""
        return parse_look(self._daemon.exposition(openmetrics=False).decode("utf-8", "replace"))

    def close(self) -> None:
        """Stop looking."""
        self._daemon.stop()


WITHOUT_TRACES = {
    "role": "node",
    "features.publish": "false",
    "sonar.sinks": "",
    "jobs.kinds": "batch",
    "metrics.profile": "",
    "metrics.max_series": "0",
    "jobs.process_io": "false",
    "sample.taskstats": "false",
}


def address_of(listen_address: str) -> str:
    """Return the address at which a daemon with this setting is asked from its own machine."""
    host, _, port = listen_address.rpartition(":")
    if host in {"", "0.0.0.0", "[::]"}:  # noqa: S104  # asked, not bound
        host = "127.0.0.1"
    return f"http://{host}:{port}/metrics"


def is_nobody_there(error: SourceError) -> bool:
    """Tell whether nothing listens at an address."""
    reason = getattr(error.__cause__, "reason", error.__cause__)
    return isinstance(reason, ConnectionRefusedError)
