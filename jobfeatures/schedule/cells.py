"""The heatmap as numbers: "a 2D array of integers", users × time (Tóth and Klusáček, section 3.3)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from jobfeatures.schedule.choosing import ScheduleError
from jobfeatures.schedule.document import Values
from jobfeatures.schedule.pictures.heatmap import Grid, Marks, compute_heatmap, make_marks
from jobfeatures.schedule.result import Schedule

MOST_CELLS: Final = 2**25  # what a result holds in memory


def make_heatmap(schedule: Schedule, cell_secs: int) -> Values:
    """Return how many violated jobs marked each cell, by user. Raises ScheduleError above MOST_CELLS.

    The column n begins at `start_secs` + n × `cell_secs`, in seconds of the log.
    """
    chosen = schedule.chosen
    first, last = chosen.arrival.min().item(), chosen.end.max().item()
    begin = int(first // cell_secs)
    columns = max(1, int(-(-last // cell_secs)) - begin)
    users = len(chosen.users)
    if users * columns > MOST_CELLS:
        enough = -(-int(last - first + 1) // max(1, MOST_CELLS // users - 2))
        raise ScheduleError(
            f"{schedule.log.name}: a heatmap of {users} users × {columns} cells has more than {MOST_CELLS}: "
            f"--cell {enough} would do"
        )
    grid, marks = Grid(cell_secs, begin, 1, columns), make_marks(schedule)
    bounds = np.searchsorted(marks.user, np.arange(users + 1)).tolist()
    return {
        "users": chosen.users,
        "start_secs": grid.begin_secs,
        "cell_secs": cell_secs,
        "violated_jobs": [_row(marks, *pair, grid) for pair in pairwise(bounds)],
    }


def _row(marks: Marks, first: int, last: int, grid: Grid) -> list[int]:
    mine = Marks(np.zeros(last - first, dtype=np.int64), marks.begin[first:last], marks.tardiness[first:last])
    cells: list[int] = (
        compute_heatmap(mine, np.zeros(1, dtype=np.int64), 1, grid)[0].astype(np.int64).tolist()
    )
    return cells


def format_heatmaps(documents: Sequence[Values]) -> str:
    """Return a row for each log and user: where its cells begin, how long they are, then the cells."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heatmaps = [(each["log"], each["heatmap"]) for each in documents]
    most = max(len(heatmap["violated_jobs"][0]) for _, heatmap in heatmaps)
    writer.writerow(["log", "user", "start_secs", "cell_secs", *range(most)])
    for log, heatmap in heatmaps:
        for user, cells in zip(heatmap["users"], heatmap["violated_jobs"], strict=True):
            writer.writerow([log, user, heatmap["start_secs"], heatmap["cell_secs"], *cells])
    return out.getvalue()
