"""Collects schedules and draws them all at the end. Loads matplotlib only when something is drawn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from jobfeatures.errors import ConfigurationError, shown_name
from jobfeatures.settings.usage import need
from jobfeatures.system.progress import shown_count

if TYPE_CHECKING:
    from jobfeatures.analysis.schedule.pictures.drawn import DrawnSchedule, Sketch
    from jobfeatures.analysis.schedule.runs import Store
    from jobfeatures.analysis.schedule.whole import Whole

FLAG: Final = "--report"


class Gallery:
    """Draws several schedules together, into an HTML report or into a directory of pictures."""

    def __init__(self, path: str | None = None) -> None:
        """Draw into a report, or a directory (existing, or with a final slash), created here; None: nothing.

        Raises ConfigurationError where it is already clear that nothing can be drawn or written there.
        """
        self._path = path
        self._views: list[DrawnSchedule] = []
        self._is_directory = path is not None and (os.path.isdir(path) or path.endswith("/"))
        if path is None:
            return
        need("matplotlib.figure", FLAG, "matplotlib")
        if self._is_directory:
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(FLAG, f"{shown_name(path)}: {error.strerror or error}") from None
        elif not os.path.isdir(os.path.dirname(path) or "."):
            raise ConfigurationError(FLAG, f"no such directory: {shown_name(os.path.dirname(path))}")

    def sketch(self, whole: Whole, store: Store) -> Sketch | None:
        """Return an object that collects what is to be drawn, while the schedule `whole` is evaluated.

        Returns None if no pictures are wanted. The collected data are stored in `store`.
        """
        if self._path is None:
            return None
        from jobfeatures.analysis.schedule.pictures.drawn import Sketch

        return Sketch(whole, store)

    def add(self, view: DrawnSchedule) -> None:
        """Add one schedule to the ones that `write` draws."""
        self._views.append(view)

    def write(self) -> None:
        """Draw all schedules side by side. Raises ConfigurationError where a file cannot be written."""
        if self._path is None or not self._views:
            return
        from jobfeatures.analysis.schedule.pictures.draw import count_pictures, draw_pictures, write_picture
        from jobfeatures.analysis.schedule.pictures.reportpage import Report

        report = Report(self._views)
        try:
            with shown_count(count_pictures(self._views), "pictures") as tick:
                for picture in draw_pictures(self._views):
                    if self._is_directory:
                        write_picture(picture, self._path)
                    else:
                        report.add(picture)
                    tick(1)
            if not self._is_directory:
                with open(self._path, "w", encoding="utf-8") as file:
                    file.write(report.page())
        except OSError as error:
            raise ConfigurationError(FLAG, f"cannot be written: {error.strerror or error}") from None
