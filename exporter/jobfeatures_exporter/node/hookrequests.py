"""Runs a separate process that serves the requests of hooks, which are prologs and epilogs.

The process is `jobfeatures.hooks.server`; `jobfeatures.hooks.serving` describes the requests.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import select
import sys
import threading
import time
from typing import IO

from jobfeatures.errors import JobfeaturesError
from jobfeatures.hooks.server import Settings
from jobfeatures.system.command import conversation
from jobfeatures_exporter.config import AUTO, ExporterConfig
from jobfeatures_exporter.node.keptsettings import KeptSettings
from jobfeatures_exporter.node.nodeboard import NodeBoard, make_site
from jobfeatures_exporter.node.sources import NodeSources

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "jobfeatures.hooks.server")
LOOK_SECS = 60.0  # between two looks at the settings file
AGAIN_SECS = 5.0  # before a process that has ended is restarted
END_SECS = 2.0  # for the process to end


class HookServer:
    """Runs the process that serves hooks. One thread calls `run`; any thread may call the other methods."""

    def __init__(self, board: NodeBoard, sources: NodeSources, kept: KeptSettings | None) -> None:
        """Start nothing yet. `run` has `kept`, if given, check the settings file every LOOK_SECS."""
        self._board = board
        self._sources = sources
        self._kept = kept
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Start the process that serves hooks, and restart it whenever it ends, until `stop` is called.

        While it does not run, hooks do their work by themselves.
        """
        while not self._stopping.is_set():
            try:
                with conversation(COMMAND, end_secs=END_SECS) as (their_input, their_output):
                    self._talk(their_input, their_output.fileno())
            except OSError as error:
                log.error("cannot serve requests of prologs and epilogs: %s", error)
            if not self._stopping.wait(AGAIN_SECS):
                log.warning("the process that serves prologs and epilogs has ended and is started again")

    def stop(self) -> None:
        """Make `run` end the process that serves hooks, and then return."""
        self._stopping.set()
        self._wake()

    def reconfigure(self) -> None:
        """Send the daemon's new settings to the process that serves hooks."""
        self._changed.set()
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, b"x")

    def _talk(self, their_input: IO[bytes], their_output: int) -> None:
        """Talk to the process until it ends. Raises OSError."""
        poll = select.poll()
        poll.register(their_output, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        self._changed.set()
        checked_secs: float | None = None
        while not self._stopping.is_set():
            if self._changed.is_set():
                self._changed.clear()
                pickle.dump(settings_of(self._board.config), their_input)
                their_input.flush()
            if checked_secs is None or time.monotonic() - checked_secs >= LOOK_SECS:
                checked_secs = time.monotonic()
                self._check()
            for descriptor, _ in poll.poll(LOOK_SECS * 1000):
                data = os.read(descriptor, 4096)
                if descriptor == their_output:
                    if not data:
                        return
                    self._sources.refresh_in_haste(frozenset(data.decode("ascii", "replace").split()))

    def _check(self) -> None:
        if self._kept is None:
            return
        try:
            self._kept.check()
        except (JobfeaturesError, OSError) as error:
            log.warning("cannot save a copy of the settings for prologs and epilogs: %s", error)
        except Exception:  # supervised: hooks are still served
            log.exception("the settings file cannot be checked")


def settings_of(config: ExporterConfig) -> Settings:
    """Return the settings that the process that serves hooks needs."""
    polled = None if AUTO in config.polling.sources else frozenset(config.polling.sources)
    return Settings(config.shared, make_site(config), config.log.level, config.log.format, polled)
