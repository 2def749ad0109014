"""What 10,000 nodes cost the controller role that they ask (slurmctld: see bench_slurmctld.py).

The daemon runs as in production, with TLS, on stand-ins for squeue and scontrol that print `--nodes` nodes with
`--jobs` constructed jobs each. Ways:

asking         after its start: until the first answer is known, CPU and memory then; then of one round more,
               on records that say the same but for the time that the jobs have run
nodes          each node asks once over a connection of its own, spread over `--spread` seconds, then again with
               the ETag that it got: answers by status, requests a second, the daemon's CPU a request
held           all nodes' connections open at once, silent: the daemon's descriptors and memory

The clients run in this process: on few cores they compete with the daemon for them.

Usage: python tests/benchmarks/bench_controller.py [--nodes 10000] [--jobs 16] [--spread 60]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import resource
import shlex
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.batch.controller.protocol import make_token

SECRET = b"0123456789abcdef" * 4
TICKS = os.sysconf("SC_CLK_TCK")
JOB = (
    "JobId={job} JobName=simulation UserId=alice(6001) GroupId=alice(6001) MCS_label=N/A Priority=4294901759 Nice=0 "
    "Account=physics QOS=normal JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 "
    "ExitCode=0:0 DerivedExitCode=0:0 RunTime={run} TimeLimit=1-00:00:00 TimeMin=N/A SubmitTime=1795250000 "
    "EligibleTime=1795250000 AccrueTime=1795250000 StartTime=1795250000 EndTime=1795336400 Deadline=N/A "
    "SuspendTime=None SecsPreSuspend=0 LastSchedEval=1795250000 Scheduler=Main Partition=batch AllocNode:Sid=login1:1 "
    "ReqNodeList=(null) ExcNodeList=(null) NodeList={node} BatchHost={node} NumNodes=1 NumCPUs=8 NumTasks=8 CPUs/Task=1 "
    "ReqB:S:C:T=0:0:*:* TRES=cpu=8,mem=16G,node=1,billing=8 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* "
    "JOB_GRES=(null)   Nodes={node} CPU_IDs=0-7 Mem=16384 GRES= MinCPUsNode=1 MinMemoryCPU=2G MinTmpDiskNode=0 "
    "Features=(null) DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) "
    "Command=/home/alice/project/run/job.sh WorkDir=/home/alice/project/run StdErr=/home/alice/project/run/slurm.out "
    "StdIn=/dev/null StdOut=/home/alice/project/run/slurm.out Power="
)
NODE = "NodeName={node} Arch=x86_64 CPUAlloc=128 CPUEfctv=128 CPUTot=128 RealMemory=262144 State=ALLOCATED x"
SQUEUE = (
    *(
        "{job}",
        "{job}",
        "N/A",
        "N/A",
        "0",
        "alice",
        "6001",
        "physics",
        "batch",
        "RUNNING",
        "None",
        "1-00:00:00",
        "8",
    ),
    *(
        "1",
        "{node}",
        "1795250000",
        "1795336400",
        "1795250000",
        "1795250000",
        "4294901759",
        "cpu=8,mem=16G,node=1",
    ),
    *("0", "(null)", "simulation"),
)
SCONTROL = """#!/bin/bash
while read -r line; do
  case $line in
    "show hostnames "*) echo "${{line#show hostnames }}" ;;
    "show job") sed "s/ RunTime=[^ ]*/ RunTime=00:00:$((RANDOM % 50 + 10))/" {folder}/jobs ;;
    "show node") cat {folder}/nodes ;;
    "show partition") echo "PartitionName=batch Nodes=n[1-{nodes}] State=UP" ;;
    "show reservation") echo "No reservations in the system" ;;
  esac
done
"""
COMMAND = """#!/bin/bash
separator=${{SQUEUE_FORMAT2#JobID:}}; separator=${{separator%%,*}}
sed "s/@/$separator/g" {folder}/queue
"""


def write_slurm(folder: Path, nodes: int, jobs: int) -> None:
    """Write stand-ins and their answers."""
    with (folder / "jobs").open("w") as told, (folder / "queue").open("w") as queue:
        for number in range(nodes * jobs):
            values = {"job": number + 1, "node": f"n{number % nodes + 1}", "run": "00:00:01"}
            told.write(JOB.format(**values) + "\n\n")
            queue.write("".join(field.format(**values) + "@" for field in SQUEUE) + "\n")
    (folder / "nodes").write_text("".join(NODE.format(node=f"n{n + 1}") + "\n\n" for n in range(nodes)))
    for name, text in (("scontrol", SCONTROL), ("squeue", COMMAND), ("sacct", "#!/bin/sh\n")):
        (folder / name).write_text(text.format(folder=shlex.quote(str(folder)), nodes=nodes))
        (folder / name).chmod(0o755)


def write_keys(folder: Path) -> None:
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    )
    files = f"-addext subjectAltName=IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/cert.pem"
    subprocess.run(shlex.split(f"{command} {files}"), check=True, capture_output=True)
    (folder / "web.yml").write_text("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n")
    (folder / "secret").write_bytes(SECRET)
    (folder / "secret").chmod(0o600)


class Daemon:
    """The controller role, as a process of its own."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.log = folder / "log"
        command = [
            *(
                sys.executable,
                "-m",
                "jobfeatures_exporter",
                "serve",
                "--role",
                "controller",
                "--batch.sources",
                "slurm",
            ),
            *(
                "--slurm.scontrol",
                f"{folder}/scontrol",
                "--web.listen-address",
                "127.0.0.1:0",
                "--no-collector.schedule",
            ),
            *("--controller.listen", "127.0.0.1:0", "--controller.secret-file", f"{folder}/secret"),
            *("--controller.interval", "60s"),
            *("--web.config.file", f"{folder}/web.yml", "--web.config-for", "nodes", "--log.level", "info"),
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, cwd=Path(__file__).parents[2])
        self.port = int(self.find(r'"answering nodes" address=127\.0\.0\.1:([0-9]+)')[1])

    def find(self, pattern: str, timeout_secs: float = 60.0) -> re.Match[str]:
        deadline = time.monotonic() + timeout_secs
        while not (match := re.search(pattern, self.log.read_text())):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(self.log.read_text())
            time.sleep(0.1)
        return match

    def cpu_secs(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_mib(self, name: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+([0-9]+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@contextlib.contextmanager
def running(folder: Path, nodes: int) -> Iterator[Daemon]:
    daemon = Daemon(folder, nodes)
    try:
        yield daemon
    finally:
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(30)


class Nodes:
    """All nodes as clients."""

    def __init__(self, folder: Path, port: int, count: int) -> None:
        self.port, self.count = port, count
        self.context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        self.etags: dict[int, str] = {}
        self.statuses: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.waits: list[float] = []

    async def ask(self, number: int) -> None:
        name = f"n{number + 1}"
        head = (
            f"GET /nodes/{name} HTTP/1.1\r\nHost: ctl\r\nAuthorization: Bearer {make_token(SECRET, name)}\r\n"
        )
        if number in self.etags:
            head += f"If-None-Match: {self.etags[number]}\r\n"
        began = time.monotonic()
        try:
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)
                writer.write(f"{head}\r\n".encode())
                answer = (await reader.read()).decode()
                writer.close()
        except (OSError, TimeoutError) as error:
            self.failures[type(error).__name__] += 1
            return
        self.waits.append(time.monotonic() - began)
        self.statuses[answer[9:12]] += 1
        found = re.search(r"\nETag: (\S+)", answer)
        if found is not None:
            self.etags[number] = found[1]
            if answer[9:12] == "200":
                assert answer.count(f'"nodes": ["{name}"]') == answer.count('"job_id"') > 0

    async def ask_all(self, spread_secs: float) -> float:
        """Let each ask once; return how long it took."""
        self.statuses.clear()
        self.waits.clear()
        began = time.monotonic()
        tasks = []
        for number in range(self.count):
            delay_secs = began + spread_secs * number / self.count - time.monotonic()
            if delay_secs > 0:
                await asyncio.sleep(delay_secs)
            tasks.append(asyncio.create_task(self.ask(number)))
        await asyncio.gather(*tasks)
        return time.monotonic() - began

    async def hold(self, daemon: Daemon) -> None:
        """Open a connection for each node, without TLS being spoken, and look at the daemon."""
        before = daemon.memory_mib("VmRSS")
        writers = []
        began = time.monotonic()
        for _ in range(self.count):
            with contextlib.suppress(OSError):
                writers.append((await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context))[1])
            if time.monotonic() - began > 25:  # who stays silent for 30 s is sent away
                break
        print(
            f"held         {len(writers)} connections in {time.monotonic() - began:.1f} s, {daemon.descriptors()} descriptors,"
            f" {daemon.memory_mib('VmRSS') - before:.0f} MiB more"
        )
        for writer in writers:
            writer.transport.abort()


def measure_daemon(nodes: int, jobs: int, spread_secs: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_slurm(folder, nodes, jobs)
        write_keys(folder)
        with running(folder, nodes) as daemon:
            clients = Nodes(folder, daemon.port, nodes)
            began = time.monotonic()
            while not clients.statuses["200"]:  # nobody tells
                time.sleep(1)
                asyncio.run(clients.ask(0))
                if time.monotonic() - began > 300:
                    raise SystemExit(daemon.log.read_text())
            print(
                f"asking       {nodes * jobs} jobs: first answer after {time.monotonic() - began:.0f} s, CPU"
                f" {daemon.cpu_secs():.1f} s, {daemon.memory_mib('VmRSS'):.0f} MiB, {daemon.memory_mib('VmHWM'):.0f} at most"
            )
            before = daemon.cpu_secs()
            time.sleep(60)
            print(f"             one more minute, no node asking: CPU {daemon.cpu_secs() - before:.1f} s")
            for what in ("first", "again"):
                before = daemon.cpu_secs()
                took = asyncio.run(clients.ask_all(spread_secs))
                waits = sorted(clients.waits)
                print(
                    f"nodes, {what} {dict(clients.statuses)} in {took:.1f} s ({clients.count / took:.0f}/s), failed"
                    f" {dict(clients.failures)}, CPU {daemon.cpu_secs() - before:.1f} s with what is asked meanwhile,"
                    f" wait median {waits[len(waits) // 2] * 1e3:.0f} ms, 99 % {waits[len(waits) * 99 // 100] * 1e3:.0f} ms"
                )
            clients.failures.clear()
            asyncio.run(clients.hold(daemon))
            print(f"memory       {daemon.memory_mib('VmHWM'):.0f} MiB at most")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--spread", type=float, default=60.0)
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < arguments.nodes + 1000:
        raise SystemExit(f"needs {arguments.nodes + 1000} descriptors, the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, arguments.nodes + 1000), hard))
    measure_daemon(arguments.nodes, arguments.jobs, arguments.spread)


if __name__ == "__main__":
    main()
