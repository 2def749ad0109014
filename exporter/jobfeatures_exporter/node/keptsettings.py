"""Checks the settings file and its drop-ins while the daemon runs, since hooks read them at every job.

A copy of valid settings is kept, which hooks use when the file is broken. A broken file is reported within a
minute, in the log and by the metric that reports failed reloads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from jobfeatures.errors import JobfeaturesError
from jobfeatures.hooks.serving import CONFIG
from jobfeatures.publish.files import replace_file
from jobfeatures.publish.folders import INTAKE
from jobfeatures.settings.file import Document, read_settings, stamp_of, to_toml
from jobfeatures.settings.resolve import DEFAULT_FILE, FILE_VARIABLE
from jobfeatures_exporter.node.nodeboard import NodeBoard

log = logging.getLogger(__name__)


def find_settings_file(file: str | None) -> str:
    """Return the settings file's path, which may not exist; `file` is the one named on the command line."""
    return file or os.environ.get(FILE_VARIABLE) or DEFAULT_FILE


class WatchedSettings(NamedTuple):
    """The path of a settings file, and a function that reads and validates it, or raises JobfeaturesError."""

    path: str
    read: Callable[[], object]


class KeptSettings:
    """Checks the settings file and copies it for hooks each time `check` is called, by one thread only."""

    def __init__(self, file: WatchedSettings, board: NodeBoard) -> None:
        self._path, self._read = file
        self._board = board
        self._copy = f"{board.tree.intake_path}/{CONFIG}"  # others may remove it
        self._seen: tuple[object, ...] | None = None
        self._is_invalid = False
        self._is_broken = False  # and told by us

    def check(self) -> None:
        """Validate the file and copy it for hooks, if it or a drop-in has changed.

        An invalid file is logged. Raises JobfeaturesError or OSError if the copy cannot be written.
        """
        try:
            seen = stamp_of(self._path)
        except FileNotFoundError:
            if self._path == DEFAULT_FILE:
                return  # none is needed
            seen = ()
        if seen == self._seen and (self._is_invalid or os.path.exists(self._copy)):
            return
        try:
            is_needed = self._path != DEFAULT_FILE
            before = read_settings(self._path, is_needed=is_needed)
            self._read()
            if read_settings(self._path, is_needed=is_needed) != before:
                return  # it is being written: the next check is soon
        except JobfeaturesError as error:
            self._is_invalid = True
            self._broken(error)
        else:
            self._is_invalid = False
            self._good(before)
        self._seen = seen

    def _broken(self, error: JobfeaturesError) -> None:
        log.error("the settings file is invalid, so prologs and epilogs use the last valid one: %s", error)
        if self._board.reload.successful:
            self._is_broken = True
            self._board.reload = replace(self._board.reload, successful=False)

    def _good(self, document: Document) -> None:
        if self._is_broken:  # reported from here: a failed reload is over only with the next reload
            self._is_broken = False
            self._board.reload = replace(self._board.reload, successful=True)
            log.info("the settings file is valid again")
        is_one = len(document.files) == 1  # then it is copied verbatim, with its comments
        content = document.files[0].data if is_one else to_toml(document.table)
        with self._board.tree.folder(INTAKE) as folder:
            replace_file(folder, folder, CONFIG, content, 0o600)
