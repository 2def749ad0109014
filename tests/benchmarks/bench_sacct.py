"""What reading a log of ``sacct -P`` costs, against a plain split.

Makes a log of `--lines` lines (seeded, 25 columns: a job, its batch and its extern step, and so
on; one name in a thousand holds the delimiter), and one of jobs alone (``sacct -X``), and takes
turns at them, each way in a process of its own, so that its memory is its own too:

split    line.split("|") of every line, nothing else
records  read_records(): a record of all log formats for each line
jobs     the same with folding, as conversions to one entry a job have it: by sorting on disk above 400,000 jobs

Usage: python tests/benchmarks/bench_sacct.py [--lines 1000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ways import compare, measure_one

from jobfeatures.batch.slurm.sacct.records import read_records
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.logfiles import bounded_lines, reading
from jobfeatures.joblogs.loggedjob import Notes

COLUMNS = (
    "JobIDRaw|JobID|User|UID|Group|Account|Partition|JobName|State|Submit|Eligible|Start|End|ElapsedRaw|ExitCode|"
    "AllocCPUS|ReqCPUS|NNodes|ReqMem|TimelimitRaw|TotalCPU|MaxRSS|NTasks|AllocTRES|NodeList"
)
STATES = ("COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 6001")


def shown(secs: int) -> str:
    return datetime.fromtimestamp(secs, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def make_log(path: str, lines: int, *, steps: bool) -> None:
    rng = random.Random(1)
    submit = 1795000000
    written = number = 0
    with open(path, "w") as stream:
        stream.write(COLUMNS + "\n")
        while written < lines:
            number += 1
            submit += rng.randrange(20)
            user, cpus = rng.randrange(400), 2 ** rng.randrange(8)
            start = submit + rng.randrange(10**5)
            run = rng.randrange(1, 86400)
            used = run * cpus * rng.random()
            name = "a|b" if number % 1000 == 0 else f"run-{rng.randrange(3000)}"
            times = f"{shown(submit)}|{shown(submit)}|{shown(start)}|{shown(start + run)}|{run}"
            tres = f"billing={cpus},cpu={cpus},mem={2 * cpus}G,node=1|c{rng.randrange(500)}"
            cpu = f"{int(used // 3600):02}:{int(used // 60 % 60):02}:{int(used % 60):02}"
            stream.write(
                f"{number}|{number}|user{user}|{6000 + user}|users|account{user % 30}|batch|{name}|"
                f"{STATES[number % 6]}|{times}|0:0|{cpus}|{cpus}|1|{2 * cpus}G|1440|{cpu}|||{tres}\n"
            )
            written += 1
            for step in ("batch", "extern") if steps else ():
                stream.write(
                    f"{number}.{step}|{number}.{step}||||account{user % 30}||{step}|COMPLETED|{times}|0:0|"
                    f"{cpus}|{cpus}|1|||{cpu}|{rng.randrange(1, 2000) * 1024}K|1|{tres}\n"
                )
                written += 1


def split(path: str) -> int:
    with reading(path) as stream:
        return sum(len(line.split("|")) == 25 for line in stream)


def records(path: str) -> int:
    with reading(path) as stream:
        return sum(1 for _ in read_records(bounded_lines(stream), source=path, zone=UTC, notes=Notes()))


def jobs(path: str) -> int:
    notes = Notes()
    with reading(path) as stream, DiskSorter() as sort:
        found = read_records(bounded_lines(stream), source=path, zone=UTC, notes=notes, folds_steps=True)
        return sum(1 for _ in fold_jobs(notes.accepted_with_passages(found), notes.count_folded, sort=sort))


WAYS: dict[str, Callable[[str], int]] = {"split": split, "records": records, "jobs": jobs}


def one(way: str, path: str) -> None:
    measure_one(WAYS[way], path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    with tempfile.TemporaryDirectory() as directory:
        for kind, with_steps in (("jobs and steps", True), ("jobs alone", False)):
            path = f"{directory}/log"
            make_log(path, options.lines, steps=with_steps)
            size = os.path.getsize(path) / 1e6
            print(f"{kind}: {options.lines} lines, {size:.0f} MB, median of {options.rounds}")
            compare(__file__, WAYS, path, rounds=options.rounds, count=options.lines, unit="lines")


if __name__ == "__main__":
    main()
