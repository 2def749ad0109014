"""One job of each kind on a real Slurm, with the daemon and the controller role beside them; a test judges what is seen.

    kinds.py FOLDER

Runs as root where up.sh has started Slurm and the project is in /opt/jobfeatures-exporter; the standard library only.
FOLDER/seen.json gets what was seen, FOLDER/captured what servers and commands said, word by word.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TextIO

from playing import GATE, LAB, PRODUCT, failures, fetch, run, until

FOLDER = Path(sys.argv[1])
CAPTURED = FOLDER / "captured"
FEATURES = Path("/run/jobfeatures")
ROOTS = [Path(f"{FEATURES}-lab{n}") for n in (1, 2, 3)]
NODES = {f"lab{n}": f"127.0.0.1:981{n}" for n in (1, 2, 3)}
CONTROLLER = "127.0.0.1:9820"
SOCKET = Path("/run/jobfeatures-own/socket")
PORT = 17817  # slurmctld's
PACE = int(os.environ.get("KINDS_PACE", "1"))  # how slow the machine is: intervals and time limits are longer
UIDS = {"alice": 6001, "bob": 6002}

# What a job sees at its first line, by nothing but the shell.
FIRST = """
file=$HOME/{name}.$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}.${{SLURM_PROCID:-0}}
{{
  echo at=$EPOCHSECONDS job=$SLURM_JOB_ID
  for path in "$JOBFEATURES"/*; do [ ! -f "$path" ] || echo "feature ${{path##*/}}=$(<"$path")"; done
  echo JOBFEATURES=$JOBFEATURES JOBSTATUS=$JOBSTATUS MACHINEFEATURES=$MACHINEFEATURES
  echo 1 >"$JOBSTATUS/used_CPU" && echo wrote
}} >$file 2>&1
"""
READY = "mv $file $file.ready\n"  # whole
WAIT = f"{READY}flock -s {GATE} true\n"
# It uses CPU, and starts no process: what many of them leave to the kernel fills a small job's memory, and the
# kernel then kills slurmstepd, without which the job runs to its limit.
SPIN = f"until [ -s {GATE} ]; do :; done\n"
BURN = "end=$((SECONDS+3)); while [ $SECONDS -lt $end ]; do :; done\n"
IO = "head -c 5000000 /dev/zero >$HOME/zeros; cat $HOME/zeros >/dev/null; rm $HOME/zeros\n"
HOG = "/usr/bin/python3 -c 'kept = [bytearray(2**20) for _ in range(400)]'\n"
SLUID = "s5K1KKYAYG5D00"
EVIL = {
    "JOBFEATURES_SETTINGS": "/home/alice/settings",
    "JOBFEATURES_COMMAND": "/home/alice/command",
    "JOBFEATURES_FEATURES_ROOT": "/home/alice/features",
    "JOBFEATURES_HOOK_TIMEOUT": "900",
    "BASH_ENV": "/home/alice/bashenv",
    "ENV": "/home/alice/bashenv",
    "LD_PRELOAD": "/home/alice/preload.so",
    "LD_LIBRARY_PATH": "/home/alice",
    "PYTHONPATH": "/home/alice/python",
    "PYTHONSTARTUP": "/home/alice/python/sitecustomize.py",
}


def limit(minutes: int) -> str:
    return f"-t{minutes * PACE}"


HET_STEP = "srun --het-group=0,1 bash -c '" + FIRST.replace("'", "") + READY + f"flock -s {GATE} true'\n"
# Kind of job: its user, sbatch's options, and what it does behind FIRST.
KINDS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "plain": (
        "alice",
        ("-n2", limit(7), "--mem=120", "-J", 'weird | "name" ü', "-A", "physics"),
        BURN + IO + WAIT,
    ),
    "array": ("bob", ("-n1", limit(5), "--mem=50", "--array=1-2"), WAIT),
    "steps": (
        "alice",
        ("-n2", limit(6), "--mem=100"),
        # on a slow machine this step was seen to end by SIGUSR2 at once
        f"until srun -n1 --overlap --mem=60 flock -s {GATE} true; do sleep 1; done & srun -n2 --exact --overlap bash -c '{BURN}'\n"
        + READY
        + "wait\n",
    ),
    "exclusive": ("bob", ("-w", "lab3", "--exclusive", limit(5), "--mem=70"), WAIT),
    "mem_per_cpu": ("alice", ("-n1", "-c3", limit(5), "--mem-per-cpu=40"), WAIT),
    "unlimited": ("bob", ("-n1", "-p", "long", "-t", "UNLIMITED", "--mem=40"), WAIT),
    "suspended": (
        "alice",
        ("-n1", limit(9), "--mem=40"),
        READY + SPIN,
    ),
    "requeued": ("bob", ("-n1", limit(8), "--mem=40", "--requeue"), WAIT),
    "gpus": ("bob", ("-n1", limit(5), "--mem=40", "--gres=gpu:1"), WAIT),
    "cancelled": ("alice", ("-n1", limit(5), "--mem=40"), WAIT),
    "failed": ("bob", ("-n1", limit(5), "--mem=40"), WAIT + "exit 3\n"),
    "timeout": ("alice", ("-n1", limit(1), "--mem=40"), READY + "exec sleep 600\n"),
    "oom": ("bob", ("-n1", limit(5), "--mem=64"), WAIT + "sleep 2\n" + HOG + "exit 7\n"),
    "named_like_a_sluid": ("alice", ("-n1", limit(5), "--mem=40", "-J", f"run SLUID={SLUID}"), WAIT),
    "named_like_a_record": (
        "bob",
        ("-n1", limit(5), "--mem=40", "-J", "x\nJobId=1 JobName=y UserId=root(0) JobState=FAILED"),
        WAIT,
    ),
    "exported": (
        "alice",
        ("-n1", limit(5), "--mem=40", "--export=ALL," + ",".join(map("=".join, EVIL.items()))),
        "unset LD_PRELOAD; " + WAIT,
    ),
}
COLUMNS = (
    "JobIDRaw,JobID,User,Account,Partition,State,Submit,Eligible,Start,End,ElapsedRaw,ExitCode,AllocCPUS,ReqCPUS,NNodes,"
    "ReqMem,TimelimitRaw,TotalCPU,MaxRSS,NodeList,UserCPU,SystemCPU,Suspended,JobName"
)
seen: dict[str, object] = {"ids": {}, "failures": failures, "pace": PACE}
last: dict[str, list[str]] = {}  # the last lines that pages had of each job
looking = threading.Lock()  # so that no page replaces a later one's lines
over = threading.Event()
ids: dict[str, list[str]] = seen["ids"]  # type: ignore[assignment]
processes: list[subprocess.Popen] = []
gate: list[TextIO] = []  # the file, while we hold it


def page(address: str | None = None, path: str = "/metrics") -> str:
    """Return a page; without an address those of all nodes."""
    if address is None:
        with looking:
            text = "".join(map(page, NODES.values()))
            for job_id in set(re.findall(r'(?m)^batch_job_info\{.*?job_id="([^"]+)"', text)):
                last[job_id] = [line for line in text.splitlines() if f'job_id="{job_id}"' in line]
        return text
    return fetch(address, path)


def keep_looking() -> None:
    """Look at the pages every few seconds, so that no job leaves them unseen, however long a step takes."""
    while not over.wait(5 * PACE):
        with contextlib.suppress(OSError):
            page()


def capture(name: str, *words: object, user: str | None = None) -> str:
    """Keep what a command says, whether it succeeds or not."""
    said = run(*words, user=user, check=False)
    (CAPTURED / name).write_text(said)
    return said


def states() -> dict[str, str]:
    """Return the states of all jobs that Slurm knows, by raw id."""
    lines = run("squeue", "-h", "-a", "-t", "all", "-o", "%A %T").splitlines()
    return dict(line.split() for line in lines)


# --- what is there before any job -----------------------------------------------------------------


def every(secs: int) -> str:
    return f"{secs * PACE}s"


def begin() -> None:
    """Put the hooks where slurmd runs them, lock the gate, and start daemon and controller role."""
    for hook in ("prolog", "taskprolog", "epilog"):
        target = LAB / f"scripts/{hook}.d/jobfeatures"
        # One machine plays three nodes: each has features, daemon and page of its own.
        root = (
            f"{FEATURES}-${{SLURMD_NODENAME}}"
            if hook != "taskprolog"
            else f"${{JOBFEATURES_FEATURES_ROOT:-{FEATURES}-$SLURMD_NODENAME}}"
        )
        target.write_text(
            f"#!/bin/bash\nexport JOBFEATURES_FEATURES_ROOT={root}\nexec {PRODUCT}/slurm/{hook}.sh\n"
        )
        target.chmod(0o755)
    prepare_traps()
    GATE.touch(0o644)
    gate.append(GATE.open())
    fcntl.flock(gate[0], fcntl.LOCK_EX)
    SOCKET.parent.mkdir(mode=0o755, exist_ok=True)
    for address, *flags in (
        *((address, "--jobs.retain", every(25), "--batch.interval", every(2), "--batch.refresh", every(3), "--batch.timeout", every(30),
           "--sample.interval", every(1), "--jobs.steps", "--node.name", node, "--web.own-socket", f"{SOCKET}-{node}",
           "--features.root", f"{FEATURES}-{node}")
          for node, address in NODES.items()),
        (CONTROLLER, "--role", "controller", "--controller.interval", every(2)),
    ):  # fmt: skip
        command = [
            PRODUCT / "bin/jobfeatures-exporter",
            "serve",
            "--batch.sources",
            "slurm",
            "--web.listen-address",
            address,
            *flags,
        ]
        with (FOLDER / f"{address.rpartition(':')[2]}.log").open("wb") as log:
            processes.append(subprocess.Popen(list(map(str, command)), stdout=log, stderr=log))
        if not until(lambda address=address: page(address, "/-/ready"), f"{address} is ready", 120):
            raise RuntimeError((FOLDER / f"{address.rpartition(':')[2]}.log").read_text())
    threading.Thread(target=keep_looking, name="keep-looking", daemon=True).start()


def prepare_traps() -> None:
    """Write what would show that root ran it: each would leave a file of root's in /home/alice/ran."""
    ran = Path("/home/alice/ran")
    ran.mkdir(mode=0o777)
    ran.chmod(0o777)
    (Path("/home/alice/features")).mkdir()
    touch = f"/usr/bin/touch {ran}/$(/usr/bin/id -u).$(/usr/bin/basename $0)"
    for name in ("settings", "command", "bashenv"):
        Path(f"/home/alice/{name}").write_text(f"#!/bin/sh\n(unset BASH_ENV ENV LD_PRELOAD; {touch})\n")
    Path("/home/alice/command").chmod(0o755)
    python = Path("/home/alice/python")
    python.mkdir()
    (python / "sitecustomize.py").write_text(
        f"import os\nopen('{ran}/' + str(os.getuid()) + '.python', 'w').close()\n"
    )


# --- the jobs -------------------------------------------------------------------------------------


def submit() -> None:
    seen["submitted_secs"] = int(time.time())
    for name, (user, options, script) in KINDS.items():
        where = () if "-w" in options else ("-w", "lab1")
        ids[name] = [
            run(
                "sbatch", "--parsable", "-D", f"/home/{user}", "-o", f"/home/{user}/{name}.out", *where, *options,
                user=user, stdin=f"#!/bin/bash\n{FIRST.format(name=name)}{script}",
            ).strip()
        ]  # fmt: skip
    first = int(
        run(
            "sbatch", "--parsable", "-D", "/home/alice", "-o", "/home/alice/het.out", limit(5), "-w", "lab1", "-n1", "--mem=50",
            ":", "-w", "lab2", "-n1", "--mem=70",
            user="alice", stdin="#!/bin/bash\n" + HET_STEP.format(name="het"),
        ).strip()
    )  # fmt: skip
    ids["het"] = [str(first), str(first + 1)]
    shell = FIRST.format(name="salloc") + WAIT
    command = ["salloc", "-n1", limit(4), "--mem=60", "-w", "lab1", "srun", "bash", "-c", shell]
    environ = {
        "SLURM_CONF": os.environ["SLURM_CONF"],
        "PATH": os.environ["PATH"],
        "HOME": "/home/bob",
        "USER": "bob",
    }
    with (FOLDER / "salloc.log").open("wb") as log:
        words = ["setpriv", "--reuid=bob", "--regid=bob", "--init-groups", *command]
        processes.append(
            subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environ, cwd="/home/bob")
        )  # fmt: skip
    said = until(
        lambda: re.search(r"Granted job allocation (\d+)", (FOLDER / "salloc.log").read_text()),
        "salloc has its nodes",
    )
    ids["salloc"] = [said[1]] if said else []
    array = ids["array"][0]
    until(lambda: sum(key.startswith(array) for key in raw_array(array)) == 2, "both tasks are jobs")
    ids["array"] = sorted(raw_array(array).values(), key=int)
    seen["array_tasks"] = raw_array(array)


def raw_array(array: str) -> dict[str, str]:
    """Return the raw ids of the array's tasks that run, by array id and task."""
    lines = run("squeue", "-h", "-a", "-t", "R", "-j", array, "-o", "%F_%K %A").splitlines()
    return dict(line.split() for line in lines)


def told() -> dict[str, dict[str, str]]:
    """Return what jobs have told, by kind, raw id, run and rank."""
    found = {}
    for user in UIDS:
        for path in Path(f"/home/{user}").glob("*.ready"):
            name = path.name.removesuffix(".ready")
            found[name] = dict(
                line.removeprefix("feature ").split("=", 1)
                for line in path.read_text().splitlines()
                if "=" in line
            )
            found[name]["wrote"] = str("wrote" in path.read_text().splitlines())
            found[name]["user"] = user
    return found


def wait_for_ready() -> None:
    names = (*KINDS, "het", "salloc")

    def ready() -> bool:
        have = told()
        return all(
            sum(key.startswith(f"{name}.") for key in have) >= (2 if name in ("array", "het") else 1)
            for name in names
        )

    until(ready, "all jobs have begun")
    live = [
        each for name in names if name not in ("timeout", "oom") for each in ids[name] if name != "requeued"
    ]
    until(lambda: {*live} <= named(page()), "all jobs have their names on the page")


def named(text: str) -> set[str]:
    return {
        each
        for each, name in re.findall(
            r'(?m)^batch_job_info\{.*?job_id="([^"]+)".*?,name="((?:[^"\\]|\\.)*)"', text
        )
        if name
    }


# --- what is seen ---------------------------------------------------------------------------------


def groups_of(job_id: str, sluid: str | None) -> list[Path]:
    """Return the job's control groups, one a controller on v1."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        wanted = (f"job_{job_id}", sluid or "-")
        return [each for name in wanted for each in root.glob(f"system.slice/*slurmstepd.scope/{name}")]
    return list(root.glob(f"*/slurm_*/uid_*/job_{job_id}"))


FILES = (
    "cpu.stat", "cpuacct.usage", "cpuacct.stat", "memory.stat", "memory.current", "memory.usage_in_bytes", "memory.peak",
    "memory.max_usage_in_bytes", "memory.max", "memory.limit_in_bytes", "memory.events", "io.stat",
)  # fmt: skip


def kernel(job_id: str, sluid: str | None) -> dict[str, object]:
    """Return the kernel's files on a job, and its processes with their io."""
    found: dict[str, object] = {"path": [], "processes": {}}
    for group in groups_of(job_id, sluid):
        found["path"].append(str(group))  # type: ignore[attr-defined]
        for name in FILES:
            with contextlib.suppress(OSError):
                found[name] = (group / name).read_text()
        for procs in group.rglob("cgroup.procs"):
            for pid in procs.read_text().split():
                with contextlib.suppress(OSError):
                    comm = Path(f"/proc/{pid}/comm").read_text().strip()
                    found["processes"][pid] = [comm, Path(f"/proc/{pid}/io").read_text()]  # type: ignore[index]
    return found


def features_of(job_id: str) -> dict[str, object]:
    """Return a job's directories: each file with mode, owner and content."""
    found: dict[str, object] = {}
    for root, kind in itertools.product(ROOTS, ("jobfeatures", "jobstatus", "exports")):
        top = root / kind / f"slurm-{job_id}"
        for path in (top, *(sorted(top.iterdir()) if top.is_dir() else ())):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                found[str(path.relative_to(root))] = [
                    f"{status.st_mode:o}",
                    status.st_uid,
                    path.read_text() if path.is_file() else None,
                ]
    return found


def writers_of(job_id: str) -> dict[str, bool]:
    """Return who can make a file in a job's $JOBSTATUS."""
    [path] = [
        root / f"jobstatus/slurm-{job_id}/tried"
        for root in ROOTS
        if (root / f"jobstatus/slurm-{job_id}").is_dir()
    ]
    can = {}
    for user in UIDS:
        can[user] = run("sh", "-c", f"echo 1 >'{path}' && echo could", user=user, check=False) == "could\n"
    path.unlink(missing_ok=True)
    return can


def document() -> dict[str, dict]:
    """Return the server's records of jobs by id."""
    answer = json.loads(run("scontrol", "show", "job", "-a", "-d", "--json"))
    return {str(each["job_id"]): each for each in answer["jobs"]}


def sluid_of(record: dict) -> str | None:
    return (record.get("step_id") or {}).get("sluid") or None


def observe(moment: str) -> None:
    """Keep what server, kernel and page say of all jobs, the kernel's before and after the page."""
    server = document()
    wanted = {job_id: sluid_of(server.get(job_id, {})) for each in ids.values() for job_id in each}
    before = {job_id: kernel(job_id, sluid) for job_id, sluid in wanted.items()}
    asked = time.time()
    text = page()
    after = {job_id: kernel(job_id, sluid) for job_id, sluid in wanted.items()}
    seen[moment] = {
        "at": asked, "page": text, "before": before, "after": after, "server": server,
        "until": time.time(), "features": {job_id: features_of(job_id) for job_id in wanted},
    }  # fmt: skip


def wait_for_samples(address: str, count: int = 4) -> None:
    """Wait until a daemon has sampled so many times more, each of which took another time."""
    taken: set[str] = set()

    def is_over() -> bool:
        taken.update(re.findall(r"(?m)^batch_exporter_sample_duration_seconds (.+)$", page(address)))
        return len(taken) > count

    until(is_over, f"{address} has sampled {count} times")


def observe_live() -> None:
    for address in NODES.values():
        wait_for_samples(address)
    observe("live")
    live = [job_id for each in ids.values() for job_id in each]
    seen["writers"] = {
        job_id: writers_of(job_id)
        for job_id in live
        if any((root / f"jobstatus/slurm-{job_id}").is_dir() for root in ROOTS)
    }  # fmt: skip
    seen["machinefeatures"] = {
        path.name: path.read_text() for path in (ROOTS[0] / "machinefeatures").iterdir() if path.is_file()
    }
    plain = ids["plain"][0]
    tool = PRODUCT / "bin/jobfeatures-exporter"
    seen["report"] = run(
        tool, "report", plain, "--socket", f"{SOCKET}-lab1", "--format", "json", user="alice", check=False
    )
    environ = [
        f"JOBFEATURES={ROOTS[0]}/jobfeatures/slurm-{plain}",
        f"MACHINEFEATURES={ROOTS[0]}/machinefeatures",
    ]
    asked = time.time()
    seen["remaining"] = [
        run("env", *environ, PRODUCT / "bin/jobfeatures", "remaining", user="alice", check=False).strip(),
        asked,
        time.time(),
    ]
    captures()


def captures() -> None:
    """Keep what this version's commands and servers say, for fixtures."""
    seen["version"] = run("scontrol", "--version").split()[-1]
    capture("scontrol.txt", "scontrol", "-a", "-o", "-d", "show", "job")
    capture("squeue.json", "squeue", "--json")
    capture("scontrol-job.json", "scontrol", "-a", "-d", "show", "job", "--json")
    capture("scontrol-node.txt", "scontrol", "-a", "-o", "-d", "show", "node")
    capture("scontrol-partition.txt", "scontrol", "-a", "-o", "-d", "show", "partition")
    capture("sdiag.txt", "sdiag")
    capture("squeue.txt", "squeue", "-a", "-h", "-t", "all", "-o", "%A|%T|%P|%C|%D|%r")
    seen["controller"] = page(CONTROLLER)
    capture("metrics-controller.txt", "curl", "-s", f"http://{CONTROLLER}/metrics")
    for name in ("jobs", "nodes", "partitions", "scheduler", "jobs-users-accts"):
        said = run("curl", "-s", "--max-time", "30", f"http://127.0.0.1:{PORT}/metrics/{name}", check=False)
        if said:
            (CAPTURED / f"metrics-{name}.txt").write_text(said)
            seen.setdefault("slurmctld", {})[name] = said  # type: ignore[index]
    seen["squeue"] = (CAPTURED / "squeue.txt").read_text()
    rest = LAB / "run/slurmrestd.sock"
    if rest.exists():
        for version in range(40, 46):
            for what in ("jobs", "nodes", "partitions", "reservations", "diag"):
                url = f"http://localhost/slurm/v0.0.{version}/{what}"
                said = run("curl", "-s", "--max-time", "60", "--unix-socket", rest, url, check=False)
                if said.startswith("{") and not json.loads(said).get("errors"):
                    (CAPTURED / f"rest-v0.0.{version}-{what}.json").write_text(said)


def says_frozen(job_id: str) -> bool | None:
    """Return whether the kernel says that the processes of a job's script are frozen; None: it says nothing."""
    for group in groups_of(job_id, sluid_of(document()[job_id])):
        for name, word in (("freezer.state", "FROZEN"), ("user/cgroup.events", "frozen 1")):
            with contextlib.suppress(FileNotFoundError):
                return word in (group / "step_batch" / name).read_text()
    return None


def cpu_secs_of(job_id: str) -> float:
    text = page()
    found = re.findall(rf'(?m)^batch_job_cpu_seconds_total\{{.*job_id="{job_id}",.*\}} (\S+)$', text)
    return sum(map(float, found))


def suspend_and_requeue() -> None:
    [suspended], [requeued] = ids["suspended"], ids["requeued"]
    run("scontrol", "suspend", suspended)
    # Its answers say so at once; it freezes the processes seconds later, which a resumption is not to forestall.
    until(lambda: says_frozen(suspended), "the kernel has frozen the suspended job")
    until(lambda: f'job_id="{suspended}",state="SUSPENDED"' in page(), "the page shows the suspended job so")
    observe("suspended")
    time.sleep(3)
    observe("still_suspended")
    run("scontrol", "resume", suspended)
    until(lambda: says_frozen(suspended) is False, "the kernel has thawed the resumed job")
    used = cpu_secs_of(suspended)
    until(lambda: cpu_secs_of(suspended) > used + 0.2, "the resumed job computes again")
    until(lambda: f'job_id="{suspended}",state="RUNNING"' in page(), "the page shows the resumed job so")
    observe("resumed")
    run("scontrol", "requeue", requeued)
    until(lambda: f"requeued.{requeued}.1.0" in told(), "the requeued job has begun again")
    until(
        lambda: re.search(rf'batch_job_restarts\{{.*job_id="{requeued}"\}} 1', page()),
        "the page knows the restart",
    )


closely: list[str] = []


def look_closely() -> None:
    """Keep what Slurm and the kernel say of the jobs that are still here."""
    closely.append(run("squeue", "-a", "-o", "%A %T %M %R"))
    closely.append(run("ps", "-eo", "pid,ppid,pgid,stat,wchan:20,time,etime,args"))
    for name in ("freezer.state", "cgroup.events"):
        closely.extend(
            f"{path}: {path.read_text()}" for path in Path("/sys/fs/cgroup").rglob(f"*step_*/{name}")
        )
    closely.extend(path.read_text(errors="replace")[-10_000:] for path in (LAB / "log").glob("slurmd.*.log"))


def end() -> None:
    """Let all jobs end, and look at the page until none is left."""
    run("scancel", *ids["cancelled"])
    GATE.write_text("open\n")
    fcntl.flock(gate[0], fcntl.LOCK_UN)

    def all_gone() -> bool:
        return "batch_job_info{" not in page()

    until(
        lambda: (
            all_gone()
            | (set(states().values()).isdisjoint({"RUNNING", "PENDING", "COMPLETING", "SUSPENDED"}))
        ),
        "all jobs have ended",
    )
    seen["ended_states"] = states()
    if seen["failures"]:
        look_closely()
    until(all_gone, "the page shows none of them")
    over.set()
    seen["ever"], seen["last"] = sorted(last), last
    left = [
        str(path)
        for root, kind in itertools.product(ROOTS, ("jobfeatures", "jobstatus", "exports", "records"))
        for path in (root / kind).glob("slurm-*")
    ]
    seen["left"] = left
    seen["ran"] = {
        path.name: path.stat().st_uid
        for path in (*Path("/home/alice/ran").iterdir(), *Path("/home/alice/features").iterdir())
    }
    seen["hooks"] = {
        path.name: path.read_text().splitlines()
        for path in (LAB / "log").glob("*.env")
        if path.name.split(".")[0] in ("prolog", "epilog", "taskprolog")
    }


def accounting() -> None:
    if not (LAB / "run/slurmdbd.pid").exists():
        return
    wanted = {job_id for each in ids.values() for job_id in each}

    def whole() -> bool:
        lines = run("sacct", "-a", "-X", "-n", "-P", "-o", "JobIDRaw,End,State").splitlines()
        ended = {
            line.split("|")[0]
            for line in lines
            if "Unknown" not in line and "RUNNING" not in line and "PENDING" not in line
        }
        return wanted <= ended

    until(whole, "accounting knows the ends")
    seen["sacct"] = capture("sacct.txt", "sacct", "-a", "-D", "-P", "--delimiter=\x1f", "-o", COLUMNS)
    capture("sacct.json", "sacct", "-a", "-D", "--json")
    converted = {}
    for source in ("sacct.txt", "sacct.json"):
        for kind in ("swf", "sss", "sonar"):
            out = FOLDER / f"{source}.{kind}"
            done = subprocess.run(
                [
                    PRODUCT / "bin/jobfeatures",
                    "convert",
                    CAPTURED / source,
                    out,
                    "--to",
                    kind,
                    "--zone",
                    "UTC",
                ],
                capture_output=True,
                text=True,
            )
            converted[f"{source} {kind}"] = [
                done.returncode,
                done.stderr,
                out.read_text() if out.exists() else "",
            ]
    seen["converted"] = converted
    play_for_logs()


# What else a log may tell: jobs that end otherwise, and that live.
LOGGED = {
    "resized": (("-N2", "-n2", "--mem=10"), "sleep 600"),
    "removed": (("-n1", "--begin=now+1hour"), "true"),
    "waiting": (("-n1", "--hold"), "true"),
    "running": (("-n1", "--mem=10"), "sleep 600"),
}
LOG_COLUMNS = (
    "JobIDRaw,JobID,User,Group,Account,Partition,JobName,State,Submit,Eligible,Start,End,ElapsedRaw,Elapsed,ExitCode,"
    "AllocCPUS,ReqCPUS,NNodes,ReqNodes,ReqMem,TimelimitRaw,TotalCPU,AllocTRES,ReqTRES,MaxRSS,NodeList,Suspended"
)


def play_for_logs() -> None:
    """Play some more jobs, and keep what accounting says of all, as text and as JSON."""
    more = {
        name: run("sbatch", "--parsable", "-D", "/home/alice", "-o", "/dev/null", *options,
                  user="alice", stdin=f"#!/bin/bash\n{script}\n").strip()
        for name, (options, script) in LOGGED.items()
    }  # fmt: skip
    until(
        lambda: [states().get(more[name]) for name in ("resized", "running")] == ["RUNNING"] * 2, "they run"
    )
    time.sleep(2)  # each part takes seconds that can be told apart
    run("scontrol", "update", f"JobId={more['resized']}", "NumNodes=1")
    run("scancel", more["removed"])
    time.sleep(2)
    run("scancel", more["resized"])
    wanted = {"resized": "CANCELLED", "removed": "CANCELLED", "waiting": "PENDING", "running": "RUNNING"}

    def said() -> dict[str, str]:
        asked = ("-j", ",".join(more.values()))  # else those that have not started are left out
        lines = run("sacct", "-a", "-X", "-n", "-P", *asked, "-o", "JobIDRaw,State").splitlines()
        return {job_id: state.split()[0] for job_id, state in (line.split("|") for line in lines)}

    until(lambda: {name: said().get(more[name]) for name in wanted} == wanted, "accounting knows these jobs")
    # Text escapes nothing: the job whose name has a newline is left out.
    chosen = [each for name, every in ids.items() if name != "named_like_a_record" for each in every]
    asked = ("sacct", "-a", "-D", "-j", ",".join([*chosen, *more.values()]))
    seen["logged"] = {
        "ids": more,
        "jobs": chosen,
        "sacct": capture("log.txt", "env", "TZ=UTC", *asked, "-P", "--delimiter=\x1f", "-o", LOG_COLUMNS),
        "slurmjson": capture("log.json", *asked, "--json"),
    }
    run("scancel", more["waiting"], more["running"])


def main() -> None:
    CAPTURED.mkdir(parents=True, exist_ok=True)
    took = {}
    try:
        for step in (begin, submit, wait_for_ready, observe_live, suspend_and_requeue, end, accounting):
            began = time.monotonic()
            step()
            took[step.__name__] = round(time.monotonic() - began, 1)
    except Exception:  # noqa: BLE001  # whatever it is, the test shows it beside what was seen
        failures.append(traceback.format_exc())
    finally:
        over.set()
        seen["told"], seen["took"] = told(), took
        for process in processes:
            process.terminate()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        (FOLDER / "seen.json").write_text(json.dumps(seen))
    print(json.dumps({"took": took, "failures": failures}, indent=1))
    if failures:  # why the server started a job again, or did not start it
        print(*closely, sep="\n")
        print((LAB / "log/slurmctld.log").read_text(errors="replace")[-20_000:])


main()
