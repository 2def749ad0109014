"""What pictures of a schedule cost: the heatmap's cells, a picture, and the whole report.

Makes a year of jobs of 5,000 users, of whom most are late now and then (seeded), and takes turns at each,
each way in a process of its own, so that its memory is its own too:

nothing            the marks alone: how much the process has before
cells, one by one  a year of minutes a user, every cell of every mark counted, then averaged by column
cells              the same by difference arrays, binned to what is drawn
heatmap as png     marks, use and queue as a picture
heatmap as svg     the same
schedule           `jobfeatures schedule LOG`, from a log of so many jobs
… --report         the same with the report

Seconds are of a processor, which other work on the machine disturbs least.

Usage: python tests/benchmarks/bench_pictures.py [--jobs 1000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

USERS = 5000
YEAR_SECS = 365 * 86400


def make_marks(jobs):
    import numpy as np

    from jobfeatures.analysis.schedule.pictures.heatmap import Marks

    rng = np.random.default_rng(1)
    late = jobs // 3
    tardiness = np.minimum(rng.exponential(30_000, late).astype(np.int64) + 1, 30 * 86400)
    begin = rng.integers(0, YEAR_SECS - 30 * 86400, late)
    return Marks(np.sort(rng.integers(0, USERS, late)), begin, tardiness)


def one_by_one(marks, grid):
    """The heatmap as it is told: each mark adds 1 to each of its cells."""
    import numpy as np

    found = np.zeros((USERS, grid.columns))
    bounds = np.searchsorted(marks.user, np.arange(USERS + 1))
    for user in range(USERS):
        cells = np.zeros(grid.columns * grid.width, dtype=np.int32)
        for place in range(bounds[user], bounds[user + 1]):
            first = int(marks.begin[place]) // grid.cell_secs - grid.first
            cells[first : first - -int(marks.tardiness[place]) // grid.cell_secs] += 1
        found[user] = cells.reshape(grid.columns, grid.width).mean(axis=1)
    return found


def make_log(path: str, jobs: int) -> None:
    rng = random.Random(1)
    with open(path, "w") as stream:
        stream.write(f"; MaxProcs: {USERS * 8}\n")
        for number in range(1, jobs + 1):
            submit, run, processors = YEAR_SECS * number // jobs, rng.randrange(40_000), rng.randrange(1, 8)
            stream.write(
                f"{number} {submit} {int(rng.expovariate(1 / 9000))} {run} {processors} {run} 1024 {processors} "
                f"{run} 4096 1 {int(USERS * rng.random() ** 2) + 1} 1 -1 1 -1 -1 -1\n"
            )


def one(way: str, path: str, jobs: int) -> float:
    if way in {"schedule", "… --report"}:
        words = [sys.executable, "-m", "jobfeatures", "schedule", path, "--format", "json", "--by", "user"]
        words += ["--report", f"{path}.html"] if way != "schedule" else []
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True, cwd=Path(__file__).parents[2])
        return sum(os.times()[2:4])
    import numpy as np

    from jobfeatures.analysis.schedule.pictures.drawn import COLUMNS
    from jobfeatures.analysis.schedule.pictures.heatmap import compute_heatmap, make_grid

    marks = make_marks(jobs)
    grid = make_grid(0, YEAR_SECS, COLUMNS)
    started = time.process_time()
    if way == "cells, one by one":
        one_by_one(marks, grid)
    elif way == "cells":
        found = compute_heatmap([marks], np.arange(USERS), USERS, grid)
        started, taken = time.process_time(), time.process_time() - started
        few = make_marks(3000)
        assert np.array_equal(compute_heatmap([few], np.arange(USERS), USERS, grid), one_by_one(few, grid))
        assert found.shape == (USERS, grid.columns)
        return taken
    elif way.startswith("heatmap"):
        draw(marks, way.rpartition(" ")[2])
    return time.process_time() - started


def draw(marks, form: str) -> None:
    import numpy as np

    from jobfeatures.analysis.schedule.measures import make_edges
    from jobfeatures.analysis.schedule.pictures.draw import draw_pictures, render
    from jobfeatures.analysis.schedule.pictures.drawn import USE_COLUMNS, View
    from jobfeatures.analysis.schedule.runs import Store, as_rows
    from jobfeatures.analysis.schedule.whole import Use

    users = [f"user{number}" for number in range(USERS)]
    sums = np.bincount(marks.user, weights=marks.tardiness, minlength=USERS).tolist()
    level = np.linspace(0, 100, USE_COLUMNS)
    document = {
        "log": "log", "jobs": 3 * len(marks.user), "violated": len(marks.user), "mode": "literal",
        "weighted_tardiness": dict(zip(users, sums, strict=True)), "veet": dict.fromkeys(users, 1.0),
        "shares": {"cpu": {"default": 1, "unit": "cpu", "users": {}}},
        "utilisation": {"cpu": {"mean": 0.5}}, "queue_length": {"most": 100},
    }  # fmt: skip
    with Store() as store:
        view = View(
            document=document,
            users=users,
            runs=[store.write(as_rows(marks._asdict()))],
            first_secs=0,
            last_secs=YEAR_SECS,
            edges=make_edges(0, YEAR_SECS, USE_COLUMNS),
            use={"cpu": Use(100, "log", 100, level)},
            waiting=level,
        )
        render(next(draw_pictures([view])), form)


WAYS = (
    "nothing", "cells, one by one", "cells", "heatmap as png", "heatmap as svg", "schedule", "… --report",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, path = options.one
        secs = one(way, path, options.jobs)
        who = resource.RUSAGE_CHILDREN if way in WAYS[-2:] else resource.RUSAGE_SELF
        print(secs, resource.getrusage(who).ru_maxrss / 1024)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/log.swf"
        make_log(path, options.jobs)
        cells = USERS * YEAR_SECS // 60
        print(
            f"{USERS} users, a year: {cells / 1e9:.2f}·10⁹ cells; {options.jobs} jobs, median of {options.rounds}"
        )
        figures: dict[str, list[tuple[float, ...]]] = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way in WAYS:
                words = [sys.executable, __file__, "--jobs", str(options.jobs), "--one", way, path]
                done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
                figures[way].append(tuple(map(float, done.stdout.split())))
        base = statistics.median(secs for secs, _ in figures["cells, one by one"])
        print(f"{'':20}{'CPU s':>8}{'x one by one':>14}{'MiB':>7}")
        for way, values in figures.items():
            secs, most = statistics.median(each[0] for each in values), max(each[1] for each in values)
            print(f"{way:20}{secs:8.3f}{secs / base:14.4f}{most:7.0f}", flush=True)


if __name__ == "__main__":
    main()
