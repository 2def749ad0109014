import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.pictures.heatmap import (
    CELL_SECS,
    Grid,
    Marks,
    compute_heatmap,
    make_grid,
    rank_users,
    rows_of,
)

MARKS = st.lists(st.tuples(st.integers(0, 4), st.integers(-500, 9000), st.integers(1, 5000)), max_size=30)


def marks_of(found):
    columns = [np.array([each[place] for each in found], dtype=np.int64) for place in range(3)]
    return Marks(*columns)


def naive(found, row_of, rows, grid):
    """Cell by cell, as the paper tells it; then the mean over each column."""
    cells = [[0] * (grid.columns * grid.width) for _ in range(rows)]
    for user, begin, tardiness in found:
        if row_of[user] < 0:
            continue
        first = math.floor(begin / grid.cell_secs) - grid.first
        for cell in range(first, first + math.ceil(tardiness / grid.cell_secs)):
            if 0 <= cell < grid.columns * grid.width:
                cells[row_of[user]][cell] += 1
    return [
        [sum(row[at : at + grid.width]) / grid.width for at in range(0, len(row), grid.width)]
        for row in cells
    ]


@given(
    MARKS,
    st.lists(st.integers(-1, 2), min_size=5, max_size=5),
    st.builds(
        Grid,
        cell_secs=st.sampled_from([1, 60]),
        first=st.integers(0, 20),
        width=st.integers(1, 70),
        columns=st.integers(1, 9),
    ),
)
def test_difference_arrays_give_what_a_loop_over_cells_gives(found, row_of, grid):
    halves = [marks_of(each) for each in (found[:3], found[3:])]
    cells = compute_heatmap(halves, np.array(row_of), 3, grid)
    assert cells.tolist() == naive(found, row_of, 3, grid)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9000), st.floats(0.001, 5000))))
def test_fractions_of_a_second_fill_the_cells_that_they_touch(found):
    marks = Marks(
        np.array([each[0] for each in found], dtype=int),
        np.array([each[1] + 0.25 for each in found]),
        np.array([each[2] for each in found]),
    )
    grid = make_grid(0, 20000, 50)
    moved = [(user, begin + 0.25, tardiness) for user, begin, tardiness in found]
    cells = compute_heatmap([marks], np.arange(5), 5, grid)
    assert cells.tolist() == naive(moved, list(range(5)), 5, grid)


def test_a_mark_of_two_minutes_has_two_cells():
    grid = make_grid(0, 7201, 1000)
    cells = compute_heatmap([marks_of([(0, 130, 120)])], np.array([0]), 1, grid)
    assert np.flatnonzero(cells[0]).tolist() == [2, 3]
    assert cells.max() == 1


def test_the_end_of_the_paper_example_is_marked_for_as_long_as_it_was_late():
    """Table 1, the second job started two seconds late: EET 3, runtime 1, so from 2 to 4."""
    grid = make_grid(0, 6, 100)
    cells = compute_heatmap([marks_of([(0, 2, 2)])], np.array([0]), 1, grid)
    assert (grid.cell_secs, cells.tolist()) == (1, [[0, 0, 1, 1, 0, 0]])


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(1, 2000))
def test_a_grid_covers_the_time_with_no_more_columns_than_allowed(first, span, most):
    grid = make_grid(first, first + span, most)
    assert grid.begin_secs <= first
    assert grid.end_secs >= first + span
    assert 1 <= grid.columns <= most
    assert grid.end_secs - (first + span) <= grid.column_secs + grid.cell_secs
    assert grid.cell_secs in {1, CELL_SECS}


def test_the_sum_over_users_does_not_depend_on_who_shares_a_row():
    rng = np.random.default_rng(1)
    marks = Marks(rng.integers(0, 50, 500), rng.integers(0, 10**6, 500), rng.integers(1, 10**5, 500))
    grid = make_grid(0, 10**6 + 10**5, 90)
    users = [str(place) for place in range(50)]
    found = []
    for most in (50, 7, 1):
        row_of, rows, shared = rows_of(users, users, most)
        assert rows <= most
        assert shared == -(-50 // most)
        found.append(compute_heatmap([marks], row_of, rows, grid).sum(axis=0))
    assert np.allclose(found[0], found[1])
    assert np.allclose(found[0], found[2])


def test_users_stand_by_the_sum_of_their_weights_then_by_name():
    weights = [{"a": 1, "b": 5, "c": 3, "d": 9}, {"a": 7, "c": 0}]
    assert rank_users(weights, [{"a", "b"}, {"a", "c"}]) == ["a", "b", "c"]
    assert rank_users(weights, [set(), set()]) == []


def test_users_without_a_row_are_left_out():
    row_of, rows, shared = rows_of(["a", "b", "c"], ["c", "a"], 10)
    assert (row_of.tolist(), rows, shared) == ([1, -1, 0], 2, 1)
    assert rows_of(["a"], [], 10)[1] == 0
