"""What single settings cost: CPU time of the exporter for a scrape, with one thing more or less than by default.

The same processes in the same control groups as bench_scrape.py; an exporter for each way, scraped in turn.

Usage: python tests/benchmarks/bench_settings.py [--processes 1100] [--jobs 16] [--busy 50] [--rounds 30]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.bench_scrape import BETWEEN_SECS, Exporter, Load, control_groups, free_port, herd

PROFILES = "treydock,jobstats,slurm-job-exporter,ceems,process-exporter"
WAYS = {
    "as it is": [],
    "--no-jobs.process_io": ["--no-jobs.process-io"],
    "--jobs.steps": ["--jobs.steps"],
    "--collector.processes": ["--collector.processes"],
    "--metrics.profile, all": [f"--metrics.profile={PROFILES}"],
    "--metrics.max-series=0": ["--metrics.max-series=0"],
    "--jobs.kinds, all": ["--jobs.kinds=batch,container,service,session,group"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=1100, help="of the jobs")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--busy", type=int, default=50, help="processes that change between two scrapes")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        parent = stack.enter_context(herd(Load(options.jobs, options.processes, options.busy), BETWEEN_SECS))
        print(stack.enter_context(control_groups(parent, options.jobs)))
        found = []
        for number, (name, flags) in enumerate(WAYS.items()):
            port = free_port()
            argv = [sys.executable, "-m", "jobfeatures_exporter", "serve", "--batch.sources=", *flags]
            argv += [f"--features.root={directory}/{number}", f"--web.listen-address=127.0.0.1:{port}"]
            argv += ["--sample.interval=1h"]  # only scrapes look: what others do between them is not counted
            found.append(Exporter(name, argv, port))
            stack.callback(found[-1].stop)
        for number in range(options.rounds):
            time.sleep(BETWEEN_SECS)
            for each in found[number % len(found) :] + found[: number % len(found)]:
                each.measure()
        usual = statistics.median(found[0].cpu_secs)
        print(f"{options.rounds} rounds; CPU ms a scrape, whole program")
        print(f"{'':28}{'median':>8}{'best':>8}{'x usual':>9}{'KiB':>6}{'RSS MiB':>9}")
        for each in found:
            median = statistics.median(each.cpu_secs)
            print(
                f"{each.name:28}{median * 1e3:8.2f}{min(each.cpu_secs) * 1e3:8.2f}{median / usual:9.2f}"
                f"{len(each.text) / 1024:6.0f}{each.status('VmRSS'):9.1f}"
            )


if __name__ == "__main__":
    main()
