"""The PBS hook, run with a stand-in for the module that PBS gives its hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from jobfeatures.batch.pbs.openpbs import job_from_prolog
from jobfeatures.hooks.request import is_finished, parse_request
from tests.packaging.hooks import NO_PROXY_CASES, NO_PROXY_LINES
from tests.running import until

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]
HOOK = ROOT / "packaging" / "pbs" / "jobfeatures_hook.py"

# What the hook uses of PBS's module `pbs`: Reference Guide, "Hook Objects and Methods".
STAND_IN = """
import json, os
EXECJOB_BEGIN, EXECJOB_LAUNCH, EXECJOB_END, LOG_WARNING, LOG_DEBUG = 64, 1024, 256, 4, 7
given = json.loads(os.environ["EVENT"])
class Values(dict):
    def __getitem__(self, name):
        return self.get(name)
class Job:
    Account_Name = Job_Name = exec_vnode = exec_host = queue = run_count = stime = Job_Owner = None
    def __init__(self, values):
        self.__dict__.update(values)
        self.Resource_List = Values(values.get("Resource_List", {}))
class Event:
    def __init__(self):
        self.type = given["type"]
        self.env = given["env"]
    @property
    def job(self):
        return Job(given["job"])
    def accept(self):
        print(json.dumps({"env": self.env, "log": logged, "debug": whispered}))
        raise SystemExit(0)
logged, whispered = [], []
the_event = Event()
def event():
    return the_event
def logmsg(level, text):
    (logged if level == LOG_WARNING else whispered).append(text)
"""
TYPES = {"begin": 64, "launch": 1024, "end": 256}
JOB = {
    "id": "123[4].head",
    "Job_Name": "train",
    "Job_Owner": "alice@login1",
    "euser": "alice",
    "queue": "workq",
    "Account_Name": "physics",
    "exec_host2": "n1.example.org:15002/0*4+n2.example.org:15002/0*2",
    "exec_vnode": "(n1:ncpus=4:mem=8388608kb)+(n2:ncpus=2:mem=4194304kb)",
    "Resource_List": {"walltime": "03:00:00", "mem": "12gb"},
    "run_count": 2,
    "stime": 1795246429,
}


class Hook:
    """A folder with the stand-in, a command and a configuration file; runs the hook in a bare Python."""

    locale: Mapping[str, str] = MappingProxyType({})

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "jobfeatures"
        self.settings = {"command": str(self.command), "features_root": str(folder / "features")}
        (folder / "pbs.py").write_text(STAND_IN)

    def use(self, body: str) -> None:
        self.command.write_text(f"#!/bin/bash\n{body}\n")
        self.command.chmod(0o755)

    def run(
        self, event: str, environment: Mapping[str, str] = MappingProxyType({}), **changes: object
    ) -> dict[str, object]:
        (self.folder / "hook.json").write_text(json.dumps(self.settings))
        done = subprocess.run(
            [sys.executable, "-S", str(HOOK)],
            env={
                **self.locale,
                "PYTHONPATH": str(self.folder),
                "PBS_HOOK_CONFIG_FILE": str(self.folder / "hook.json"),
                "EVENT": json.dumps(
                    {"type": TYPES[event], "env": dict(environment), "job": {**JOB, **changes}}
                ),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    return Hook(tmp_path)


def test_the_command_gets_the_job_in_its_environment(hook: Hook, tmp_path: Path) -> None:
    hook.use(f"echo $* >{tmp_path}/log; env | grep ^PBS | sort >>{tmp_path}/log")
    assert hook.run("begin", euser="root")["log"] == []
    assert (tmp_path / "log").read_text().splitlines() == [
        "publish --batch pbs --strict",
        "PBS_HOOK_ACCOUNT=physics",
        "PBS_HOOK_EXEC_HOST=n1.example.org:15002/0*4+n2.example.org:15002/0*2",
        "PBS_HOOK_EXEC_VNODE=(n1:ncpus=4:mem=8388608kb)+(n2:ncpus=2:mem=4194304kb)",
        "PBS_HOOK_JOB_NAME=train",
        "PBS_HOOK_MEM=12gb",
        "PBS_HOOK_QUEUE=workq",
        "PBS_HOOK_RUN_COUNT=2",
        "PBS_HOOK_START=1795246429",
        "PBS_HOOK_UID=0",
        "PBS_HOOK_USER=root",
        "PBS_HOOK_WALLTIME=03:00:00",
        "PBS_JOBID=123[4].head",
    ]


def test_what_is_not_ascii_reaches_the_command_in_the_c_locale_too(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as in the Python that pbs_mom starts, which neither coerces the locale nor turns to UTF-8
    monkeypatch.setattr(Hook, "locale", {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"})
    hook.use(f"echo $PBS_HOOK_ACCOUNT >{tmp_path}/log")
    assert hook.run("begin", Account_Name="Höhenphysik")["log"] == []
    assert (tmp_path / "log").read_bytes() == "Höhenphysik\n".encode()


def test_the_end_takes_away(hook: Hook, tmp_path: Path) -> None:
    hook.use(f"echo $* $PBS_JOBID >{tmp_path}/log")
    assert hook.run("end")["log"] == []
    assert (tmp_path / "log").read_text() == "remove --batch pbs --strict 123[4].head\n"


def test_a_job_that_says_little_is_published_as_well(hook: Hook, tmp_path: Path) -> None:
    hook.use(f"env | grep ^PBS | cut -d= -f1 | sort >{tmp_path}/log")
    nothing = dict.fromkeys(JOB)
    assert hook.run("begin", **{**nothing, "id": "5.head", "Resource_List": {}})["log"] == []
    assert (tmp_path / "log").read_text().split() == ["PBS_HOOK_START", "PBS_JOBID"]


@pytest.mark.parametrize("event", ["begin", "end"])
def test_a_failure_is_told_and_the_job_goes_on(event: str, hook: Hook) -> None:
    hook.use("printf 'no space\\nleft' >&2; exit 1")
    (said,) = hook.run(event)["log"]
    assert said.endswith("failed (1): no space left")


@pytest.mark.parametrize("event", ["begin", "end"])
def test_a_missing_or_broken_command_is_told_and_the_job_goes_on(event: str, hook: Hook) -> None:
    assert "FileNotFoundError" in hook.run(event)["log"][0]
    hook.command.write_text("#!/nonexistent/interpreter\n")
    hook.command.chmod(0o755)
    assert "jobfeatures: " in hook.run(event)["log"][0]


@pytest.mark.parametrize(("event", "action"), [("begin", "publish"), ("end", "remove")])
@pytest.mark.parametrize("body", ["exit 1", "sleep 300", None])
def test_a_failure_leaves_a_byte_for_the_daemon(
    body: str | None, event: str, action: str, hook: Hook, tmp_path: Path
) -> None:
    hook.settings["timeout_secs"] = 0.3 if body == "sleep 300" else 20
    if body is not None:
        hook.use(body)
    hook.run(event)
    folder = tmp_path / "features/failures"
    assert not folder.exists(), "the daemon's to make"
    folder.mkdir(parents=True)
    hook.run(event)
    hook.run(event)
    reason = {"exit 1": "other", "sleep 300": "timeout", None: "command"}[body]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {f"{action}.other": b".."}
    (folder / f"{action}.{reason}").write_bytes(b"")  # the daemon's to make, all of them
    hook.run(event)
    assert (folder / f"{action}.{reason}").read_bytes() == b"."


def test_a_command_that_hangs_is_ended_with_what_it_started(hook: Hook, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    hook.use(f"sleep 300 & echo $! >{file}.new; mv {file}.new {file}; wait")
    for secs in (1, 5, 25):  # a busy machine may need longer to get as far as that
        hook.settings["timeout_secs"] = secs
        assert f"took longer than {secs} s" in hook.run("begin")["log"][0]
        if file.exists():
            break
    stat = Path(f"/proc/{int(file.read_text())}/stat")
    # The kernel may take a moment, and nobody may reap it.
    until(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("event", ["begin", "launch", "end"])
def test_a_broken_configuration_does_not_fail_the_job(event: str, hook: Hook) -> None:
    hook.settings["timeout_secs"] = "soon"
    hook.use("true")
    hook.run(event)
    hook.settings = {"environment": 3, "features_root": None}
    assert hook.run(event)["env"] == {}


def test_a_launch_sets_what_was_prepared_and_nothing_else(hook: Hook, tmp_path: Path) -> None:
    exports = tmp_path / "features" / "exports"
    exports.mkdir(parents=True)
    (exports / "pbs-123%5B4%5D").write_bytes(
        b"export MACHINEFEATURES=/run/a\nexport JOBFEATURES=/run/b=c\nexport JOBSTATUS_URL=http://x\n"
        b"export LD_PRELOAD=/tmp/x\nJOBSTATUS=/tmp/x\nexport JOBSTATUS=/x\x1b\n\xff\n"
    )
    told = hook.run("launch")
    assert told["log"] == []
    assert told["env"] == {
        "MACHINEFEATURES": "/run/a",
        "JOBFEATURES": "/run/b=c",
        "JOBSTATUS_URL": "http://x",
    }


@pytest.mark.parametrize(("had", "has"), NO_PROXY_CASES)
def test_a_task_asks_our_address_without_a_proxy(
    had: dict[str, str], has: tuple[str, str], hook: Hook, tmp_path: Path
) -> None:
    exports = tmp_path / "features" / "exports"
    exports.mkdir(parents=True)
    (exports / "pbs-123%5B4%5D").write_text(NO_PROXY_LINES)
    # As pbs.event().env has them: a comma without a backslash ends a variable.
    values = hook.run("launch", {name: value.replace(",", "\\,") for name, value in had.items()})["env"]
    assert (values["no_proxy"], values["NO_PROXY"]) == tuple(each.replace(",", "\\,") for each in has)


@pytest.mark.parametrize("job_id", ["../../etc/passwd", "", "123[4]/.head", "x.head"])
def test_a_launch_without_prepared_lines_sets_nothing(job_id: str, hook: Hook) -> None:
    assert hook.run("launch", id=job_id) == {"env": {}, "log": [], "debug": []}


def test_a_task_whose_lines_are_missing_is_told_where_its_features_are_to_be(
    hook: Hook, tmp_path: Path
) -> None:
    root = tmp_path / "features"
    assert hook.run("launch")["env"] == {
        "MACHINEFEATURES": f"{root}/machinefeatures",
        "JOBFEATURES": f"{root}/jobfeatures/pbs-123%5B4%5D",
        "JOBSTATUS": f"{root}/jobstatus/pbs-123%5B4%5D",
    }


@pytest.fixture
def intake(tmp_path: Path) -> Path:
    """Return the folder for what hooks hand over, of a daemon that this process passes for."""
    folder = tmp_path / "features/intake"
    folder.mkdir(parents=True)
    (folder / "alive").write_text(f"99999999999 {os.getpid():010}\n")
    return folder


def test_the_daemon_has_the_work_to_do_where_there_is_one(hook: Hook, intake: Path, tmp_path: Path) -> None:
    hook.settings["timeout_secs"] = 20
    request = intake / "pbs-123%5B4%5D.publish"
    found: list[bytes] = []

    def take() -> None:
        deadline = time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            if request.exists() and is_finished(data := request.read_bytes()):
                (tmp_path / "features/jobfeatures/pbs-123%5B4%5D").mkdir(parents=True)
                found.append(data)
                request.unlink()
            time.sleep(0.005)

    daemon = threading.Thread(target=take)
    daemon.start()
    told = hook.run("begin", euser="root", Job_Name="odd\nname")
    daemon.join()
    assert (told["log"], told["debug"]) == ([], [])
    environ = parse_request(found[0], reported_at_secs=0).environ
    assert environ["PBS_JOBID"] == "123[4].head"
    assert environ["PBS_HOOK_JOB_NAME"] == "odd\nname"
    assert job_from_prolog(environ, node_name="n1").limits.wall_secs == 10800


def test_a_daemon_that_has_not_done_it_in_time_does_it_later(
    hook: Hook, intake: Path, tmp_path: Path
) -> None:
    hook.settings["timeout_secs"] = 0.2
    hook.use(f"touch {tmp_path}/was-run")
    (said,) = hook.run("begin")["log"]
    assert "is left to the daemon" in said
    assert not (tmp_path / "was-run").exists()
    assert is_finished((intake / "pbs-123%5B4%5D.publish").read_bytes())


@pytest.mark.parametrize("alive", ["", "1 1", "99999999999 4194999999", "x y"])
def test_without_a_living_daemon_the_command_is_run(
    alive: str, hook: Hook, intake: Path, tmp_path: Path
) -> None:
    (intake / "alive").write_text(alive)
    hook.use(f"touch {tmp_path}/was-run")
    assert hook.run("begin")["log"] == []
    assert (tmp_path / "was-run").exists()
    assert [path.name for path in intake.iterdir()] == ["alive"]


def test_the_whole_way_from_the_hook_to_the_variables(hook: Hook, tmp_path: Path) -> None:
    root = tmp_path / "features"
    hook.settings["environment"] = {
        "JOBFEATURES_FEATURES_ROOT": str(root),
        "JOBFEATURES_NODE_NAME": "n1",
        "PYTHONPATH": str(ROOT),
    }
    hook.settings["timeout_secs"] = 20
    hook.use(f'exec {sys.executable} -m jobfeatures "$@" --hook.timeout 20')
    told = hook.run("begin", euser=None, Job_Owner="nobody-here@login1")
    assert told["log"] == []
    assert "published" in told["debug"][0]
    env = hook.run("launch")["env"]
    folder = Path(str(env["JOBFEATURES"]))
    assert folder == root / "jobfeatures" / "pbs-123%5B4%5D"
    values = {name: (folder / name).read_text().strip() for name in os.listdir(folder)}
    assert values["job_id"] == "123[4]"
    assert values["allocated_cpu"] == "4"
    assert values["wall_limit_secs"] == "10800"
    assert values["cpu_limit_secs"] == str(4 * 10800), "of this node"
    assert values["max_rss_bytes"] == str(8 * 2**30)
    assert values["jobstart_secs"] == "1795246429"
    assert hook.run("end")["log"] == []
    assert not folder.exists()
