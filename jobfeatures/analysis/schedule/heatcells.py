"""Computes the table of numbers behind a heatmap of late jobs: a row per user, a column per span of time.

Source: Tóth and Klusáček, section 3.3: "a 2D array of integers".
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from jobfeatures.analysis.schedule.choosing import ScheduleError
from jobfeatures.analysis.schedule.document import Values
from jobfeatures.analysis.schedule.pictures.heatmap import Grid, Marks, compute_heatmap, make_marks
from jobfeatures.analysis.schedule.result import Schedule
from jobfeatures.analysis.schedule.whole import Whole

MOST_CELLS: Final = 2**25  # what a result holds in memory


class Cells:
    """A table of users × spans of time (cells) that counts a user's late jobs in each cell.

    The module `heatmap` defines which cells a late job marks. Column n begins `cell_secs` × n seconds after
    `start_secs`, which is in seconds since the log's time zero.
    """

    def __init__(self, whole: Whole, cell_secs: int) -> None:
        """Raise ScheduleError above MOST_CELLS."""
        self._whole = whole
        self._rows: list[list[int]] = []
        first, last = whole.first_secs, whole.last_secs
        begin = int(first // cell_secs)
        self._grid = Grid(cell_secs, begin, 1, max(1, int(-(-last // cell_secs)) - begin))
        users, columns = whole.user_count, self._grid.columns
        if users * columns > MOST_CELLS:
            enough = -(-int(last - first + 1) // max(1, MOST_CELLS // users - 2))
            raise ScheduleError(
                f"{whole.log.name}: {users} users × {columns} bins are more than {MOST_CELLS} cells: "
                f"use longer time bins, --heatmap {enough}"
            )

    def add(self, chunk: Schedule, first_user: int) -> None:
        """Count the late jobs in `chunk`, the evaluated schedule of a few users' jobs.

        A job is late if it ended after its expected end. `first_user` is the index of the chunk's first user
        among all users of the log. A user's jobs may be in several chunks, to be added one after the other.
        """
        marks = make_marks(chunk)
        bounds = np.searchsorted(marks.user, np.arange(len(chunk.chosen.users) + 1)).tolist()
        for user, (first, last) in enumerate(pairwise(bounds), first_user):
            mine = Marks(
                np.zeros(last - first, np.int64), marks.begin[first:last], marks.tardiness[first:last]
            )
            cells = compute_heatmap([mine], np.zeros(1, np.int64), 1, self._grid)[0].astype(np.int64)
            if user < len(self._rows):  # the user has more jobs than one chunk
                cells += self._rows.pop()
            self._rows.append(cells.tolist())

    def heatmap(self) -> Values:
        """Return the whole table as values for JSON, once the jobs of all users have been added."""
        return {
            "users": self._whole.users,
            "start_secs": self._grid.begin_secs,
            "cell_secs": self._grid.cell_secs,
            "violated_jobs": self._rows,
        }


def format_heatmaps(documents: Sequence[Values]) -> str:
    """Return the heatmaps of several logs as CSV, with one row for each log and user.

    A row holds the log, the user, the first cell's begin and a cell's length (seconds), then the cells.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heatmaps = [(each["log"], each["heatmap"]) for each in documents]
    most = max(len(heatmap["violated_jobs"][0]) for _, heatmap in heatmaps)
    writer.writerow(["log", "user", "start_secs", "cell_secs", *range(most)])
    for log, heatmap in heatmaps:
        for user, cells in zip(heatmap["users"], heatmap["violated_jobs"], strict=True):
            writer.writerow([log, user, heatmap["start_secs"], heatmap["cell_secs"], *cells])
    return out.getvalue()
