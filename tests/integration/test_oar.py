"""A real OAR 2.5 with two nodes: jobs by control group, one question for all nodes, hooks, ended jobs as a log."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobfeatures.batch.controller import ControllerSettings
from jobfeatures.batch.controller.protocol import make_token
from jobfeatures.batch.controller.source import ControllerClient
from jobfeatures.batch.oar.clustersource import OarCluster
from jobfeatures.batch.oar.source import make_source
from jobfeatures.records.model import JobKey, JobState
from jobfeatures.system.clock import SystemClock
from tests.configured import settings_for

LABS = Path(__file__).parents[1] / "labs/oar"
HOOKS = Path(__file__).parents[2] / "packaging/oar"
BIN = Path(sys.executable).parent
CLIENT = Path(__file__).parents[2] / "jobfeatures/client.py"
SECRET = "0123456789abcdef" * 4


@dataclass
class Oar:
    """A running OAR. Users run its commands with a clean environment."""

    lab: Path
    submitted: list[str] = field(default_factory=list)

    def run(self, *command: str, user: str = "alice") -> str:
        environ = {"HOME": f"/home/{user}", "USER": user, "LOGNAME": user, "SHELL": "/bin/bash"}
        environ |= {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "PWD": f"/home/{user}"}  # where it submits
        argv = [shutil.which("runuser", path="/usr/sbin:/sbin"), "-u", user, "--", *command]
        done = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=240, cwd=f"/home/{user}"
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str, user: str = "alice", host: str = "oar1") -> list[str]:
        """Submit a job to a node, or an array of jobs, and return the ids."""
        output = self.run("oarsub", "-p", f"host='{host}'", *options, script, user=user)
        found = re.findall(r"^OAR_JOB_ID=(\d+)$", output, re.MULTILINE)
        self.submitted += found
        return found

    def told(self, *ids: str) -> dict[str, dict]:
        """Return what oarstat says of jobs, also of ended ones."""
        argv = ["oarstat", "-J", "-f", *(word for each in ids for word in ("-j", each))]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=True)
        return json.loads(done.stdout)

    def wait(self, job_id: str, *states: str) -> dict:
        deadline = time.monotonic() + 240
        while (found := self.told(job_id)[job_id])["state"] not in states:
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
        return found


@pytest.fixture(scope="module")
def lab():
    """Start OAR once; stop it at the end unless it was running before."""
    if os.geteuid() != 0:
        pytest.skip("a private OAR needs root: its nodes start jobs as other users")
    if not Path("/usr/sbin/Almighty").exists():
        pytest.skip("OAR is not installed: tests/labs/oar/install.sh")
    up = subprocess.run([LABS / "up.sh"], capture_output=True, text=True, timeout=240)
    assert up.returncode == 0, up.stdout + up.stderr
    yield Path(re.search(r"\. (\S+)/env\.sh$", up.stdout)[1])
    if "already up" not in up.stdout:
        subprocess.run([LABS / "down.sh", "--purge"], capture_output=True, timeout=240, check=False)


@pytest.fixture
def oar(lab):
    found = Oar(lab)
    yield found
    if found.submitted:
        subprocess.run(["oardel", *found.submitted], capture_output=True, timeout=240, check=False)


def test_a_running_job_is_seen_by_its_control_group_with_what_its_files_tell(
    oar, start_exporter, until, tmp_path
):
    exporter = start_exporter(
        "--batch.sources", "oar", "--node.name", "oar1", "--features.root", str(tmp_path / "f"),
        "--sample.interval", "1s", "--batch.interval", "1s", "--jobs.retain", "0s",
    )  # fmt: skip
    [job] = oar.submit(
        "(while :; do :; done) & setsid sleep 60 & sleep 60",
        *("-n", "fit", "--project", "physics", "-l", "/nodes=1/core=2,walltime=0:4:0"),
    )
    info = until(lambda: (found := exporter.info(job)).get("user") and found)
    assert (info["batch_system"], info["user"], info["uid"], info["account"], info["accounting"]) == (
        *("oar", "alice", "6001", "physics"),
        "cgroup",
    )
    assert Path(f"/sys/fs/cgroup/cpuset/oar/alice_{job}").is_dir()
    assert list(exporter.series("batch_job_wall_limit_seconds", job_id=job).values()) == [240]
    assert list(exporter.series("batch_job_allocated_cpus", job_id=job).values()) == [2]
    # what has left its session stays the job's: oarexec, the script, the loop and both sleeps at least
    until(lambda: sum(exporter.series("batch_job_processes", job_id=job).values()) >= 5)
    until(lambda: sum(exporter.series("batch_job_cpu_seconds_total", job_id=job).values()) > 0.5)
    subprocess.run(["oardel", job], check=True, capture_output=True)
    until(lambda: not exporter.series("batch_job_info", job_id=job))


@pytest.fixture
def controller_role(oar, start_exporter, tmp_path):
    """Start the controller role, whose commands are counted; return what asks it as a node, and the count."""
    calls = tmp_path / "calls"
    for name in ("oarstat", "oarnodes"):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{calls}\nexec /usr/bin/{name} "$@"\n')
        path.chmod(0o755)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    exporter = start_exporter(
        "--role", "controller", "--batch.sources", "oar", "--oar.oarstat", str(tmp_path / "oarstat"),
        "--controller.interval", "2s", "--controller.listen", "127.0.0.1:0", "--controller.secret-file", str(secret),
        ready=lambda log: "answering nodes" in log,
    )  # fmt: skip
    address = re.search(r'"answering nodes" address=(\S+)', exporter.log.read_text())[1]

    def make(node: str) -> ControllerClient:
        token = tmp_path / f"{node}.token"
        token.write_text(make_token(SECRET.encode(), node))
        token.chmod(0o600)
        config = ControllerSettings(url=f"http://{address}", token_file=str(token))
        return ControllerClient(config, SystemClock(), node, 60.0)

    make.address = f"http://{address}"
    make.calls = lambda: calls.read_text().splitlines() if calls.exists() else []
    return make


def test_all_nodes_are_served_by_one_question_and_see_a_changed_walltime(oar, controller_role, until):
    [both] = oar.submit("sleep 120", "-l", "/nodes=2/core=1,walltime=0:4:0", host="oar1' or host='oar2")
    [second] = oar.submit("sleep 120", "-l", "/nodes=1/core=3,walltime=0:4:0", user="bob", host="oar2")
    for each in (both, second):
        oar.wait(each, "Running")
    clients = {node: controller_role(node) for node in ("oar1", "oar2")}
    asked_secs = time.time()

    def tables():
        found = {node: client.ask() for node, client in clients.items()}
        return min(each.taken_at_secs for each in found.values()) > asked_secs and found

    found = until(tables, 60, 1.0)
    shares = {
        node: {key.job_id: job.allocated_cpus for key, job in table.jobs.items()}
        for node, table in found.items()
    }
    assert shares == {"oar1": {both: 1}, "oar2": {both: 1, second: 3}}
    assert all(table.complete and not table.node.draining for table in found.values())
    assert found["oar2"].jobs[JobKey("oar", second)].limits.wall_secs == 240
    before = controller_role.calls().count("oarstat -J -f")
    for _ in range(10):
        time.sleep(0.6)  # a node may ask twice a second
        for client in clients.values():
            client.ask()
    # 20 questions in 6 seconds, and one of the controller role's each 2 seconds
    assert controller_role.calls().count("oarstat -J -f") - before <= 6

    oar.run("oarwalltime", second, "+0:10:0", user="bob")
    until(lambda: clients["oar2"].ask().jobs[JobKey("oar", second)].limits.wall_secs == 840, 60, 0.5)
    files = make_source(settings_for("oar"), SystemClock(), "oar1")
    assert JobKey("oar", second) not in files.poll_jobs([]).jobs  # of the other node, whose files are its own
    assert files.poll_jobs([]).jobs[JobKey("oar", both)].limits.wall_secs == 240


@pytest.fixture
def hooked(oar):
    """Set our prologue and epilogue; return the folder of features and what writes the hooks' settings."""
    folder, features = oar.lab / "hooks", oar.lab / "features"
    shutil.rmtree(features, ignore_errors=True)
    settings = folder / "settings"
    for path in HOOKS.glob("*.sh"):
        script = path.read_text().replace("/etc/default/jobfeatures", str(settings))
        (folder / path.name).write_text(script)
        (folder / path.name).chmod(0o755)

    def write(**changes: str) -> None:
        values = {
            "JOBFEATURES_COMMAND": f"{BIN}/jobfeatures",
            "JOBFEATURES_FEATURES_ROOT": str(features),
            "JOBFEATURES_HOOK_TIMEOUT": "20",  # the values count here; the default is tried elsewhere
            **changes,
        }
        settings.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        settings.chmod(0o644)

    write()
    yield features, write
    for name in ("prologue", "epilogue"):
        (folder / f"{name}.sh").write_text("#!/bin/sh\nexit 0\n")


PAYLOAD = """
trap 'echo told; exit 5' USR1
echo ready
while :; do sleep 0.2; done
"""


@pytest.mark.long
def test_a_payload_is_told_by_the_walltime_that_counts_in_the_end(
    oar, hooked, controller_role, start_exporter, until, tmp_path
):
    """Its walltime grows before the notice is due, it is suspended, then its walltime shrinks: only that is the end."""
    features, _ = hooked
    token = tmp_path / "token"
    token.write_text(make_token(SECRET.encode(), "oar1"))
    token.chmod(0o600)
    exporter = start_exporter(
        "--batch.sources", "oar", "--oar.ask", "controller", "--node.name", "oar1",
        "--controller.url", controller_role.address, "--controller.token-file", str(token),
        "--features.root", str(features), "--batch.interval", "2s", "--sample.interval", "1s",
    )  # fmt: skip
    folder = Path("/home/alice/run")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(CLIENT, folder / "client.py")
    (folder / "payload.sh").write_text(PAYLOAD)
    (folder / "out").touch()
    shutil.chown(folder / "out", "alice")
    run = f"python3 {folder}/client.py run --signal USR1@120 -- bash {folder}/payload.sh"
    [job] = oar.submit(
        f"JOBFEATURES={features}/jobfeatures/oar-$OAR_JOB_ID; export JOBFEATURES; exec {run} >{folder}/out 2>&1",
        *("-l", "/nodes=1/core=1,walltime=0:3:0"),
    )

    def said() -> str:
        return (folder / "out").read_text()

    def limit() -> float | None:
        return next(iter(exporter.series("batch_job_wall_limit_seconds", job_id=job).values()), None)

    until(lambda: "ready" in said(), 60)
    began = time.monotonic()
    until(lambda: limit() == 180, 60)
    oar.run("oarwalltime", job, "+0:30:0")
    until(lambda: limit() == 1980, 60)
    assert "told" not in said()
    subprocess.run(["oarhold", "-r", job], check=True, capture_output=True, timeout=240)
    oar.wait(job, "Suspended")
    subprocess.run(["oarresume", job], check=True, capture_output=True, timeout=240)
    oar.wait(job, "Running")
    until(
        lambda: time.monotonic() - began > 70, 90
    )  # by the first limit it would have been told 60 s after its start
    assert "told" not in said()
    oar.run("oarwalltime", job, "-0:30:0")
    until(lambda: "told" in said(), 60)
    assert said().count("told") == 1
    left = re.search(r"(\d+) s are left by wall_limit: SIGUSR1 is sent", said())
    assert left is not None, said()
    assert int(left[1]) <= 120


def alive_resources() -> int:
    done = subprocess.run(["oarnodes", "-s"], capture_output=True, text=True, check=True, timeout=240)
    return done.stdout.count("Alive")


def test_a_job_has_its_features_from_the_prologue_until_the_epilogue(oar, hooked, until):
    features, _ = hooked
    started = int(time.time())
    [job] = oar.submit("sleep 5", "-n", "my fit", "-l", "/nodes=1/core=2,walltime=0:4:0")
    place = features / f"jobfeatures/oar-{job}"
    until((place / "wall_limit_secs").exists, 60)
    values = {path.name: path.read_text().strip() for path in place.iterdir() if path.is_file()}
    assert started - 1 <= int(values["jobstart_secs"]) <= time.time()
    assert {
        name: values[name] for name in ("wall_limit_secs", "cpu_limit_secs", "allocated_cpu", "job_id")
    } == {
        "wall_limit_secs": "240",
        "cpu_limit_secs": "480",
        "allocated_cpu": "2",
        "job_id": job,
    }
    assert stat.S_IMODE((place / "job_id").stat().st_mode) & 0o022 == 0
    assert (place / "job_id").stat().st_uid == 0
    oar.wait(job, "Terminated")
    until(lambda: not place.exists())


@pytest.mark.parametrize("command", ["/bin/false", "/no/such/command", "/usr/bin/yes"])
def test_hooks_that_fail_or_hang_stop_neither_job_nor_node(oar, hooked, command):
    """Any other status, or a hook without an end, puts the node out of service."""
    _, write = hooked
    write(JOBFEATURES_COMMAND=command, JOBFEATURES_HOOK_TIMEOUT="1")
    [job] = oar.submit("exit 0", "-l", "/nodes=1/core=1,walltime=0:4:0")
    told = oar.wait(job, "Terminated", "Error")
    assert (told["state"], told["exit_code"], told["resubmit_job_id"]) == ("Terminated", 0, 0)
    assert alive_resources() == 8


def test_ended_jobs_are_a_log_and_an_array_s_first_job_is_one_of_its_jobs(oar, tmp_path):
    began = int(time.time())
    one = ("-l", "/nodes=1/core=1,walltime=0:4:0")
    [plain] = oar.submit(
        "sleep 1", "-n", "plain", "--project", "physics", "-l", "/nodes=1/core=2,walltime=0:4:0"
    )
    [failing] = oar.submit("exit 3", *one, user="bob")
    array = oar.submit("sleep 1", *one, "--array", "3")
    [held] = oar.submit("sleep 1", *one, "--hold")
    subprocess.run(["oardel", held], check=True, capture_output=True)
    for each in (plain, failing, *array, held):
        oar.wait(each, "Terminated", "Error")
    asked = OarCluster(settings_for("oar"), SystemClock(), 60.0).poll_accounting(began)
    states = {each.job_id: each.state for each in asked.records}
    assert states.keys() >= {plain, failing, *array, held}
    assert states[held] is JobState.CANCELLED  # before it ran: OAR gives it no end
    answer = subprocess.run(
        ["oarstat", "-J", "-f", "--sql", f"stop_time >= {began}"],
        capture_output=True,
        check=True,
        timeout=240,
    )
    log = tmp_path / "jobs.json"
    log.write_bytes(answer.stdout)
    for to in ("jobs.swf", "jobs.jsonl"):
        done = subprocess.run(
            [BIN / "jobfeatures", "convert", log, tmp_path / to], capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
    lines = [
        [int(word) for word in line.split()]
        for line in (tmp_path / "jobs.swf").read_text().splitlines()
        if not line.startswith(";")
    ]
    assert [line[0] for line in lines] == list(map(int, sorted((plain, failing, *array), key=int)))
    by_id = {str(line[0]): line for line in lines}
    assert [by_id[plain][place] for place in (4, 8, 10)] == [2, 240, 1]
    assert [by_id[failing][place] for place in (4, 10)] == [1, 0]
    assert all(0 <= line[2] < 60 and 0 <= line[3] < 60 for line in lines)
    records = {
        found["job_id"]: found
        for found in map(json.loads, (tmp_path / "jobs.jsonl").read_text().splitlines())
    }
    assert {job: records[job].get("array_job_id") for job in (*array, plain)} == {
        **dict.fromkeys(array, array[0]),
        plain: None,
    }
    assert [records[job]["array_task_id"] for job in array] == ["1", "2", "3"]
    assert records[failing]["state"] == JobState.FAILED.value
