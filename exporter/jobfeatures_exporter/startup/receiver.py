"""Makes the receiver of documents of Sonar and similar agents, for both roles of the daemon."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Iterator

from aiohttp import web

from jobfeatures.system.clock import Clock, SystemClock
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.ingest.folder import SonarDirectory
from jobfeatures_exporter.ingest.intake import SonarIntake
from jobfeatures_exporter.ingest.listener import MAX_BODY_BYTES, SonarListener
from jobfeatures_exporter.ingest.nodes import SonarNodes
from jobfeatures_exporter.ingest.page import SonarPage
from jobfeatures_exporter.ingest.users import UsersFile
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.privacy.hiding import make_privacy
from jobfeatures_exporter.web.answers import make_scrapes
from jobfeatures_exporter.web.app import handler_of
from jobfeatures_exporter.web.config import SONAR
from jobfeatures_exporter.web.listener import Listeners

log = logging.getLogger(__name__)

PATH = "/sonar/metrics"


class Ingest:
    """Receives documents of Sonar and similar agents, through a listener, a folder or both."""

    def __init__(self, config: ExporterConfig, clock: Clock | None = None) -> None:
        """Make all parts; start nothing. Raises ConfigurationError if the settings cannot be used."""
        self._config = config
        self._clock = clock = clock or SystemClock()
        nodes = SonarNodes(clock, max_nodes=config.ingest.max_nodes)
        self._intake = SonarIntake(nodes, clock, config.ingest.minutes_from)
        kinds = frozenset(map(Kind, config.jobs.kinds))
        self._page = SonarPage(nodes, clock, kinds, config.metrics.max_series, make_privacy(config.privacy))
        self._metrics = make_scrapes(self._page.exposition, 1)  # one at a time: they share a cache
        self._users = None if config.ingest.users_file is None else UsersFile(config.ingest.users_file)

    def routes(self) -> list[web.RouteDef]:
        """Return the route of foreign nodes' metrics, which the metrics listener serves."""
        return [web.get(PATH, handler_of(self._metrics))]

    @contextlib.asynccontextmanager
    async def running(self, listeners: Listeners) -> AsyncIterator[str | None]:
        """Accept documents until the ``with`` block ends; yields the listener's address, None without one."""
        async with contextlib.AsyncExitStack() as stack:
            address = None
            config = self._config
            if config.ingest.listen is not None:
                listener = SonarListener(self._intake, self._users, self._clock)
                opened = listeners.listening(SONAR, listener, config.ingest.listen)
                address = await stack.enter_async_context(opened)
                log.info("accepting documents", extra={"address": address})
            if config.ingest.directory is not None:
                stack.enter_context(self._reading(config.ingest.directory))
            yield address

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        stopping = threading.Event()
        directory = SonarDirectory(path, self._intake, self._clock, max_document_bytes=MAX_BODY_BYTES)
        thread = threading.Thread(target=directory.run, args=(stopping,), name="sonar directory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join(5.0)
