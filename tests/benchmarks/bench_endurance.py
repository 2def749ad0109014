"""Whether looking costs more the longer it has been done: jobs come and go by the thousand on a made-up node.

A /proc and control groups are made as plain files (in memory, /dev/shm, where there is
one): `--jobs` jobs of `--processes` processes in all. At each look a part of the jobs has
ended and others have come. Printed every so often: CPU time of a look, open descriptors,
resident memory. The times are those of plain files, not of the kernel's; what counts is
that they stay the same.

Usage: python tests/benchmarks/bench_endurance.py [--jobs 500] [--processes 10000] [--ends 10000]
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.scrape.collectors import COLLECTORS, NODE
from jobfeatures_exporter.scrape.pagetext import PageMaker

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LOOKS_A_LINE = 20


class Node:
    """A /proc and a control group hierarchy (v2) of plain files."""

    def __init__(self, top: Path, processes_per_job: int) -> None:
        self.proc = top / "proc"
        self.cgroup = top / "cgroup"
        self._per_job = processes_per_job
        self._next_job = 1
        self._next_pid = 100
        self._jobs: list[tuple[Path, list[Path]]] = []
        self.proc.mkdir()
        self.scope = self.cgroup / "system.slice/slurmstepd.scope"
        self.scope.mkdir(parents=True)
        (self.cgroup / "cgroup.controllers").write_text("cpu memory\n")
        (self.proc / "stat").write_text(
            "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\nbtime 1795247965\n"
        )
        (self.proc / "meminfo").write_text("MemTotal: 1024 kB\n")
        (self.proc / "loadavg").write_text("0.35 0.12 0.03 3/136 12720\n")

    def start_job(self) -> None:
        """Make one more job."""
        number, self._next_job = self._next_job, self._next_job + 1
        group = self.scope / f"job_{number}"
        group.mkdir()
        (group / "cpu.stat").write_text("usage_usec 7\nuser_usec 4\nsystem_usec 3\n")
        (group / "memory.stat").write_text("anon 1\nfile 2\nshmem 0\nkernel_stack 1\nslab 1\n")
        for name in ("memory.current", "memory.max", "memory.peak", "memory.swap.current"):
            (group / name).write_text("4096\n")
        pids = []
        for _ in range(self._per_job):
            pid, self._next_pid = self._next_pid, self._next_pid + 1
            path = self.proc / str(pid)
            path.mkdir()
            (path / "stat").write_text(
                f"{pid} (work) S 1 {pid} {pid} 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {pid} 4096 1 0 0 0 0\n"
            )
            (path / "cgroup").write_text(
                f"0::/system.slice/slurmstepd.scope/job_{number}/step_0/user/task_0\n"
            )
            (path / "status").write_text("Name:\twork\nUid:\t1\t1\t1\t1\nRssAnon:\t4 kB\n")
            pids.append(path)
        self._jobs.append((group, pids))

    def end_job(self) -> None:
        """End the oldest job."""
        group, processes = self._jobs.pop(0)
        for path in (group, *processes):
            shutil.rmtree(path)


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=500, help="at any time")
    parser.add_argument("--processes", type=int, default=10_000, help="of all jobs together")
    parser.add_argument("--ends", type=int, default=10_000, help="jobs that end")
    options = parser.parse_args()
    at_once = max(1, options.jobs // 10)
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        node = Node(Path(directory), options.processes // options.jobs)
        for _ in range(options.jobs):
            node.start_job()
        sampler = Sampler(SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup)), SystemClock())
        enabled = [name for name, each in COLLECTORS.items() if each.enabled and NODE in each.roles]
        pages = PageMaker(enabled, (), 0)
        print(f"{options.jobs} jobs of {options.processes // options.jobs} processes, {at_once} ends a look")
        print(f"{'ended':>8}{'CPU ms a look':>15}{'descriptors':>13}{'RSS MiB':>9}{'series':>8}")
        ended, spent = 0, []
        while ended <= options.ends:
            started = time.process_time()
            snapshot = sampler.sample()
            text = pages.render(Context(now_secs=time.time(), snapshot=snapshot), openmetrics=False)
            spent.append(time.process_time() - started)
            if len(spent) == LOOKS_A_LINE or ended >= options.ends:
                gc.collect()
                series = text.count(b"\n") - text.count(b"\n#")
                opened = len(os.listdir("/proc/self/fd"))
                print(
                    f"{ended:8}{statistics.median(spent) * 1e3:15.1f}{opened:13}{resident_mib():9.1f}{series:8}",
                    flush=True,
                )
                spent.clear()
            for _ in range(at_once):
                node.end_job()
                node.start_job()
            ended += at_once
        sampler.close()
        print(
            f"after closing: {len(os.listdir('/proc/self/fd'))} descriptors; left out: {dict(snapshot.unreadable)}"
        )


if __name__ == "__main__":
    main()
