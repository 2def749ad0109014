"""Runs in memory and on disk are merged to what sorting all at once gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.measures import describe_groups, describe_runs
from jobfeatures.analysis.schedule.runs import Store, merge, peak_of

VALUES = st.lists(st.floats(0, 9) | st.just(float("nan")) | st.integers(0, 3).map(float), max_size=30)


ROOMS = st.sampled_from([0, 100, 10**6])


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(1, 9), ROOMS)
def test_merged_runs_are_the_values_sorted_and_so_distributed(lists, at_once, room_bytes):
    arrays = [np.array(each, dtype=float) for each in lists]
    values = np.concatenate(arrays)
    with Store(room_bytes) as store:
        made = [store.write_groups(each, np.zeros(len(each), np.int64), 1)[0] for each in arrays]
        found = np.concatenate([np.zeros(0), *(block["key"] for block in merge(made, at_once))])
        other = describe_runs(made)
    assert found.tolist() == np.sort(values[~np.isnan(values)]).tolist()
    [one] = describe_groups(values, np.zeros(len(values), np.int64), 1)
    assert other == (one if one.mean is None else one._replace(mean=pytest.approx(one.mean)))


SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.integers(0, 9)), max_size=12)


@given(st.lists(SPANS, min_size=1, max_size=3), st.booleans(), ROOMS)
def test_the_most_at_any_moment_is_that_of_all_pieces_together(pieces, has_fractions, room_bytes):
    events, all_spans = [], []
    with Store(room_bytes) as store:
        for spans in pieces:
            begins, lasts, weights = np.array(spans, dtype=np.int64).reshape(-1, 3).T
            begins = begins / 4 if has_fractions else begins
            ends = begins + lasts
            events.append(store.write_events(begins, ends, weights))
            all_spans += zip(begins.tolist(), ends.tolist(), weights.tolist(), strict=True)
        found = peak_of(events)
    assert found == max((weight_at(all_spans, begin) for begin, _, _ in all_spans), default=0)


def weight_at(spans, moment):
    return sum(weight for begin, end, weight in spans if begin <= moment < end)
