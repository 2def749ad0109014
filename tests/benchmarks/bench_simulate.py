"""What simulations of the four policies cost, each in a process of its own, in turns.

The logs are constructed (seeded), not real: jobs of 1 to 64 processors, runtimes log-normal around 50 minutes,
estimates rounded up to usual limits, submissions spread evenly over the time that makes the machine as busy as `load`
says, users of very different activity.

17,250 jobs of 70 users on 560 processors (or the jobs of LOG), on one pool and on 7 nodes of 80 processors with
memory, 1 to 4 GiB a processor: jobs/s of the simulation alone, its CPU time, and of `jobfeatures simulate` as a whole.
1,000,000 jobs of 5,000 users that ask for three times what 10,000 processors can do: fifo, fairshare, and fairshare
whose usage is halved every 72 hours.

Usage: python tests/benchmarks/bench_simulate.py [LOG] [--rounds 5] [--load 0.9] [--jobs 17250] [--many 1000000]
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

POLICIES = ("fifo", "fairshare", "easy", "fairshare+easy")
LIMITS = (3600, 4 * 3600, 86400, 2 * 86400, 7 * 86400, 30 * 86400)


def make_log(path: str, jobs: int, users: int, processors: int, load: float) -> None:
    rng = random.Random(1)
    sizes = [rng.choice((1, 1, 1, 1, 2, 4, 8, 8, 16, 32, 64)) for _ in range(jobs)]
    runs = [min(int(rng.lognormvariate(8, 2)), LIMITS[-1]) for _ in range(jobs)]
    span = int(sum(size * run for size, run in zip(sizes, runs, strict=True)) / processors / load)
    submits = sorted(rng.randrange(span) for _ in range(jobs))
    with open(path, "w") as stream:
        stream.write(f"; Version: 2.2\n; Note: constructed, no real log\n; MaxProcs: {processors}\n")
        for number, (submit, size, run) in enumerate(zip(submits, sizes, runs, strict=True), 1):
            limit = next(each for each in LIMITS if each >= run)
            memory, user = rng.choice((1, 2, 4)) << 20, int(users * rng.random() ** 2) + 1
            stream.write(
                f"{number} {submit} 0 {run} {size} -1 -1 {size} {limit} {memory} 1 {user} -1 -1 -1 -1 -1 -1\n"
            )


def one(way: str, path: str) -> None:
    """Print jobs, seconds, CPU seconds and MiB of one way."""
    where, name, *more = way.split(" ")
    if where == "command":
        words = [
            sys.executable,
            "-m",
            "jobfeatures",
            "simulate",
            path,
            "--policy",
            name,
            "--output",
            os.devnull,
        ]
        started, used = time.perf_counter(), os.times()
        done = subprocess.run(words, cwd=ROOT, check=True, stderr=subprocess.PIPE, text=True)
        secs, now = time.perf_counter() - started, os.times()
        jobs = int(done.stderr.split(" jobs, policy")[0].rpartition(" ")[2])
        cpu = now.children_user + now.children_system - used.children_user - used.children_system
        print(jobs, secs, cpu, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
        return
    from jobfeatures.analysis.schedule.logreading import read_log
    from jobfeatures.analysis.schedule.runs import Store
    from jobfeatures.analysis.simulate.engine import simulate
    from jobfeatures.analysis.simulate.policies import WAITING, Fairshare, Policy
    from jobfeatures.analysis.simulate.pools import parse_nodes
    from jobfeatures.analysis.simulate.workload import choose_pool, make_workload

    gc.disable()  # as the command does
    log = read_log(path)
    pool = choose_pool(log, [log], Store()) if where == "pool" else parse_nodes("nodes", "7x80cpu,504GB")
    workload = make_workload(log, pool)
    machine, rules = workload.machine(), Fairshare(halving_secs=259200 if more else 0)
    started, used = time.perf_counter(), time.process_time()
    starts = simulate(
        workload.jobs,
        machine,
        Policy(name),
        rules,
        ticks=workload.ticks,
        weights=[1] * (len(workload.users) + 1),
        blank=lambda count: [WAITING] * count,
        progress=lambda count: None,
    )
    secs, cpu = time.perf_counter() - started, time.process_time() - used
    print(len(starts), secs, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def compare(ways: list[str], path: str, rounds: int) -> None:
    figures: dict[str, list[tuple[float, ...]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, found in figures.items():
            words = [sys.executable, __file__, "--one", way, path]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
            found.append(tuple(map(float, done.stdout.split())))
    base = statistics.median(found[2] for found in figures[ways[0]])
    print(f"{'':28}{'s':>8}{'CPU s':>8}{'jobs/s':>10}{'jobs/CPU s':>12}{'x ' + ways[0]:>13}{'MiB':>6}")
    for way, found in figures.items():
        jobs, secs, cpu = (statistics.median(each[place] for each in found) for place in range(3))
        most = max(each[3] for each in found)
        told = (
            f"{way:28}{secs:8.3f}{cpu:8.3f}{jobs / secs:10.0f}{jobs / cpu:12.0f}{cpu / base:13.2f}{most:6.0f}"
        )
        print(told, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="?", help="a log instead of a constructed one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--jobs", type=int, default=17250)
    parser.add_argument(
        "--many", type=int, default=1_000_000, help="jobs of the overloaded log; 0: without it"
    )
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = options.log
        if path is None:
            path = f"{directory}/log.swf"
            make_log(path, options.jobs, 70, 560, options.load)
            print(f"{options.jobs} constructed jobs, load {options.load:g}, median of {options.rounds}")
        wheres = ("pool", "nodes", "command") if options.log is None else ("pool", "command")
        compare([f"{where} {name}" for where in wheres for name in POLICIES], path, options.rounds)
        if options.many:
            path = f"{directory}/many.swf"
            make_log(path, options.many, 5000, 10_000, 3)
            print(f"{options.many} constructed jobs, load 3, one round")
            ways = ["pool fifo", "pool fairshare", "pool fairshare halved", "command fairshare"]
            compare(ways, path, 1)


if __name__ == "__main__":
    main()
