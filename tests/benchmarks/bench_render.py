"""What a page costs: its text against prometheus-client's, and the whole way from a context to the text.

Renders the same families of many series in turn by this project and by
prometheus-client, in both formats; both texts say the same. Then collects and
renders a context of a few jobs and of many.

Usage: python tests/benchmarks/bench_render.py [--series 20000] [--rounds 15]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as ClientMetric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures.records.metrics import Metric
from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures_exporter.families.exposition import Family, LabelTexts, render
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import CpuSecs, FigureSource, JobSample, NodeSample, Snapshot
from jobfeatures_exporter.scrape.budget import SeriesBudget
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.scrape.profiles import PROFILES

NOW = 1_800_000_000.0


def make_families(series: int) -> list[Family]:
    """Return families as a node of many jobs has them: half of the values are counters of seconds."""
    rng = random.Random(7)
    modes = ("user", "system")
    components = ("anon", "file", "shmem", "kernel", "swap")
    per_job = len(modes) + len(components) + 5
    jobs = [str(rng.randrange(10**6, 10**7)) for _ in range(-(-series // per_job))]

    def seconds() -> float:
        return rng.randrange(10**12) / 1e6  # as cpu.stat has them, in microseconds

    def size() -> int:
        return 4096 * rng.randrange(2**20)

    job = ("batch_system", "job_id")
    families = [
        Family(
            Metric("batch_job_cpu_seconds", "counter", "CPU time.", (*job, "mode"), "seconds"),
            [(("slurm", each, mode), seconds()) for each in jobs for mode in modes],
        ),
        Family(
            Metric("batch_job_memory_bytes", "gauge", "Memory.", (*job, "component"), "bytes"),
            [(("slurm", each, component), size()) for each in jobs for component in components],
        ),
    ]
    for name in ("pressure", "energy", "busy"):
        samples = [(("slurm", each), seconds()) for each in jobs]
        families.append(
            Family(Metric(f"batch_job_{name}_seconds", "counter", "Time.", job, "seconds"), samples)
        )
    for name in ("limit", "peak"):
        samples = [(("slurm", each), size()) for each in jobs]
        families.append(Family(Metric(f"batch_job_{name}_bytes", "gauge", "Size.", job, "bytes"), samples))
    return families


class Same:
    """The same families as prometheus-client keeps them."""

    def __init__(self, families: list[Family]) -> None:
        self._made: list[ClientMetric] = []
        for family in families:
            metric = family.metric
            of_kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            made = of_kind(metric.name, metric.meaning, labels=metric.label_names)
            for values, value in family.samples:
                made.add_metric(values, value)
            self._made.append(made)

    def collect(self) -> Iterator[ClientMetric]:
        yield from self._made


def make_context(jobs: int) -> Context:
    """Return a node of 64 cores whose jobs have everything that a job can have without a GPU."""
    core = CpuSecs(1042.17, 3.5, 88.25, 90_000.75, 12.5, 0.0, 4.25, 0.0)
    keys = [JobKey("slurm", str(4_000_000 + number)) for number in range(jobs)]
    samples = {
        key: JobSample(
            key=key,
            accounting=FigureSource.CGROUP,
            user_cpu_secs=1234.567891 + number,
            system_cpu_secs=6.25,
            memory=MemoryBytes(
                anon=2**30, file=2**20, shmem=0, kernel=2**18, swap=0, charged=2**30, limit=2**32, peak=2**31
            ),
            processes=5,
            threads=9,
            uid=6001,
            oom_kills=0,
            memory_limit_hits=0,
            pressure_secs={
                (what, share): 1.25 for what in ("cpu", "memory", "io") for share in ("some", "full")
            },
            cpus=4,
            cgroup=f"/system.slice/slurmstepd.scope/job_{key.job_id}",
            cgroup_version=2,
        )
        for number, key in enumerate(keys)
    }
    known = {
        key: Job(
            key=key,
            state=JobState.RUNNING,
            name=f"job {key.job_id}",
            user="alice",
            uid=6001,
            account="physics",
            partition="batch",
            start_secs=int(NOW) - 600,
            allocated_cpus=4,
            limits=Limits(wall_secs=3600, cpu_secs=14_400, memory_bytes=2**32),
        )
        for key in keys
    }
    node = NodeSample(
        boot_time_secs=1_799_000_000,
        cpu=core,
        cores=dict.fromkeys(range(64), core),
        memory_bytes={"MemTotal": 2**38},
    )
    return Context(
        now_secs=NOW,
        snapshot=Snapshot(taken_at_secs=NOW, duration_secs=0.01, node=node, jobs=samples),
        jobs=known,
        cpu_rates=dict.fromkeys(keys, 3.5),
    )


def timed(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


def check_same(families: list[Family], registry: CollectorRegistry) -> None:
    """See that both write the same series, by reading both with prometheus-client."""
    for openmetrics, parse, theirs in (
        (False, parse_text, generate_latest(registry)),
        (True, parse_openmetrics, generate_openmetrics(registry)),
    ):
        ours = parse(render(families, openmetrics=openmetrics).decode())
        mine, others = (
            {
                (each.name, tuple(sorted(each.labels.items()))): each.value
                for made in read
                for each in made.samples
            }
            for read in (ours, parse(theirs.decode()))
        )
        if mine != others:
            raise SystemExit("the two texts differ")


def table(contestants: dict[str, Callable[[], object]], rounds: int, base: str) -> None:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for function in contestants.values():
        function()
    for _ in range(rounds):
        for name, function in contestants.items():
            times[name].append(timed(function))
    medians = {name: statistics.median(each) for name, each in times.items()}
    for name, median in medians.items():
        print(f"| {name} | {median * 1e3:.2f} | {median / medians[base]:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--series", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    families = make_families(options.series)
    texts = LabelTexts()
    count = sum(len(family.samples) for family in families)
    registry = CollectorRegistry()
    registry.register(Same(families))  # type: ignore[arg-type]  # anything that collects
    check_same(families, registry)
    print(f"{count} series as text; CPU time, medians of {options.rounds}\n")
    print("| by | ms | × prometheus-client |\n|---|---|---|")
    table(
        {
            "prometheus-client": lambda: generate_latest(registry),
            "prometheus-client, OpenMetrics": lambda: generate_openmetrics(registry),
            "this exporter": lambda: render(families, openmetrics=False, texts=texts),
            "this exporter, OpenMetrics": lambda: render(families, openmetrics=True, texts=texts),
        },
        options.rounds,
        "prometheus-client",
    )
    print("\nFrom a context to the text; CPU time\n\n| jobs | ms | × 16 jobs |\n|---|---|---|")
    pages: dict[str, Callable[[], object]] = {}
    for jobs in (16, 500):
        context = make_context(jobs)
        page = PageMaker(COLLECTORS.keys(), (), 0)
        size = sum(len(family.samples) for family in page.families(context))
        pages[f"{jobs} ({size} series)"] = lambda page=page, context=context: page.render(
            context, openmetrics=False
        )
    context = make_context(500)
    profiled = PageMaker(COLLECTORS.keys(), PROFILES, 0)
    pages["500, all profiles"] = lambda: profiled.render(context, openmetrics=False)
    contexts = [make_context(500), replace(context, now_secs=NOW + 15)]
    over = PageMaker(COLLECTORS.keys(), (), 5000)
    pages["500, budget of 5,000 series"] = lambda: over.render(contexts[0], openmetrics=False)
    table(pages, options.rounds, next(iter(pages)))
    budget = SeriesBudget(30_000)
    print("\nThe budget where there is room: ", end="")
    print(f"{statistics.median(timed(lambda: apply(budget, families)) for _ in range(99)) * 1e6:.0f} µs")


def apply(budget: SeriesBudget, families: list[Family]) -> None:
    budget.apply(families, sampled_secs=NOW, now_secs=NOW, weigh=dict)


if __name__ == "__main__":
    main()
