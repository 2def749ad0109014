"""Runs in the machine, as root, beside systemd: the units installed, started, reloaded, starved, stopped.

    scenario.py UNITS VARIANTS LIBRARY PYTHON STEP...

Its last line is what it saw, as JSON; the tests judge it. UNITS and VARIANTS
are the folders of packaging, LIBRARY has the project and what it imports.
"""

import contextlib
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from pathlib import Path

UNITS, VARIANTS, LIBRARY, PYTHON = sys.argv[1:5]
NODE, CONTROLLER, SOCKET = (
    "jobfeatures-exporter.service",
    "jobfeatures-controller.service",
    "jobfeatures-exporter.socket",
)
SYSTEM = Path("/etc/systemd/system")
ETC = Path("/etc/jobfeatures-exporter")
SPOOL = Path("/var/spool/jobs")
FEATURES = Path("/run/jobfeatures")
ADDRESS = "http://127.0.0.1:9819"
SETTINGS = {"hs06": 100, "interval": "1s", "more": ""}
facts: dict[str, object] = {}


def run(*command: str, timeout_secs: float = 180) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_secs)
    return (done.stdout + done.stderr).strip()


def show(unit: str, *names: str) -> dict[str, str]:
    lines = run("systemctl", "show", unit, *(f"--property={name}" for name in names)).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def journal(unit: str, since: float) -> str:
    run("journalctl", "--sync")
    return run("journalctl", "--no-pager", "-o", "cat", "-u", unit, f"--since=@{int(since)}")


def get(path: str = "/metrics", address: str = ADDRESS, timeout_secs: float = 60) -> str:
    with urllib.request.urlopen(address + path, timeout=timeout_secs) as response:
        return response.read().decode()


def until(condition, timeout_secs: float = 120):
    deadline = time.monotonic() + timeout_secs
    while True:
        with contextlib.suppress(OSError):
            if result := condition():
                return result
        if time.monotonic() > deadline:
            return None
        time.sleep(0.1)


def series(text: str) -> dict[str, float]:
    """Return series and values without those of the exporter itself."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def cpu_secs(text: str) -> float:
    return sum(
        value for name, value in series(text).items() if name.startswith("batch_job_cpu_seconds_total")
    )


def reads_shown(text: str) -> bool:
    """Return whether the processes of the plain job have been found and looked at; each job is found by itself."""
    return re.search(r'batch_job_io_read_bytes_total\{[^}]*job_id="7"', text) is not None


class Scraper(threading.Thread):
    """Scrapes without pause; counts answers and failures."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.answers, self.failures, self.falls, self.last = 0, [], [], 0.0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                now = cpu_secs(get(timeout_secs=60))  # a restart takes long where others use the processors
            except (OSError, ValueError) as error:
                self.failures.append(repr(error))
                time.sleep(0.05)
            else:
                self.answers += 1
                if now < self.last:
                    self.falls.append((self.last, now))
                self.last = now

    def end(self) -> dict[str, object]:
        self.ended.set()
        self.join(20)
        return {"answers": self.answers, "failures": self.failures[:5], "falls": self.falls[:5]}


def write_settings(**changes: object) -> None:
    values = {**SETTINGS, **changes}
    (ETC / "config.toml").write_text(
        f'[batch]\nsources = ["spool"]\n[spool]\ndirectory = "{SPOOL}"\n[jobs]\nsteps = true\n'
        f'[sample]\ninterval = "{values["interval"]}"\n[machine]\nhs06 = {values["hs06"]}\n{values["more"]}'
    )


def put_variant(name: str | None, unit: str = NODE, text: str | None = None) -> None:
    folder = SYSTEM / f"{unit}.d"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if name is not None:
        shutil.copy(f"{VARIANTS}/{name}.conf", folder)
    if text is not None:
        (folder / "test.conf").write_text(text)
    if HOME_PYTHON:
        (folder / "python.conf").write_text("[Service]\nProtectHome=read-only\n")
    run("systemctl", "daemon-reload")


def start(unit: str = NODE, verb: str = "start") -> dict[str, object]:
    run("systemctl", "reset-failed", unit)
    began, began_at = time.monotonic(), time.time()
    said = run("systemctl", verb, unit)
    secs = time.monotonic() - began
    return {
        **show(unit, "ActiveState", "SubState", "Result", "ExecMainStatus", "StatusText", "NRestarts", "MainPID"),
        "said": said, "secs": round(secs, 2), "at": began_at,
    }  # fmt: skip


def prepare() -> None:
    """Give the machine an /etc, /opt and /var/lib that can be written to, and install."""
    shutil.copytree("/etc", "/run/etc", symlinks=True, ignore_dangling_symlinks=True)
    run("mount", "--bind", "/run/etc", "/etc")
    for folder in ("/opt", "/var/lib"):
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    command = Path("/opt/jobfeatures-exporter/bin/jobfeatures-exporter")
    command.parent.mkdir(parents=True)
    command.write_text(
        f'#!/bin/sh\nexport PYTHONPATH={LIBRARY}\nexec {PYTHON} -m jobfeatures_exporter "$@"\n'
    )
    command.chmod(0o755)
    with open("/etc/passwd", "a") as users, open("/etc/group", "a") as groups:
        users.write("jobfeatures:x:990:990::/nonexistent:/usr/sbin/nologin\n")
        groups.write("jobfeatures:x:990:\n")
    for unit in Path(UNITS).iterdir():
        shutil.copy(unit, SYSTEM)
    ETC.mkdir()
    SPOOL.mkdir()
    write_settings()
    put_variant(None)
    put_variant(None, CONTROLLER)


def start_job() -> subprocess.Popen:
    """Start what stands for a job of the user "daemon": it computes, reads and writes."""
    script = "while :; do cat /etc/passwd >/dev/null; echo x >/tmp/job-output; sleep 1; done"
    job = subprocess.Popen(
        ["setpriv", "--reuid", "daemon", "--regid", "daemon", "--clear-groups", "sh", "-c", script]
    )
    in_group = subprocess.Popen(
        [
            "setpriv",
            "--reuid",
            "daemon",
            "--regid",
            "daemon",
            "--clear-groups",
            "sh",
            "-c",
            script.replace("job-output", "step-output"),
        ]
    )
    step, *tops = "job_9/step_0/user/task_0", "/sys/fs/cgroup/system.slice/slurmstepd.scope"
    if not Path("/sys/fs/cgroup/cgroup.procs").exists():
        step, *tops = (
            "uid_1/job_9/step_0/task_0",
            *(f"/sys/fs/cgroup/{each}/slurm" for each in ("cpuacct", "freezer", "memory")),
        )
    for top in tops:  # as Slurm makes them
        group = Path(top, step)
        group.mkdir(parents=True)
        (group / "cgroup.procs").write_text(str(in_group.pid))
    (SPOOL / "7.xml").write_text(
        f"<Job><Id>7</Id><State>Running</State><User>daemon</User><StartTime>{int(time.time()) - 60}</StartTime>"
        "<Processors>2</Processors><Requested><Duration>3600</Duration></Requested>"
        f"<TaskGroup><Task><Process>{job.pid}</Process></Task></TaskGroup></Job>"
    )
    return job


# --- what is tried, in this order; each returns what it saw ------------------------------------


def started() -> object:
    found = start()
    page = until(lambda: reads_shown(text := get()) and text)
    status = FEATURES / "jobstatus/spool-7"
    until(status.exists)
    return {
        **found,
        "page": sorted(series(page or "")),
        "features": {
            each.name: each.read_text().strip() for each in (FEATURES / "jobfeatures/spool-7").iterdir()
        },
        "status_owner": pwd.getpwuid(status.stat().st_uid).pw_name,
        "modes": {each.name: oct(each.stat().st_mode & 0o777) for each in FEATURES.iterdir()},
        "process": Path(f"/proc/{found['MainPID']}/status").read_text(),
        "cpus": os.cpu_count(),
        "memory": show(NODE, "MemoryCurrent", "MemoryPeak", "TasksCurrent"),
    }


def told() -> object:
    """Let the job write its JOBSTATUS."""
    status = FEATURES / "jobstatus/spool-7"
    write = (
        f"from jobfeatures.client import StatusWriter; StatusWriter({str(status)!r}, 2).update(used_CPU=2)"
    )
    said = run(
        "setpriv", "--reuid", "daemon", "--regid", "daemon", "--clear-groups", "env", f"PYTHONPATH={LIBRARY}",
        PYTHON, "-c", write,
    )  # fmt: skip
    used = "batch_job_status_used_cpus{"
    seen = until(lambda: [line for line in get().splitlines() if used in line])
    return {"said": said, "seen": seen, "series": sorted(series(get()))}


def hardened_against_not() -> object:
    """Compare what the service sees with what root sees without any of the unit's lines."""
    plain = subprocess.Popen(
        [PYTHON, "-m", "jobfeatures_exporter", "serve", "--config.file", str(ETC / "config.toml"), "--web.listen-address",
         "127.0.0.1:9829", "--features.root", "/run/plain"],
        env={**os.environ, "PYTHONPATH": LIBRARY}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = "http://127.0.0.1:9829"
    until(lambda: reads_shown(get(address=address)))
    time.sleep(2.5)  # two looks more, of both
    texts = {"service": get(), "plain": get(address=address)}
    plain.terminate()
    plain.wait(20)
    return {
        name: {
            "series": sorted(series(text)),
            "unreadable": sorted(each for each in series(text) if "unreadable_readings_by_kind" in each),
        }
        for name, text in texts.items()
    }


def reloaded() -> object:
    scraper = Scraper()
    scraper.start()
    until(lambda: scraper.answers > 2)
    pid = show(NODE, "MainPID")["MainPID"]
    hs06 = FEATURES / "machinefeatures/hs06"
    at = time.time()
    before = {"hs06": hs06.read_text().strip(), "metric": reload_metric()}
    write_settings(hs06=250, interval="2s", more="[metrics]\nmax_series = 5000\n")
    said = run("systemctl", "reload", NODE)
    good = until(lambda: hs06.read_text().strip() == "250")
    after_good = reload_metric()
    (ETC / "config.toml").write_text('[machine]\nhs06 = 300\n[web]\nlisten_addres = ":1"\n')
    run("systemctl", "reload", NODE)
    bad = until(lambda: reload_metric()[0] == 0 and reload_metric())
    status_after_bad = show(NODE, "ActiveState", "StatusText")
    write_settings(hs06=250)
    run("systemctl", "reload", NODE)
    mended = until(lambda: reload_metric()[0] == 1 and reload_metric())
    return {
        "before": before, "said": said, "taken": bool(good), "after_good": after_good, "after_bad": bad,
        "hs06_after_bad": hs06.read_text().strip(), "mended": mended, "status_after_bad": status_after_bad,
        "same_process": show(NODE, "MainPID")["MainPID"] == pid, "scraper": scraper.end(),
        "log": journal(NODE, at),
    }  # fmt: skip


def reload_metric() -> list[float]:
    values = series(get())
    return [
        values["batch_exporter_config_last_reload_successful"],
        values["batch_exporter_config_last_reload_success_timestamp_seconds"],
    ]


def watched() -> object:
    put_variant(None, text="[Service]\nWatchdogSec=3s\nRestartSec=100ms\nLimitNOFILE=64:4096\n")
    found = start(verb="restart")
    time.sleep(7)  # twice the watchdog's time: it is put off
    quiet = {**show(NODE, "NRestarts", "MainPID", "ActiveState"), "fds": series(get())["process_max_fds"]}
    at = time.time()
    os.kill(int(quiet["MainPID"]), 19)  # SIGSTOP
    again = until(
        lambda: int(show(NODE, "NRestarts")["NRestarts"]) > 0 and show(NODE, "ActiveState", "NRestarts")
    )
    back = until(lambda: show(NODE, "ActiveState")["ActiveState"] == "active" and 'job_id="7"' in get())
    return {
        "start": found, "quiet": quiet, "again": again, "back": bool(back), "secs": round(time.time() - at, 1),
        "features": (FEATURES / "jobfeatures/spool-7/job_id").read_text().strip(), "log": journal(NODE, at),
        "same": show(NODE, "MainPID")["MainPID"] == quiet["MainPID"],
    }  # fmt: skip


def stopped() -> object:
    put_variant(None)
    start(verb="restart")
    until(lambda: 'job_id="7"' in get())
    found = start(verb="stop")
    return {
        **found,
        "features": sorted(each.name for each in (FEATURES / "jobfeatures/spool-7").iterdir()),
        "log": journal(NODE, float(found["at"])),
    }


def refused() -> object:
    """Start with a wrong setting."""
    run("systemctl", "stop", NODE)
    write_settings(more="[web]\nlisten_addres = ':1'\n")
    found = start()
    time.sleep(1)
    found.update(show(NODE, "NRestarts", "ActiveState", "ExecMainStatus"))
    found["log"] = journal(NODE, float(found["at"]))
    write_settings()
    return found


def activated() -> object:
    put_variant("socket")
    run("systemctl", "stop", NODE)
    opened = start(SOCKET)
    before = show(NODE, "ActiveState")["ActiveState"]
    began = time.monotonic()
    first = get("/-/healthy")  # held by systemd until the service takes it
    first_secs = time.monotonic() - began
    scraper = Scraper()
    scraper.start()
    until(lambda: scraper.answers > 1)
    again = start(verb="restart")
    count = scraper.answers
    until(lambda: scraper.answers > count + 1)
    found = {
        "socket": opened, "before": before, "first": first, "first_secs": round(first_secs, 2), "restart": again,
        "scraper": scraper.end(), "service": show(NODE, "ActiveState", "StatusText"),
    }  # fmt: skip
    run("systemctl", "stop", SOCKET, NODE)
    put_variant(None)
    return found


def unprivileged() -> object:
    put_variant("unprivileged")
    owner_before = FEATURES.stat().st_uid
    found = start(verb="restart")
    page = until(lambda: reads_shown(text := get()) and "batch_job_status_used_cpus{" in text and text)
    return {
        **found,
        "series": sorted(series(page or get())),
        "uid": re.search(
            r"^Uid:\s+(\d+)", Path(f"/proc/{found['MainPID']}/status").read_text(), re.MULTILINE
        )[1],
        "features_owner": [owner_before, FEATURES.stat().st_uid],
        "log": journal(NODE, float(found["at"])),
    }


def ended() -> object:
    """Let the job end: its directories, one of them its user's and not empty, have to go."""
    put_variant(None)
    start(verb="restart")
    status = FEATURES / "jobstatus/spool-7"
    before = until(lambda: 'job_id="7"' in get() and sorted(each.name for each in status.iterdir()))
    job.kill()
    job.wait()
    text = f"<State>Completed</State><EndTime>{int(time.time())}</EndTime>"
    document = (SPOOL / "7.xml").read_text().replace("<State>Running</State>", text)
    (SPOOL / "7.new").write_text(document)
    (SPOOL / "7.new").rename(SPOOL / "7.xml")
    gone = until(lambda: not status.exists() and not (FEATURES / "jobfeatures/spool-7").exists())
    found = {"before": before, "gone": bool(gone), "log": journal(NODE, time.time() - 60), "page": get()}
    run("systemctl", "stop", NODE)
    return found


def controller() -> object:
    """Ask a stand-in for Slurm's commands: an empty queue, and nothing about nodes, which is a failure."""
    stand_in = Path("/opt/slurm/bin")
    stand_in.mkdir(parents=True)
    for name in ("squeue", "scontrol", "sinfo", "sacct"):
        (stand_in / name).write_text("#!/bin/sh\nexit 0\n")
        (stand_in / name).chmod(0o755)
    (ETC / "controller.toml").write_text(
        f'[batch]\nsources = ["slurm"]\n[slurm]\nscontrol = "{stand_in}/scontrol"\n'
        '[controller]\ninterval = "2s"\n'
    )
    found = start(CONTROLLER)
    page = until(lambda: "batch_exporter_source_up" in (text := get()) and text) or ""
    up = {name: value for name, value in series(page).items() if name.startswith("batch_exporter_source_up")}
    process = Path(f"/proc/{found['MainPID']}/status").read_text()
    reload_said = run("systemctl", "reload", CONTROLLER)
    status = until(
        lambda: "sources:" in show(CONTROLLER, "StatusText")["StatusText"] and show(CONTROLLER, "StatusText")
    )
    end = start(CONTROLLER, verb="stop")
    return {
        **found, "up": up, "reload": reload_said, "status": status, "stop": end,
        "uid": re.search(r"^Uid:\s+(\d+)", process, re.MULTILINE)[1],
        "log": journal(CONTROLLER, float(found["at"])),
    }  # fmt: skip


HOME_PYTHON = PYTHON.startswith(("/root/", "/home/"))
prepare()
job = start_job()
STEPS = (
    started, hardened_against_not, told, reloaded, watched, stopped, refused, activated, unprivileged,
    ended, controller,
)  # fmt: skip
for step in STEPS:
    if step.__name__ not in sys.argv[5:]:
        continue
    print("---", step.__name__, round(time.monotonic(), 1), flush=True)
    try:
        facts[step.__name__] = step()
    except Exception:  # noqa: BLE001  # the other steps are worth seeing too
        facts[step.__name__] = {
            "failed": traceback.format_exc(),
            "status": run("systemctl", "status", "--no-pager", NODE),
        }
        print(traceback.format_exc(), flush=True)
print(json.dumps(facts))
