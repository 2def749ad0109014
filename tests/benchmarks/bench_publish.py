"""What publishing costs: the hook command from fork to exit, and the daemon with many jobs.

The hook, medians of wall time, in turn so that all meet the same machine:

python -c pass        the interpreter alone
python -I -c pass     the same without site packages' own start-up files
imports               what `jobfeatures publish` imports, and an end with all of Python's tidying up
publish, first        a job that has no directory yet; its environment tells all, nobody is asked
publish, again        the same job, nothing changed
publish, asks         the same where only the controller knows the limits; a shell script stands in for scontrol
scontrol's stand-in   that script alone
remove                its removal

A prolog as slurmd runs it, packaging/slurm/prolog.sh, medians of CPU time with all that it starts:

by the command        no daemon: the script runs `jobfeatures publish`
by the daemon         the script hands the job over; beside it what the daemon's process for hooks spends on it
epilog, by either     the same for its end

The daemon, with `--jobs` jobs:

plain files           the same files by open() and write(): no staging, no rename, no checks
first                 judging and Publisher.update() of jobs without directories
unchanged             the same update again
one key changed       each job's limit is another
gone                  all have ended

Usage: python tests/benchmarks/bench_publish.py [--rounds 40] [--jobs 1000] [--folder /dev/shm]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from jobfeatures.publish.config import SiteSettings

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.jobs.roster import Roster
from jobfeatures.publish.publisher import Publisher
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limits
from jobfeatures.system.clock import SystemClock
from tests.configured import configured

ROOT = Path(__file__).parents[2]
START = 1_795_246_160
IMPORTS = "import jobfeatures.cli, jobfeatures.commands.publish, jobfeatures.batch.slurm"


def hook_environment(folder: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **kept,  # and not PYTHONDONTWRITEBYTECODE: a site's installation has its bytecode
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
        "JOBFEATURES_FEATURES_ROOT": f"{folder}/features",
        "JOBFEATURES_HOOK_ASK": "never",
        "SLURM_JOB_ID": "777",
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_USER": "alice",
        "SLURM_JOB_PARTITION": "batch",
        "SLURM_JOB_CPUS_PER_NODE": "2",
        "SLURM_NODELIST": "n1",
        "SLURMD_NODENAME": "n1",
        "SLURM_JOB_START_TIME": str(START),
        "SLURM_JOB_END_TIME": str(START + 420),
    }


def stand_in(folder: str) -> str:
    """Return a script that answers as scontrol does, without a controller behind it."""
    path = Path(folder) / "scontrol"
    record = (
        "JobId=$n JobName=x UserId=alice(6001) GroupId=alice(6001) MCS_label=N/A Account=p QOS=normal JobState=RUNNING "
        f"Reason=None Restarts=0 TimeLimit=00:07:00 SubmitTime={START} StartTime={START} EndTime={START + 420} "
        "Partition=batch NodeList=n1 NumCPUs=2 JOB_GRES=(null)   Nodes=n1 CPU_IDs=0-1 Mem=120 GRES= "
        "MinMemoryNode=120M MinTmpDiskNode=0 Features=(null) Command=(null)"
    )
    path.write_text(
        "#!/bin/sh\nwhile read -r verb what n; do case $what in\n"
        f'hostnames) echo "$n";; job) echo "{record}";;\nesac; done\n'
    )
    path.chmod(0o755)
    return str(path)


def run_secs(argv: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        argv, env=environment, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
    )
    return time.perf_counter() - started


def bench_hook(rounds: int, folder: str) -> None:
    # A bare virtual environment: an editable installation would add its import hook to every start.
    venv.create(f"{folder}/venv")
    python, environment = f"{folder}/venv/bin/python", hook_environment(folder)
    hook = [python, "-m", "jobfeatures"]
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "python -I -c pass": [python, "-I", "-c", "pass"],
        "imports": [python, "-c", IMPORTS],
        "publish, first": [*hook, "publish", "--strict"],
        "publish, again": [*hook, "publish", "--strict"],
        "publish, asks": [*hook, "publish", "--strict"],
        "scontrol's stand-in": [stand_in(folder)],
        "remove": [*hook, "remove", "--strict"],
    }
    asking = {
        **{name: value for name, value in environment.items() if not name.endswith("_TIME")},
        "JOBFEATURES_HOOK_ASK": "auto",
        "JOBFEATURES_SLURM_SCONTROL": stand_in(folder),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):  # the first fills the bytecode cache
        for name, argv in commands.items():
            secs = run_secs(argv, asking if name == "publish, asks" else environment)
            if number:
                times[name].append(secs)
    base = statistics.median(times["python -c pass"])
    print(f"hook, {rounds} rounds            median ms   least ms   ratio to python -c pass")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"  {name:24} {median * 1e3:9.1f}  {min(values) * 1e3:9.1f}   {median / base:6.2f}")
    told = subprocess.run(
        [python, "-X", "importtime", "-c", IMPORTS],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    ).stderr
    rows = [line.removeprefix("import time:").split("|") for line in told.splitlines()[1:]]
    alone = sorted(((int(own), name.strip()) for own, _, name in rows), reverse=True)
    print(f"  imports that take longest of {sum(own for own, _ in alone) / 1e3:.1f} ms (own time):")
    for own, name in alone[:12]:
        print(f"    {own / 1e3:6.2f} ms  {name}")


def cpu_secs(pid: int) -> float:
    """Return the CPU time that a process has used, to a clock tick."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bench_prolog(rounds: int, folder: str) -> None:
    """Compare the prolog by the command with the prolog by the daemon, in turn."""
    from jobfeatures_exporter.node.hookrequests import HookServer
    from jobfeatures_exporter.node.nodeboard import NodeBoard

    command = Path(folder) / "jobfeatures"
    command.write_text(f'#!/bin/sh\nexec {folder}/venv/bin/python -m jobfeatures "$@"\n')
    command.chmod(0o755)
    settings = Path(folder) / "settings"
    settings.write_text(f"JOBFEATURES_COMMAND={command}\nJOBFEATURES_HOOK_TIMEOUT=20\n")
    settings.chmod(0o644)
    roots = {"by the command": f"{folder}/alone", "by the daemon": f"{folder}/served"}
    tree = FeatureTree(roots["by the daemon"])
    tree.prepare()
    board = NodeBoard(configured(features_root=tree.root), SystemClock())
    server = HookServer(board, SimpleNamespace(refresh_in_haste=lambda _systems: None), None)
    thread = threading.Thread(target=server.run)
    thread.start()
    alive = Path(tree.intake_path, "alive")
    while not alive.exists():
        time.sleep(0.01)
    pid = int(alive.read_text().split()[1])
    environment = {**hook_environment(folder), "JOBFEATURES_SETTINGS": str(settings)}
    spent: dict[tuple[str, str], list[float]] = {}
    took: dict[tuple[str, str], list[float]] = {}
    served_secs = 0.0
    try:
        for number in range(rounds + 1):
            for way, root in roots.items():
                for context in ("prolog", "epilog"):
                    environment["SLURM_SCRIPT_CONTEXT"] = f"{context}_slurmd"
                    environment["JOBFEATURES_FEATURES_ROOT"] = root
                    before, served = os.times(), cpu_secs(pid)
                    secs = run_secs([str(ROOT / "packaging/slurm/prolog.sh")], environment)
                    after = os.times()
                    if number:
                        cpu = after.children_user + after.children_system
                        cpu -= before.children_user + before.children_system
                        spent.setdefault((context, way), []).append(cpu)
                        took.setdefault((context, way), []).append(secs)
                        served_secs += cpu_secs(pid) - served
    finally:
        server.stop()
        thread.join()
    print(f"hook script, {rounds} rounds             mean CPU ms   median ms")
    for (context, way), values in spent.items():  # the kernel counts in ticks: only a mean says something
        median = statistics.median(took[context, way])
        print(f"  {context + ', ' + way:28} {statistics.mean(values) * 1e3:13.1f}  {median * 1e3:10.1f}")
    print(f"  the daemon, for both of a job {served_secs / rounds * 1e3:12.1f}")


def make_jobs(count: int) -> dict[JobKey, Job]:
    limits = Limits(wall_secs=420, cpu_secs=840, memory_bytes=2**31, scratch_bytes=10**10)
    keys = [JobKey("slurm", str(number)) for number in range(1, count + 1)]
    return {
        key: Job(
            key=key,
            state=JobState.RUNNING,
            uid=os.getuid(),
            start_secs=START,
            allocated_cpus=2,
            limits=limits,
        )
        for key in keys
    }


def read_tree(source: str) -> dict[str, dict[str, bytes]]:
    return {
        path.removeprefix(source): {name: Path(path, name).read_bytes() for name in names}
        for path, _, names in os.walk(source)
    }


def write_plainly(wanted: dict[str, dict[str, bytes]], target: str) -> None:
    for path, contents in ((target + below, contents) for below, contents in wanted.items()):
        os.makedirs(path, exist_ok=True)
        for name, content in contents.items():
            with open(f"{path}/{name}", "wb", buffering=0) as file:
                file.write(content)


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def bench_daemon(count: int, rounds: int, folder: str) -> None:
    names = ("plain files", "first", "unchanged", "one key changed", "gone")
    times: dict[str, list[float]] = {name: [] for name in names}
    clock = SystemClock()
    config = configured(SiteSettings, machine_hs06="171.04")
    for number in range(rounds):
        root = f"{folder}/tree{number}"
        tree, roster = FeatureTree(root), Roster()
        publisher = Publisher(tree, Site(config), clock)
        jobs = make_jobs(count)
        changed = {key: replace(job, limits=replace(job.limits, wall_secs=421)) for key, job in jobs.items()}

        def update(
            known: dict[JobKey, Job],
            publisher: Publisher = publisher,
            tree: FeatureTree = tree,
            roster: Roster = roster,
        ) -> None:
            now = clock.now_secs() + 60
            table = JobTable(source="slurm", jobs=known, taken_at_secs=now, complete=True)
            roll = roster.judge([table], now_secs=now, published=tree.published(), sources={"slurm"})
            publisher.update(roll)

        times["first"].append(timed(lambda jobs=jobs: update(jobs)))
        files = sum(len(found) for _, _, found in os.walk(root))
        wanted = read_tree(root)
        times["plain files"].append(
            timed(lambda wanted=wanted, root=root: write_plainly(wanted, f"{root}.plain"))
        )
        times["unchanged"].append(timed(lambda jobs=jobs: update(jobs)))
        times["one key changed"].append(timed(lambda changed=changed: update(changed)))
        times["gone"].append(timed(lambda: update({})))
        if publisher.status.failures or publisher.status.published:
            raise SystemExit(f"something went wrong: {publisher.status}")
        shutil.rmtree(root)
        shutil.rmtree(f"{root}.plain")
    base = statistics.median(times["plain files"])
    print(f"daemon, {count} jobs, {files} files, {rounds} rounds   median ms   jobs/s   ratio to plain files")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"  {name:38} {median * 1e3:9.1f}  {count / median:7.0f}   {median / base:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--folder", default="/dev/shm", help="where to write; /run is such a file system")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="bench-publish-", dir=arguments.folder)
    try:
        bench_hook(arguments.rounds, folder)
        bench_prolog(arguments.rounds, folder)
        bench_daemon(arguments.jobs, max(3, arguments.rounds // 8), folder)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
