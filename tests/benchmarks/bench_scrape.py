"""What a whole scrape costs: CPU time of the exporter for one look at the node and its text, beside node_exporter.

Starts processes, moves them into the control groups of jobs (as root; else the jobs are known by their
process groups), then starts each exporter as a program and scrapes them as Prometheus does: gzip,
OpenMetrics, over a connection that is kept, in an order that is shuffled each round. What counts is the
CPU time of the whole program between two scrapes, by the scheduler's own account
(/proc/PID/task/*/schedstat), so that work in background threads is in it.

ours, bpf              this exporter with all that is on by default, where the kernel sums what processes do
ours, procfs           the same, where processes are read from /proc
node_exporter          Debian's prometheus-node-exporter where it is installed: the node alone
node_exporter, least   the same with what ours reports about the node: cpu, meminfo, loadavg, stat

Loads (several, with commas): a: 16 jobs of 64 processes that sleep, 50 of all run between two scrapes.
b: the same, all of them run. c: 4 jobs of 16 processes and one of 64 threads each. d: 200 jobs of 15
processes. s: 16 jobs of 20 that all sleep. A number: as many jobs of 3 processes. In an emulated machine load b leaves no time to anything else, unless
more passes between two scrapes.

Usage: python tests/benchmarks/bench_scrape.py [--loads a,b,c,d,1000] [--rounds 30] [--between SECS]
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

HERD = Path(__file__).with_name("herd.py")
BETWEEN_SECS = 0.7  # scrapes that are closer share one look at the node
FIRST_JOB = 7_700_001
ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3"
LEAST = ("cpu", "meminfo", "loadavg", "stat")


class Load(NamedTuple):
    """Jobs and their processes; the first `of_threads` of these have `threads` each."""

    jobs: int
    processes: int
    busy: int
    of_threads: int = 0
    threads: int = 1


LOADS = {
    "a": Load(16, 1024, 50),
    "b": Load(16, 1024, 1024),
    "c": Load(4, 68, 68, 4, 64),
    "d": Load(200, 3000, 50),
    "s": Load(16, 320, 0),
}


@contextmanager
def herd(load: Load, between_secs: float) -> Iterator[int]:
    """Keep the processes of a load, and give the pid of their parent."""
    counts = [load.processes - load.busy, load.busy, load.of_threads, load.threads, between_secs * 4 / 7]
    parent = subprocess.Popen(
        [sys.executable, "-S", "-E", str(HERD), *map(str, counts)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert parent.stdout is not None
        if parent.stdout.readline() != b"ready\n":
            raise SystemExit("the processes could not be started")
        yield parent.pid
    finally:
        parent.communicate()


@contextmanager
def control_groups(parent: int, jobs: int) -> Iterator[str]:
    """Move the herd into as many jobs' control groups, as Slurm would; give what was done, in words."""
    pids = [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    roots = control_group_roots()
    if os.geteuid() != 0 or not roots:
        yield "no control groups: not root, or none that can be written"
        return
    made: list[str] = []
    try:
        for number in range(jobs):
            for root, shape in roots.items():
                path = f"{root}{shape.format(FIRST_JOB + number)}"
                for step in ("", "/step_0", "/step_0/task_0"):
                    make_group(path + step, root)
                    made.append(path + step)
                for pid in pids[number::jobs]:
                    Path(f"{path}/step_0/task_0/cgroup.procs").write_text(str(pid))
        yield f"{jobs} jobs of {len(pids) // jobs} processes below {', '.join(roots)}"
    finally:
        for pid in pids:
            for root in roots:
                with contextlib.suppress(OSError):
                    Path(f"{root}/cgroup.procs").write_text(str(pid))
        for path in sorted(made, key=len, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(path)
        for root, shape in roots.items():
            for above in (Path(root + shape).parent, Path(root + shape).parent.parent):
                with contextlib.suppress(OSError):
                    above.rmdir()


def make_group(path: str, root: str) -> None:
    """Make a group, on v2 with the controllers that v1 has for jobs in every group above it."""
    os.makedirs(path, exist_ok=True)
    controllers = Path(f"{root}/cgroup.controllers")
    if controllers.exists():
        there = {"cpu", "memory", "io", "pids"}.intersection(controllers.read_text().split())
        for above in reversed(Path(path).parents):
            if above.is_relative_to(root) and there:
                (above / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in there))


def control_group_roots(root: str = "/sys/fs/cgroup") -> dict[str, str]:
    """Return the hierarchies, and the shape of a job's path there."""
    if os.path.exists(f"{root}/cgroup.controllers"):
        return {root: "/system.slice/slurmstepd.scope/job_{}"}
    controllers = ("cpuacct", "memory", "blkio", "pids")
    return {
        f"{root}/{name}": "/slurm/uid_0/job_{}" for name in controllers if os.path.isdir(f"{root}/{name}")
    }


class Exporter:
    """A program that serves /metrics."""

    def __init__(self, name: str, argv: list[str], port: int) -> None:
        self.name = name
        self.port = port
        self.cpu_secs: list[float] = []
        self.wall_secs: list[float] = []
        self.text = b""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        started = time.perf_counter()
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.scrape()
                break
            except OSError:
                self._connection.close()
                if (
                    self._process.poll() is not None or time.perf_counter() - started > 1500
                ):  # emulated, on a busy machine
                    raise SystemExit(f"{name} does not serve: {' '.join(argv)}") from None
                time.sleep(0.005)
        self.start_secs = time.perf_counter() - started

    def scrape(self) -> None:
        headers = {"Accept": ACCEPT, "Accept-Encoding": "gzip"}
        self._connection.request("GET", "/metrics", headers=headers)
        answer = self._connection.getresponse()
        self.text = answer.read()
        if answer.getheader("Content-Encoding") == "gzip":
            self.text = gzip.decompress(self.text)

    @property
    def pid(self) -> int:
        return self._process.pid

    def reconnect(self) -> None:
        self._connection.close()

    def measure(self) -> None:
        before, started = self._cpu(), time.perf_counter()
        self.scrape()
        self.wall_secs.append(time.perf_counter() - started)
        time.sleep(0.05)  # what the program tidies up afterwards counts as well
        self.cpu_secs.append(self._cpu() - before)

    @property
    def reader(self) -> str:
        """Return how it says that it reads processes."""
        found = re.search(rb'process_reader{reader="(.*?)"', self.text)
        return found[1].decode() if found else "-"

    @property
    def series(self) -> int:
        return sum(not line.startswith(b"#") for line in self.text.splitlines())

    @property
    def jobs(self) -> int:
        """Return how many jobs it shows."""
        return self.text.count(b"\nbatch_job_processes{")

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def status(self, field: str) -> float:
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith(field)).split()[1]) / 1024

    def _cpu(self) -> float:
        total = 0
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def stop(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()


def exporters(stack: ExitStack, directory: str) -> list[Exporter]:
    """Start all there are."""
    found = []
    for reader in ("auto", "procfs"):
        port = free_port()
        argv = [sys.executable, "-m", "jobfeatures_exporter", "serve", "--batch.sources", ""]
        argv += ["--features.root", f"{directory}/{reader}", "--sampling.processes", reader]
        # Only scrapes look, all series are shown, and jobs of emulated nodes are not ours.
        argv += ["--sample.interval", "1h", "--metrics.max-series", "0", "--node.name", "bench"]
        each = Exporter("", [*argv, "--web.listen-address", f"127.0.0.1:{port}"], port)
        found.append(each)
        stack.callback(each.stop)
    if program := shutil.which("prometheus-node-exporter"):
        least = ["--collector.disable-defaults", *(f"--collector.{name}" for name in LEAST)]
        for name, flags in (("node_exporter", []), ("node_exporter, least", least)):
            port = free_port()
            found.append(Exporter(name, [program, f"--web.listen-address=127.0.0.1:{port}", *flags], port))
            stack.callback(found[-1].stop)
    return found


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def measure(name: str, load: Load, rounds: int, between_secs: float) -> None:
    """Print the table of one load."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        parent = stack.enter_context(herd(load, between_secs))
        done = stack.enter_context(control_groups(parent, load.jobs))
        found = exporters(stack, directory)
        for each in found:  # where starting takes long, the first of them have closed an idle connection
            each.reconnect()
        for _ in range(3):  # the first looks open what is kept
            for each in found:
                each.scrape()
            time.sleep(between_secs)
        for each in found:  # the first page may come before the first look
            each.name = each.name or f"ours, {each.reader}"
        for _ in range(rounds):
            time.sleep(between_secs)
            for each in random.sample(found, len(found)):
                each.measure()
        count = sum(each.isdigit() for each in os.listdir("/proc"))
        print(f"\nload {name}: {done}, {load.busy} run between two scrapes; {count} processes on the node")
        if (seen := found[0].jobs) != load.jobs:  # whose processes may have to be read one by one
            print(f"not quiet: {seen} jobs are seen, {load.jobs} of this load")
        print(
            f"{'':22}{'CPU ms':>8}{'best':>8}{'x node':>8}{'wall ms':>9}"
            f"{'series':>8}{'RSS MiB':>9}{'files':>7}{'start s':>9}"
        )
        node = next((each for each in found if each.name == "node_exporter"), found[0])
        for each in found:
            median = statistics.median(each.cpu_secs)
            print(
                f"{each.name:22}{median * 1e3:8.2f}{min(each.cpu_secs) * 1e3:8.2f}"
                f"{median / statistics.median(node.cpu_secs):8.2f}"
                f"{statistics.median(each.wall_secs) * 1e3:9.1f}{each.series:8}"
                f"{each.status('VmRSS'):9.1f}{each.descriptors:7}{each.start_secs:9.2f}",
                flush=True,
            )


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # what was made is removed
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loads", default="a,b,c,d,1000")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--between", type=float, default=BETWEEN_SECS, metavar="SECS")
    options = parser.parse_args()
    print(f"{options.rounds} rounds, medians; load average {' '.join(map(str, os.getloadavg()))}")
    for name in options.loads.split(","):
        load = LOADS[name] if name in LOADS else Load(int(name), 3 * int(name), 50)
        measure(name, load, options.rounds, options.between)


if __name__ == "__main__":
    main()
