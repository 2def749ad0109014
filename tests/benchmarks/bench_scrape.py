"""What a whole scrape costs: CPU time of the exporter for one look at the node and its text, beside other exporters.

Starts processes, moves them into the control groups of jobs (as root; else the jobs are
known by their process groups), then starts each exporter as a program and scrapes them in
turn over HTTP. What counts is the CPU time of the whole program between two scrapes, by
the scheduler's own account (/proc/PID/task/*/schedstat), so that work in background
threads is in it.

ours                  this exporter: node, jobs, processes, everything that is on by default
node_exporter         Debian's prometheus-node-exporter where it is installed: the node alone
process-exporter      Debian's prometheus-process-exporter where it is installed: process groups alone

Then the parts of ours in one process: the look, the families, the text; its memory, and
the time from its start to the first scrape.

Usage: python tests/benchmarks/bench_scrape.py [--processes 1100] [--jobs 16] [--busy 50] [--rounds 30]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.clock import SystemClock
from jobfeatures_exporter.collectors import COLLECTORS, NODE, collect
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import render
from jobfeatures_exporter.sampling.sampler import Sampler

HERD = Path(__file__).with_name("herd.py")
BETWEEN_SECS = 0.7  # scrapes that are closer share one look at the node
FIRST_JOB = 7_700_001


@contextmanager
def herd(processes: int, busy: int) -> Iterator[int]:
    """Keep that many processes, and give the pid of their parent."""
    parent = subprocess.Popen(
        [sys.executable, "-S", "-E", str(HERD), str(processes - busy), str(busy)],
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
                    os.makedirs(path + step, exist_ok=True)
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
        self.url = f"http://127.0.0.1:{port}/metrics"
        self.cpu_secs: list[float] = []
        self.wall_secs: list[float] = []
        self.bytes = 0
        started = time.perf_counter()
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.scrape()
                break
            except OSError:
                if self._process.poll() is not None or time.perf_counter() - started > 30:
                    raise SystemExit(f"{name} does not serve: {' '.join(argv)}") from None
                time.sleep(0.005)
        self.start_secs = time.perf_counter() - started

    def scrape(self) -> None:
        with urllib.request.urlopen(self.url, timeout=30) as response:
            self.bytes = len(response.read())

    def measure(self) -> None:
        before, started = self._cpu(), time.perf_counter()
        self.scrape()
        self.wall_secs.append(time.perf_counter() - started)
        time.sleep(0.05)  # what the program tidies up afterwards counts as well
        self.cpu_secs.append(self._cpu() - before)

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
        self._process.terminate()
        self._process.wait()


def exporters(stack: ExitStack, directory: str) -> list[Exporter]:
    """Start all there are."""
    port = free_port()
    ours = [sys.executable, "-m", "jobfeatures_exporter", "serve", "--batch.sources", "", "--features.root"]
    ours += [f"{directory}/features", "--web.listen-address", f"127.0.0.1:{port}"]
    found = [Exporter("ours", ours, port)]
    if program := shutil.which("prometheus-node-exporter"):
        port = free_port()
        found.append(Exporter("node_exporter", [program, f"--web.listen-address=127.0.0.1:{port}"], port))
    if program := shutil.which("prometheus-process-exporter"):
        port = free_port()
        config = Path(directory) / "process-exporter.yml"
        config.write_text('process_names:\n  - name: "{{.PGID}}"\n    cmdline: [".+"]\n')
        argv = [program, "-config.path", str(config), "-web.listen-address", f"127.0.0.1:{port}"]
        found.append(Exporter("process-exporter", argv, port))
    for each in found:
        stack.callback(each.stop)
    return found


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def cpu_timed(function: Callable[[], object]) -> tuple[float, object]:
    started = time.process_time()
    result = function()
    return time.process_time() - started, result


def measure_parts(rounds: int) -> None:
    """Print what the parts of a scrape cost within one process."""
    sampler = Sampler(clock=SystemClock(), jobs=dict, sysfs="/sys", process_io=True)  # as the daemon does
    sampler.sample()
    enabled = [name for name, each in COLLECTORS.items() if each.enabled and NODE in each.roles]
    parts: dict[str, list[float]] = {"look": [], "families": [], "text": []}
    text = b""
    for _ in range(rounds):
        time.sleep(0.1)
        secs, snapshot = cpu_timed(sampler.sample)
        parts["look"].append(secs)
        context = Context(now_secs=time.time(), snapshot=snapshot)  # type: ignore[arg-type]
        secs, families = cpu_timed(lambda context=context: collect(context, enabled))  # type: ignore[misc]
        parts["families"].append(secs)
        secs, text = cpu_timed(lambda families=families: render(families, openmetrics=False))  # type: ignore[misc, assignment]
        parts["text"].append(secs)
    sampler.close()
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    print(f"\nours, in one process, {series} series; CPU ms, median and best of {rounds}")
    for name, values in parts.items():
        print(f"  {name:10}{statistics.median(values) * 1e3:8.2f}{min(values) * 1e3:8.2f}")
    sums = [sum(each) for each in zip(*parts.values(), strict=True)]
    print(f"  {'all':10}{statistics.median(sums) * 1e3:8.2f}{min(sums) * 1e3:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=1100, help="of the jobs")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--busy", type=int, default=50, help="processes that change between two scrapes")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        parent = stack.enter_context(herd(options.processes, options.busy))
        print(stack.enter_context(control_groups(parent, options.jobs)))
        found = exporters(stack, directory)
        for number in range(options.rounds):
            time.sleep(BETWEEN_SECS)
            order = found[number % len(found) :] + found[: number % len(found)]
            for each in order:
                each.measure()
        count = sum(name.isdigit() for name in os.listdir("/proc"))
        print(f"{count} processes on the node, {options.rounds} rounds; CPU ms a scrape, whole program")
        print(
            f"{'':18}{'median':>8}{'best':>8}{'x ours':>8}{'wall ms':>9}{'KiB':>6}{'RSS MiB':>9}{'start s':>9}"
        )
        ours = statistics.median(found[0].cpu_secs)
        for each in found:
            median = statistics.median(each.cpu_secs)
            print(
                f"{each.name:18}{median * 1e3:8.2f}{min(each.cpu_secs) * 1e3:8.2f}{median / ours:8.2f}"
                f"{statistics.median(each.wall_secs) * 1e3:9.1f}{each.bytes / 1024:6.0f}"
                f"{each.status('VmRSS'):9.1f}{each.start_secs:9.2f}"
            )
        measure_parts(options.rounds)


if __name__ == "__main__":
    main()
