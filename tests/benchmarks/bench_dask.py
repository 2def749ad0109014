"""Whether two workers of a Dask cluster evaluate a log sooner than one process does.

Makes a log of `--jobs` jobs as bench_large.py does, in `--files` files, starts a scheduler and two workers of one
thread here, and takes turns: `jobfeatures schedule --one-log` by itself and with `--dask`. Seconds by the clock on the
wall and of a processor (the command's, and that of each worker); the latter say what two free cores would take,
whatever else runs here: command and the busier worker, one after the other at the worst.

Usage: python tests/benchmarks/bench_dask.py [--jobs 1000000] [--files 8] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench_large import ROOT, make_log, week

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """Return the seconds of a processor that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run(files: list[str], more: list[str], workers: list[int]) -> tuple[float, ...]:
    """Return seconds on the wall, of the command's processor, and of each worker's."""
    before = [cpu_of(pid) for pid in workers]
    began = time.perf_counter()
    words = [sys.executable, "-m", "jobfeatures", "schedule", "--one-log", "--format", "json", *files, *more]
    started = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    if status:
        raise SystemExit(f"status {os.waitstatus_to_exitcode(status)}")
    secs = time.perf_counter() - began
    theirs = [cpu_of(pid) - each for pid, each in zip(workers, before, strict=True)]
    return (secs, used.ru_utime + used.ru_stime, *(theirs if more else []))


def split(log: Path, count: int) -> list[str]:
    """Return the names of so many files, each with the log's header and a part of its jobs."""
    head, *lines = log.read_text().split("\n1 ", 1)
    jobs = ("1 " + lines[0]).splitlines(keepends=True)
    names = []
    for place in range(count):
        path = log.with_name(f"part-{place}.swf")
        some = jobs[place * len(jobs) // count : (place + 1) * len(jobs) // count]
        path.write_text(f"{head}\n; UnixStartTime: 1000000000\n{''.join(some)}")
        names.append(str(path))
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    import distributed

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.swf")
        make_log(log, week(), options.jobs, "week")
        files = split(log, options.files)
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with distributed.Client(cluster) as client:
                workers = list(client.run(os.getpid).values())
            ways = {"one process": [], "two workers": ["--dask", cluster.scheduler_address]}
            found: dict[str, list[tuple[float, ...]]] = {way: [] for way in ways}
            run(files, ways["two workers"], workers)  # modules are loaded once in a worker's life
            for _ in range(options.rounds):
                for way, more in ways.items():
                    found[way].append(run(files, more, workers))
                    print(way, *(f"{each:.2f}" for each in found[way][-1]), flush=True)
    print(f"{'':14}{'s':>8}{'CPU s':>8}{'of worker':>11}{'of worker':>11}")
    for way, rounds in found.items():
        medians = [statistics.median(each) for each in zip(*rounds, strict=True)]
        print(
            f"{way:14}"
            + "".join(f"{each:{width}.2f}" for each, width in zip(medians, (8, 8, 11, 11), strict=False))
        )


if __name__ == "__main__":
    main()
