"""What a node pays for the whole daemon, not for a scrape alone, beside node_exporter.

Jobs stand in control groups as in bench_scrape.py. Both programs run at once, each in a control group of its own for
CPU time, which has threads that have ended and children too; both are scraped at each interval, or by nobody.
"floor" is the least that a program in Python can do for a scrape (bareexporter.py), scraped likewise.

cpu ms          CPU time a minute by that group, and for BPF programs what the kernel counts (kernel.bpf_stats_enabled)
in kernel       of the CPU time, what the kernel took for its answers: in any language the same questions cost that
wakeups         voluntary switches a minute of all threads that are there at the end; those of children are not seen
forks           children a minute, of the whole node: what else runs there counts too
threads, MiB    at the end; resident memory

--source scontrol has a stand-in for Slurm's command, which the daemon asks at its default intervals; spool an empty
folder. --gaps SECS also shows what a job feels: a loop on each CPU counts gaps above 20 µs, with each program alone and
with neither.

Usage: tests/labs/isolated.sh .venv/bin/python tests/benchmarks/bench_noise.py [--loads s,a,c] [--intervals 0,15,60]
    [--secs 120] [--rounds 5] [--source spool,scontrol] [--gaps 60]

On v2 where the machine has v1: in an emulated machine, with eBPF,
    tests/labs/qemu/run.sh FOLDER bash -c 'cd CHECKOUT && .venv/bin/python …'
or in User Mode Linux, without eBPF,
    UML_TIMEOUT=900 tests/labs/uml/run.sh -m 1G FOLDER bash -c 'cd CHECKOUT && .venv/bin/python …'
(The machine's own hierarchy without controllers tells nothing: where nothing counts memory, all processes are read.)
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench_scrape import LOADS, Exporter, control_groups, free_port, herd

GROUPS = Path("/sys/fs/cgroup")
BPF_STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
GAP_USECS = 20
SETTLE_SECS = 50.0  # after a start: it takes some samples until it is known which processes end with a job
SCONTROL = """#!/bin/sh
# No job is known: the questions cost the same.
echo "No jobs in the system"
"""


class Counts(NamedTuple):
    """What a program has cost so far."""

    at_secs: float
    cpu_ms: float
    kernel_ms: float
    bpf_ms: float
    wakeups: int
    forks: int


class Program:
    """An exporter in a control group of its own."""

    def __init__(self, name: str, argv: list[str], port: int, group: Path) -> None:
        self.name, self._group = name, group
        group.mkdir()
        self.exporter = Exporter(
            name, ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "-", *argv], port
        )
        self.exporter.reconnect()

    def count(self) -> Counts:
        return Counts(time.monotonic(), *self._cpu_ms(), self._bpf_ms(), self._wakeups(), _forks())

    def _cpu_ms(self) -> tuple[float, float]:
        v1 = self._group / "cpuacct.usage"
        if v1.exists():
            return int(v1.read_text()) / 1e6, int(v1.with_name("cpuacct.usage_sys").read_text()) / 1e6
        values = dict(line.split() for line in (self._group / "cpu.stat").read_text().splitlines())
        return int(values["usage_usec"]) / 1e3, int(values["system_usec"]) / 1e3

    def _bpf_ms(self) -> float:
        total = 0
        for each in Path(f"/proc/{self.exporter.pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                lines = dict(line.split(":", 1) for line in each.read_text().splitlines() if ":" in line)
                total += int(lines.get("run_time_ns", 0))
        return total / 1e6

    def _wakeups(self) -> int:
        total = 0
        for task in Path(f"/proc/{self.exporter.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                text = (task / "status").read_text()
                total += int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        return total

    @property
    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.exporter.pid}/task"))

    def stop(self) -> None:
        self.exporter.stop()
        for _ in range(100):  # its last children
            with contextlib.suppress(OSError):
                self._group.rmdir()
                return
            time.sleep(0.1)


def _forks() -> int:
    text = Path("/proc/stat").read_text()
    return int(text.partition("\nprocesses ")[2].split()[0])


def accounting_root() -> Path:
    """Return where groups for CPU time are made."""
    return GROUPS if (GROUPS / "cgroup.procs").exists() else GROUPS / "cpuacct"


def starters(directory: str, source: str) -> dict[str, Callable[[], Program]]:
    """Return what starts each program."""
    top = accounting_root()
    ours = [sys.executable, "-m", "jobfeatures_exporter", "serve", "--features.root", f"{directory}/features"]
    if source == "spool":
        os.makedirs(f"{directory}/spool", exist_ok=True)
        ours += ["--batch.sources", "spool", "--spool.directory", f"{directory}/spool"]
    else:
        stand_in = Path(directory) / "scontrol"
        stand_in.write_text(SCONTROL)
        stand_in.chmod(0o755)
        ours += ["--batch.sources", "slurm", "--slurm.scontrol", str(stand_in)]

    def start_ours() -> Program:
        port = free_port()
        return Program("ours", [*ours, "--web.listen-address", f"127.0.0.1:{port}"], port, top / "noise_ours")

    def start_theirs() -> Program:
        port, path = free_port(), shutil.which("prometheus-node-exporter")
        if path is None:
            raise SystemExit("prometheus-node-exporter is not installed")
        return Program(
            "node_exporter", [path, f"--web.listen-address=127.0.0.1:{port}"], port, top / "noise_theirs"
        )

    return {"ours": start_ours, "node_exporter": start_theirs}


@contextmanager
def started(*start: Callable[[], Program]) -> Iterator[list[Program]]:
    with ExitStack() as stack:
        found = []
        for each in start:
            program = each()
            stack.callback(program.stop)
            found.append(program)
        time.sleep(SETTLE_SECS)
        yield found


@contextmanager
def floor_of(ours: Program, directory: str) -> Iterator[Program]:
    """Start what reads the files that our exporter keeps open, and answers with its page."""
    page, script, port = Path(directory) / "page", Path(__file__).with_name("bareexporter.py"), free_port()
    page.write_bytes(ours.exporter.text)
    argv = [sys.executable, "-S", "-E", str(script), str(port), str(ours.exporter.pid), str(page)]
    program = Program("floor", argv, port, accounting_root() / "noise_floor")
    try:
        yield program
    finally:
        program.stop()


def scrape_until(found: list[Program], end_secs: float, interval_secs: float) -> None:
    """Scrape all now and at each interval, or none where it is 0. A minute has one scrape each 60 s."""
    for each in found:
        each.exporter.reconnect()  # both close connections that were idle for long
    while (left := end_secs - time.monotonic()) > 0:
        if interval_secs:
            for each in found:
                each.exporter.scrape()
        time.sleep(min(left, interval_secs or left))


def total_ms(values: list[float]) -> float:
    """Return CPU time with that of BPF programs, of a row of `Counts` without its first."""
    cpu_ms, _, bpf_ms, *_ = values
    return cpu_ms + bpf_ms


def measure(name: str, source: str, intervals: list[float], secs: float, rounds: int) -> None:
    """Print a load's table: medians of the rounds."""
    load = LOADS[name]
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        parent = stack.enter_context(herd(load, 4.0))
        done = stack.enter_context(control_groups(parent, load.jobs))
        found = stack.enter_context(started(*starters(directory, source).values()))
        for each in found:
            each.exporter.scrape()
        found.append(stack.enter_context(floor_of(found[0], directory)))
        print(f"\nload {name}, source {source}: {done}; processes by {found[0].exporter.reader}")
        columns = ("cpu ms", "in kernel", "bpf ms", "wakeups", "forks")
        print(
            f"{'':32}" + "".join(f"{each:>10}" for each in columns) + f"{'threads':>9}{'MiB':>7}{'x cpu':>8}"
        )
        for interval_secs in intervals:
            rows: dict[str, list[list[float]]] = {each.name: [] for each in found}
            for _ in range(rounds):
                before = [each.count() for each in found]
                scrape_until(found, time.monotonic() + secs, interval_secs)
                for each, first in zip(found, before, strict=True):
                    last = each.count()
                    minutes = (last.at_secs - first.at_secs) / 60
                    rows[each.name].append(
                        [(b - a) / minutes for a, b in zip(first[1:], last[1:], strict=True)]
                    )
            medians = {
                each: [statistics.median(column) for column in zip(*rows[each], strict=True)] for each in rows
            }
            base = total_ms(medians["node_exporter"])
            words = f"scraped each {interval_secs:g} s" if interval_secs else "not scraped"
            for each in found:
                values = medians[each.name]
                print(
                    f"{each.name + ', ' + words:32}"
                    + "".join(f"{value:10.1f}" for value in values)
                    + f"{each.threads:9}{each.exporter.status('VmRSS'):7.1f}{total_ms(values) / base if base else float('nan'):8.2f}",
                    flush=True,
                )


def measure_gaps(secs: float, rounds: int) -> None:
    """Print what a loop on each CPU loses beside each program, scraped each 15 s, and beside none."""
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/gaps"
        source = Path(__file__).with_name("gaps.c")
        subprocess.run(["cc", "-O2", "-pthread", "-o", program, str(source)], check=True)
        ways = starters(directory, "spool")
        found: dict[str, list[list[float]]] = {each: [] for each in ("neither", *ways)}
        for _ in range(rounds):
            for name, rows in found.items():
                with started(*([ways[name]] if name in ways else [])) as programs:
                    loop = subprocess.Popen(
                        [program, f"{secs:g}", str(GAP_USECS)], stdout=subprocess.PIPE, text=True
                    )
                    scrape_until(programs, time.monotonic() + secs, 15.0)
                    said, _ = loop.communicate()
                    rows += [list(map(float, line.split()[1:])) for line in said.splitlines()]
    print(f"\na loop on each CPU: gaps above {GAP_USECS} µs, medians over CPUs and rounds")
    print(f"{'':16}{'a minute':>10}{'ms a minute':>13}{'longest µs':>12}")
    for name, rows in found.items():
        count, lost_ms, longest = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{name:16}{count:10.0f}{lost_ms:13.2f}{longest:12.0f}")


@contextmanager
def bpf_stats() -> Iterator[None]:
    """Have the kernel count the run time of BPF programs."""
    try:
        before = BPF_STATS.read_text()
        BPF_STATS.write_text("1\n")
    except OSError as error:
        print(f"the time of BPF programs is not counted: {error}")
        yield
        return
    try:
        yield
    finally:
        BPF_STATS.write_text(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loads", default="a,c")
    parser.add_argument("--intervals", default="0,15,60", help="seconds between scrapes; 0: nobody scrapes")
    parser.add_argument("--secs", type=float, default=120.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", default="spool,scontrol")
    parser.add_argument("--gaps", type=float, default=0.0, metavar="SECS")
    given = parser.parse_args()
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "?")
    print(f"kernel {platform.release()}, {os.cpu_count()} × {model}; load average {os.getloadavg()[0]:.2f}")
    print(f"{given.rounds} rounds of {given.secs:g} s; medians, a minute")
    with bpf_stats():
        for source in given.source.split(","):
            for name in given.loads.split(","):
                measure(name, source, list(map(float, given.intervals.split(","))), given.secs, given.rounds)
        if given.gaps:
            measure_gaps(given.gaps, given.rounds)


if __name__ == "__main__":
    main()
