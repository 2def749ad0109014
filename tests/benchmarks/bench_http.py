"""What reading features over HTTP costs, against a bare aiohttp handler.

Two servers take turns on one core: ours with many published jobs, and one whose
handler returns a constant. A load generator on another core (wrk where it is
installed, else raw sockets here) reads over kept connections, a job after the
other. One core is left to the server: without a second one the figures are those
of both together.

Usage: python tests/benchmarks/bench_http.py [--jobs 500] [--secs 5] [--rounds 3] [--connections 16]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from aiohttp import web

from jobfeatures.publish.http import server
from jobfeatures.publish.http.server import FeatureServer
from jobfeatures.publish.http.webserver import listening
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey

BUSIEST = 10**9  # no limit is measured here


async def serve_features(root: str) -> None:
    server.RATE = server.JOB_RATE = BUSIEST
    async with listening(FeatureServer(FeatureTree(root)), "127.0.0.1:0") as address:
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def serve_nothing(_root: str) -> None:
    async def handle(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="4\n")

    server = web.Server(handle, access_log=None)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    print(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


SERVERS = {"bare": serve_nothing, "features": serve_features}


def start(kind: str, root: str, core: int) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", kind, "--root", root, "--core", str(core)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def load_by_wrk(address: str, paths: list[str], secs: int, connections: int, core: int) -> list[float]:
    """Return requests a second, and seconds of the 50th and 99th percentile."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        quoted = ",".join(f'"{path}"' for path in paths)
        script.write(f"local paths = {{{quoted}}}\nlocal i = 0\n")
        script.write('function request() i = i % #paths + 1 return wrk.format("GET", paths[i]) end\n')
        script.flush()
        argv = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{connections}", f"-d{secs}s", "--latency"]
        printed = subprocess.run(
            [*argv, "-s", script.name, f"http://{address}"], capture_output=True, text=True, check=True
        ).stdout
    if "Non-2xx" in printed:
        raise SystemExit(printed)
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    found = {
        share: float(number) * units[unit]
        for share, number, unit in re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)$", printed, re.MULTILINE)
    }
    rate = re.search(r"Requests/sec:\s+([\d.]+)", printed)
    assert rate is not None
    return [float(rate[1]), found["50"], found["99"]]


def load_by_sockets(address: str, paths: list[str], secs: int, connections: int, core: int) -> list[float]:
    """Do the same with as many blocking sockets in turn: slower, but there everywhere."""
    os.sched_setaffinity(0, {core})
    host, _, port = address.rpartition(":")
    sockets = [socket.create_connection((host, int(port))) for _ in range(connections)]
    requests = [f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in paths]
    times: list[float] = []
    began = time.perf_counter()
    number = 0
    while time.perf_counter() - began < secs:
        sent: list[float] = []
        for each in sockets:
            sent.append(time.perf_counter())
            each.sendall(requests[number % len(requests)])
            number += 1
        for each, at in zip(sockets, sent, strict=True):
            if b" 200 " not in each.recv(4096):
                raise SystemExit("not answered with 200")
            times.append(time.perf_counter() - at)
    took = time.perf_counter() - began
    for each in sockets:
        each.close()
    times.sort()
    return [len(times) / took, times[len(times) // 2], times[int(len(times) * 0.99)]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--secs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--root", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        os.sched_setaffinity(0, {arguments.core})
        asyncio.run(SERVERS[arguments.serve](arguments.root))
        return
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        tree = FeatureTree(f"{folder}/features")
        paths = []
        for number in range(arguments.jobs):
            key = JobKey("slurm", str(1000 + number))
            tree.write_job(key, {"allocated_cpu": "4", "wall_limit_secs": "420", "job_id": str(number)})
            paths.append(f"/jobfeatures/{tree.make_token(key)}/allocated_cpu")
        load = load_by_wrk if shutil.which("wrk") and shutil.which("taskset") else load_by_sockets
        results: dict[str, list[list[float]]] = {kind: [] for kind in SERVERS}
        for _ in range(arguments.rounds):
            for kind, runs in results.items():
                process, address = start(kind, tree.root, cores[0])
                try:
                    load(address, paths, 1, arguments.connections, cores[-1])
                    runs.append(load(address, paths, arguments.secs, arguments.connections, cores[-1]))
                finally:
                    process.communicate()
    print(f"{arguments.jobs} jobs, {arguments.connections} connections, {load.__name__}, medians of runs")
    bare = statistics.median(run[0] for run in results["bare"])
    for kind, runs in results.items():
        rate, p50, p99 = (statistics.median(column) for column in zip(*runs, strict=True))
        print(
            f"{kind:10} {rate:8.0f} reads/s  {rate / bare:5.2f} of bare  p50 {p50 * 1e3:.2f} ms  p99 {p99 * 1e3:.2f} ms"
        )


if __name__ == "__main__":
    main()
