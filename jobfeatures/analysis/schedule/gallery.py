"""Collects schedules to draw, and writes all pictures at the end. Loads matplotlib only when needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jobfeatures.errors import ConfigurationError, shown_name
from jobfeatures.settings.usage import need
from jobfeatures.system.progress import shown_count

if TYPE_CHECKING:
    from jobfeatures.analysis.schedule.pictures.drawn import Sketch, View
    from jobfeatures.analysis.schedule.runs import Store
    from jobfeatures.analysis.schedule.whole import Whole

FORMATS: Final = ("png", "svg")


class Gallery:
    """Draws all schedules into a report, a directory of pictures, or both."""

    def __init__(
        self,
        *,
        report: str | None = None,
        directory: str | None = None,
        formats: Sequence[str] = FORMATS,
        top: int = 20,
    ) -> None:
        """Store the options; raise ConfigurationError where it is already clear that they cannot be met.

        `report`: the HTML file; `directory`: where pictures are written, one file
        for each of `formats`; `top`: maximum rows of a table of users.
        """
        self._report, self._directory, self._formats, self._top = report, directory, formats, top
        self._views: list[View] = []
        for option, path in (("--report", report), ("--plots", directory)):
            if path is not None:
                _check(option, path)

    @property
    def is_wanted(self) -> bool:
        """Return whether a report or pictures were requested."""
        return self._report is not None or self._directory is not None

    def sketch(self, whole: Whole, store: Store) -> Sketch | None:
        """Return a collector for the jobs of a schedule, None where nothing is drawn."""
        if not self.is_wanted:
            return None
        from jobfeatures.analysis.schedule.pictures.drawn import Sketch

        return Sketch(whole, store)

    def add(self, view: View) -> None:
        """Add a schedule's view."""
        self._views.append(view)

    def write(self) -> None:
        """Draw all schedules side by side. Raises ConfigurationError where a file cannot be written."""
        if not self._views:
            return
        from jobfeatures.analysis.schedule.pictures.draw import count_pictures, draw_pictures, write_picture
        from jobfeatures.analysis.schedule.pictures.reportpage import Report

        report, option = Report(self._views, top=self._top), "--plots"
        try:
            with shown_count(count_pictures(self._views), "pictures") as tick:
                for picture in draw_pictures(self._views):
                    if self._directory is not None:
                        write_picture(picture, self._directory, self._formats)
                    if self._report is not None:
                        report.add(picture)
                    tick(1)
            if self._report is not None:
                option = "--report"
                with open(self._report, "w", encoding="utf-8") as file:
                    file.write(report.page())
        except OSError as error:
            raise ConfigurationError(option, f"cannot be written: {error.strerror or error}") from None


def _check(option: str, path: str) -> None:
    need("matplotlib.figure", option, "matplotlib")
    if option == "--plots":
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(option, f"{shown_name(path)}: {error.strerror or error}") from None
    elif os.path.isdir(path):
        raise ConfigurationError(option, f"is a directory: {shown_name(path)}")
    elif not os.path.isdir(os.path.dirname(path) or "."):
        raise ConfigurationError(option, f"no such directory: {shown_name(os.path.dirname(path))}")
