"""What a scan of all processes costs, against C and against psutil.

Starts many sleeping processes and some that stir, then runs in turn, so that
all meet the same machine:

C, descriptors kept   lists /proc, finds each number in a table, preads the kept /proc/PID/stat; parses nothing
C, schedstat first    the same, but reads the kept /proc/PID/schedstat first, and stat of those that have run
C, open/read/close    lists /proc, opens, reads and closes /proc/PID/stat of each; parses nothing
ours                  ProcessScanner.scan(): lists /proc, preads, compares, parses what changed
kernel's sums         KernelSums.look(): as root, where this kernel has them
psutil                process_iter() with the same fields
ours, whole sample    Sampler.sample(): scan, attribution, control groups, accumulation, the node

Usage: python tests/benchmarks/bench_scan.py [--processes 2000] [--busy 100] [--rounds 15]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.sampling.bpf.reader import KernelSums
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings

HERD = Path(__file__).with_name("herd.py")
LOOPS = Path(__file__).with_name("scan_loops.c")
PSUTIL_FIELDS = ["ppid", "name", "status", "cpu_times", "memory_info", "num_threads", "create_time"]


@contextmanager
def herd(processes: int, busy: int) -> Iterator[None]:
    """Keep that many processes; they die with their parent, and it with the pipe to us."""
    parent = subprocess.Popen(
        [sys.executable, "-S", "-E", str(HERD), str(processes), str(busy)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert parent.stdout is not None
        if parent.stdout.readline() != b"ready\n":
            raise SystemExit("the processes could not be started")
        yield
    finally:
        parent.communicate()


class Loop:
    """One of the C loops: a program that does one scan for each line it is sent, and answers nanoseconds."""

    def __init__(self, program: str, kind: str) -> None:
        self._process = subprocess.Popen(
            [program, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()) / 1e9

    def close(self) -> None:
        self._process.communicate()


def timed(function: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        started = time.perf_counter()
        function()
        return time.perf_counter() - started

    return run


def compile_loops(directory: str) -> str | None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    program = f"{directory}/scan_loops"
    subprocess.run([compiler, "-O2", "-o", program, str(LOOPS)], check=True)
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=2000)
    parser.add_argument("--busy", type=int, default=100, help="processes that change between two scans")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        contestants: dict[str, Callable[[], float]] = {}
        program = compile_loops(directory)
        if program is None:
            print("no C compiler: the C loops are left out")
        else:
            for name, kind in (
                ("C, descriptors kept", "keep"),
                ("C, schedstat first", "schedule"),
                ("C, open/read/close", "reopen"),
            ):
                loop = Loop(program, kind)
                stack.callback(loop.close)
                contestants[name] = loop
        scanner = ProcessScanner("/proc")
        stack.callback(scanner.close)
        contestants["ours"] = timed(scanner.scan)
        try:
            sums = KernelSums()
        except OSError as error:
            print(f"no sums in the kernel: {error}")
        else:
            stack.callback(sums.close)
            contestants["kernel's sums"] = timed(lambda: sums.look([]))
        try:
            import psutil
        except ImportError:
            print("no psutil: it is left out")
        else:
            contestants["psutil"] = timed(lambda: [each.info for each in psutil.process_iter(PSUTIL_FIELDS)])
        sampler = Sampler(SamplerSettings(), SystemClock())
        stack.callback(sampler.close)
        contestants["ours, whole sample"] = timed(sampler.sample)
        stack.enter_context(herd(options.processes, options.busy))
        report(contestants, scanner, options.rounds)


def report(contestants: dict[str, Callable[[], float]], scanner: ProcessScanner, rounds: int) -> None:
    secs: dict[str, list[float]] = {name: [] for name in contestants}
    changed = []
    before = scanner.scan()
    for each in contestants.values():
        each()  # the first look opens everything
    for number in range(rounds):
        time.sleep(0.5)  # so that what stirs has stirred
        after = scanner.scan()
        changed.append(sum(before.get(pid) is not process for pid, process in after.items()))
        time.sleep(0.5)
        order = list(contestants)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            secs[name].append(contestants[name]())
        before = scanner.scan()
    count = len(before)
    print(f"{count} processes, {statistics.median(changed):.0f} changed between two scans, {rounds} rounds")
    medians = {name: statistics.median(each) for name, each in secs.items()}
    print(
        f"{'':22}{'us/process':>11}{'best':>8}" + "".join(f"{'x ' + name:>22}" for name in list(medians)[:3])
    )
    for name, median in medians.items():
        line = f"{name:22}{median / count * 1e6:11.2f}{min(secs[name]) / count * 1e6:8.2f}"
        print(line + "".join(f"{median / medians[other]:22.2f}" for other in list(medians)[:3]))
    print(f"left out while reading: {dict(scanner._unreadable.counts) or 'nothing'}; {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
