"""What power.sources cost a look: CPU time of sharing out what three sensors measure, and of one reading by a program.

Usage: python tests/benchmarks/bench_power.py [--jobs 16,500,2000] [--looks 300]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from pathlib import Path

from jobfeatures_exporter.sampling.power import PowerSettings

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.model.snapshot import CpuSecs, FigureSource, JobSample, NodeSample, Snapshot
from jobfeatures_exporter.sampling.power import dcmi, hwmon
from jobfeatures_exporter.sampling.power.monitor import PowerMonitor

ANSWER = "Instantaneous power reading: 220 Watts\\nPower reading state is: activated\\n"


def snapshot(jobs: int, secs: float) -> Snapshot:
    """Return a look at so many jobs that all run."""
    samples = [
        JobSample(
            key=JobKey("slurm", str(number)),
            accounting=FigureSource.CGROUP,
            user_cpu_secs=secs / jobs,
            system_cpu_secs=0.0,
        )
        for number in range(jobs)
    ]
    node = NodeSample(cpu=CpuSecs(secs, 0, 0, 0, 0, 0, 0, 0))
    return Snapshot(
        taken_at_secs=0, duration_secs=0, node=node, jobs={sample.key: sample for sample in samples}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", default="16,500,2000")
    parser.add_argument("--looks", type=int, default=300)
    options = parser.parse_args()
    dcmi.make = hwmon.make = lambda _config, _sysfs: lambda: 200.0
    config = PowerSettings(sources=("hwmon", "dcmi"), pdu_factor="1.1")
    for jobs in map(int, options.jobs.split(",")):
        monitor = PowerMonitor(config, SystemClock(), sysfs="/sys", sample_interval_secs=10.0)
        for reader in monitor.readers:
            reader.read_once()
        took = []
        for look in range(options.looks):
            made = snapshot(jobs, float(look + 1))
            began = time.thread_time()
            monitor.fill(made)
            took.append(time.thread_time() - began)
        print(f"{jobs:6} jobs: {statistics.median(took) * 1e3:7.3f} ms a look, best {min(took) * 1e3:.3f}")
    config = PowerSettings(dcmi=f"printf '{ANSWER}'")
    read = dcmi.make(config, "/sys")
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    for _ in range(100):
        read()
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    secs = [b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True)]
    print(f"a program that answers at once: {secs[0] * 10:.2f} ms here, {secs[1] * 10:.2f} ms its own")


if __name__ == "__main__":
    main()
