"""Ways of reading a log that take turns, each in a process of its own, so that its memory is its own too.

Seconds are those of the CPU, as others may want it too, without garbage collection, as the commands run.
"""

from __future__ import annotations

import gc
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable


def measure_one(work: Callable[[str], object], path: str) -> None:
    """Print seconds and MiB of one way, for `compare` to read."""
    gc.disable()
    started = time.process_time()
    work(path)
    print(time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def compare(program: str, ways: Iterable[str], path: str, *, rounds: int, count: int, unit: str) -> None:
    """Run ``PROGRAM --one WAY PATH`` in turns and print a line a way; the first one is what others are held to."""
    figures: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, found in figures.items():
            argv = [sys.executable, program, "--one", way, path]
            done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
            secs, mib = map(float, done.stdout.split())
            found.append((secs, mib))
    medians = {way: statistics.median(secs for secs, _ in found) for way, found in figures.items()}
    first, base = next(iter(medians.items()))
    print(f"{'':18}{'CPU s':>7}{unit + '/s':>11}{'x ' + first:>9}{'MiB':>6}")
    for way, median in medians.items():
        most = max(mib for _, mib in figures[way])
        print(f"{way:18}{median:7.2f}{count / median:11.0f}{median / base:9.2f}{most:6.0f}")
