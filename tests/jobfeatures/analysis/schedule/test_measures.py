import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.measures import (
    QUANTILES,
    compute_measures,
    compute_steps,
    describe,
    describe_groups,
    make_edges,
)

numbers = st.integers(0, 40)
spans = st.lists(st.tuples(numbers, numbers, st.integers(0, 9)), min_size=1, max_size=12)


def arrays(*columns):
    return [np.array(column) for column in columns]


def test_what_each_measure_is():
    found = compute_measures(*arrays([0, 0, 0, 10], [0, 30, 5, 10], [20, 36, 5, 12], [20, 6, 0, 2]))
    assert found.wait_secs.tolist() == [0, 30, 5, 0]
    assert found.response_secs.tolist() == [20, 36, 5, 2]
    assert found.slowdown[[0, 1, 3]].tolist() == [1, 6, 1]
    assert np.isnan(found.slowdown[2])  # it ran for no time
    assert found.bounded_slowdown.tolist() == [1, 3.6, 1, 1]


@given(st.lists(numbers, min_size=2))
def test_a_distribution_is_that_of_plain_statistics(values):
    found = describe(np.array(values))
    assert (found.size, found.least, found.most) == (len(values), min(values), max(values))
    assert found.mean == pytest.approx(statistics.mean(values))
    assert found.quantiles[QUANTILES.index(0.5)] == pytest.approx(statistics.median(values))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    assert found.quantiles == pytest.approx([cuts[round(100 * at) - 1] for at in QUANTILES])


def test_a_distribution_of_nothing_has_no_values():
    for values in ([], [np.nan, np.nan]):
        found = describe(np.array(values, dtype=float))
        assert (found.size, found.mean, found.quantiles, found.most) == (0, None, (), None)


@given(st.lists(st.tuples(numbers, st.integers(-1, 3)), min_size=1))
def test_each_group_is_described_as_it_would_be_alone(pairs):
    values, codes = np.array([pair[0] for pair in pairs], dtype=float), np.array([pair[1] for pair in pairs])
    values[values == 7] = np.nan
    for code, found in enumerate(describe_groups(values, codes, 4)):
        assert found == describe(values[codes == code])


def weight_at(rows, moment):
    return sum(weight for begin, end, weight in rows if begin <= moment < end)


@given(spans, numbers, st.integers(1, 20), st.integers(1, 7))
def test_steps_are_the_means_over_their_intervals(rows, first, length, count):
    rows = [(min(begin, end), max(begin, end), weight) for begin, end, weight in rows]
    begins, ends, weights = arrays(*zip(*rows, strict=True))
    edges = make_edges(first, first + length * count, count)
    found = compute_steps(begins, ends, weights, edges)
    expected = [
        sum(weight_at(rows, first + place * length + moment) for moment in range(length)) / length
        for place in range(count)
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_a_span_without_length_is_a_second():
    assert make_edges(5, 5, 2).tolist() == [5, 5.5, 6]
    for last in (2**60, 2**60 + 1):
        edges = make_edges(2**60, last, 100)
        assert (edges[1:] > edges[:-1]).all(), "also where numbers are 256 s apart"
