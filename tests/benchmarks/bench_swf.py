"""What reading and writing a workload log costs, against numpy alone and a plain split.

Makes a log of `--jobs` lines (seeded, whole numbers, 18 fields) and takes turns at it, each
way in a process of its own, so that its memory is its own too:

split            line.split() of every line, nothing else
numpy.loadtxt    numpy's reader alone, whole numbers
columns          read_pieces(): the header, numpy's reader, and its checks
stream           SwfReader: a record a line
stream and write the same, each record written again
check            check_log(): every fault by line

Usage: python tests/benchmarks/bench_swf.py [--jobs 1000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ways import compare, measure_one

from jobfeatures.formats.swf.check import check_log
from jobfeatures.formats.swf.columns import read_pieces
from jobfeatures.formats.swf.lines import SwfReader, format_job
from jobfeatures.joblogs.logfiles import bounded_lines, reading, writing


def make_log(path: str, jobs: int) -> None:
    rng = random.Random(1)
    submit = 0
    with open(path, "w") as stream:
        stream.write("; Version: 2.2\n; UnixStartTime: 843480031\n; MaxProcs: 4096\n; Preemption: No\n")
        for number in range(1, jobs + 1):
            submit += rng.randrange(60)
            run, processors = rng.randrange(86400), rng.randrange(1, 4096)
            stream.write(
                f"{number:7} {submit:8} {rng.randrange(10**5):6} {run:6} {processors:5} {run:6} "
                f"{rng.randrange(2**20):8} {processors:5} {run + 600:6} {2**20:8} 1 {rng.randrange(1, 5000):4} "
                f"{rng.randrange(1, 99):3}  -1  1 -1 -1 -1\n"
            )


def split(path: str) -> int:
    with reading(path) as stream:
        return sum(len(line.split()) == 18 for line in stream)


def loadtxt(path: str) -> int:
    import numpy

    with reading(path) as stream:
        return len(numpy.loadtxt(stream, dtype=numpy.int64, comments=";"))


def columns(path: str) -> int:
    return len(next(read_pieces(path, sys.maxsize)))


def stream(path: str) -> int:
    with reading(path) as lines:
        return sum(1 for _ in SwfReader(bounded_lines(lines)))


def stream_and_write(path: str) -> int:
    count = 0
    with reading(path) as lines, writing(f"{path}.out") as out:
        for job in SwfReader(bounded_lines(lines)):
            out.write(format_job(job) + "\n")
            count += 1
    return count


def check(path: str) -> int:
    with reading(path) as lines:
        return sum(1 for _ in check_log(bounded_lines(lines)))


WAYS: dict[str, Callable[[str], int]] = {
    "split": split,
    "numpy.loadtxt": loadtxt,
    "columns": columns,
    "stream": stream,
    "stream and write": stream_and_write,
    "check": check,
}


def one(way: str, path: str) -> None:
    if way in {"numpy.loadtxt", "columns"}:
        import numpy  # its import is not what is measured

        numpy.zeros(1)
    measure_one(WAYS[way], path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/log.swf"
        make_log(path, options.jobs)
        print(f"{options.jobs} jobs, {os.path.getsize(path) / 1e6:.0f} MB, median of {options.rounds}")
        compare(__file__, WAYS, path, rounds=options.rounds, count=options.jobs, unit="jobs")


if __name__ == "__main__":
    main()
