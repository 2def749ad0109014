"""Computes when each user's jobs were late, for heatmaps. Pure functions; needs numpy.

A job that ended after its expected end (EET) leaves a mark. The mark begins at the latest start that would
have kept the expected end, EET − runtime, and is as long as the job was late (Tóth and Klusáček, section 3.3,
EET heatmaps). Time is cut into cells, of a minute in that paper. A mark covers ceil(tardiness / cell) cells,
from cell floor(begin / cell) on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.result import Schedule
from jobfeatures.analysis.schedule.runs import Array

CELL_SECS: Final = 60
SHORT_SECS: Final = 7200  # shorter spans have cells of one second


class Marks(NamedTuple):
    """The marks that jobs leave in a heatmap if they ended after their expected end: one entry per job.

    `user` is the index of the job's user, `begin` the beginning of the mark in seconds since the log's time
    zero, and `tardiness` its length, the seconds by which the job was late.
    """

    user: Array
    begin: Array
    tardiness: Array


class Grid(NamedTuple):
    """The division of a heatmap's time: it has `columns` columns, each of which is `width` cells wide.

    A cell is `cell_secs` seconds. The first column begins `first` × `cell_secs` seconds after the log's time
    zero.
    """

    cell_secs: int
    first: int
    width: int
    columns: int

    @property
    def column_secs(self) -> int:
        """Return the length of a column in seconds."""
        return self.cell_secs * self.width

    @property
    def begin_secs(self) -> int:
        """Return when the first column begins, in seconds since the log's time zero."""
        return self.first * self.cell_secs

    @property
    def end_secs(self) -> int:
        """Return when the last column ends, in seconds since the log's time zero."""
        return self.begin_secs + self.columns * self.column_secs


def make_marks(schedule: Schedule) -> Marks:
    """Return a mark for each job that ended after its expected end, grouped by user."""
    chosen = schedule.chosen
    late = np.flatnonzero(schedule.tardiness > 0)
    return Marks(
        np.searchsorted(chosen.bounds, late, side="right") - 1,
        schedule.expected[late] - chosen.runtime[late],
        schedule.tardiness[late],
    )


def make_grid(first_secs: float, last_secs: float, most_columns: int) -> Grid:
    """Divide a time span into at most `most_columns` columns, each as few cells wide as possible.

    Times are in seconds since the log's time zero.
    """
    cell = CELL_SECS if last_secs - first_secs > SHORT_SECS else 1
    first = int(first_secs // cell)
    cells = max(1, int(-(-last_secs // cell)) - first)
    width = -(-cells // most_columns)
    return Grid(cell, first, width, -(-cells // width))


def compute_heatmap(marks: Iterable[Marks], row_of: Array, rows: int, grid: Grid) -> Array:
    """Return an array of `rows` × the columns of `grid`, which counts late jobs.

    A value is the number of marks in a cell, summed over the users of the row, and averaged over the cells of
    the column. `row_of` holds the row of each user, −1 for users left out. The cost depends on the number of
    marks and on the size of the result, not on the number of cells.
    """
    cells = np.zeros((rows, grid.columns + 2))
    for users, begins, lasts in marks:
        row = row_of[users]
        is_in = row >= 0
        row, begin, tardiness = row[is_in], begins[is_in], lasts[is_in]
        first = (begin // grid.cell_secs).astype(np.int64) - grid.first
        count = np.ceil(tardiness / grid.cell_secs).astype(np.int64)
        cells += _begun(row, first, rows, grid) - _begun(row, first + count, rows, grid)
    found: Array = np.cumsum(cells, axis=1)[:, : grid.columns] / grid.width
    return found


def _begun(row: Array, cell: Array, rows: int, grid: Grid) -> Array:
    """Return changes, from column to column, of the number of cells that follow a given cell."""
    cell = np.clip(cell, 0, grid.columns * grid.width)
    column = cell // grid.width
    missed = cell - column * grid.width
    place = row * (grid.columns + 2) + column
    size = rows * (grid.columns + 2)
    steps = np.bincount(place, weights=grid.width - missed, minlength=size)
    steps += np.bincount(place + 1, weights=missed, minlength=size)
    return steps.reshape(rows, grid.columns + 2)


def rank_users(weights: Sequence[dict[str, float]], marked: Sequence[set[str]]) -> list[str]:
    """Return the users who have late jobs in any schedule, those with the largest total weight first.

    `weights` holds for each schedule a number per user (the user's weighted tardiness), which is summed over
    the schedules; `marked` holds for each schedule the users with late jobs. Equal users are sorted by name.
    """
    users = set().union(*marked)
    return sorted(users, key=lambda user: (-sum(each.get(user, 0) for each in weights), user))


def rows_of(users: Sequence[str], ranked: Sequence[str], most_rows: int) -> tuple[Array, int, int]:
    """Assign users to at most `most_rows` rows of a heatmap, in the order of `ranked`.

    Returns the row of each of `users` (−1: none), the number of rows, and the number of users per row.
    """
    shared = max(1, -(-len(ranked) // most_rows))
    row_of = {user: place // shared for place, user in enumerate(ranked)}
    rows = -(-len(ranked) // shared)
    return np.array([row_of.get(user, -1) for user in users], dtype=np.int64), rows, shared
