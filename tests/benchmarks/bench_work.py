"""What work.events costs: CPU time of opening, reading and closing a counter, and of switches between groups.

By counters that any kernel has (clocks, faults), on a control group of its own; those of a processor may cost more.

Usage, as root: python tests/benchmarks/bench_work.py [--looks 300] [--turns 100000]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.performance import WorkSettings

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample, NodeSample, Snapshot
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED
from jobfeatures_exporter.sampling.performance.events import SOFTWARE
from jobfeatures_exporter.sampling.performance.monitor import WorkMonitor

ROOT = "/sys/fs/cgroup"
KEY = JobKey("slurm", "1")


def snapshot(group: Path) -> Snapshot:
    sample = JobSample(key=KEY, accounting=FigureSource.CGROUP, cgroup=f"/{group.name}")
    return Snapshot(taken_at_secs=0, duration_secs=0, node=NodeSample(), jobs={KEY: sample})


def play(group: Path, turns: int) -> float:
    """Return microseconds of a turn of two processes on one CPU that wake each other, one in the group."""
    (here, there), (back, forth) = os.pipe(), os.pipe()
    os.sched_setaffinity(0, {0})
    child = os.fork()
    if child == 0:
        (group / "cgroup.procs").write_text("0")
        for _ in range(turns):
            os.read(here, 1)
            os.write(forth, b"x")
        os._exit(0)
    began = time.perf_counter()
    for _ in range(turns):
        os.write(there, b"x")
        os.read(back, 1)
    took = time.perf_counter() - began
    os.waitpid(child, 0)
    for each in (here, there, back, forth):
        os.close(each)
    return took / turns * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--looks", type=int, default=300)
    parser.add_argument("--turns", type=int, default=100_000)
    options = parser.parse_args()
    group = Path(find_hierarchies(ROOT)[UNIFIED], f"jobfeatures-bench-{os.getpid()}")
    group.mkdir()
    made = snapshot(group)
    monitor = WorkMonitor(
        WorkSettings(events=tuple(SOFTWARE)), PathsSettings(cgroup=ROOT), DescriptorBudget()
    )

    def fill(alone: bool) -> float:
        began = time.thread_time()
        monitor.fill(made, lambda: {KEY: alone}, lambda _key: False)
        return (time.thread_time() - began) * 1e6

    try:
        fill(False)
        counters = len(SOFTWARE) * (os.cpu_count() or 1)
        opened, looks, closed = [], [], []
        for _ in range(options.looks):
            opened.append(fill(True))
            looks.append(fill(True))
            closed.append(fill(False))
        for name, took in (("opened and read", opened), ("read", looks), ("read and closed", closed)):
            print(f"{name:16}: {statistics.median(took) / counters:6.2f} µs a counter, of {counters}")
        turns: dict[bool, list[float]] = {False: [], True: []}
        for number in range(16):
            alone = bool(number % 2)
            fill(alone)
            turns[alone].append(play(group, options.turns))
        for alone, took in turns.items():
            print(
                f"a turn {'with' if alone else 'without':8} counters: {min(took):.2f} µs, best of {len(took)}"
            )
    finally:
        monitor.stop()
        group.rmdir()


if __name__ == "__main__":
    main()
