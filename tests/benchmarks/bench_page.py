"""What the page at / costs: of a node with a few jobs and with many, of a cluster with a long queue.

Also what remembering the last hour costs: a look at the node, and bytes.

CPU time of everything from what is known to the HTML text, compressed as it is served; medians.

Usage: python tests/benchmarks/bench_page.py [--rounds 9]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.records.model import JobKey, JobState, JobTable
from jobfeatures_exporter.cluster.overview import compute_cluster_view
from jobfeatures_exporter.cluster.sums import compute_queue_sums
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.state.history import POINTS, History
from jobfeatures_exporter.web.pages.controller import render_controller
from jobfeatures_exporter.web.pages.node import render_node
from tests.exporter.web.pages import showcase

HISTORIES: dict[int, History] = {}  # by the identity of a context


def make_node(count: int) -> Context:
    """Return a node with so many jobs, all alike."""
    context = showcase.make_busy_node()
    assert context.snapshot is not None
    like = JobKey("slurm", "48307")
    keys = [JobKey("slurm", str(number)) for number in range(count)]
    samples = {key: replace(context.snapshot.jobs[like], key=key) for key in keys}
    return replace(
        context,
        jobs={key: replace(context.jobs[like], key=key) for key in keys},
        snapshot=replace(context.snapshot, jobs=samples),
        cpu_rates=dict.fromkeys(keys, 3.5),
    )


def make_queue(count: int) -> JobTable:
    """Return a queue with so many jobs, whose ends differ."""
    table = showcase.make_queue()
    likes = list(table.jobs.values())
    jobs = {}
    for number in range(count):
        like = likes[number % len(likes)]
        key = JobKey("slurm", str(number))
        start = int(showcase.NOW) - number * 7 % 80_000 if like.state is JobState.RUNNING else None
        jobs[key] = replace(like, key=key, start_secs=start)
    return replace(table, jobs=jobs)


def node_page(context: Context) -> str:
    return render_node(context, showcase.families_of(context), history=HISTORIES[id(context)])


def cluster_page(queue: JobTable, context: Context) -> str:
    cluster = showcase.make_cluster()
    view = compute_cluster_view("slurm", queue, cluster, now_secs=showcase.NOW)
    return render_controller(context, showcase.families_of(context, "controller"), (view,))


def measure(make: Callable[[], str], rounds: int) -> str:
    """Return milliseconds and sizes."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        text = make().encode()
        packed = zlib.compress(text, 1, 31)
        times.append(time.process_time() - started)
    return f"{statistics.median(times) * 1e3:6.1f} ms, {len(text) / 1024:5.0f} KiB, compressed {len(packed) / 1024:.0f} KiB"


def measure_history(count: int, rounds: int) -> str:
    """Return what a look costs that takes a point, what one that takes none, and what an hour of all holds."""
    snapshot = make_node(count).snapshot
    assert snapshot is not None
    likes = [
        replace(snapshot, read_at_secs=10.0 * at, taken_at_secs=1e9 + 10 * at) for at in range(6 * rounds)
    ]
    tracemalloc.start()
    history = History()
    for minute in range(POINTS):
        at = 60.0 * (minute - POINTS)
        history.update(replace(snapshot, read_at_secs=at, taken_at_secs=1e9 + at), {}, {})
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    taken: dict[bool, list[float]] = {True: [], False: []}
    for look in likes:
        started = time.process_time()
        history.update(look, {}, {})
        taken[look.read_at_secs % 60 == 0].append(time.process_time() - started)
    point, none = (statistics.median(taken[each]) for each in (True, False))
    mean = (point + 5 * none) / 6
    return (
        f"{point * 1e3:6.2f} ms once a minute, {none * 1e6:4.1f} µs else, {mean * 1e3:.2f} ms a scrape every 10 s; "
        f"{held / 2**20:.2f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    for count in (60, 500, 2000):
        print(f"history, {count:5} jobs: {measure_history(count, rounds)}")
    for count in (7, 64, 500, 5000):
        context = make_node(count)
        HISTORIES[id(context)] = showcase.make_history(context)
        print(f"node, {count:6} jobs:             {measure(lambda c=context: node_page(c), rounds)}")
    for count in (330, 10_000, 100_000):
        queue = make_queue(count)
        context = replace(showcase.make_cluster_context()[0], queues=(compute_queue_sums(queue),))
        print(
            f"cluster, {count:6} jobs in queue: {measure(lambda q=queue, c=context: cluster_page(q, c), rounds)}"
        )


if __name__ == "__main__":
    main()
