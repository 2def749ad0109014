"""Computes when each user's jobs were late, for heatmaps. Pure functions; needs numpy.

A job that ended after its expected end (EET) leaves a mark, from EET − runtime (the latest start that would
have kept it) on, as long as the job was late. Time is cut into cells: a mark covers ceil(tardiness / cell)
cells from cell floor(begin / cell) on. Source: Tóth and Klusáček, section 3.3, EET heatmaps.
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
    """The marks in a heatmap of jobs that ended after their expected end: one entry per job.

    `user` is the user's index, `begin` in seconds since the log's time zero, `tardiness` the seconds that the
    job was late, which is the mark's length.
    """

    user: Array
    begin: Array
    tardiness: Array


class Grid(NamedTuple):
    """The columns of a heatmap, each `width` cells of `cell_secs` seconds wide.

    The first column begins `first` × `cell_secs` seconds after the log's time zero.
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

    A value is the number of marks in a cell, summed over the row's users and averaged over the column's
    cells. `row_of` is each user's row, −1 for users left out.
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

    For each schedule, `weights` holds the users' weights, `marked` the users with late jobs. Equals are
    sorted by name.
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
