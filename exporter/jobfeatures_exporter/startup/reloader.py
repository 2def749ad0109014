"""Handles SIGHUP: a running daemon rereads its settings, checks and applies them."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from jobfeatures.errors import JobfeaturesError
from jobfeatures.system.logs import configure_logging
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.statuses import LastReload
from jobfeatures_exporter.service.reload import SettingsChange, compute_change
from jobfeatures_exporter.service.supervision import Notifier
from jobfeatures_exporter.startup.checks import check

if TYPE_CHECKING:
    from jobfeatures_exporter.controller.daemon import Controller
    from jobfeatures_exporter.node.daemon import Daemon

log = logging.getLogger(__name__)


class Reloader:
    """Applies new settings at SIGHUP; if they are invalid, the old ones stay."""

    def __init__(
        self,
        config: ExporterConfig,
        served: Daemon | Controller,
        notifier: Notifier,
        reread: Callable[[], ExporterConfig] | None,
        prefix: Callable[[], str],
    ) -> None:
        self._config = config
        self._served = served
        self._notifier = notifier
        self._reread = reread
        self.prefix = prefix
        self.files: list[Callable[[], None]] = []  # each rereads its files, or raises ConfigurationError
        self._wanted = asyncio.Event()

    def status(self) -> str:
        """Return the status line for the service manager."""
        return f"{self.prefix()}: {self._served.summary()}"

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle SIGHUP as a request to reload."""
        if self._reread is not None:
            loop.add_signal_handler(signal.SIGHUP, self._wanted.set)

    async def follow(self) -> None:
        """Reload the settings at each SIGHUP, once for several that come together, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._notifier.reloading()
            await asyncio.to_thread(self.reload)  # scrapes are still answered
            self._notifier.ready(self.status())

    def reload(self) -> None:
        """Reread and apply the settings, or leave everything unchanged and log why."""
        try:
            change = self._take()
        except Exception as error:
            if not isinstance(error, JobfeaturesError):  # supervised: nothing in a file may end the daemon
                log.exception("reload failed")
            configure_logging(self._config.log.level, self._config.log.format)  # each request is answered
            log.error("the settings cannot be reloaded, so the previous ones stay in use: %s", error)
            self._served.board.reload = replace(self._served.board.reload, successful=False)
            return
        self._served.board.reload = LastReload(successful=True, success_secs=time.time())
        for key in change.waiting:
            log.warning("this setting needs a restart: %s", key)
        log.info("settings reloaded", extra={"changed": ",".join(change.taken) or "nothing"})

    def _take(self) -> SettingsChange:
        assert self._reread is not None  # noqa: S101  # reload is only requested with it
        wanted = self._reread()
        check(wanted)
        change = compute_change(self._config, wanted)
        check(change.config)
        for read_again in self.files:
            read_again()
        self._served.reconfigure(change)
        self._config = change.config
        configure_logging(change.config.log.level, change.config.log.format)
        return change
