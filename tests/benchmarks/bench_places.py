"""What thousands of control groups of others cost: a scrape on a node of Kubernetes beside the same without.

One exporter, 16 jobs of 64 processes of which 50 run between two scrapes (load a of `bench_scrape.py`), in turns:

without          no other groups than the machine has
at rest          2,000 groups as a kubelet makes them by systemd, without processes, in each hierarchy that counts
coming, going    the same, of which 10 pods a second are removed and others made

CPU time of the whole program for a scrape, as in `bench_scrape.py`, less what it takes in as much time while nobody scrapes;
the latter, and how often its threads wake then (voluntary switches), without the regular samples. A ratio is the mean over
turns of the medians of both ways in one turn, which follow each other forwards and backwards, with its standard error: what
else the machine does weighs upon both.

Usage, as root: python tests/benchmarks/bench_places.py [--named] [--turns 6] [--rounds 12] [--root /sys/fs/cgroup]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures_exporter.sampling.groups.groupwatch import FOLLOWED
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from tests.benchmarks.bench_scrape import BETWEEN_SECS, LOADS, Exporter, control_groups, free_port, herd

PODS = "/kubepods.slice/*/*/cri-containerd-*.scope"
GROUPS = 2_000
PODS_A_SEC = 10
QUIET_SECS = 4.0
WAYS = ("without", "at rest", "coming, going")
CONTAINERS = 2  # of a pod, the one that holds its namespaces included


class Pods:
    """The groups of pods below some hierarchies, the oldest first."""

    def __init__(self, tops: list[str]) -> None:
        self._tops = [f"{top}/kubepods.slice/kubepods-burstable.slice" for top in tops]
        self._numbers = itertools.count(1)
        self._there: list[int] = []

    def make(self) -> None:
        """Make one pod with its containers."""
        number = next(self._numbers)
        self._there.append(number)
        for path in self._paths(number):
            os.makedirs(path, exist_ok=True)

    def remove(self) -> None:
        """Remove the oldest pod."""
        for path in reversed(self._paths(self._there.pop(0))):
            os.rmdir(path)

    def fill(self) -> None:
        """Make all pods."""
        for _ in range(GROUPS // (1 + CONTAINERS)):
            self.make()

    def clear(self) -> None:
        """Remove whatever there is."""
        self._there.clear()
        for top in map(os.path.dirname, self._tops):
            for path, _, _ in os.walk(top, topdown=False):
                os.rmdir(path)

    def come_and_go(self) -> None:
        """Replace pods until the end of this process."""
        started = time.monotonic()
        for count in itertools.count(1):
            self.make()
            self.remove()
            time.sleep(max(0.0, started + count / PODS_A_SEC - time.monotonic()))

    def _paths(self, number: int) -> list[str]:
        pod = f"kubepods-burstable-pod{number:08x}_0000_4000_8000_000000000000.slice"
        names = ["", *(f"/cri-containerd-{number:032x}{each:032x}.scope" for each in range(CONTAINERS))]
        return [f"{top}/{pod}{name}" for top in self._tops for name in names]


@contextlib.contextmanager
def replaced(pods: Pods) -> Iterator[None]:
    """Have pods come and go in a process of its own."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        pods.come_and_go()
    try:
        yield
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


class Way(NamedTuple):
    """What was measured with some other groups on the node."""

    scrapes: list[float]  # CPU ms, without what runs beside
    turns: list[float]  # the medians of `scrapes` of each turn
    quiet: list[float]  # CPU ms a second without scrapes
    wakes: list[float]  # a second, then


def read_use(pid: int) -> tuple[float, int]:
    """Return a program's CPU ms, and how often its threads have waited for something."""
    ms, waits = 0.0, 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            ms += int((task / "schedstat").read_text().split()[0]) / 1e6
            lines = (task / "status").read_text().splitlines()
            waits += int(next(each for each in lines if each.startswith("voluntary")).split()[1])
    return ms, waits


def measure(exporter: Exporter, way: Way, rounds: int) -> None:
    """Scrape some rounds, then leave the exporter alone."""
    exporter.cpu_secs.clear()
    exporter.reconnect()
    for _ in range(2):  # what has changed is read anew
        time.sleep(BETWEEN_SECS)
        exporter.scrape()
    lasted_secs = []
    for _ in range(rounds):
        time.sleep(BETWEEN_SECS)
        began = time.perf_counter()
        exporter.measure()
        lasted_secs.append(time.perf_counter() - began)
    ms, waits = read_use(exporter.pid)
    began = time.perf_counter()
    time.sleep(QUIET_SECS)
    after_ms, after_waits = read_use(exporter.pid)
    secs = time.perf_counter() - began
    way.quiet.append((after_ms - ms) / secs)
    way.wakes.append((after_waits - waits) / secs)
    measured = zip(exporter.cpu_secs, lasted_secs, strict=True)
    way.scrapes.extend(cpu * 1e3 - way.quiet[-1] * lasted for cpu, lasted in measured)
    way.turns.append(statistics.median(way.scrapes[-rounds:]))


def compare(turns: list[float], base: list[float]) -> tuple[float, float]:
    """Return the mean of the ratios of paired values, and its standard error."""
    ratios = [one / other for one, other in zip(turns, base, strict=True)]
    return statistics.fmean(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5


def main() -> None:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # what was made is removed
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=12, help="scrapes in a turn")
    parser.add_argument("--named", action="store_true", help="batch.cgroup_parents names the containers")
    parser.add_argument("--root", default="/sys/fs/cgroup", help="of the hierarchies")
    options = parser.parse_args()
    found = find_hierarchies(options.root)
    tops = [found[kind] for kind in FOLLOWED if kind in found]
    pods, load, ways = Pods(tops), LOADS["a"], {way: Way([], [], [], []) for way in WAYS}
    with ExitStack() as stack:
        stack.callback(pods.clear)
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        parent = stack.enter_context(herd(load, BETWEEN_SECS))
        done = stack.enter_context(control_groups(parent, load.jobs))
        port = free_port()
        argv = [sys.executable, "-m", "jobfeatures_exporter", "serve", "--batch.sources", ""]
        argv += ["--features.root", directory, "--sample.interval", "1h", "--metrics.max-series", "0"]
        argv += ["--node.name", "bench", "--path.cgroup", options.root]
        argv += ["--batch.cgroup-parents", PODS] if options.named else []
        exporter = Exporter("", [*argv, "--web.listen-address", f"127.0.0.1:{port}"], port)
        stack.callback(exporter.stop)
        for turn in range(options.turns):
            for name in WAYS if turn % 2 == 0 else WAYS[::-1]:
                pods.clear()
                with ExitStack() as during:
                    if name != "without":
                        pods.fill()
                    if name == "coming, going":
                        during.enter_context(replaced(pods))
                    measure(exporter, ways[name], options.rounds)
            print(".", end="", flush=True)
        print(
            f"\n{done}; {exporter.jobs} jobs seen, by {exporter.reader}; {GROUPS} groups in {len(tops)} hierarchies"
        )
        print(f"{'':15}{'scrape ms':>10}{'best':>8}{'x':>7}{'+-':>7}{'else ms/s':>11}{'wakes/s':>9}")
        for name, way in ways.items():
            ratio, error = compare(way.turns, ways["without"].turns)
            print(
                f"{name:15}{statistics.median(way.scrapes):10.2f}{min(way.scrapes):8.2f}{ratio:7.3f}{error:7.3f}"
                f"{statistics.median(way.quiet):11.2f}{statistics.median(way.wakes):9.1f}"
            )


if __name__ == "__main__":
    main()
