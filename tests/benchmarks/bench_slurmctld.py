"""What a node's questions, and those of the controller role, cost slurmctld; in the Slurm of SLURM_CONF, which has to run.

Of each way: RPCs and their time by `sdiag` (on a busy machine with waiting for the CPU), and CPU time of slurmctld. Ways:

full           a node asks about `--jobs` new jobs, itself and reservations
minute         the node asks again about jobs within an hour of their end
former         the same jobs as until 0.9: `scontrol -a -o -d`, a question about a federation after each
node, list     the commands that look like one question for all jobs: `squeue -w NODE`, `squeue -j ID,ID…`
config         a node's daemon at its start asks for SlurmdSpoolDir and ProctrackType
role           one round of the controller role

`--fill 10000` first submits an array of as many waiting tasks (as an ordinary user; MaxJobCount and MaxArraySize have to
allow them) and splits it into single records. Jobs have to run on the node: `sbatch -w NODE -t 30 --wrap 'sleep 1800'`.

Usage: python tests/benchmarks/bench_slurmctld.py --pid PID [--jobs 16] [--rounds 20] [--fill 10000 --user alice]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.batch.slurm.answers import Scontrol
from jobfeatures.batch.slurm.clustersource import SlurmCluster
from jobfeatures.batch.slurm.source import SlurmSource
from jobfeatures.records.model import JobKey, JobState
from jobfeatures.system.clock import SystemClock
from tests.configured import settings_for
from tests.running import HandClock

TICKS = os.sysconf("SC_CLK_TCK")
_RPC = re.compile(r"(\w+) +\( *[0-9]+\) count:([0-9]+) +ave_time:[0-9]+ +total_time:([0-9]+)")


def fill(count: int, user: str) -> None:
    """Let an array of single, waiting tasks stand in the queue."""
    submit = [
        "sbatch",
        "--parsable",
        f"--array=0-{count - 1}",
        "--begin=now+10hours",
        "-n1",
        "-D/tmp",
        "-o/dev/null",
    ]
    command = ["runuser", "-u", user, "--", *submit, "--wrap", "true"]
    number = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    lines = "".join(f"update jobid={number}_{task} priority={task + 1}\n" for task in range(count))
    subprocess.run(["scontrol"], input=lines, text=True, stdout=subprocess.DEVNULL, check=False)


def rpcs() -> dict[str, tuple[int, int]]:
    """Return how often each kind was asked, and microseconds in all; of sdiag's own question nothing."""
    text = subprocess.run(["sdiag"], capture_output=True, text=True, check=True).stdout
    part = text.partition("by message type")[2].partition("statistics by user")[0]
    found = ((name, int(count), int(total)) for name, count, total in _RPC.findall(part))
    return {
        name.removeprefix("REQUEST_"): (count, total)
        for name, count, total in found
        if name.startswith("REQUEST_") and "STATS" not in name
    }


def cpu_secs(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(what: str, pid: int, rounds: int, ask: Callable[[], object]) -> None:
    before, cpu_before = rpcs(), cpu_secs(pid)
    for _ in range(rounds):
        ask()
    cpu, after = (cpu_secs(pid) - cpu_before) / rounds, rpcs()
    grown = {
        name: [new - old for new, old in zip(after[name], before.get(name, (0, 0)), strict=True)]
        for name in after
    }
    kinds = {name: (count / rounds, total / rounds) for name, (count, total) in grown.items() if count}
    text = ", ".join(f"{name} {count:g} ({total:.0f} us)" for name, (count, total) in sorted(kinds.items()))
    count, total = (sum(each[part] for each in kinds.values()) for part in (0, 1))
    print(
        f"{what:8} {count:5g} RPCs, {total / 1e3:5.1f} ms by sdiag, {cpu * 1e3:5.1f} ms of CPU: {text}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pid", type=int, required=True, help="of slurmctld")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--fill", type=int, default=0)
    parser.add_argument("--user", default="alice")
    given = parser.parse_args()
    if given.fill:
        fill(given.fill, given.user)
    cluster = SlurmCluster(settings_for("slurm"), SystemClock(), 60.0)
    queue = cluster.poll_queue()
    running = [job for job in queue.jobs.values() if job.state is JobState.RUNNING and job.nodes]
    if len(running) < given.jobs:
        raise SystemExit(f"Slurm runs {len(running)} jobs, not {given.jobs}")
    node, ids = running[0].nodes[0], [job.key.job_id for job in running[: given.jobs]]
    keys = [JobKey("slurm", job_id) for job_id in ids]
    print(
        f"{len(queue.jobs)} jobs in the queue, {len(cluster.poll_cluster().nodes)} nodes, {given.jobs} jobs on {node}"
    )

    clock = HandClock(SystemClock().now_secs())

    def source() -> SlurmSource:
        ask = Scontrol(node_name=node).ask
        return SlurmSource(clock, ask, node_name=node, refresh_secs=1e9)

    measure("full", given.pid, given.rounds, lambda: source().poll_jobs(keys))
    asked = source()
    asked.poll_jobs(keys)

    def ask_again() -> None:
        clock.secs += 60
        asked.poll_jobs(keys)

    measure("minute", given.pid, given.rounds, ask_again)
    lines = "".join(f"show job {job_id}\n" for job_id in ids)
    former = ["scontrol", "-a", "-o", "-d"]
    measure(
        "former", given.pid, given.rounds, lambda: subprocess.run(former, input=lines, text=True, stdout=-3)
    )
    for what, *command in (
        ("node", "squeue", "-h", "-w", node),
        ("list", "squeue", "-h", "-j", ",".join(ids)),
        ("config", "scontrol", "show", "config"),
    ):
        measure(what, given.pid, given.rounds, lambda command=command: subprocess.run(command, stdout=-3))  # type: ignore[misc]
    measure("role", given.pid, given.rounds, lambda: (cluster.poll_cluster(), cluster.poll_queue()))


if __name__ == "__main__":
    main()
