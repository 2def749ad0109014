"""What is new in Slurm 26.05, on a real one, with hooks and the daemon; a test judges what is seen.

    news.py FOLDER

Runs as root in a machine with control groups v2 alone, where nothing of Slurm runs yet and the project is in
/opt/jobfeatures-exporter; the standard library only. FOLDER/seen.json gets what was seen.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from playing import GATE, LAB, PRODUCT, failures, fetch, play, run, until

FOLDER = Path(sys.argv[1])
CONF = LAB / "etc/slurm.conf"
ADDRESS = "127.0.0.1:9840"
FLAGS = ("--batch.sources", "slurm", "--node.name", "lab1")
SETTINGS = "PrologFlags=Alloc,Contain,RunInJob,DeferBatch\nSlurmctldParameters=enable_stepmgr\n"
WAIT = f"flock -s {GATE} true\n"
TELL = "for f in $JOBFEATURES/*; do echo ${f##*/}=$(cat $f); done >$HOME/$SLURM_JOB_ID.tmp; mv $HOME/$SLURM_JOB_ID.tmp $HOME/$SLURM_JOB_ID.first\n"
# Each step tells what it reads, and waits.
STEPS = "".join(
    f"srun --async -n1 --mem=20 --overlap sh -c 'cat $JOBFEATURES/allocated_cpu >$HOME/step.$SLURM_STEP_ID; {WAIT.strip()}'\n"
    for _ in range(3)
)
JOBS = {  # by name: options of sbatch, what the job does behind TELL
    "lowered": (("-n1", "--mem=400"), WAIT),
    "updating": (("-n2", "--mem=200", "--mem-update=50@1", "--stepmgr"), STEPS + WAIT),
    "small": (("-n1", "--mem=10"), WAIT),
}
LINUX = "defaults:\n  auto_base_path: true\n  base_path: /var/spool/namespaces\n"
HIDDEN = {  # by name: NamespaceType, its file, what that says
    "dirs": ("linux", "namespace.yaml", f"{LINUX}  dirs: /run\n"),
    "dir_confs": ("linux", "namespace.yaml", f"{LINUX}  dir_confs:\n    - path: /run\n      tmpfs: true\n"),
    "elsewhere": ("linux", "namespace.yaml", f"{LINUX}  dirs: /dev/shm\n"),
    "tmpfs": (
        "tmpfs",
        "job_container.conf",
        "AutoBasePath=true\nBasePath=/var/spool/containers\nDirs=/run\n",
    ),
}
ids: dict[str, str] = {}
seen: dict[str, object] = {"failures": failures, "ids": ids, "hidden": {}}
processes: list[subprocess.Popen] = []


def start_slurm() -> None:
    settings = {
        "SLURM_LAB_NODES": "1", "SLURM_LAB_CPUS": "8", "SLURM_LAB_DB": "0", "SLURM_LAB_REST": "0", "SLURM_LAB_EXTRA": SETTINGS,
    }  # fmt: skip
    subprocess.run(["/opt/lab/slurm/up.sh"], env={**os.environ, **settings}, check=True, timeout=180)
    for hook in ("prolog", "taskprolog", "epilog"):
        target = LAB / f"scripts/{hook}.d/jobfeatures"
        target.write_text(f"#!/bin/bash\nexec {PRODUCT}/slurm/{hook}.sh\n")
        target.chmod(0o755)


def start_daemon() -> None:
    command = [
        PRODUCT / "bin/jobfeatures-exporter", "serve", *FLAGS, "--web.listen-address", ADDRESS, "--batch.interval", "3s",
        "--batch.refresh", "3s", "--batch.timeout", "30s", "--sample.interval", "1s", "--jobs.retain", "20s", "--jobs.steps",
    ]  # fmt: skip
    with (FOLDER / "daemon.log").open("wb") as log:
        processes.append(subprocess.Popen(command, stdout=log, stderr=log))
    until(lambda: fetch(ADDRESS, "/-/ready"), "the daemon is ready", 60)


def submit() -> None:
    for name, (options, script) in JOBS.items():
        ids[name] = run(
            "sbatch", "--parsable", "-D", "/home/alice", "-o", f"/home/alice/{name}.out", "-t9", *options,
            user="alice", stdin=f"#!/bin/bash\n{TELL}{script}",
        ).strip()  # fmt: skip
    ids["external"] = run(
        "sbatch", "--parsable", "--external", "-n1", "-t9", "--mem=50", user="alice"
    ).strip()
    until(lambda: all(Path(f"/home/alice/{ids[name]}.first").exists() for name in JOBS), "jobs have begun")
    until(lambda: len(list(Path("/home/alice").glob("step.[0-9]"))) == 3, "three steps have begun")
    until(
        lambda: all(f'job_id="{job_id}",' in fetch(ADDRESS) for job_id in ids.values()),
        "the page has all jobs",
    )


def observe(moment: str) -> None:
    records = json.loads(run("scontrol", "show", "job", "--json"))["jobs"]
    server = {str(each["job_id"]): each for each in records}
    groups = {}
    for name in JOBS:
        sluid = server[ids[name]]["step_id"]["sluid"]
        [group] = Path("/sys/fs/cgroup/system.slice").glob(f"lab1_slurmstepd.scope/{sluid}")
        groups[name] = {
            file: (group / file).read_text() for file in ("memory.max", "memory.high", "memory.peak", "memory.events", "cpu.stat")
        }  # fmt: skip
    seen[moment] = {
        "server": server, "kernel": groups, "page": fetch(ADDRESS),
        "features": {name: features_of(job_id) for name, job_id in ids.items()},
    }  # fmt: skip


def features_of(job_id: str) -> dict[str, str]:
    folder = Path(f"/run/jobfeatures/jobfeatures/slurm-{job_id}")
    return {path.name: path.read_text().strip() for path in folder.iterdir()} if folder.is_dir() else {}


def live() -> None:
    until(
        lambda: 'batch_node_jobs_without_group{reason="no_group_expected"} 1' in fetch(ADDRESS),
        "the external job is one without a group",
    )
    observe("live")
    seen["first"] = {name: Path(f"/home/alice/{ids[name]}.first").read_text() for name in JOBS}
    seen["steps"] = sorted(path.read_text().strip() for path in Path("/home/alice").glob("step.[0-9]"))
    seen["doctor"] = doctor()


def doctor() -> str:
    command = [PRODUCT / "bin/jobfeatures-exporter", "doctor", *FLAGS]
    return subprocess.run(command, capture_output=True, text=True, timeout=100).stdout


def shows(series: str, name: str, value: int) -> bool:
    found = re.search(rf'(?m)^{series}\{{[^}}]*job_id="{ids[name]}"[^}}]*\}} (\S+)$', fetch(ADDRESS))
    return found is not None and float(found[1]) == value


def lower() -> None:
    run("scontrol", "update", f"JobId={ids['lowered']}", "MinMemoryNode=250")
    until(lambda: shows("batch_job_allocated_memory_bytes", "lowered", 250 << 20), "the page has less memory")
    until(lambda: shows("batch_job_memory_limit_bytes", "lowered", 250 << 20), "the page has a lower limit")
    observe("lowered")
    [group] = Path("/sys/fs/cgroup/system.slice").glob(
        f"lab1_slurmstepd.scope/{seen['live']['server'][ids['updating']]['step_id']['sluid']}"  # type: ignore[index]
    )

    def limit() -> int:
        return int((group / "memory.max").read_text())

    until(lambda: limit() < 200 << 20, "Slurm has lowered the limit by itself", 150)
    until(lambda: shows("batch_job_memory_limit_bytes", "updating", limit()), "the page has that limit")
    until(
        lambda: features_of(ids["updating"]).get("max_rss_bytes") != str(200 << 20),
        "the job is told less memory",
    )
    observe("updated")


def end() -> None:
    run("scancel", *ids.values())
    until(lambda: not run("squeue", "-h"), "all jobs have ended")
    until(lambda: "batch_job_info{" not in fetch(ADDRESS), "the page has no job")
    seen["last"] = fetch(ADDRESS)
    processes[0].terminate()
    processes[0].wait(60)


def hide() -> None:
    """Have Slurm hide /run from jobs in each way."""
    for name, (kind, file, text) in HIDDEN.items():
        for pid in ("slurmd.lab1", "slurmctld"):
            number = int((LAB / f"run/{pid}.pid").read_text())
            os.kill(number, signal.SIGTERM)
            until(lambda number=number: not Path(f"/proc/{number}").exists(), f"{pid} has ended", 60)
        lines = [
            line
            for line in CONF.read_text().splitlines()
            if not line.startswith(("NamespaceType=", "PrologFlags="))
        ]
        CONF.write_text(
            "\n".join([f"NamespaceType=namespace/{kind}", "PrologFlags=Alloc,Contain", *lines, ""])
        )
        (LAB / "etc" / file).write_text(text)
        run("slurmctld")
        until(lambda: " is UP" in run("scontrol", "ping"), "slurmctld answers")
        run("slurmd", "-N", "lab1")
        until(lambda: run("sinfo", "-h", "-p", "batch", "-o", "%T").strip() == "idle", "the node is idle")
        said = run(
            "srun",
            "-n1",
            "-t2",
            "--mem=50",
            "sh",
            "-c",
            "ls -d /run/jobfeatures/jobfeatures || echo none",
            user="alice",
            check=False,
        )
        seen["hidden"][name] = {"seen": said.strip(), "doctor": doctor()}  # type: ignore[index]


play(FOLDER, (start_slurm, start_daemon, submit, live, lower, end, hide), seen, processes)
