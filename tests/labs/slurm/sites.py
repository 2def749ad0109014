"""Slurm 26.05 as sites set it up: each node's slurmd has its control groups elsewhere; a test judges what is seen.

    sites.py FOLDER [long]

Runs as root in a machine with control groups v2 alone, where nothing of Slurm runs yet and the project is in
/opt/jobfeatures-exporter; the standard library only. FOLDER/seen.json gets what was seen. No hooks: our daemons find
jobs by their groups alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from playing import GATE, LAB, PATIENCE_SECS, PRODUCT, failures, fetch, play, run, until

FOLDER, IS_LONG = Path(sys.argv[1]), "long" in sys.argv[2:]
GROUPS = Path("/sys/fs/cgroup")
PLAY = Path("/home/play.py")
CONTAINER = "0123456789abcdef" * 4
POD = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d.slice/cri-containerd-{CONTAINER}.scope"
DOCKER = f"docker/{CONTAINER[::-1]}"
CONTROLLERS = "+cpu +io +memory +pids"
FORGED = "4242"  # a job that Slurm does not know


class Site(NamedTuple):
    """What is particular about a node: lines of cgroup.conf, and the group of the container in which slurmd is process 1."""

    settings: str = ""
    container: str = ""


SITES = {
    "lab3": Site("CgroupSlice=one.slice/one-two.slice/one-two-three.slice\n"),
    "lab5": Site(container=POD),
}
# Our daemons by name: the node, and how they are started there.
DAEMONS = {"lab3": ("lab3", "host"), "lab5 apart": ("lab5", "apart")}
if IS_LONG:
    SITES |= {
        "lab2": Site("CgroupSlice=slurm.slice\n"),
        "lab4": Site("CgroupJobIdPaths=yes\nEnableExtraControllers=io,pids\n"),
        "lab6": Site("CgroupSlice=nested.slice/deeper.slice\nCgroupJobIdPaths=yes\n", DOCKER),
        "lab7": Site(container="lxc.payload.101"),
        "lab8": Site(container="machine.slice/machine-node8.scope/payload"),
    }
    DAEMONS |= {node: (node, "host") for node in SITES} | {
        "lab3 apart": ("lab3", "apart"),
        "lab5 inside": ("lab5", "inside"),
        "lab6 inside": ("lab6", "inside"),
        "lab7 unnamed": ("lab7", "unnamed"),  # nothing says where its container is
    }
ADDRESSES = {name: f"127.0.0.1:{9840 + n}" for n, name in enumerate(DAEMONS)}
seen: dict[str, object] = {"failures": failures, "ids": {}, "daemons": DAEMONS}
ids: dict[str, str] = seen["ids"]  # type: ignore[assignment]  # by node
processes: list[subprocess.Popen] = []
inits: dict[str, int] = {}  # process 1 of each container, by node

# One process of a job: MIB of memory, a second of CPU; then it says that it is ready, and waits for the gate.
PLAYED = f"""
import fcntl, os, sys, time
kept = b"x" * (int(sys.argv[1]) << 20)
while time.process_time() < 1:
    pass
os.close(os.open("{{}}/{{}}.ready.{{}}".format(os.environ["HOME"], os.environ["SLURM_JOB_ID"], sys.argv[2]), os.O_CREAT))
fcntl.flock(open("{GATE}"), fcntl.LOCK_SH)
"""
JOB = f"""#!/bin/bash
python3 -S {PLAY} 30 batch &
srun -n1 --overlap --mem=60 python3 -S {PLAY} 5 step &
until [ -e $HOME/$SLURM_JOB_ID.ready.batch ] && [ -e $HOME/$SLURM_JOB_ID.ready.step ]; do sleep 0.5; done
for i in {{1..300}}; do
    set -- /run/jobfeatures-$SLURMD_NODENAME*/jobfeatures/slurm-$SLURM_JOB_ID/cpu_limit_secs
    [ ! -e "$1" ] || break
    sleep 2
done
export JOBFEATURES=${{1%/*}}
{PRODUCT}/bin/jobfeatures remaining --explain >$HOME/$SLURM_JOB_ID.remaining 2>&1
mv $HOME/$SLURM_JOB_ID.remaining $HOME/$SLURM_JOB_ID.told
wait
"""


# --- the nodes ------------------------------------------------------------------------------------


def start_slurm() -> None:
    nodes = "".join(
        f"NodeName={node} NodeHostname=uml NodeAddr=127.0.0.1 Port={17820 + int(node[3:])} CPUs=8 RealMemory=2000 State=UNKNOWN\n"
        for node in SITES
    )
    settings = {"SLURM_LAB_NODES": "1", "SLURM_LAB_CPUS": "8", "SLURM_LAB_DB": "0", "SLURM_LAB_REST": "0"}
    subprocess.run(
        ["/opt/lab/slurm/up.sh"],
        env={**os.environ, **settings, "SLURM_LAB_EXTRA": nodes},
        check=True,
        timeout=180,
    )
    for node, site in SITES.items():
        (LAB / f"spool/{node}").mkdir()
        conf = LAB / f"etc-{node}"
        shutil.copytree(LAB / "etc", conf)
        with (conf / "cgroup.conf").open("a") as file:
            file.write(site.settings)
        command = ["slurmd", "-D", "-N", node, "-f", str(conf / "slurm.conf")]
        start_in_container(node, site.container, command) if site.container else start(node, command)
    until(
        lambda: run("sinfo", "-h", "-N", "-p", "batch", "-o", "%T").split().count("idle") == len(SITES) + 1,
        "all nodes are idle",
    )


def start(name: str, command: list[str], env: dict[str, str] | None = None) -> subprocess.Popen:
    """Start a daemon, in a session of its own."""
    with (FOLDER / f"{name.replace(' ', '-')}.log").open("wb") as log:
        processes.append(
            subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=env
            )
        )
    return processes[-1]


def make_group(path: str) -> Path:
    """Make a group and those above it, each of which hands its controllers on to the next."""
    group = GROUPS
    for name in Path(path).parts:
        (group / "cgroup.subtree_control").write_text(CONTROLLERS)
        group /= name
        group.mkdir(exist_ok=True)
    return group


def start_in_container(node: str, path: str, command: list[str]) -> None:
    """Start slurmd as process 1 of namespaces of its own, as in a pod: it sees its own groups and processes alone."""
    group = make_group(path)
    script = (
        "umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup && mount -t proc proc /proc || exit; "
        # slurmd refuses a group with processes that it does not see: who waits outside leaves it first
        'while grep -qx 0 /sys/fs/cgroup/cgroup.procs; do sleep 0.1; done; exec "$@"'
    )
    unshare = [
        "unshare",
        "--cgroup",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
    ]
    outside = start(
        node,
        [
            "sh",
            "-c",
            'echo $$ >"$0/cgroup.procs" && exec "$@"',
            str(group),
            *unshare,
            "sh",
            "-c",
            script,
            "sh",
            *command,
        ],
    )
    inits[node] = int(until(lambda: run("pgrep", "-P", outside.pid), f"{node} has its container", 20))
    (GROUPS / "init.scope/cgroup.procs").write_text(str(outside.pid))


# --- our daemons ----------------------------------------------------------------------------------


def flags_of(name: str) -> list[str]:
    node, how = DAEMONS[name]
    container = SITES[node].container
    is_named = container and how not in ("inside", "unnamed")
    parents = ["--batch.cgroup-parents", f"/{container}"] if is_named else []
    root = f"/run/jobfeatures-{name.replace(' ', '-')}"
    return ["--batch.sources", "slurm", "--node.name", node, "--features.root", root, *parents]


def placed(name: str, command: list[str]) -> list[str]:
    """Return a command that runs another where this daemon runs."""
    node, how = DAEMONS[name]
    if how == "inside":
        return ["nsenter", "-t", str(inits[node]), "--mount", "--pid", "--cgroup", *command]
    if (
        how == "apart"
    ):  # as podman and docker do: the host's groups by a mount, a control group namespace of its own
        group = make_group("machine.slice/libpod-5a5a5a5a.scope/container")
        script = 'echo $$ >"$0/cgroup.procs" && exec unshare --cgroup "$@"'
        return ["sh", "-c", script, str(group), *command]
    return command


def start_daemons() -> None:
    for name, address in ADDRESSES.items():
        command = [
            str(PRODUCT / "bin/jobfeatures-exporter"), "serve", *flags_of(name), "--web.listen-address", address,
            "--batch.interval", "3s", "--batch.refresh", "3s", "--batch.timeout", "30s", "--sample.interval", "1s",
            "--jobs.retain", "20s", "--jobs.steps",
        ]  # fmt: skip
        start(name + " daemon", placed(name, command))
    for name, address in ADDRESSES.items():
        until(lambda address=address: fetch(address, "/-/ready"), f"the daemon {name} is ready")


# --- jobs, and what only looks like one -----------------------------------------------------------


def submit() -> None:
    for node in SITES:
        ids[node] = run(
            "sbatch", "--parsable", "-D", "/home/alice", "-o", f"/home/alice/{node}.out", "-w", node, "-n2", "-t9",
            "--mem=120", "-J", f"of {node}", user="alice", stdin=JOB,
        ).strip()  # fmt: skip


def forge() -> None:
    """Make by hand, with no batch daemon near, what slurmstepd makes: of a job that nobody knows, and of real ones."""
    by_hand = {
        "unknown": f"alpha.slice/beta.slice/gamma.slice/lab3_slurmstepd.scope/job_{FORGED}",
        "user's": f"user.slice/user-6002.slice/user@6002.service/app.slice/slurmstepd.scope/job_{ids['lab5']}",
    }
    if IS_LONG:
        by_hand["known"] = f"alpha.slice/beta.slice/gamma.slice/lab4_slurmstepd.scope/job_{ids['lab4']}"
    for job, scope in by_hand.items():
        group = make_group(f"{scope}/step_0/user/task_0")
        script = 'echo $$ >"$0/cgroup.procs" && exec python3 -S "$@"'
        environ = {**os.environ, "HOME": "/run", "SLURM_JOB_ID": f"forged-{job}".replace("'", "")}
        start(f"forged {job}", ["sh", "-c", script, str(group), str(PLAY), "50", "forged"], env=environ)


def wait_until_ready() -> None:
    for node, job_id in ids.items():
        until(
            lambda job_id=job_id: Path(f"/home/alice/{job_id}.told").exists(),
            f"{node}'s job {job_id} is ready",
        )
    for name, address in ADDRESSES.items():
        wait_for_samples(name, address)


def wait_for_samples(name: str, address: str, count: int = 3) -> None:
    """Wait until a daemon has sampled so many times more, each of which took another time."""
    taken: set[str] = set()

    def is_over() -> bool:
        taken.update(re.findall(r"(?m)^batch_exporter_sample_duration_seconds (.+)$", fetch(address)))
        return len(taken) > count

    until(is_over, f"the daemon {name} has sampled {count} times")


# --- what is seen ---------------------------------------------------------------------------------


def kernel(node: str) -> dict[str, object]:
    """Return the path of a node's job's group, the kernel's files in it, and its processes and threads."""
    [record] = json.loads(run("scontrol", "show", "job", ids[node], "--json"))["jobs"]
    names = {f"job_{ids[node]}", record["step_id"]["sluid"]}
    found = [each for each in GROUPS.rglob(f"{node}_slurmstepd.scope/*") if each.name in names]
    [group] = [each for each in found if "alpha.slice" not in each.parts]
    pids = [int(pid) for procs in group.rglob("cgroup.procs") for pid in procs.read_text().split()]
    files = {
        path.name: path.read_text() for path in group.iterdir() if path.name.startswith(("cpu.stat", "memory.", "pids.", "io."))
        and os.access(path, os.R_OK) and path.name not in ("memory.reclaim", "memory.numa_stat")
    }  # fmt: skip
    return {
        "path": str(group.relative_to(GROUPS)),
        "files": files,
        "processes": len(pids),
        "sluid": record["step_id"]["sluid"],
    }


def samples(name: str) -> str:
    """Return the series that tell of jobs without a group."""
    return "".join(re.findall(r"(?m)^batch_node_jobs_without_group\{.*$", fetch(ADDRESSES[name])))


def observe() -> None:
    if IS_LONG:  # a job is missed after a minute
        until(lambda: "no_group_found" in samples("lab7 unnamed"), "a job without a group is counted", 150)
    seen["before"] = {node: kernel(node) for node in SITES}
    seen["pages"] = {name: fetch(address) for name, address in ADDRESSES.items()}
    seen["after"] = {node: kernel(node) for node in SITES}
    seen["told"] = {node: Path(f"/home/alice/{job_id}.told").read_text() for node, job_id in ids.items()}
    seen["doctor"] = {}
    for name in ("lab3", "lab5", "lab6 inside", "lab7 unnamed") if IS_LONG else ("lab3",):
        command = [str(PRODUCT / "bin/jobfeatures-exporter"), "doctor", *flags_of(name)]
        done = subprocess.run(placed(name, command), capture_output=True, text=True, timeout=PATIENCE_SECS)
        seen["doctor"][name] = [done.returncode, done.stdout + done.stderr]  # type: ignore[index]


def end() -> None:
    run("scancel", *ids.values())
    until(lambda: not run("squeue", "-h"), "all jobs have ended")
    until(
        lambda: all("batch_job_info{" not in fetch(each) for each in ADDRESSES.values()), "no page has a job"
    )
    seen["left"] = [str(path) for path in Path("/run").glob("jobfeatures-*/jobfeatures/slurm-*")]
    seen["last"] = {name: fetch(address) for name, address in ADDRESSES.items()}


PLAY.write_text(PLAYED)
play(FOLDER, (start_slurm, submit, forge, start_daemons, wait_until_ready, observe, end), seen, processes)
