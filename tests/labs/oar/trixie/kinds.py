"""One job of each kind on a real OAR 2.6, with daemons and the controller role beside them; a test judges what is seen.

    kinds.py FOLDER [KIND...]

With kinds, only these are run and looked at, and nothing is changed while they run: for a slow machine.
Runs as root where up.sh has started OAR and the project is in /opt/jobfeatures-exporter; the standard library only.
FOLDER/seen.json gets what was seen, FOLDER/captured what OAR's commands and files said, word by word.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

FOLDER, SOME = Path(sys.argv[1]), sys.argv[2:]
CAPTURED = FOLDER / "captured"
PRODUCT = Path("/opt/jobfeatures-exporter")
ETC = Path("/etc/jobfeatures-exporter")
OAR = Path("/var/lib/oar")
GROUPS = Path("/sys/fs/cgroup/oar.slice")
GATE = Path("/home/gate")  # locked until jobs may end: a job that waits for it uses no CPU
FEATURES = Path("/run/jobfeatures")
FILES, ASKING, CONTROLLER = "127.0.0.1:9819", "127.0.0.1:9829", "127.0.0.1:9820"
SOCKET = Path("/run/jobfeatures-own/socket")
PATIENCE_SECS = float(os.environ.get("KINDS_PATIENCE", "300"))
PACE = int(os.environ.get("KINDS_PACE", "2"))  # how slow the machine is
UIDS = {"alice": 6001, "bob": 6002}

# What a job sees at its first lines, as packaging/oar/README.md has them.
FIRST = f"""#!/bin/bash
file=$HOME/{{name}}.$OAR_JOB_ID
{{{{
  echo at=$EPOCHSECONDS job=$OAR_JOB_ID
  eval "$({PRODUCT}/bin/jobfeatures env)"
  for path in "$JOBFEATURES"/*; do [ ! -f "$path" ] || echo "feature ${{{{path##*/}}}}=$(<"$path")"; done
  echo JOBFEATURES=$JOBFEATURES JOBSTATUS=$JOBSTATUS MACHINEFEATURES=$MACHINEFEATURES
  echo 1 >"$JOBSTATUS/used_CPU" && echo wrote
}}}} >$file 2>&1
"""
READY = "mv $file $file.ready\n"  # whole
WAIT = f"{READY}flock -s {GATE} true\n"
# It uses CPU, and starts no process: what many of them leave to the kernel fills a small job's memory, and the
# kernel then kills some process of it.
SPIN = f"until [ -s {GATE} ]; do :; done\n"
BURN = "end=$((SECONDS+3)); while [ $SECONDS -lt $end ]; do :; done\n"
IO = "head -c 5000000 /dev/zero >$HOME/zeros; cat $HOME/zeros >/dev/null; rm $HOME/zeros\n"
# Kind of job: its user, oarsub's options, and what it does behind FIRST.
KINDS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "plain": (
        "alice",
        ("-l", "core=2,walltime=0:27:0", "-n", 'weird | "name" ü', "--project", "physics"),
        BURN + IO + "setsid sleep 6000 &\n" + WAIT + "kill $!\n",
    ),
    "array": ("bob", ("-l", "core=1,walltime=0:25:0", "--array", "2"), WAIT),
    "several_cores": ("bob", ("-l", "/nodes=1/core=3,walltime=0:26:0", "--project", "atlas"), WAIT),
    "besteffort": ("alice", ("-l", "core=1,walltime=0:25:0", "-t", "besteffort"), WAIT),
    "preempted": (
        "bob",
        ("-l", "core=1,walltime=0:25:0", "-t", "besteffort", "-p", "core=1"),
        READY + "exec sleep 6000\n",
    ),
    "suspended": (
        "alice",
        ("-l", "core=1,walltime=0:29:0"),
        READY + SPIN,
    ),
    "deleted": ("alice", ("-l", "core=1,walltime=0:25:0"), READY + "exec sleep 6000\n"),
    "failed": ("bob", ("-l", "core=1,walltime=0:25:0"), WAIT + "exit 3\n"),
    "crashed": ("bob", ("-l", "core=1,walltime=0:25:0"), WAIT + "kill -SEGV $$\n"),
    "overtime": ("alice", ("-l", "core=1,walltime=0:1:0"), READY + "exec sleep 6000\n"),
    "signalled": (
        "bob",
        ("-l", "core=1,walltime=0:25:0", "--signal", "10", "--checkpoint", "60"),
        f"trap 'exit 9' USR1\n{READY}while :; do sleep 1; done\n",
    ),
    "prolonged": ("alice", ("-l", "core=1,walltime=0:25:0"), WAIT),
    "moldable": ("bob", ("-l", "core=31,walltime=0:25:0", "-l", "core=2,walltime=0:24:0"), WAIT),
    "container": ("alice", ("-l", "core=2,walltime=0:28:0", "-t", "container"), WAIT),
    "named_like_a_file": (
        "alice",
        ("-l", "core=1,walltime=0:25:0", "-n", "x\nexport OAR_PROJECT_NAME=root"),
        WAIT,
    ),
    "named_like_a_command": (
        "alice",
        (
            *("-l", "core=1,walltime=0:25:0"),
            *("-n", "$(touch ran) `touch ran`", "--project", "p;q|r"),
        ),
        WAIT,
    ),
    "cosystem": ("bob", ("-l", "core=1,walltime=0:25:0", "-t", "cosystem"), WAIT),
}
LATER = ("inner", "interactive", "preempting", "held")
seen: dict[str, object] = {"ids": {}, "failures": []}
ids: dict[str, list[str]] = seen["ids"]  # type: ignore[assignment]
processes: list[subprocess.Popen] = []
gate: list[TextIO] = []  # the file, while we hold it


def run(*words: object, user: str | None = None, stdin: str | None = None, check: bool = True) -> str:
    """Return what a command prints; as a user in a clean environment."""
    command, environ = as_user(user, *words)
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=PATIENCE_SECS, input=stdin,
        cwd=environ["HOME"], errors="replace",
    )  # fmt: skip
    if check and done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def as_user(user: str | None, *words: object) -> tuple[list[str], dict[str, str]]:
    """Return a command and its environment."""
    command = [str(word) for word in words]
    home = f"/home/{user}" if user in UIDS else "/root"
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": home, "SHELL": "/bin/bash", "PWD": home}
    if user:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *command]
        environ |= {"USER": user, "LOGNAME": user}
    return command, environ


def until(condition: Callable[[], object], what: str, timeout_secs: float = PATIENCE_SECS) -> object:
    """Return the first true result, or note that there was none: the tests then say what is missing."""
    deadline = time.monotonic() + timeout_secs
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, KeyError, subprocess.SubprocessError, RuntimeError):
            if result := condition():
                return result
        time.sleep(0.5)
    seen["failures"].append(f"not within {timeout_secs:g} s: {what}")  # type: ignore[attr-defined]
    return None


def page(address: str = FILES, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return answer.read().decode()


def capture(name: str, *words: object, user: str | None = None) -> str:
    """Keep what a command says, whether it succeeds or not."""
    said = run(*words, user=user, check=False)
    (CAPTURED / name).write_text(said)
    return said


def told_by_oar(*more: str) -> dict[str, dict]:
    """Return what oarstat says of jobs, by id: of all that have not ended, unless more is asked."""
    said = run("oarstat", "-J", "-f", *more)
    return json.loads(said) if said.strip() else {}


def every(secs: int) -> str:
    return f"{secs * PACE}s"


# --- what is there before any job -----------------------------------------------------------------


def begin() -> None:
    """Lock the gate, and start the daemon and the controller role by their units, and a daemon that asks it."""
    gate.append(GATE.open())
    fcntl.flock(gate[0], fcntl.LOCK_EX)
    SOCKET.parent.mkdir(mode=0o755, exist_ok=True)
    (ETC / "config.toml").write_text(
        f'[batch]\nsources = ["oar"]\ninterval = "{every(2)}"\n[node]\nname = "oar1"\n[sample]\ninterval = "{every(1)}"\n'
        f'[jobs]\nretain = "{every(20)}"\n[web]\nlisten_address = "{FILES}"\nown_socket = "{FEATURES}/own"\n'
    )
    secret = ETC / "nodes.secret"
    secret.write_text("0123456789abcdef" * 4 + "\n")
    secret.chmod(0o600)
    shutil.chown(secret, "oar")
    (ETC / "controller.toml").write_text(
        f'[batch]\nsources = ["oar"]\n[controller]\ninterval = "{every(5)}"\nlisten = "127.0.0.1:9821"\n'
        f'secret_file = "{secret}"\n[web]\nlisten_address = "{CONTROLLER}"\n'
    )
    run("systemctl", "daemon-reload")
    for unit in ("jobfeatures-exporter", "jobfeatures-controller"):
        run("systemctl", "start", unit)
    token = ETC / "node.token"
    command = ("node-token", "oar1", "--controller.secret-file", secret)
    said = run(PRODUCT / "bin/jobfeatures-exporter", *command, user="oar")
    token.write_text(said.split()[-1] + "\n")
    token.chmod(0o600)
    with (FOLDER / "asking.log").open("wb") as log:
        flags = (
            *("--batch.sources", "oar", "--oar.ask", "controller", "--controller.url", "http://127.0.0.1:9821"),
            *("--controller.token-file", token, "--web.listen-address", ASKING, "--node.name", "oar1"),
            *("--features.root", "/run/jobfeatures-asking", "--web.own-socket", SOCKET),
            *("--batch.interval", every(2)),
            *("--sample.interval", every(2), "--jobs.retain", every(20)),
        )  # fmt: skip
        command = [PRODUCT / "bin/jobfeatures-exporter", "serve", *flags]
        processes.append(subprocess.Popen(list(map(str, command)), stdout=log, stderr=log))
    for address in (FILES, CONTROLLER, ASKING):
        if not until(lambda address=address: page(address, "/-/ready"), f"{address} is ready", 120):
            raise RuntimeError(
                (FOLDER / "asking.log").read_text() + run("journalctl", "-n", "80", check=False)
            )
    threading.Thread(target=watch, daemon=True).start()


# --- the jobs -------------------------------------------------------------------------------------


def script_of(name: str, user: str, text: str) -> Path:
    path = Path(f"/home/{user}/{name}.sh")
    path.write_text(FIRST.format(name=name) + text)
    path.chmod(0o755)
    return path


def oarsub(name: str, user: str, *options: str) -> list[str]:
    said = run("oarsub", *options, script_of(name, user, KINDS.get(name, ("", (), WAIT))[2]), user=user)
    return re.findall(r"(?m)^OAR_JOB_ID=(\d+)$", said)


def try_hooks_alone() -> None:
    """Run a job while there is no daemon: its prologue and epilogue do all."""
    ids["hooked"] = oarsub("hooked", "bob", "-l", "core=1,walltime=0:5:0")
    until(lambda: ready("hooked"), "a job without a daemon has begun")
    [job_id] = ids["hooked"]
    until(lambda: told_by_oar("-j", job_id)[job_id]["state"] == "Terminated", "it has ended")
    seen["left_by_hooks"] = sorted(str(path) for path in FEATURES.glob("job*/*"))
    del ids["hooked"]


def submit() -> None:
    for name, (user, options, _) in KINDS.items():
        if not SOME or name in SOME:
            ids[name] = oarsub(name, user, *options)
    if SOME:
        return
    ids["held"] = oarsub("held", "bob", "-l", "core=1,walltime=26:3:4", "--hold", "--project", "atlas")
    [outer] = ids["container"]
    ids["inner"] = oarsub("inner", "alice", "-l", "core=1,walltime=0:20:0", "-t", f"inner={outer}")
    interactive()


def interactive() -> None:
    """Ask for a shell on a terminal, and have it run what jobs run."""
    path = script_of("interactive", "bob", WAIT)
    # The sleep: when a terminal's first process ends, its hang-up would reach what tells oarexec of the end.
    words = ("script", "-qec", "oarsub -I -n shell -l core=1,walltime=0:23:0; sleep 3000", "/dev/null")
    command, environ = as_user("bob", *words)
    log = (FOLDER / "interactive.log").open("wb")
    shell = subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/home/bob", text=True
    )
    processes.append(shell)
    said = until(
        lambda: re.search(r"OAR_JOB_ID=(\d+)", (FOLDER / "interactive.log").read_text()), "a shell is a job"
    )
    if said:
        ids["interactive"] = [said[1]]
        until(lambda: "bob@oar1" in (FOLDER / "interactive.log").read_text(), "a shell")
        shell.stdin.write(f"{path}; exit\n")  # type: ignore[union-attr]
        shell.stdin.flush()  # type: ignore[union-attr]


def told() -> dict[str, dict[str, str]]:
    """Return what jobs have told, by kind and id."""
    found = {}
    for user in UIDS:
        for path in Path(f"/home/{user}").glob("*.ready"):
            name = path.name.removesuffix(".ready")
            text = path.read_text()
            lines = text.splitlines()
            found[name] = dict(line.removeprefix("feature ").split("=", 1) for line in lines if "=" in line)
            found[name] |= {"wrote": str("wrote" in lines), "user": user, "text": text}
    return found


def ready(name: str) -> bool:
    have = told()
    return all(f"{name}.{job_id}" in have for job_id in ids[name])


def wait_for_ready() -> None:
    for name in (*KINDS, "inner", "interactive"):
        if name in ids:
            until(lambda name=name: ready(name), f"{name} has begun")
    named = re.compile(r'(?m)^batch_job_info\{.*?job_id="([^"]+)".*?,user="\w')
    live = {each for name in ids if name not in ("overtime", "held", "cosystem") for each in ids[name]}
    for address in (FILES, ASKING):
        until(lambda address=address: live <= {*named.findall(page(address))}, f"{address} has all jobs")


# --- what is seen ---------------------------------------------------------------------------------


def kernel(job_id: str, user: str) -> dict[str, object]:
    """Return the kernel's files on a job, and its processes with their io."""
    found: dict[str, object] = {"processes": {}}
    group = GROUPS / f"oar-u{UIDS[user]}.slice/oar-u{UIDS[user]}-j{job_id}.slice"
    found["groups"] = sorted(
        str(each.relative_to(GROUPS)) for each in (group, *group.rglob("*")) if each.is_dir()
    )
    for path in sorted(group.glob("*")):
        if path.name.startswith(("cpu", "memory.", "io.", "pids.", "cgroup.freeze")):
            with contextlib.suppress(OSError):
                found[path.name] = path.read_text()
    for procs in group.rglob("cgroup.procs"):
        for pid in procs.read_text().split():
            with contextlib.suppress(OSError):
                comm = Path(f"/proc/{pid}/comm").read_text().strip()
                found["processes"][pid] = [comm, Path(f"/proc/{pid}/io").read_text()]  # type: ignore[index]
    return found


def features_of(job_id: str) -> dict[str, object]:
    """Return a job's directories: each file with mode, owner and content."""
    found: dict[str, object] = {}
    for kind in ("jobfeatures", "jobstatus", "exports"):
        top = FEATURES / kind / f"oar-{job_id}"
        for path in (top, *(sorted(top.iterdir()) if top.is_dir() else ())):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                text = path.read_text() if path.is_file() else None
                found[str(path.relative_to(FEATURES))] = [f"{status.st_mode:o}", status.st_uid, text]
    return found


def writers_of(job_id: str) -> dict[str, bool]:
    """Return who can make a file in a job's $JOBSTATUS."""
    path = FEATURES / f"jobstatus/oar-{job_id}/tried"
    tried = ("sh", "-c", f"echo 1 >'{path}' && echo could")
    can = {user: run(*tried, user=user, check=False) == "could\n" for user in UIDS}
    path.unlink(missing_ok=True)
    return can


def owners() -> dict[str, str]:
    users = {name: user for name, (user, *_) in KINDS.items()} | {"inner": "alice", "interactive": "bob"}
    return {job_id: users.get(name, "bob") for name, each in ids.items() for job_id in each}


def observe(moment: str) -> None:
    """Keep what OAR, kernel and pages say of all jobs, the kernel's before and after the page of the daemon."""
    whose = owners()
    server = told_by_oar()
    before = {job_id: kernel(job_id, user) for job_id, user in whose.items()}
    asked = time.time()
    text = page()
    after = {job_id: kernel(job_id, user) for job_id, user in whose.items()}
    seen[moment] = {
        "at": asked, "page": text, "before": before, "after": after, "server": server, "asking": page(ASKING),
        "until": time.time(), "features": {job_id: features_of(job_id) for job_id in whose},
    }  # fmt: skip


def wait_for_samples(address: str, count: int = 4) -> None:
    """Wait until a daemon has sampled so many times more, each of which took another time."""
    taken: set[str] = set()

    def is_over() -> bool:
        taken.update(re.findall(r"(?m)^batch_exporter_sample_duration_seconds (.+)$", page(address)))
        return len(taken) > count

    until(is_over, f"{address} has sampled {count} times")


def observe_live() -> None:
    for address in (FILES, ASKING):
        wait_for_samples(address)
    observe("live")
    seen["writers"] = {
        job_id: writers_of(job_id) for job_id in owners() if (FEATURES / f"jobstatus/oar-{job_id}").is_dir()
    }
    seen["machinefeatures"] = {
        path.name: path.read_text() for path in (FEATURES / "machinefeatures").iterdir() if path.is_file()
    }
    [plain] = ids["plain"]
    tool = PRODUCT / "bin/jobfeatures-exporter"
    words = (tool, "report", plain, "--socket", FEATURES / "own", "--format", "json")
    seen["report"] = run(*words, user="alice", check=False)
    environ = [
        f"JOBFEATURES={FEATURES}/jobfeatures/oar-{plain}",
        f"MACHINEFEATURES={FEATURES}/machinefeatures",
    ]
    words = ("env", *environ, PRODUCT / "bin/jobfeatures", "remaining")
    asked = time.time()
    seen["remaining"] = [run(*words, user="alice", check=False).strip(), asked, time.time()]
    captures()


def counted() -> bool:
    """Keep what OAR and the controller role say of queue and cores at one time: one job ends meanwhile.

    The role asks for jobs and for resources one after the other, too.
    """
    text, queue = page(CONTROLLER), told_by_oar()
    jobs = sum(map(float, re.findall(r"(?m)^batch_queue_jobs\{.*\} (\S+)$", text)))
    cores = sum(map(float, re.findall(r'(?m)^batch_cluster_cpus\{.*kind="allocated".*\} (\S+)$', text)))
    assigned = {
        core for job in queue.values() for core in job["assigned_resources"]
    }  # an inner job's are its container's
    seen["controller"], seen["queue"] = text, queue
    return (jobs, cores) == (len(queue), len(assigned)) and {job["state"] for job in queue.values()} <= {
        "Running",
        "Hold",
    }


def captures() -> None:
    """Keep what this version's commands and files say, for fixtures."""
    seen["version"] = re.search(r"[\d.]+", run("oarstat", "-V"))[0]  # type: ignore[index]
    until(counted, "the controller role knows as many jobs as OAR")
    capture("oarstat.json", "oarstat", "-J", "-f")
    capture("oarstat.txt", "oarstat", "-f")
    capture("oarnodes.json", "oarnodes", "-J")
    capture("metrics-controller.txt", "curl", "-s", f"http://{CONTROLLER}/metrics")
    files = CAPTURED / "var-lib-oar"
    files.mkdir(exist_ok=True)
    for path in OAR.iterdir():
        if path.is_file() and re.match(r"\d+\Z|\d+_resources\Z|\w+_\d+\.env\Z", path.name):
            shutil.copy2(path, files)
    capture("slices.txt", "find", GROUPS, "-type", "d")


def change() -> None:
    """Suspend and resume a job, prolong one, signal one, kill one for the sake of another, and delete one."""
    [suspended], [prolonged], [signalled] = ids["suspended"], ids["prolonged"], ids["signalled"]
    run("oarwalltime", prolonged, "+0:10:0", user="alice")
    run("oarhold", "-r", suspended)
    until(lambda: told_by_oar("-j", suspended)[suspended]["state"] == "Suspended", "OAR has suspended a job")
    until(lambda: f'job_id="{suspended}",state="SUSPENDED"' in page(ASKING), "the job is shown as suspended")
    # Until OAR's own stamp is there, what is left is computed from when the group was first seen frozen.
    until(
        lambda: shown(page(ASKING), "remaining", suspended) == left_by_oar(suspended), "OAR's stamp is shown"
    )
    until(lambda: shown(page(ASKING), "wall_limit", prolonged) == 2100, "the new limit is shown")
    observe("suspended")
    capture("oarstat-suspended.json", "oarstat", "-J", "-f")
    time.sleep(3)
    observe("still_suspended")
    run("oarresume", suspended)
    until(lambda: f'job_id="{suspended}",state="RUNNING"' in page(ASKING), "the job is shown as resumed")
    time.sleep(2 * PACE)
    observe("resumed")
    run("oardel", "-s", "USR1", signalled, user="bob")
    ids["preempting"] = oarsub("preempting", "alice", "-l", "core=1,walltime=0:22:0", "-p", "core=1")
    until(lambda: ready("preempting"), "a job has the place of another")
    run("oardel", *ids["deleted"], user="alice")


def shown(text: str, name: str, job_id: str) -> int | None:
    """Return a job's wall limit, or what is left of it, in seconds."""
    found = re.search(
        rf'(?m)^batch_job_{name}_seconds\{{.*?job_id="{job_id}"(,basis="wall_limit")?\}} (\S+)', text
    )
    return round(float(found[2])) if found else None


def left_by_oar(job_id: str) -> int:
    """Return what was left of a job's limit when it was suspended, by OAR's stamps."""
    job = told_by_oar("-j", job_id)[job_id]
    [since_secs] = [each["date"] for each in job["events"] if each["type"] == "HOLD_RUNNING_JOB"]
    return job["walltime"] - (since_secs - job["startTime"])


last: dict[str, dict[str, list[str]]] = {FILES: {}, ASKING: {}}  # what was last shown of each job, by page


def looked(address: str) -> bool:
    """Look at a page, and return whether there are jobs on it."""
    lines = page(address).splitlines()
    found = {line.split('job_id="')[1].split('"')[0] for line in lines if line.startswith("batch_job_info{")}
    for job_id in found:
        last[address][job_id] = [line for line in lines if f'job_id="{job_id}"' in line]
    return bool(found)


def watch() -> None:
    """Look at the pages all the time: some jobs end soon."""
    while True:
        with contextlib.suppress(OSError):
            for address in last:
                looked(address)
        time.sleep(2 * PACE)


def end() -> None:
    """Let all jobs end, and look at the page until none is left."""
    GATE.write_text("open\n")
    fcntl.flock(gate[0], fcntl.LOCK_UN)
    if not SOME:
        run("oardel", *ids["held"], user="bob", check=False)
    until(lambda: not told_by_oar(), "all jobs have ended")
    until(lambda: not any(map(looked, (FILES, ASKING))), "the pages show none of them")
    seen["ever"] = {address: sorted(found) for address, found in last.items()}
    seen["last"] = last
    seen["left"] = [
        str(path)
        for kind in ("jobfeatures", "jobstatus", "exports", "records")
        for path in (FEATURES / kind).glob("oar-*")
    ]
    seen["left_of_oar"] = sorted(str(path) for path in GROUPS.glob("*/*-j*.slice"))
    seen["ran"] = [
        str(folder / "ran") for folder in (OAR, Path("/home/alice"), Path("/")) if (folder / "ran").exists()
    ]
    seen["hooks"] = {path.name: path.read_text().splitlines() for path in Path("/var/log/hooks").iterdir()}
    seen["alive"] = run("oarnodes", "-s").count("Alive")


# What OAR's own tables say of ended jobs: times in epoch seconds, the wall limit in seconds.
TABLE = """
select j.job_id, j.array_id, j.array_index, j.job_user, j.project, j.queue_name, j.state, j.exit_code, j.submission_time,
       j.start_time, j.stop_time, m.moldable_walltime as walltime,
       (select count(*) from assigned_resources a where a.moldable_job_id = j.assigned_moldable_job) as cpus,
       (select string_agg(e.type, ' ' order by e.event_id) from event_logs e where e.job_id = j.job_id) as events
from jobs j left join moldable_job_descriptions m on m.moldable_id = j.assigned_moldable_job order by j.job_id
"""


def accounting() -> None:
    query = f"select json_agg(x) from ({TABLE}) x"
    seen["table"] = json.loads(run("psql", "-qAt", "-h", "127.0.0.1", "-U", "oar", "oar", "-c", query))
    ended = "stop_time >= 1 or stop_time = 0 and state = 'Error'"  # which never ran
    capture("ended.json", "oarstat", "-J", "-f", "--sql", ended)
    tool = PRODUCT / "bin/jobfeatures-exporter"
    seen["sonar"] = run(tool, "sonar", "jobs", "--cluster", "lab", "--batch.sources", "oar")
    capture("oar.log", "cat", "/var/log/oar.log")
    converted = {}
    for kind in ("swf", "sss", "sonar"):
        out = FOLDER / f"ended.{kind}"
        words = ("convert", CAPTURED / "ended.json", out, "--to", kind)
        done = subprocess.run([PRODUCT / "bin/jobfeatures", *words], capture_output=True, text=True)
        text = out.read_text() if out.exists() else ""
        converted[kind] = [done.returncode, done.stderr, text]
    seen["converted"] = converted


def main() -> None:
    CAPTURED.mkdir(parents=True, exist_ok=True)
    GATE.touch(0o644)
    took = {}
    try:
        steps = (try_hooks_alone, begin, submit, wait_for_ready, observe_live, change, end, accounting)
        for step in steps if not SOME else (begin, submit, wait_for_ready, observe_live, end):
            began = time.monotonic()
            step()
            took[step.__name__] = round(time.monotonic() - began, 1)
            print(step.__name__, took[step.__name__], flush=True)
    except Exception:  # noqa: BLE001  # whatever it is, the test shows it beside what was seen
        seen["failures"].append(traceback.format_exc())
    finally:
        seen["told"], seen["took"] = told(), took
        seen["cpu_secs"] = int(Path("/sys/fs/cgroup/cpu.stat").read_text().split()[1]) / 1e6
        for process in processes:
            process.terminate()
        (FOLDER / "journal.log").write_text(run("journalctl", "-u", "jobfeatures*", check=False))
        (FOLDER / "seen.json").write_text(json.dumps(seen))
    print(json.dumps({"took": took, "cpu_secs": seen["cpu_secs"], "failures": seen["failures"]}, indent=1))


main()
