"""What a document in Sonar's format costs, with many processes: CPU time of its parts, and its size.

look          one look at the node, as every scrape takes it
details       user, memory, data, input and output of each process, read for the document alone
envelope      both looks and the details as a document
checked       the document as JSON, read again and judged

Usage: python tests/benchmarks/bench_sonar.py [--processes 1000] [--rounds 10]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jobfeatures.formats.sonar import CURRENT
from jobfeatures.formats.sonar.envelopes import Origin
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.processes.details import read_details
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.sample import SampleInput, sample_envelope
from jobfeatures_exporter.sonar.sender import encode

HERD = Path(__file__).parent / "herd.py"
OPTIONS = SonarSettings(exclude_system_jobs=False)
Result = TypeVar("Result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--processes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    argv = [sys.executable, str(HERD), str(arguments.processes), "0"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as herd:
        assert herd.stdout is not None
        herd.stdout.readline()
        try:
            measure(arguments.rounds)
        finally:
            herd.communicate()


def measure(rounds: int) -> None:
    clock = SystemClock()
    sampler = Sampler(SamplerSettings(), clock)
    origin = Origin(cluster="hpc.example.org", node="n1")
    times: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Result]) -> Result:
        started = time.process_time()
        result = work()
        times.setdefault(name, []).append(time.process_time() - started)
        return result

    previous = sampler.sample()
    body = b""
    for _ in range(rounds):
        snapshot = timed("look", sampler.sample)
        details = timed(
            "details", lambda now=snapshot: read_details("/proc", now.processes.values(), Unreadable())
        )
        given = SampleInput(
            snapshot=snapshot,
            now_secs=clock.now_secs(),
            previous=previous,
            elapsed_secs=10.0,
            details=details,
        )
        document = timed("envelope", lambda now=given: sample_envelope(origin, now, OPTIONS, now_secs=0.0))
        body = encode(document)
        faults = timed(
            "checked",
            lambda made=document: validate_envelope(json.loads(encode(made)), profile=CURRENT, strict=True),
        )
        assert not faults, faults[0]
    print(f"{len(snapshot.processes)} processes, medians of {rounds} rounds")
    for name, values in times.items():
        print(f"{name:12} {1000 * statistics.median(values):9.2f} ms of CPU")
    print(f"{'size':12} {len(body) / 1024:9.1f} KiB")
    sampler.close()


if __name__ == "__main__":
    main()
