"""Runs in a clean Debian, as root, beside systemd: what an administrator does from installing to removing.

    scenario.py FOLDER

FOLDER holds the package, the certificates and the password of the test, a program `prometheus` with its
configuration, and dashboards; what was seen goes to FOLDER/seen.json, for the test to judge. Of the system
it needs what the package needs, Python 3.11 with its standard library.
"""

import base64
import contextlib
import json
import re
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from panels import Checker, Prometheus, panels_of

FOLDER = Path(sys.argv[1])
ETC = Path("/etc/jobfeatures-exporter")
SPOOL = Path("/run/jobs")
NODE = "jobfeatures-exporter.service"
ADDRESS = "https://localhost:9819"
USER, PASSWORD = "prometheus", (FOLDER / "password").read_text()
PATIENCE_SECS = 180
seen: dict[str, object] = {}
jobs: dict[str, tuple[subprocess.Popen, str]] = {}  # process and document by id


def run(*command: str | Path) -> str:
    """Return what a command says; RuntimeError if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}: {done.stdout}")
    return done.stdout


def until(condition, what: str, timeout_secs: float = PATIENCE_SECS):
    deadline = time.monotonic() + timeout_secs
    while True:
        with contextlib.suppress(OSError, ValueError):
            if result := condition():
                return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_secs} s: {what}")
        time.sleep(0.5)


def get(path: str, *, password: str | None = PASSWORD, trusted: bool = True) -> tuple[int, bytes]:
    """Ask the daemon as a client does that trusts the test's authority, and may have a login."""
    context = ssl.create_default_context(cafile=FOLDER / "ca.pem" if trusted else None)
    headers = {}
    if password is not None:
        headers["Authorization"] = f"Basic {base64.b64encode(f'{USER}:{password}'.encode()).decode()}"
    request = urllib.request.Request(ADDRESS + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def state() -> dict[str, str]:
    lines = run(
        "systemctl", "show", NODE, "-p", "ActiveState,UnitFileState,NRestarts,StatusText"
    ).splitlines()
    return dict(line.split("=", 1) for line in lines)


# --- the steps, in this order; each returns what it saw --------------------------------------------


def installed() -> object:
    [package] = FOLDER.glob("*.deb")
    said = run("apt-get", "install", "-qy", package)
    return {
        "said": said,
        **state(),
        "timers": run("systemctl", "list-timers", "--no-legend"),
        "commands": [shutil.which("jobfeatures"), shutil.which(NODE[:-8])],
    }


def configured() -> object:
    """Take away # in the files of the package, as their heads say."""
    config = ETC / "config.toml"
    text = config.read_text()
    for old, new in (
        ('#listen_address = "127.0.0.1:9819"', 'listen_address = ":9819"'),
        ('#config_file = "<path>"', f'config_file = "{ETC}/web.yml"'),
        ('#sources = ["auto"]', 'sources = ["spool"]'),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    [table] = re.findall(r"(?ms)^\[spool\]$.*?(?=^\[|\Z)", text)
    text = text.replace(table, table.replace('#directory = "<path>"', f'directory = "{SPOOL}"'))
    config.write_text(text)
    web = ETC / "web.yml"
    shown = re.sub(r"(?m)^#(?! )(?=.*:)|^#(?=  )", "", web.read_text())
    web.write_text(shown.replace("$2y$10$...", (FOLDER / "hash").read_text()))
    for name, file in (("server.pem", "tls.crt"), ("server.key", "tls.key")):
        shutil.copy(FOLDER / name, ETC / file)
        (ETC / file).chmod(0o600)
    return run("jobfeatures-exporter", "check-config")


def started() -> object:
    SPOOL.mkdir()
    run("systemctl", "enable", "--now", NODE)
    return state()


def jobs_run() -> object:
    """Start three jobs: one works, and tells so; one sleeps near its wall limit; one has control groups, as of Slurm."""
    start_job("7", "www-data", WORK, elapsed_secs=600, limit_secs=7200)
    start_job("8", "daemon", "exec sleep 600", elapsed_secs=35_000, limit_secs=36_000)
    start_slurm_job("9", WORK)
    status = Path("/run/jobfeatures/jobstatus/spool-7")
    until(status.exists, "the folder for the job's status")
    run(
        "setpriv",
        "--reuid",
        "www-data",
        "--clear-groups",
        "/opt/jobfeatures-exporter/bin/python3",
        "-c",
        TELL,
        status,
    )
    return sorted(each.name for each in status.iterdir())


WORK = (
    "while :; do cat /etc/* >/dev/null 2>&1; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 1; done"
)
TELL = """
import sys, time
from jobfeatures.client import StatusWriter
now = int(time.time())
StatusWriter(sys.argv[1]).update(
    used_CPU=1, last_job_start=now - 300, first_exp_job_end=now + 900, last_exp_job_end=now + 1800,
    last_max_job_end=now + 3600, add_uncom_time=300)
"""


def start_slurm_job(job_id: str, script: str) -> None:
    """Start a job in control groups (v1) like those that slurmd makes, after the packaged prolog.

    No slurmctld is there to be asked for what a prolog's environment lacks; that would be a failure of the hook.
    """
    groups = [
        Path(f"/sys/fs/cgroup/{each}/slurm/uid_33/job_{job_id}/step_0/task_0")
        for each in ("cpuacct", "freezer", "memory")
    ]
    for group in groups:
        group.mkdir(parents=True)
    (groups[-1].parents[1] / "memory.limit_in_bytes").write_text(str(2**26))
    now = int(time.time())
    environ = [
        f"SLURM_JOB_ID={job_id}", "SLURM_JOB_UID=33", "SLURM_JOB_USER=www-data", "SLURM_JOB_CPUS_PER_NODE=1",
        f"SLURM_JOB_START_TIME={now - 60}", f"SLURM_JOB_END_TIME={now + 7140}", "JOBFEATURES_HOOK_TIMEOUT=20",
        "JOBFEATURES_HOOK_ASK=never",
    ]  # fmt: skip
    run("env", "-i", *environ, "/opt/jobfeatures-exporter/slurm/prolog.sh")
    job = subprocess.Popen(["setpriv", "--reuid", "www-data", "--clear-groups", "sh", "-c", script])
    for group in groups:
        (group / "cgroup.procs").write_text(str(job.pid))


def start_job(job_id: str, user: str, script: str, *, elapsed_secs: int, limit_secs: int) -> None:
    job = subprocess.Popen(["setpriv", "--reuid", user, "--clear-groups", "sh", "-c", script])
    document = (
        f"<Job><Id>{job_id}</Id><Name>job {job_id}</Name><State>Running</State><User>{user}</User>"
        f"<Project>physics</Project><Queue>long</Queue><StartTime>{int(time.time()) - elapsed_secs}</StartTime>"
        "<Processors>1</Processors>"
        f'<Requested><Duration>{limit_secs}</Duration><Memory units="MB">64</Memory></Requested>'
        f"<TaskGroup><Task><Process>{job.pid}</Process></Task></TaskGroup></Job>"
    )
    jobs[job_id] = job, document
    write_job(job_id, document)


def write_job(job_id: str, document: str) -> None:
    hidden = SPOOL / f".{job_id}"
    hidden.write_text(document)
    hidden.rename(SPOOL / f"{job_id}.xml")


def refused() -> object:
    try:
        untrusted = get("/metrics", trusted=False)[0]
    except OSError as error:
        untrusted = str(error)
    return {
        "nobody": get("/metrics", password=None)[0],
        "wrong": get("/metrics", password="wrong")[0],
        "untrusted": untrusted,
        "right": get("/metrics")[0],
    }


def scraped() -> object:
    """Let Prometheus scrape; return its target, and how many samples it took."""
    subprocess.Popen(
        [
            FOLDER / "prometheus", f"--config.file={FOLDER}/prometheus.yml", "--storage.tsdb.path=/run/prometheus",
            "--web.listen-address=127.0.0.1:9090",
        ],
        stdout=(FOLDER / "prometheus.log").open("wb"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    until(lambda: server.query("up == 1"), "a scrape")
    until(lambda: len(server.query("count by (job_id) (batch_job_info)")) == 3, "all jobs")
    [target] = server.ask("targets")["activeTargets"]
    return {
        "target": {name: target[name] for name in ("health", "lastError", "scrapeUrl", "labels")},
        "samples": float(server.query("max(scrape_samples_scraped)")[0]["value"][1]),
    }


def alerted() -> object:
    """Wait for the rules of the package, as they are, to report the job near its limit; return the alert."""

    def told() -> object:
        alerts = server.ask("alerts")["alerts"]
        return [each for each in alerts if each["labels"]["alertname"] == ALERT and each["state"] == "firing"]

    [alert] = until(told, ALERT)
    return alert


def shown() -> object:
    """Return the panels that never had data."""
    missing = {
        (path.stem, panel["title"]): panel
        for path in sorted(FOLDER.glob("dashboards/*.json"))
        for panel in panels_of(json.loads(path.read_text()))
    }
    count = len(missing)

    def has_data(panel: dict) -> bool:
        return any(checker.has_data(panel) for checker in checkers)

    checkers = [Checker(server, {"batch_system": system, "job_id": job_id}) for system, job_id in CHOSEN]
    expected = set(json.loads((FOLDER / "absent.json").read_text()))
    deadline = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < deadline:
        missing = {place: panel for place, panel in missing.items() if not has_data(panel)}
        if {title for _, title in missing} <= expected:
            break
        time.sleep(1)
    return {"count": count, "missing": sorted(missing)}


def page_opened() -> object:
    """Keep the page, and what belongs to it, for a browser elsewhere: the network of this machine is its own."""
    target = FOLDER / "page"
    target.mkdir()
    found = {"without a login": get("/", password=None)[0]}
    for name in ("index.html", "page.css", "page.js", "page.svg"):
        status, content = get(f"/{name.replace('index.html', '')}")
        found[name] = status
        (target / name).write_bytes(content)
    return found


def resolved() -> object:
    """End the job near its limit; return what alerts are left when that one has gone, but for those of other jobs.

    These do nothing, which is told once they have done so for long: on a slow machine. This one does nothing either:
    that rule is of another group, which is evaluated at another moment.
    """
    job, document = jobs["8"]
    job.kill()
    job.wait()
    ended = f"<State>Completed</State><EndTime>{int(time.time())}</EndTime>"
    write_job("8", document.replace("<State>Running</State>", ended))

    def names() -> list[str]:
        alerts = [each["labels"] for each in server.ask("alerts")["alerts"]]
        return [each["alertname"] for each in alerts if each.get("job_id", "8") == "8"]

    until(lambda: ALERT not in names(), "the alert to resolve")
    with contextlib.suppress(TimeoutError):
        until(lambda: not names(), "all others of the job to go")
    return {"left": names()}


def healthy() -> object:
    """Return what the rules and the exporter say of themselves at the end."""
    groups = server.ask("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    _, page = get("/metrics")
    return {
        "rules": len(rules),
        "failing": [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] == "err"],
        "failures": re.findall(r"(?m)^batch_\w+(?:failures|unreadable\w*)_total.* (?!0$)\S+$", page.decode()),
        **state(),
        "journal": run("journalctl", "--no-pager", "-o", "cat", "-u", NODE),
    }


def reloaded() -> object:
    """Return whether and when the configuration was last read, before and after a reload."""

    def known() -> list[float]:
        page = get("/metrics")[1].decode()
        names = ("successful", "success_timestamp_seconds")
        return [
            float(re.search(rf"(?m)^batch_exporter_config_last_reload_{name} (\S+)$", page)[1])
            for name in names
        ]

    before = known()
    run("systemctl", "reload", NODE)
    return [before, until(lambda: (now := known())[1] > before[1] and now, "the configuration read again")]


def upgraded() -> object:
    """Install the package once more, while the service runs and while it does not; then let it run."""
    [package] = FOLDER.glob("*.deb")
    found = {"before": about()}
    run("dpkg", "-i", package)
    found["running"] = about()
    answers = until(lambda: get("/metrics")[0] == 200, "the service after an upgrade")
    run("systemctl", "stop", NODE)
    run("dpkg", "-i", package)
    found["stopped"] = about()
    run("systemctl", "start", NODE)
    return {**found, "answers": answers, "started": about()}


def about() -> list[str]:
    return run("systemctl", "show", "-p", "ActiveState,MainPID,UnitFileState", "--value", NODE).split()


def removed() -> object:
    said = run("apt-get", "remove", "-qy", "jobfeatures-exporter")
    places = [Path("/run/jobfeatures"), *Path("/run/systemd").rglob("jobfeatures*")]
    commands = [
        each.read_bytes().replace(b"\0", b" ").decode() for each in Path("/proc").glob("[1-9]*/cmdline")
    ]
    return {
        "said": said,
        "unit": run("systemctl", "show", NODE, "-p", "LoadState,ActiveState").split(),
        "left": [str(each) for each in places if each.exists()],
        "processes": [each for each in commands if "jobfeatures-exporter" in each and "dpkg" not in each],
    }


CHOSEN = (("spool", "7"), ("slurm", "9"))  # one that tells, one with control groups
ALERT = "BatchJobNearWallLimit"
server = Prometheus("http://127.0.0.1:9090")
STEPS = (
    installed, configured, started, jobs_run, refused, scraped, alerted, shown, page_opened, resolved, reloaded, healthy, upgraded,
    removed,
)  # fmt: skip
for step in STEPS:
    began = time.monotonic()
    try:
        seen[step.__name__] = step()
    finally:
        print(f"--- {step.__name__}: {time.monotonic() - began:.1f} s", flush=True)
(FOLDER / "seen.json").write_text(json.dumps(seen, indent=1))
