"""Computes figures of a schedule that do not depend on users' shares, such as waiting times.

Pure functions; needs numpy. Source: Feitelson, Rudolph, Schwiegelshohn, Sevcik, Wong: "Theory and Practice in
Parallel Job Scheduling"; bounded slowdown treats runtimes below a constant τ (`TAU_SECS`) as τ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.choosing import stable_order
from jobfeatures.analysis.schedule.runs import Array, Run, merge

TAU_SECS: Final = 10.0
QUANTILES: Final = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


class Measures(NamedTuple):
    """Arrays over jobs: wait and response in seconds, slowdown and bounded slowdown; see `measure`.

    The slowdown of a job whose runtime is 0 is NaN.
    """

    wait_secs: Array
    response_secs: Array
    slowdown: Array
    bounded_slowdown: Array


class Distribution(NamedTuple):
    """Count, mean, minimum, maximum and quantiles of values; without values, all but the count are None."""

    size: int
    mean: float | None = None
    least: float | None = None
    quantiles: tuple[float, ...] = ()  # at QUANTILES
    most: float | None = None


def compute_measures(arrival: Array, start: Array, end: Array, runtime: Array) -> Measures:
    """Return wait, response, slowdown and bounded slowdown of each job.

    Wait is the time from arrival to start, response the time from arrival to end. Slowdown is response ÷
    runtime; bounded slowdown is max(1, response ÷ max(runtime, TAU_SECS)).
    """
    response = end - arrival
    runs = runtime > 0
    slowdown = np.full(len(runtime), np.nan)
    np.divide(response, runtime, out=slowdown, where=runs)
    bounded = np.maximum(1.0, response / np.maximum(runtime, TAU_SECS))
    return Measures(start - arrival, response, slowdown, bounded)


def describe(values: Array) -> Distribution:
    """Return the distribution of all values that are not NaN."""
    return describe_groups(values, np.zeros(len(values), dtype=np.int32), 1)[0]


def describe_groups(values: Array, codes: Array, count: int) -> list[Distribution]:
    """Return the distribution of values in each of `count` groups.

    `codes` holds each value's group, from 0.
    """
    is_in = codes >= 0
    if values.dtype.kind == "f":
        is_in &= ~np.isnan(values)
    if not is_in.all():
        values, codes = values[is_in], codes[is_in]
    order = np.argsort(values)
    order = order[stable_order(codes[order], count)]
    ordered = values[order].astype(float)
    sizes = np.bincount(codes, minlength=count)
    firsts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    is_there = sizes > 0
    sums = np.zeros(count)
    if len(ordered):
        sums[is_there] = np.add.reduceat(ordered, firsts[is_there])
    quantiles = _quantiles(ordered, firsts[is_there], sizes[is_there]).tolist()
    least, most = ordered[firsts[is_there]], ordered[(firsts + sizes - 1)[is_there]]
    means = sums[is_there] / sizes[is_there]
    found = iter(zip(means.tolist(), least.tolist(), map(tuple, quantiles), most.tolist(), strict=True))
    return [Distribution(size, *next(found)) if size else Distribution(0) for size in sizes.tolist()]


def describe_runs(runs: Sequence[Run]) -> Distribution:
    """Return the distribution of the values in several sorted sequences, which may be in files."""
    size = sum(run.size for run in runs)
    if not size:
        return Distribution(0)
    places = [(size - 1) * at for at in QUANTILES]
    wanted = {0, size - 1, *map(int, places), *(min(int(place) + 1, size - 1) for place in places)}
    found: dict[int, float] = {}
    sums, done = [], 0
    for block in merge(runs):
        found |= {at: block["key"][at - done].item() for at in wanted if done <= at < done + len(block)}
        sums.append(block["key"].sum().item())
        done += len(block)
    between = ((found[int(at)], found[min(int(at) + 1, size - 1)], at - int(at)) for at in places)
    quantiles = tuple(low + (high - low) * part for low, high, part in between)
    return Distribution(size, math.fsum(sums) / size, found[0], quantiles, found[size - 1])


def _quantiles(ordered: Array, firsts: Array, sizes: Array) -> Array:
    """Return QUANTILES of sorted groups stored one after another, interpolated between neighbours."""
    places = (sizes - 1)[:, None] * np.array(QUANTILES)
    below = places.astype(np.int64)
    above = np.minimum(below + 1, (sizes - 1)[:, None])
    low, high = ordered[firsts[:, None] + below], ordered[firsts[:, None] + above]
    result: Array = low + (high - low) * (places - below)
    return result


def compute_steps(begins: Array, ends: Array, weights: Array | None, edges: Array) -> Array:
    """Return, for each interval of `edges`, the average over time of a total such as processors in use.

    Item i (a job) adds `weights[i]`, or 1 without `weights`, to the total from `begins[i]` to `ends[i]`.
    `edges` are the boundaries of equally long intervals; time outside them is ignored.
    """
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    found: Array = (_area(begins, weights, edges) - _area(ends, weights, edges)) / width
    return found


def _area(since: Array, weights: Array | None, edges: Array) -> Array:
    """Return, by interval, the integral of the total weight of all items that have begun."""
    count = len(edges) - 1
    width = (edges[-1] - edges[0]) / count
    after = np.maximum(since - edges[0], 0) / width  # in intervals
    is_in = after < count
    after = after[is_in]
    which = after.astype(np.int64)
    each = np.ones(len(after)) if weights is None else weights[is_in].astype(float)
    begun = np.bincount(which, weights=each, minlength=count)
    missed = np.bincount(which, weights=each * (after - which), minlength=count)
    area: Array = (np.cumsum(begun) - missed) * width
    return area


def make_edges(first: float, last: float, count: int) -> Array:
    """Return the `count` + 1 edges of `count` equal intervals from `first` to `last`.

    If both are equal, the intervals cover one second. For numbers so large that neighbouring floats are more
    than a second apart, an interval is at least one such distance long.
    """
    least = 1 if last <= first else 0
    return np.linspace(first, max(last, first + max(least, count * np.spacing(float(abs(first))))), count + 1)
