"""What converting a log costs, against copying its lines.

Makes a sacct log of `--jobs` jobs with their two steps each (seeded), and an SWF log of it, and takes
turns, each way in a process of its own, so that its memory is its own too:

copy sacct       the lines of the sacct log, read and written
sacct to SWF     jobfeatures convert
copy SWF         the lines of the SWF log, read and written
SWF to SSS       jobfeatures convert
SWF to records   jobfeatures convert, one JSON object a line: what reading and writing anything costs at least

Usage: python tests/benchmarks/bench_convert.py [--jobs 100000] [--rounds 3]
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
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.cli import main as jobfeatures
from jobfeatures.joblogs.logfiles import bounded_lines, reading, writing

COLUMNS = (
    "JobIDRaw|JobID|JobName|User|Group|Account|Partition|State|Submit|Start|End|ElapsedRaw|ExitCode|NodeList|"
    "AllocCPUS|ReqCPUS|ReqMem|TimelimitRaw|TotalCPU|MaxRSS\n"
)


def clock(secs: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(secs))


def make_log(path: str, jobs: int) -> None:
    rng = random.Random(1)
    submit = 1_760_000_000
    with open(path, "w") as stream:
        stream.write(COLUMNS)
        for number in range(1, jobs + 1):
            submit += rng.randrange(60)
            start = submit + rng.randrange(10**4)
            run = rng.randrange(1, 86400)
            cpus, user = rng.randrange(1, 256), rng.randrange(1, 500)
            times = f"{clock(start)}|{clock(start + run)}|{run}|0:0|c{rng.randrange(1, 2000)}|{cpus}"
            stream.write(
                f"{number}|{number}|fit{number % 97}|u{user}|g{user % 9}|a{user % 30}|batch|COMPLETED|"
                f"{clock(submit)}|{times}|{cpus}|{cpus * 2}G|1440|{run // 3600:02}:{run // 60 % 60:02}:{run % 60:02}|\n"
            )
            stream.writelines(
                f"{number}.{step}|{number}.{step}|{step}|||a{user % 30}||COMPLETED|{clock(start)}|{times}|"
                f"{cpus}|||00:00:01|{memory}K\n"
                for step, memory in (("batch", rng.randrange(2**24)), ("0", rng.randrange(2**24)))
            )


def copy(source: str, target: str) -> None:
    with reading(source) as lines, writing(target) as out:
        for line in bounded_lines(lines):
            out.write(line)


def convert(source: str, target: str) -> None:
    assert jobfeatures(["convert", source, target]) == 0


WAYS: dict[str, tuple[Callable[[str, str], None], str, str, str]] = {
    "copy sacct": (copy, "log.sacct", "copy", "copy sacct"),
    "sacct to SWF": (convert, "log.sacct", "out.swf", "copy sacct"),
    "copy SWF": (copy, "log.swf", "copy", "copy SWF"),
    "SWF to SSS": (convert, "log.swf", "out.xml", "copy SWF"),
    "SWF to records": (convert, "log.swf", "out.jsonl", "copy SWF"),
}


def one(way: str, directory: str) -> None:
    work, source, target, _ = WAYS[way]
    gc.disable()  # as the command does
    started = time.process_time()
    work(f"{directory}/{source}", f"{directory}/{target}")
    print(time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    with tempfile.TemporaryDirectory() as directory:
        make_log(f"{directory}/log.sacct", options.jobs)
        # Not in this process: those that it starts would have its memory as their most.
        subprocess.run(
            [sys.executable, __file__, "--one", "sacct to SWF", directory],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        os.rename(f"{directory}/out.swf", f"{directory}/log.swf")
        counts = {}
        for name in ("log.sacct", "log.swf"):
            with open(f"{directory}/{name}") as stream:
                counts[name] = sum(1 for _ in stream)
            print(f"{name}: {counts[name]} lines, {os.path.getsize(f'{directory}/{name}') / 1e6:.0f} MB")
        figures: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way in WAYS:
                done = subprocess.run(
                    [sys.executable, __file__, "--one", way, directory],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    check=True,
                )
                secs, mib = map(float, done.stdout.split())
                figures[way].append((secs, mib))
        medians = {way: statistics.median(secs for secs, _ in found) for way, found in figures.items()}
        print(f"median of {options.rounds}\n{'':16}{'CPU s':>7}{'lines/s':>11}{'x copy':>8}{'MiB':>6}")
        for way, (_, source, _, base) in WAYS.items():
            most = max(mib for _, mib in figures[way])
            rate, times = counts[source] / medians[way], medians[way] / medians[base]
            print(f"{way:16}{medians[way]:7.2f}{rate:11.0f}{times:8.1f}{most:6.0f}")


if __name__ == "__main__":
    main()
