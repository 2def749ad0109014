"""What a reading of GPUs costs with `collector.gpudetail` and without it, before the stand-in of NVML.

No real library answers, so what its driver takes is not in it; the calls that it would get are
counted. Two drivers take turns at the same cards, each of which a job holds; then the same
snapshots are made into a page. CPU time of this process, medians.

Usage: python tests/benchmarks/bench_gpus.py [--cards 8] [--rounds 200]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.families.exposition import LabelTexts, render
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import Kind, Snapshot
from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
from jobfeatures_exporter.scrape.collectors import COLLECTORS

SOURCE = Path(__file__).parents[1] / "labs/gpu/fake_nvml.c"
WAYS = {"without": ("gpus",), "with": ("gpus", "gpudetail")}
CARD = (
    "gpu uuid=GPU-{n} name=H100 minor={n} bus=0000:{n:02X}:00.0 util=87 memutil=31 total=40000000000 used=1000 "
    "temp=45 power=250500 limit=400000 energy=123456789 sm=1410 mem=1215 maxsm=1980 maxmem=2619 pstate=2 mig=0 "
    "samples=1000:10 gpm=2:50,3:12,5:7,10:40,20:1.5,21:2,60:8,61:16 ecc=3,0,17,1 rows=2,1,1,0 throttle=5 reasons=0x1ff"
)


def play(folder: str, cards: int) -> None:
    """Build the stand-in and have it loaded, and say which cards there are."""
    library = f"{folder}/libnvidia-ml.so.1"
    compiler = shutil.which("cc") or "gcc"
    options = ["-shared", "-fPIC", "-O2", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([compiler, *options, "-o", library, str(SOURCE)], check=True)
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    lines = [CARD.format(n=n) for n in range(cards)]
    lines += [f"proc gpu={n} pid={1000 + n} used=5000 sm=80 mem=5" for n in range(cards)]
    Path(f"{folder}/nvml.txt").write_text("\n".join(["driver version=550.54.15", *lines]) + "\n")
    os.environ.update(FAKE_NVML=f"{folder}/nvml.txt", FAKE_NVML_ONCE="1")


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions of the library something calls."""
    import pynvml  # once the stand-in is loaded

    calls: Counter[str] = Counter()
    find = pynvml._nvmlGetFunctionPointer

    def found(name: str) -> object:
        calls[name] += 1
        return find(name)

    pynvml._nvmlGetFunctionPointer = found
    try:
        work()
    finally:
        pynvml._nvmlGetFunctionPointer = find
    return sum(calls.values()) - calls["nvmlErrorString"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    jobs = {}
    for n in range(options.cards):
        key = JobKey("slurm", str(n))
        jobs[key] = Job(key=key, state=JobState.RUNNING, gpus=(f"GPU-{n}",), allocated_gpus=1)
    bare = Snapshot(
        taken_at_secs=0,
        duration_secs=0,
        node=None,
        jobs={},
        keys={1000 + n: key for n, key in enumerate(jobs)},
    )
    with tempfile.TemporaryDirectory() as folder:
        play(folder, options.cards)
        clock = SystemClock()
        monitors = {
            way: GpuMonitor(["nvidia"], clock, interval_secs=60, detail="gpudetail" in collectors)
            for way, collectors in WAYS.items()
        }
        figures: dict[tuple[str, str], list[float]] = {}
        series, calls = {}, {}
        texts = {way: LabelTexts() for way in WAYS}
        for _ in range(options.rounds):
            for way, monitor in monitors.items():
                reader = monitor.readers[0]
                started = time.process_time()
                reader.read_once()
                read = time.process_time()
                snapshot = monitor.fill(bare, jobs)
                filled = time.process_time()
                context = Context(
                    now_secs=clock.now_secs(), snapshot=snapshot, kinds=frozenset(Kind), jobs=jobs
                )
                families = [each for name in WAYS[way] for each in COLLECTORS[name].families(context)]
                page = render(families, openmetrics=True, texts=texts[way])
                shown = time.process_time()
                for part, secs in (
                    ("read", read - started),
                    ("given to jobs", filled - read),
                    ("page", shown - filled),
                ):
                    figures.setdefault((way, part), []).append(secs)
                series[way] = sum(not line.startswith(b"#") for line in page.splitlines())
        for way, monitor in monitors.items():
            calls[way] = count_calls(monitor.readers[0].read_once)
            assert monitor.readers[0].is_up
            monitor.readers[0].close()
    print(f"{options.cards} cards, ms of CPU, median of {options.rounds}")
    print(f"{'':10}{'read':>8}{'given to jobs':>15}{'page':>8}{'series':>8}{'calls of NVML':>15}")
    for way in WAYS:
        read, given, page_secs = (
            statistics.median(figures[way, part]) * 1000 for part in ("read", "given to jobs", "page")
        )
        print(f"{way:10}{read:8.2f}{given:15.3f}{page_secs:8.3f}{series[way]:8}{calls[way]:15}")


if __name__ == "__main__":
    main()
