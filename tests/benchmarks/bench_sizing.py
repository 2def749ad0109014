"""What nodes cost a Prometheus: series, bytes of samples, index and churn, measured in its own database.

Makes pages with the exporter's own collectors, one a minute, of nodes on which
jobs of random length start and end for some hours; adds the labels that
Prometheus adds and what it reports about scrapes; lets ``promtool tsdb
create-blocks-from openmetrics`` write blocks of it and reads their sizes. With
--rules two Prometheus then scrape these nodes, one of them with the rules, and
their CPU time is compared. Counters grow by random amounts: what stays the same costs nearly nothing
and would flatter the result. Made up are the nodes: 128 CPUs, jobs of equal
shares and random lengths (exponential, by --minutes). What only a daemon has on
its page, such as its listeners and its settings, is taken from one that runs.

Usage: python tests/benchmarks/bench_sizing.py [--nodes 10] [--hours 4] [--jobs 8] [--minutes 240] [--gpus 0]
           [--drop REGEX] [--rules]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).parents[2]))

import psutil

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.features.machine import Machine
from jobfeatures.publish.hookreasons import PAIRS
from jobfeatures.publish.publisher import PublisherStatus
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limits
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    BlockIo,
    CpuSecs,
    DiskSample,
    FigureSource,
    GpuCard,
    GpuSample,
    JobGpu,
    JobSample,
    NodeSample,
    ProcessIo,
    Snapshot,
)
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from jobfeatures_exporter.scrape.pagetext import PageMaker
from tests.running import free_port, started, until

ROOT = Path(__file__).parents[2]
STEP_SECS = 60
CPUS = 128
SHOWN_SECS = 120
SCRAPE_SECS, TURNS = 30, 5  # where rules are measured
ON_A_NODE = [
    name for name in COLLECTORS if name not in {"schedule", "cluster", "queue", "processes", "sinks"}
]
PRESSURES = [(what, share) for what in ("cpu", "memory", "io") for share in ("some", "full")]


class Node:
    """A node on which always so many jobs run: when one ends the next begins."""

    def __init__(self, number: int, jobs: int, mean_secs: float, gpus: int, begin: int) -> None:
        self.name = f"node{number:05}"
        self.rng = random.Random(number)
        self.mean_secs, self.gpus, self.share = mean_secs, gpus, jobs
        self.next_id = number * 1_000_000
        self.begin = begin
        self.jobs: dict[JobKey, Job] = {}
        self.samples: dict[JobKey, JobSample] = {}
        self.ended: dict[JobKey, EndedJob] = {}
        self.counters: dict[str, float] = {}
        for _ in range(jobs):
            self._start(begin)

    def _start(self, now: int) -> None:
        self.next_id += 1
        key, cpus = JobKey("slurm", str(self.next_id)), CPUS // self.share
        self.jobs[key] = Job(
            key=key, state=JobState.RUNNING, user=f"user{self.rng.randrange(300)}", uid=10_000, account="account",
            partition="batch", name=f"name{self.rng.randrange(2000)}", start_secs=now, nodes=(self.name,),
            end_secs=now + max(60, int(self.rng.expovariate(1 / self.mean_secs))), allocated_cpus=cpus,
            allocated_gpus=self.gpus // self.share or None,
            limits=Limits(wall_secs=int(4 * self.mean_secs), memory_bytes=2**34),
        )  # fmt: skip
        self.samples[key] = JobSample(
            key=key, accounting=FigureSource.CGROUP, uid=10_000, processes=9, threads=24, cpus=cpus, oom_kills=0,
            memory_limit_hits=0, user_cpu_secs=0.0, system_cpu_secs=0.0, block_io=BlockIo(read_bytes=0, written_bytes=0, reads=0, writes=0),
            process_io=ProcessIo(read_bytes=0, written_bytes=0, data_read_bytes=0, data_written_bytes=0, data_cancelled_bytes=0),
            pressure_secs=dict.fromkeys(PRESSURES, 0.0), energy_joules=0.0,
        )  # fmt: skip

    def step(self, now: int) -> Context:
        """Let a minute pass; return what the exporter knows then."""
        for key, job in list(self.jobs.items()):
            if job.end_secs is not None and job.end_secs <= now:
                state = replace(job, state=JobState.COMPLETED)
                self.ended[key] = EndedJob(self.samples.pop(key), state, float(job.end_secs))
                del self.jobs[key]
                self._start(now)
        self.ended = {key: each for key, each in self.ended.items() if now - each.ended_at_secs <= SHOWN_SECS}
        self.samples = {key: self._grown(sample) for key, sample in self.samples.items()}
        cards, keys = [self._card(number, now) for number in range(self.gpus)], list(self.jobs)
        snapshot = Snapshot(
            taken_at_secs=now + self.rng.random(), duration_secs=self.rng.uniform(0.01, 0.03), node=self._node(),
            jobs=dict(self.samples), gpus=tuple(cards), gpu_drivers={"nvidia": True} if cards else {},
            job_gpus=tuple(
                JobGpu(key=keys[number % len(keys)], uuid=card.card.uuid, allocated=True, busy_secs=card.busy_secs,
                       energy_joules=card.energy_joules, memory_bytes=card.memory_used_bytes,
                       ce_util_percent=card.ce_util_percent)
                for number, card in enumerate(cards)
            ),
        )  # fmt: skip
        table = JobTable(source="slurm", taken_at_secs=now - 15.0, jobs=dict(self.jobs), complete=True)
        return Context(
            now_secs=float(now), snapshot=snapshot, jobs=dict(self.jobs), ended=dict(self.ended),
            machine=Machine(total_cpus=CPUS), publisher=PublisherStatus(len(self.jobs), 0, dict.fromkeys(PAIRS, 0)),
            sources=(KeeperStatus("slurm", table=table),), node_name=self.name,
        )  # fmt: skip

    def _count(self, name: str, most: float, digits: int | None = None) -> float:
        """Let a counter of the node grow by at most so much."""
        self.counters[name] = round(self.counters.get(name, 0.0) + self.rng.uniform(0, most), digits)
        return self.counters[name]

    def _grown(self, sample: JobSample) -> JobSample:
        rng = self.rng
        anon = rng.randrange(2**32, 2**33) // 4096 * 4096
        block, io = sample.block_io, sample.process_io
        assert block is not None
        assert io is not None
        user = (sample.user_cpu_secs or 0.0) + round(STEP_SECS * CPUS / self.share * rng.uniform(0.7, 1), 6)
        return replace(
            sample,
            user_cpu_secs=user,
            system_cpu_secs=(sample.system_cpu_secs or 0.0) + round(rng.random(), 6),
            energy_joules=(sample.energy_joules or 0.0) + rng.uniform(1000, 9000),
            memory=MemoryBytes(
                anon=anon, file=rng.randrange(2**32) // 4096 * 4096, shmem=0, kernel=rng.randrange(2**24), swap=0,
                charged=anon + rng.randrange(2**32), limit=2**34, peak=2**33,
            ),
            block_io=BlockIo(
                read_bytes=block.read_bytes + 4096 * rng.randrange(2**14), written_bytes=block.written_bytes,
                reads=block.reads + rng.randrange(999), writes=block.writes,
            ),
            process_io=ProcessIo(
                read_bytes=io.read_bytes + rng.randrange(2**30), written_bytes=io.written_bytes + rng.randrange(2**24),
                data_read_bytes=io.data_read_bytes + 4096 * rng.randrange(2**14),
                data_written_bytes=io.data_written_bytes + 4096 * rng.randrange(2**10), data_cancelled_bytes=0,
            ),
            pressure_secs={key: round(secs + rng.random(), 6) for key, secs in sample.pressure_secs.items()},
        )  # fmt: skip

    def _cpu(self, name: str, most: float) -> CpuSecs:
        modes = {
            mode: self._count(f"{name} {mode}", most, 2) for mode in ("user", "system", "idle", "iowait")
        }
        return CpuSecs(**modes, nice=0.0, irq=0.0, softirq=self._count(f"{name} softirq", 0.5, 2), steal=0.0)

    def _node(self) -> NodeSample:
        names = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree")
        stats = tuple(int(self._count(f"disk {number}", 2**12)) for number in range(17))
        return NodeSample(
            boot_time_secs=self.begin - 10**6, cpu=self._cpu("all", STEP_SECS * CPUS / 4),
            cores={number: self._cpu(f"core {number}", STEP_SECS / 4) for number in range(CPUS)},
            memory_bytes={name: self.rng.randrange(2**38) // 4096 * 4096 for name in names},
            load1=self.rng.uniform(90, 128), load5=self.rng.uniform(90, 128), load15=self.rng.uniform(90, 128),
            runnable_entities=self.rng.randrange(200), existing_entities=self.rng.randrange(2000, 2200),
            disks={"nvme0n1": DiskSample(major=259, minor=0, stats=stats, whole=True)},
            pressure_secs={each: self._count(f"pressure {each}", 5, 6) for each in PRESSURES},
            energy_joules={f"package-{number}": self._count(f"package {number}", 20_000) for number in (0, 1)},
            oom_kills=0,
        )  # fmt: skip

    def _card(self, number: int, now: int) -> GpuSample:
        rng = self.rng
        return GpuSample(
            card=GpuCard(uuid=f"GPU-{self.name}-{number}", index=number, manufacturer="NVIDIA", model="H200", memory_bytes=2**37),
            taken_at_secs=now - 5.0, ce_util_percent=rng.randrange(100), busy_secs=self._count(f"busy {number}", STEP_SECS, 2),
            energy_joules=self._count(f"card {number}", 42_000, 3), memory_used_bytes=rng.randrange(2**37),
            temperature_celsius=rng.randrange(40, 80), power_watts=rng.uniform(80, 700), power_limit_watts=700.0,
            ce_clock_mhz=rng.randrange(300, 1980), memory_clock_mhz=3201, performance_state=0, fan_percent=0.0,
        )  # fmt: skip


LINE = re.compile(r"^([A-Za-z_:][\w:]*)(\{(.*)\})? (\S+)$")


def lines_of_a_daemon() -> list[str]:
    """Return the series of a daemon that runs here at its third scrape, without those of jobs and cores."""
    address, text = f"127.0.0.1:{free_port()}", ""

    def asked() -> str:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://{address}/metrics", timeout=9) as answer,
        ):
            return str(answer.read().decode())
        return ""

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jobfeatures_exporter", "serve", "--web.listen-address", address]
        command += ["--features.root", f"{folder}/features", "--path.cgroup", folder]
        command += ["--batch.sources", "spool", "--spool.directory", folder]
        with started(command, stderr=subprocess.DEVNULL):
            for _ in range(3):
                text = until(asked)
    found = [line for line in text.splitlines() if LINE.match(line)]
    return [line for line in found if not re.match(r"batch_job_|batch_node_core_|\w+_waste_", line)]


def pages(
    nodes: list[Node], begin: int, minutes: int, drop: re.Pattern[str], into: TextIO
) -> tuple[int, int]:
    """Write all scrapes of all nodes; return the bytes of one page, and the series of all pages by sum."""
    maker, page_bytes, samples, live = PageMaker(ON_A_NODE, [], 0), 0, 0, lines_of_a_daemon()
    for minute in range(minutes):
        now = begin + minute * STEP_SECS
        for node in nodes:
            text = maker.render(node.step(now), openmetrics=False).decode()
            made = {re.split(r"[{ ]", line)[0] for line in text.splitlines()}
            text += "".join(f"{line}\n" for line in live if re.split(r"[{ ]", line)[0] not in made)
            page_bytes, count = len(text), 0
            target = f'job="batch_nodes",instance="{node.name}",node="{node.name}"'
            for line in text.splitlines():
                if (found := LINE.match(line)) is None:
                    continue
                count += 1
                if not drop.fullmatch(found[1]):
                    both = f"{found[3]},{target}" if found[3] else target
                    into.write(f"{found[1]}{{{both}}} {found[4]} {now}\n")
                    samples += 1
            about = {
                "up": 1, "scrape_duration_seconds": round(node.rng.uniform(0.01, 0.05), 9), "scrape_series_added": 0,
                "scrape_samples_scraped": count, "scrape_samples_post_metric_relabeling": count,
            }  # fmt: skip
            into.writelines(f"{name}{{{target}}} {value} {now}\n" for name, value in about.items())
            samples += len(about)
    into.write("# EOF\n")
    return page_bytes, samples


def read_blocks(data: Path) -> dict[str, int]:
    """Return the sums over all blocks: series and samples, bytes of chunks and index."""
    found = {"blocks": 0, "series": 0, "samples": 0, "chunks_bytes": 0, "index_bytes": 0}
    for meta in data.glob("*/meta.json"):
        stats = json.loads(meta.read_text())["stats"]
        found["blocks"] += 1
        found["series"] += stats["numSeries"]
        found["samples"] += stats["numSamples"]
        found["chunks_bytes"] += sum(path.stat().st_size for path in meta.parent.glob("chunks/*"))
        found["index_bytes"] += (meta.parent / "index").stat().st_size
    return found


def measure_rules(nodes: list[Node], drop: re.Pattern[str], folder: Path) -> tuple[float, float]:
    """Return the CPU seconds that two Prometheus take for 30 s of scraping: with the rules, and without.

    Both scrape the nodes and evaluate every 30 s, for two minutes, of which
    the second counts. Rules of groups that are due every five minutes are in
    it by chance. CPU time is that of the programs, so that other work on the
    machine counts little.
    """
    maker, now = PageMaker(ON_A_NODE, [], 0), int(time.time())
    texts: dict[str, list[bytes]] = {f"/{node.name}": [] for node in nodes}
    for turn in range(TURNS):
        for node in nodes:
            lines = maker.render(node.step(now + turn * SCRAPE_SECS), openmetrics=False).decode()
            kept = [line for line in lines.splitlines(True) if not drop.fullmatch(re.split(r"[{ ]", line)[0])]
            texts[f"/{node.name}"].append("".join(kept).encode())
    began = time.monotonic()

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            turn = min(int((time.monotonic() - began) / SCRAPE_SECS), TURNS - 1)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(texts[self.path][turn])))
            self.end_headers()
            self.wfile.write(texts[self.path][turn])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        targets = [
            {
                "targets": [f"127.0.0.1:{server.server_port}"],
                "labels": {"__metrics_path__": path, "instance": path[1:], "node": path[1:]},
            }
            for path in texts
        ]
        running = [
            _start(folder / name, targets, rules)
            for name, rules in (("with", [str(ROOT / "grafana/rules/*.yml")]), ("without", []))
        ]
        try:
            time.sleep(2 * SCRAPE_SECS)
            before = [sum(each.cpu_times()[:2]) for each in running]
            time.sleep(2 * SCRAPE_SECS)
            with_rules, without = (
                (sum(each.cpu_times()[:2]) - secs) / 2 for each, secs in zip(running, before, strict=True)
            )
        finally:
            for each in running:
                each.terminate()
            psutil.wait_procs(running, timeout=20)
            server.shutdown()
    return with_rules, without


def _start(folder: Path, targets: list[dict[str, object]], rules: list[str]) -> psutil.Popen:
    folder.mkdir()
    config = {
        "global": {"scrape_interval": f"{SCRAPE_SECS}s", "evaluation_interval": f"{SCRAPE_SECS}s"},
        "rule_files": rules,
        "scrape_configs": [{"job_name": "batch_nodes", "static_configs": targets}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{free_port()}",
    ]  # fmt: skip
    return psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--hours", type=float, default=4)
    parser.add_argument("--jobs", type=int, default=8, help="on a node at any time")
    parser.add_argument("--minutes", type=float, default=240, help="that a job takes, on average")
    parser.add_argument("--gpus", type=int, default=0, help="on a node")
    parser.add_argument("--drop", default="", help="metrics to drop, as metric_relabel_configs does")
    parser.add_argument("--rules", action="store_true", help="time the rules too")
    arguments = parser.parse_args()
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            parser.exit(1, f"{program} is not installed (Debian: prometheus)\n")
    minutes = int(arguments.hours * 60)
    begin = int(time.time()) // 7200 * 7200 - minutes * STEP_SECS - 7200
    nodes = [
        Node(number, arguments.jobs, arguments.minutes * 60, arguments.gpus, begin)
        for number in range(1, arguments.nodes + 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        exposition, data = Path(folder) / "scrapes.txt", Path(folder) / "data"
        with exposition.open("w", encoding="utf-8") as into:
            page_bytes, samples = pages(nodes, begin, minutes, re.compile(arguments.drop), into)
        created = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(exposition), str(data)]
        subprocess.run(created, check=True, stdout=subprocess.DEVNULL)
        exposition.unlink()
        found = read_blocks(data)
        assert found["samples"] == samples, "a sample is lost"
        count, hours = arguments.nodes, arguments.hours
        started = sum(node.next_id % 1_000_000 - arguments.jobs for node in nodes)
        print(
            f"{count} nodes, {arguments.jobs} jobs each, {arguments.gpus} GPUs, {hours:g} h, {found['blocks']} blocks"
        )
        print(f"page                      {page_bytes:12,} bytes")
        print(f"series a scrape and node  {samples / count / minutes:12,.1f}")
        print(f"series a node and block   {found['series'] / count / found['blocks']:12,.1f}")
        print(f"jobs begun a node and hour{started / count / hours:12,.2f}")
        print(f"chunks, a sample          {found['chunks_bytes'] / samples:12,.2f} bytes")
        print(f"index, a series and block {found['index_bytes'] / found['series']:12,.1f} bytes")
        per_day = (found["chunks_bytes"] + found["index_bytes"]) / count / hours * 24
        print(f"samples a node and day    {samples / count / hours * 24:12,.0f}")
        print(f"bytes a node and day      {per_day:12,.0f}")
        if arguments.rules:
            with_rules, without = measure_rules(nodes, re.compile(arguments.drop), Path(folder))
            print(f"CPU for {SCRAPE_SECS} s without rules {without:11,.2f} s")
            print(f"CPU for {SCRAPE_SECS} s with rules    {with_rules:11,.2f} s")


if __name__ == "__main__":
    main()
