"""What counting packets of jobs costs: CPU time of sending over loopback with and without, in turn; needs root.

    python tests/benchmarks/bench_network.py [--rounds 9] [--cgroup /sys/fs/cgroup]

Each packet of loopback is counted twice, when it is sent and when it is received. CPU time of the
process, in which the kernel sends and receives; and the programs' own time, as the kernel measures it.
"""

from __future__ import annotations

import argparse
import ctypes
import socket
import statistics
import struct
import time
from collections.abc import Callable
from pathlib import Path

from jobfeatures_exporter.sampling.bpf.library import Bpf
from jobfeatures_exporter.sampling.bpf.reader import KernelSums

STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
RUN_TIME_AT = 192  # run_time_ns and run_cnt of struct bpf_prog_info


def udp(count: int) -> Callable[[], int]:
    """Return what sends and receives datagrams of 64 bytes, and how many packets that are."""
    there, here = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    there.bind(("127.0.0.1", 0))
    here.connect(there.getsockname())

    def run() -> int:
        for _ in range(count):
            here.send(b"x" * 64)
            there.recv(64)
        return count

    return run


def tcp(size: int, count: int) -> Callable[[], int]:
    """Return what sends and receives messages over a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    message = b"x" * size

    def run() -> int:
        for _ in range(count):
            here.sendall(message)
            left = size
            while left:
                left -= len(there.recv(left))
        return count

    return run


WAYS = {
    "UDP, 64 bytes": udp(20_000),
    "TCP, 1 KiB": tcp(1024, 20_000),
    "TCP, 64 KiB": tcp(65_536, 3_000),
}


def own_nanosecs(sums: KernelSums, name: str) -> tuple[int, int]:
    """Return how long a program has run, and how often."""
    info = Path(f"/proc/self/fdinfo/{sums.descriptors[name]}").read_text()
    number = int(next(line.split()[1] for line in info.splitlines() if line.startswith("prog_id")))
    program = ctypes.CDLL("libbpf.so.1").bpf_prog_get_fd_by_id(number)
    found, size = ctypes.create_string_buffer(256), ctypes.c_uint32(256)
    Bpf().call("bpf_obj_get_info_by_fd", program, found, ctypes.byref(size))
    return struct.unpack_from("=2Q", found.raw, RUN_TIME_AT)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cgroup", default="/sys/fs/cgroup")
    arguments = parser.parse_args()
    nanosecs: dict[tuple[str, bool], list[float]] = {}
    for _ in range(arguments.rounds):
        for counts in (False, True):
            sums = KernelSums(arguments.cgroup, network=counts)
            assert not sums.no_network, sums.no_network
            for name, run in WAYS.items():
                began = time.process_time_ns()
                done = run()
                nanosecs.setdefault((name, counts), []).append((time.process_time_ns() - began) / done)
            sums.close()
    print("| loopback | without, ns | with | with ÷ without, medians (best) |\n|---|---|---|---|")
    for name in WAYS:
        off, on = nanosecs[name, False], nanosecs[name, True]
        medians = statistics.median(off), statistics.median(on)
        ratios = f"{medians[1] / medians[0]:.2f} ({min(on) / min(off):.2f})"
        print(f"| {name} | {medians[0]:.0f} ({min(off):.0f}) | {medians[1]:.0f} ({min(on):.0f}) | {ratios} |")
    before = STATS.read_text()
    sums = KernelSums(arguments.cgroup, network=True)
    STATS.write_text("1")
    try:
        for name, run in WAYS.items():
            start = {way: own_nanosecs(sums, way) for way in ("sent", "received")}
            run()
            for way, (time_ns, count) in start.items():
                now = own_nanosecs(sums, way)
                print(
                    f"{name}: {way} {(now[0] - time_ns) / (now[1] - count):.0f} ns a run, {now[1] - count} runs"
                )
    finally:
        STATS.write_text(before)
        sums.close()


if __name__ == "__main__":
    main()
