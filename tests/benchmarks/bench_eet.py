"""What expected end times cost, against the same heap in its plainest form and numpy's reader alone.

Makes logs of `--jobs` lines, 5,000 users, whole seconds (seeded), and takes turns at each, each way in a
process of its own, so that its memory is its own too:

numpy.loadtxt      numpy's reader alone
read               the log as arrays: header, numpy's reader, its checks, names, memory
plain heap         one heap of lanes a user, every job filled step by step; jobs were read and sorted before
expected ends      the same by `compute_part`, from arrays to an array
… exact, … fluid   the same in the other modes
evaluate           choosing, sorting, expected ends, tardiness
command            `jobfeatures schedule LOG --format json`, figures by user too
command, no users  the same with `--by none`

Usage: python tests/benchmarks/bench_eet.py [--jobs 100000,1000000] [--rounds 3] [--busy 1.0]

Ratios and µs a job are of processor time, which other work on the machine disturbs least.
`--busy` is how much the users ask for on the average, in parts of their shares.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

USERS = 5000
SHARE = 64


def make_log(path: str, jobs: int, busy: float) -> None:
    rng = random.Random(1)
    span = jobs / USERS * 43200 * 32 / SHARE / busy  # what a user's jobs need by the share
    submits = sorted(rng.randrange(int(span) + 1) for _ in range(jobs))
    with open(path, "w") as stream:
        stream.write(f"; Version: 2.2\n; UnixStartTime: 843480031\n; MaxProcs: {USERS * SHARE}\n")
        for number, submit in enumerate(submits, 1):
            run, processors = rng.randrange(86400), rng.randrange(1, 64)
            stream.write(
                f"{number:7} {submit:9} {rng.randrange(10**5):6} {run:6} {processors:5} {run:6} "
                f"{rng.randrange(2**20):8} {processors:5} {run + 600:6} {2**20:9} 1 {rng.randrange(1, USERS + 1):4} "
                f"{rng.randrange(1, 99):3} -1 {rng.randrange(1, 9):2} -1 -1 -1         \n"
            )


def plain_ends(arrivals, requests, runtimes, share):
    """The algorithm with nothing left out and nothing added."""
    lanes = [(0, share)]
    ends = []
    for arrival, request, runtime in zip(arrivals, requests, runtimes, strict=True):
        work, taken, level = request * runtime, 0, arrival
        while lanes and taken < request and work > 0:
            free, count = lanes[0]
            free = max(free, arrival)
            if taken and -(-work // taken) <= free - level:
                break
            work -= taken * (free - level)
            level = free
            heapq.heappop(lanes)
            used = min(count, request - taken)
            taken += used
            if used < count:
                heapq.heappush(lanes, (free, count - used))
        end = level + -(-work // taken) if taken else arrival
        if taken:
            heapq.heappush(lanes, (end, taken))
        ends.append(end)
    return ends


def clocked(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds by the clock, and of processors, those of other processes included."""
    started, used = time.perf_counter(), cpu_secs()
    work()
    return time.perf_counter() - started, cpu_secs() - used


def cpu_secs() -> float:
    return sum(os.times()[:4])


def one(way: str, path: str) -> tuple[float, float]:
    import gc

    gc.disable()  # as the command does
    if way.startswith("command"):
        words = [sys.executable, "-m", "jobfeatures", "schedule", path, "--format", "json"]
        words += ["--by", "none"] if way.endswith("no users") else []
        root = str(Path(__file__).parents[2])
        return clocked(lambda: subprocess.run(words, stdout=subprocess.DEVNULL, check=True, cwd=root))
    import numpy

    from jobfeatures.analysis.schedule import expected
    from jobfeatures.analysis.schedule.choosing import choose
    from jobfeatures.analysis.schedule.eet import Mode
    from jobfeatures.analysis.schedule.jobarrays import from_swf
    from jobfeatures.analysis.schedule.result import Options, evaluate
    from jobfeatures.analysis.schedule.shares import CPU, Shares
    from jobfeatures.formats.swf.columns import read_pieces

    if way == "numpy.loadtxt":
        return clocked(lambda: numpy.loadtxt(path, dtype=numpy.int64, comments=";"))
    if way == "read":
        return clocked(lambda: from_swf(next(read_pieces(path, sys.maxsize)), path))
    log = from_swf(next(read_pieces(path, sys.maxsize)), path)
    if way == "evaluate":
        share = Shares(resource=CPU, default=SHARE * 1000, total=0, total_from="given", default_from="given")
        return clocked(lambda: sum(evaluate(log, Options(), [share]).violated))
    chosen = choose(log)
    if way == "plain heap":
        columns = [column.tolist() for column in (chosen.arrival, chosen.cpus, chosen.runtime)]
        bounds = chosen.bounds.tolist()
        return clocked(
            lambda: [
                plain_ends(*(column[low:high] for column in columns), SHARE)
                for low, high in itertools.pairwise(bounds)
            ]
        )
    mode = next((mode for mode in Mode if way.endswith(mode.value)), Mode.LITERAL)
    demand = expected.Demand("cpu", chosen.cpus, [SHARE] * len(chosen.users))
    part = expected.make_part(
        chosen.users, chosen.bounds, chosen.arrival, chosen.runtime, [demand], mode=mode
    )
    return clocked(lambda: expected.compute_part(part))


WAYS = (
    "numpy.loadtxt",
    "read",
    "plain heap",
    "expected ends",
    "… exact",
    "… fluid",
    "evaluate",
    "command",
    "command, no users",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", default="1000000", help="sizes of logs, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=float, default=1.0)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, path = options.one
        secs, cpu = one(way, path)
        who = resource.RUSAGE_CHILDREN if way.startswith("command") else resource.RUSAGE_SELF
        print(secs, cpu, resource.getrusage(who).ru_maxrss / 1024)
        return
    for jobs in map(int, options.jobs.split(",")):
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/log.swf"
            make_log(path, jobs, options.busy)
            size = os.path.getsize(path) / 1e6
            print(f"{jobs} jobs, {size:.0f} MB, busy {options.busy:g}, median of {options.rounds}")
            figures: dict[str, list[tuple[float, ...]]] = {way: [] for way in WAYS}
            for _ in range(options.rounds):
                for way in WAYS:
                    done = subprocess.run(
                        [sys.executable, __file__, "--one", way, path],
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True,
                    )
                    figures[way].append(tuple(map(float, done.stdout.split())))
            base = statistics.median(cpu for _, cpu, _ in figures["plain heap"])
            print(f"{'':18}{'s':>8}{'CPU s':>8}{'µs/job':>8}{'x plain heap':>14}{'MiB':>7}")
            for way, values in figures.items():
                secs, cpu = (statistics.median(each[place] for each in values) for place in (0, 1))
                most = max(each[2] for each in values)
                told = f"{way:18}{secs:8.3f}{cpu:8.3f}{cpu / jobs * 1e6:8.2f}{cpu / base:14.2f}{most:7.0f}"
                print(told, flush=True)


if __name__ == "__main__":
    main()
